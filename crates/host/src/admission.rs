//! The rules of jobs, asked by the API before a job is stored.

use std::sync::Arc;

use trainyard_apiserver::Validator;
use trainyard_core::admission::{admit, validator};
use trainyard_core::field_error::one_line;
use trainyard_core::{Catalog, Kind};

/// One for each kind.
pub(crate) fn validators(catalog: Catalog) -> Vec<Validator> {
    catalog.kinds.iter().map(|kind| of_kind(catalog, kind)).collect()
}

fn of_kind(catalog: Catalog, kind: &'static Kind) -> Validator {
    Validator {
        name: validator(kind),
        group: kind.group.to_owned(),
        plural: kind.plural.to_owned(),
        judge: Arc::new(move |old, new| admit(&catalog, kind, old, new).map_err(|errors| one_line(&errors))),
    }
}
