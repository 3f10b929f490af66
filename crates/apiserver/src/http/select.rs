//! Which objects a list or watch is about.

use serde_json::Value;
use std::sync::Arc;

use super::Call;
use crate::failure::Failure;
use crate::object::at;
use crate::registry::Served;
use crate::selector::{FieldSelector, LabelSelector};
use crate::store::Stored;

/// Namespace, labels and fields together.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    served: Arc<Served>,
    /// `namespace/`, perhaps with the beginning of names, or empty for all.
    pub(crate) prefix: String,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    pub(crate) fn of(call: &Call) -> Result<Self, Failure> {
        let labels = LabelSelector::parse(call.query.get("labelSelector"))
            .map_err(|error| Failure::bad_request(error.to_string()))?;
        let fields = FieldSelector::parse(call.query.get("fieldSelector"))
            .map_err(|error| Failure::bad_request(error.to_string()))?;
        let served = Arc::clone(&call.served);
        for field in fields.fields() {
            let known = ["metadata.name", "metadata.namespace"].contains(&field);
            if !known && !served.fields.iter().any(|f| f == field) {
                return Err(Failure::bad_request(unsupported(&served, field)));
            }
        }
        let name = fields.exact("metadata.name").unwrap_or_default();
        let prefix = match (served.namespaced, call.namespace.as_str()) {
            (true, "") => String::new(),
            // A name leads to its object: whoever waits for one does not read all of them.
            (true, namespace) => format!("{namespace}/{name}"),
            (false, _) => format!("/{name}"),
        };
        Ok(Self { served, prefix, labels, fields })
    }

    /// Whether every object of the range is meant.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, stored: &Stored) -> bool {
        stored.key.path().starts_with(&self.prefix)
            && (self.labels.is_empty() || self.labels.matches(stored.labels().as_ref()))
            && (self.fields.is_empty() || self.matches_fields(stored))
    }

    fn matches_fields(&self, stored: &Stored) -> bool {
        let deep = self.fields.fields().any(|f| !f.starts_with("metadata."));
        let object = if deep { self.parsed(stored) } else { Value::Null };
        self.fields.matches(|field| match field {
            "metadata.name" => Some(stored.key.name().to_owned()),
            "metadata.namespace" => Some(stored.key.namespace().to_owned()),
            other => Some(self.field(&object, other)),
        })
    }

    fn parsed(&self, stored: &Stored) -> Value {
        let mut object = stored.value().unwrap_or_default();
        self.served.present(&mut object);
        object
    }

    /// A missing field is an empty text, or what its type has for nothing. Some have other names than in the object.
    fn field(&self, object: &Value, path: &str) -> String {
        let path = match path {
            "source" => "source.component",
            "status.successful" => "status.succeeded",
            path => path,
        };
        match at(object, path) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Bool(flag)) => flag.to_string(),
            Some(Value::Number(number)) => number.to_string(),
            None if ["spec.unschedulable", "spec.hostNetwork"].contains(&path) => "false".into(),
            None if path == "status.succeeded" => "0".into(),
            Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => String::new(),
        }
    }
}

fn unsupported(served: &Served, field: &str) -> String {
    match (served.group.as_str(), served.plural.as_str()) {
        ("batch", "jobs") => format!("field label {field:?} not supported for Job"),
        // Kinds without fields of their own share one rule, with its own words.
        _ if served.fields.is_empty() && !served.custom => {
            format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        }
        _ => format!("field label not supported: {field}"),
    }
}
