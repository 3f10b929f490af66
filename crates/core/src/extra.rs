//! Objects beside pods and services that a job needs: configuration, rights, an autoscaler, a gang.
//!
//! Which of them a framework wants it says as data, anew with every plan; the step compares that with what is there.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use trainyard_api::labels;

use crate::action::{Child, Resource};
use crate::job::JobView;
use crate::quantity;
use crate::seen::Options;
use crate::steps::build;

/// One of them as it is seen.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtraView {
    /// What it is.
    pub what: &'static Resource,
    /// Its name.
    pub name: Box<str>,
    /// Its identity.
    pub uid: Box<str>,
    /// True once it is being deleted.
    pub deleting: bool,
    /// False when it does not have the label that the watch selects on: another operator made it.
    pub labelled: bool,
    /// Everything but its metadata.
    pub content: Arc<Value>,
}

impl ExtraView {
    /// One that is there just as it was asked for, and that everybody agrees to: for looks at a job without a cluster.
    pub fn granted(child: &Child) -> Self {
        let mut content = child.body.clone();
        if let Some(members) = content.as_object_mut() {
            members.insert("status".into(), json!({ "phase": "Inqueue" }));
        }
        let name = child.name.as_str().into();
        Self {
            what: child.what,
            name,
            uid: "".into(),
            deleting: false,
            labelled: true,
            content: Arc::new(content),
        }
    }
}

/// What a framework may look at when it says what it wants.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// The job.
    pub job: &'a JobView,
    /// Names of the pods that run now, sorted as texts.
    pub running: &'a [&'a str],
    /// How this operator was started.
    pub options: &'a Options,
}

/// An object that belongs to a job. `content` is everything but its type and metadata.
pub fn owned(job: &JobView, what: &'static Resource, name: &str, content: Value) -> Child {
    let mut body = match content {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    body.insert("apiVersion".into(), what.api_version().into());
    body.insert("kind".into(), what.kind.into());
    let metadata = json!({
        "name": name,
        "namespace": job.namespace,
        // By this label it is watched.
        "labels": { labels::OPERATOR_NAME: job.kind.controller },
        "ownerReferences": build::owner(job),
    });
    body.insert("metadata".into(), metadata);
    Child { what, name: name.to_owned(), body: Value::Object(body) }
}

/// Whether an object has all that is wanted of it. It may have more: the server adds defaults.
pub(crate) fn covers(have: &Value, want: &Value) -> bool {
    match (have, want) {
        (Value::Object(have), Value::Object(want)) => {
            want.iter().all(|(name, want)| have.get(name).is_some_and(|have| covers(have, want)))
        }
        (Value::Array(have), Value::Array(want)) => {
            have.len() == want.len() && have.iter().zip(want).all(|(have, want)| covers(have, want))
        }
        // The server writes quantities in its own way.
        _ => have == want || quantity::same(have, want),
    }
}

/// What is wanted of an object beside its type and metadata.
pub(crate) fn content(child: &Child) -> Value {
    let members = child.body.as_object().into_iter().flatten();
    let own = members.filter(|(name, _)| !["apiVersion", "kind", "metadata"].contains(&name.as_str()));
    Value::Object(own.map(|(name, value)| (name.clone(), value.clone())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_of_the_server_are_no_difference() {
        let want = json!({"spec": {"min": 1, "list": [{"a": "1000m"}]}});
        assert!(covers(
            &json!({"spec": {"min": 1, "max": 9, "list": [{"a": "1", "b": 0}]}, "status": {}}),
            &want
        ));
        assert!(!covers(&json!({"spec": {"min": 2, "list": [{"a": "1"}]}}), &want));
        assert!(!covers(&json!({"spec": {"min": 1, "list": [{"a": "1"}, {"a": "1"}]}}), &want));
        assert!(!covers(&json!({"spec": {"min": 1}}), &want));
    }
}
