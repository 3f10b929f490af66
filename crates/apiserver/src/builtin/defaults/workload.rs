//! Deployments, replica sets and jobs.

use serde_json::{Value, json};

use super::fill::{Fields, below, items, made, read, text, value};
use super::pod;

pub(super) fn deployment(object: &mut Fields) {
    let Some(spec) = made(object, "spec") else { return };
    value(spec, "replicas", 1);
    if let Some(strategy) = made(spec, "strategy") {
        text(strategy, "type", "RollingUpdate");
        if read(strategy, "type") == "RollingUpdate"
            && let Some(rolling) = made(strategy, "rollingUpdate")
        {
            value(rolling, "maxUnavailable", "25%");
            value(rolling, "maxSurge", "25%");
        }
    }
    value(spec, "revisionHistoryLimit", 10);
    value(spec, "progressDeadlineSeconds", 600);
    pod::template(spec);
}

pub(super) fn replica_set(object: &mut Fields) {
    let Some(spec) = made(object, "spec") else { return };
    value(spec, "replicas", 1);
    pod::template(spec);
}

/// A job. A new one gets the labels by which it knows its pods.
pub(super) fn job(object: &mut Fields, new: bool) {
    let field = |object: &Fields, name: &str| {
        object
            .get("metadata")
            .and_then(|m| m.get(name))
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let (name, uid) = (field(object, "name"), field(object, "uid"));
    let Some(spec) = made(object, "spec") else { return };
    if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
        spec.insert("completions".into(), 1.into());
    }
    value(spec, "parallelism", 1);
    let limit = if spec.contains_key("backoffLimitPerIndex") { i64::from(i32::MAX) } else { 6 };
    value(spec, "backoffLimit", limit);
    text(spec, "completionMode", "NonIndexed");
    value(spec, "suspend", false);
    let replace = if spec.contains_key("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    text(spec, "podReplacementPolicy", replace);
    value(spec, "manualSelector", false);
    if let Some(policy) = below(spec, "podFailurePolicy") {
        for rule in items(policy, "rules") {
            items(rule, "onPodConditions").for_each(|pattern| text(pattern, "status", "True"));
        }
    }
    pod::template(spec);
    if new && spec.get("manualSelector") == Some(&Value::Bool(false)) {
        select_by_uid(spec, &name, &uid);
    }
}

/// A job without labels has those of its pods.
pub(super) fn job_labels(object: &mut Fields) {
    let labels = object.get("spec").and_then(|spec| spec.pointer("/template/metadata/labels")).cloned();
    if let Some(labels) = labels.filter(|labels| labels.as_object().is_some_and(|map| !map.is_empty()))
        && let Some(metadata) = made(object, "metadata")
        && metadata.get("labels").and_then(Value::as_object).is_none_or(Fields::is_empty)
    {
        metadata.insert("labels".into(), labels);
    }
}

fn select_by_uid(spec: &mut Fields, name: &str, uid: &str) {
    let labels = below(spec, "template")
        .and_then(|template| made(template, "metadata"))
        .and_then(|metadata| made(metadata, "labels"));
    if let Some(labels) = labels {
        for (label, text) in [
            ("job-name", name),
            ("batch.kubernetes.io/job-name", name),
            ("controller-uid", uid),
            ("batch.kubernetes.io/controller-uid", uid),
        ] {
            value(labels, label, text);
        }
    }
    if let Some(selector) = made(spec, "selector").and_then(|selector| made(selector, "matchLabels")) {
        value(selector, "batch.kubernetes.io/controller-uid", uid);
    }
}

pub(super) fn autoscaler(object: &mut Fields) {
    let Some(spec) = made(object, "spec") else { return };
    value(spec, "minReplicas", 1);
    if items(spec, "metrics").next().is_none() {
        spec.insert(
            "metrics".into(),
            json!([{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 80}}}]),
        );
    }
    let Some(behavior) = below(spec, "behavior") else { return };
    let policy = |kind: &str, number: i64| json!({"type": kind, "value": number, "periodSeconds": 15});
    if let Some(up) = made(behavior, "scaleUp") {
        value(up, "stabilizationWindowSeconds", 0);
        text(up, "selectPolicy", "Max");
        value(up, "policies", json!([policy("Pods", 4), policy("Percent", 100)]));
    }
    if let Some(down) = made(behavior, "scaleDown") {
        text(down, "selectPolicy", "Max");
        value(down, "policies", json!([policy("Percent", 100)]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_knows_its_pods_by_its_uid() {
        let mut given = json!({"metadata": {"name": "a", "uid": "u"},
            "spec": {"template": {"metadata": {"labels": {"x": "y"}}, "spec": {}}}});
        job(given.as_object_mut().unwrap(), true);
        job_labels(given.as_object_mut().unwrap());
        assert_eq!(given["metadata"]["labels"], given["spec"]["template"]["metadata"]["labels"]);
        assert_eq!(
            given["spec"]["selector"],
            json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}})
        );
        assert_eq!(given["spec"]["template"]["metadata"]["labels"]["job-name"], "a");
        let mut manual = json!({"metadata": {"name": "a", "uid": "u"}, "spec": {"manualSelector": true}});
        job(manual.as_object_mut().unwrap(), true);
        assert!(manual["spec"].get("selector").is_none());
    }

    #[test]
    fn a_job_without_numbers_is_one_pod_once() {
        for (given, completions) in [(json!({}), json!(1)), (json!({"parallelism": 3}), Value::Null)] {
            let mut object = json!({"metadata": {}, "spec": given});
            job(object.as_object_mut().unwrap(), true);
            assert_eq!(object["spec"]["completions"], completions);
        }
    }
}
