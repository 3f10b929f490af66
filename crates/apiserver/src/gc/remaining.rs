//! What keeps a namespace from ending, as the conditions of its status.

use serde_json::{Value, json};
use std::collections::BTreeMap;

use crate::failure::Failure;
use crate::object::{finalizers, set_at};
use crate::registry::Served;
use crate::store::Stored;

const CONTENT_FAILURE: &str = "NamespaceDeletionContentFailure";

/// Type, reason and message of a condition while all is well.
const WELL: [(&str, &str, &str); 5] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (CONTENT_FAILURE, "ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];

/// What is left in a namespace.
#[derive(Debug, Default)]
pub(super) struct Remaining {
    kinds: Vec<String>,
    finalizers: BTreeMap<String, usize>,
    failures: Vec<String>,
}

impl Remaining {
    /// Notes the objects of a kind that are still there.
    pub(super) fn add(&mut self, kind: &Served, objects: &[impl AsRef<Stored>]) {
        if objects.is_empty() {
            return;
        }
        self.kinds.push(format!("{}.{} has {} resource instances", kind.plural, kind.group, objects.len()));
        for object in objects {
            let Ok(object) = object.as_ref().value() else { continue };
            for finalizer in finalizers(&object) {
                *self.finalizers.entry(finalizer.to_owned()).or_default() += 1;
            }
        }
    }

    /// Notes that a kind could not be deleted.
    pub(super) fn fail(&mut self, failure: &Failure) {
        let status = failure.status();
        self.failures.push(status.get("message").and_then(Value::as_str).unwrap_or_default().to_owned());
    }

    /// Reason and message of a condition that something is wrong with.
    fn wrong(&self, kind: &str) -> Option<(&'static str, String)> {
        let listed = |mut parts: Vec<String>| {
            parts.sort_unstable();
            parts.join(", ")
        };
        match kind {
            CONTENT_FAILURE if !self.failures.is_empty() => {
                let (count, list) = (self.failures.len(), listed(self.failures.clone()));
                let message = format!("Failed to delete all resource types, {count} remaining: {list}");
                Some(("ContentDeletionFailed", message))
            }
            "NamespaceContentRemaining" if !self.kinds.is_empty() => {
                let list = listed(self.kinds.clone());
                Some(("SomeResourcesRemain", format!("Some resources are remaining: {list}")))
            }
            "NamespaceFinalizersRemaining" if !self.finalizers.is_empty() => {
                let each = self
                    .finalizers
                    .iter()
                    .map(|(name, count)| format!("{name} in {count} resource instances"));
                let list = listed(each.collect());
                let message = format!("Some content in the namespace has finalizers remaining: {list}");
                Some(("SomeFinalizersRemain", message))
            }
            _ => None,
        }
    }

    /// Writes the conditions into a namespace. False if it says so already.
    pub(super) fn tell(&self, namespace: &mut Value, now: &str) -> bool {
        let old = conditions(namespace).to_vec();
        let mut new = old.clone();
        for (kind, reason, message) in WELL {
            let (status, reason, message) = match self.wrong(kind) {
                Some((reason, message)) => ("True", reason, message),
                None => ("False", reason, message.to_owned()),
            };
            let found = new.iter_mut().find(|condition| is(condition, "type", kind));
            let since = found.as_ref().filter(|condition| is(condition, "status", status));
            let since = since.and_then(|condition| condition.get("lastTransitionTime")).cloned();
            let condition = json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastTransitionTime": since.unwrap_or_else(|| now.into()),
            });
            match found {
                Some(found) => *found = condition,
                None => new.push(condition),
            }
        }
        new != old && set_at(namespace, &["status".into(), "conditions".into()], new.into())
    }
}

fn conditions(namespace: &Value) -> &[Value] {
    namespace.pointer("/status/conditions").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn is(condition: &Value, field: &str, text: &str) -> bool {
    condition.get(field).is_some_and(|value| value == text)
}

/// Whether a namespace says what keeps it, and names no failure that may be over.
pub(super) fn is_told(namespace: &Value) -> bool {
    let list = conditions(namespace);
    let of = |kind| list.iter().find(|condition| is(condition, "type", kind));
    let told = WELL.iter().all(|(kind, ..)| of(kind).is_some());
    told && !of(CONTENT_FAILURE).is_some_and(|condition| is(condition, "status", "True"))
}
