//! The kinds, one file each. To add one: a file here, and a line in [`ALL`].

mod jaxjob;
mod mpijob;
mod paddlejob;
mod pytorchjob;
mod tfjob;
mod xgboostjob;

use crate::kind::Kind;

/// Every kind this build knows, sorted by name.
pub static ALL: &[&Kind] =
    &[&jaxjob::KIND, &mpijob::KIND, &paddlejob::KIND, &pytorchjob::KIND, &tfjob::KIND, &xgboostjob::KIND];
