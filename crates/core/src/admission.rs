//! Whether a job may be stored: the rules of [decode](crate::decode), asked before instead of after.

use serde_json::Value;
use trainyard_api::labels;

use crate::decode::{Catalog, decode};
use crate::field_error::FieldError;
use crate::kind::Kind;

/// Says what to warn of, or everything for which the job is refused. `old` is the object that is replaced, if one is.
///
/// A job that breaks a rule may be in the store already, from before there was admission. Whoever changes something
/// else about it, an annotation, say, is let through; so is whoever is about to get rid of it.
pub fn admit(
    catalog: &Catalog,
    kind: &'static Kind,
    old: Option<&Value>,
    new: &Value,
) -> Result<Vec<String>, Vec<FieldError>> {
    let is_deleted = new.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null());
    let same_spec = old.is_some_and(|old| old.get("spec") == new.get("spec"));
    let same_options = old.is_some_and(|old| options(old) == options(new));
    if is_deleted || (same_spec && same_options) {
        return Ok(Vec::new());
    }
    let decoded = match decode(catalog, kind, new) {
        Ok(decoded) => decoded,
        Err(_) if same_spec => return Ok(Vec::new()),
        Err(bad) => return Err(vec![bad.error]),
    };
    let mut errors = if same_spec { Vec::new() } else { decoded.errors };
    if !same_options {
        errors.extend(decoded.job.ignored.iter().cloned());
    }
    // What is wrong with the name comes first, then this, then the rest: the order in which users have always read it.
    let of_name = errors.iter().take_while(|error| error.path.starts_with("metadata.")).count();
    errors.splice(of_name..of_name, old.and_then(|old| other_manager(old, new)));
    if errors.is_empty() { Ok(decoded.framework.warnings(&decoded.job)) } else { Err(errors) }
}

/// The options of this operator that an object carries as annotations. The record is none: the operator writes it.
fn options(job: &Value) -> Vec<(&str, &Value)> {
    let all = job.pointer("/metadata/annotations").and_then(Value::as_object).into_iter().flatten();
    let ours = |key: &str| key.starts_with(labels::PREFIX) && key != labels::RECORD;
    all.map(|(key, value)| (key.as_str(), value)).filter(|(key, _)| ours(key)).collect()
}

/// Two controllers must never work on one job.
fn other_manager(old: &Value, new: &Value) -> Option<FieldError> {
    let manager = |job: &Value| {
        let named = job.pointer("/spec/runPolicy/managedBy").and_then(Value::as_str);
        named.map(str::to_owned)
    };
    let (old, new) = (manager(old), manager(new));
    let changed = old != new;
    changed.then(|| FieldError {
        path: "spec.runPolicy.managedBy".into(),
        message: format!("Invalid value: {}: field is immutable", Value::from(new)),
    })
}

/// The name that admission of a kind is known by, which is part of what a refused user reads.
pub fn validator(kind: &Kind) -> String {
    format!("validator.{}.training-operator.{}", kind.singular, kind.group)
}

/// Where a webhook is asked about a kind.
pub fn webhook_path(kind: &Kind) -> String {
    format!("/validate-{}-{}-{}", kind.group.replace('.', "-"), kind.version, kind.singular)
}

/// What a webhook is asked about, as CEL in `matchConditions`: new jobs, and changes of what is checked. The operator's
/// own writes, of the record above all, do not depend on the webhook being there.
pub const CONDITION: &str = "request.operation == 'CREATE' || !has(object.spec) || !has(oldObject.spec) || \
    object.spec != oldObject.spec || (has(object.metadata.annotations) && object.metadata.annotations.exists(name, \
    name.startsWith('trainyard.dev/') && name != 'trainyard.dev/record' && (!has(oldObject.metadata.annotations) || \
    !(name in oldObject.metadata.annotations) || \
    object.metadata.annotations[name] != oldObject.metadata.annotations[name])))";

/// The name of the `ValidatingWebhookConfiguration` in which the webhooks of all kinds are entered.
pub const CONFIGURATION: &str = "validator.training-operator.kubeflow.org";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(spec: &Value) -> Value {
        let kind = first();
        let framework = Catalog::default().framework(kind.framework).unwrap().facts();
        let template = json!({ "spec": { "containers": [{ "name": framework.container, "image": "i" }] } });
        let mut job = json!({
            "metadata": { "name": "a" },
            "spec": { kind.replica_specs: { framework.followers: { "template": template } } },
        });
        for (field, value) in spec.as_object().unwrap() {
            job["spec"][field] = value.clone();
        }
        job
    }

    fn first() -> &'static Kind {
        Catalog::default().kinds[0]
    }

    fn refused(old: Option<&Value>, new: &Value) -> String {
        let errors = admit(&Catalog::default(), first(), old, new).err().unwrap_or_default();
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn the_manager_of_a_job_stays() {
        let (ours, theirs) = ("kubeflow.org/training-operator", "kueue.x-k8s.io/multikueue");
        let managed = |by: &str| job(&json!({ "runPolicy": { "managedBy": by } }));
        let immutable =
            |by: &str| format!("spec.runPolicy.managedBy: Invalid value: {by}: field is immutable");
        assert_eq!(refused(None, &managed(theirs)), "");
        assert_eq!(refused(Some(&managed(ours)), &managed(theirs)), immutable(&format!("\"{theirs}\"")));
        assert_eq!(refused(Some(&managed(ours)), &job(&json!({}))), immutable("null"));
        assert_eq!(refused(Some(&job(&json!({}))), &managed(ours)), immutable(&format!("\"{ours}\"")));
        let mut worse = managed(theirs);
        worse["metadata"]["name"] = "1".into();
        worse["spec"]["runPolicy"]["backoffLimit"] = (-1).into();
        let all = refused(Some(&managed(ours)), &worse);
        let order = ["metadata.name", "managedBy", "backoffLimit"].map(|field| all.find(field).unwrap());
        assert!(order.is_sorted(), "{all}");
    }

    #[test]
    fn a_bad_job_that_is_there_can_be_annotated_and_removed() {
        let bad = job(&json!({ "runPolicy": { "backoffLimit": -1 } }));
        assert!(refused(None, &bad).contains("backoffLimit"));
        let mut annotated = bad.clone();
        annotated["metadata"]["annotations"] = json!({ "a": "b" });
        assert_eq!(refused(Some(&bad), &annotated), "");
        let mut worse = job(&json!({ "runPolicy": { "backoffLimit": -2 } }));
        assert!(refused(Some(&bad), &worse).contains("backoffLimit"));
        worse["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(refused(Some(&bad), &worse), "");
    }

    #[test]
    fn a_misspelt_option_is_refused_when_it_is_set_and_only_then() {
        let annotated = |mut job: Value, text: &str| {
            job["metadata"]["annotations"] = json!({ labels::START_DEADLINE: text });
            job
        };
        let plain = job(&json!({}));
        let (good, bad) = (annotated(plain.clone(), "600"), annotated(plain.clone(), "10m"));
        let mut recorded = bad.clone();
        recorded["metadata"]["annotations"][labels::RECORD] = "{}".into();
        assert!(refused(None, &bad).contains(labels::START_DEADLINE), "{}", refused(None, &bad));
        assert!(refused(Some(&good), &bad).contains("number of seconds"));
        assert_eq!(refused(Some(&bad), &recorded), "", "the operator's own note");
        assert_eq!(refused(Some(&bad), &plain), "", "taken back");
        let scaled = annotated(job(&json!({ "runPolicy": { "suspend": true } })), "10m");
        assert_eq!(refused(Some(&bad), &scaled), "", "it was there before");
        let invalid = job(&json!({ "runPolicy": { "backoffLimit": -1 } }));
        assert_eq!(
            refused(Some(&invalid), &annotated(invalid.clone(), "600")),
            "",
            "the spec was there before"
        );
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        assert!(refused(None, &job(&json!({ "runPolicy": 1 }))).contains("spec.runPolicy"));
        assert!(refused(None, &json!({ "metadata": { "name": "a" } })).contains("must be required"));
    }
}
