//! Deployments, replica sets and jobs.

use serde_json::Value;
use std::collections::HashSet;

use super::errors::{Errors, Path, flag, get, list, number, text};
use super::{pod, schedule};
use crate::object::{at, meta, names};
use crate::selector::LabelSelector;

const NULL: Value = Value::Null;

pub(super) fn deployment(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, path) = (object.get("spec").unwrap_or(&NULL), Path::Root("spec"));
    errors.not_negative(&path.field("replicas"), number(spec, "replicas"));
    selected(spec, &path, errors);
    strategy(spec.get("strategy").unwrap_or(&NULL), &path.field("strategy"), errors);
    errors.not_negative(&path.field("minReadySeconds"), number(spec, "minReadySeconds"));
    errors.not_negative(&path.field("revisionHistoryLimit"), number(spec, "revisionHistoryLimit"));
    if let Some(deadline) = number(spec, "progressDeadlineSeconds") {
        let place = path.field("progressDeadlineSeconds");
        errors.not_negative(&place, Some(deadline));
        if deadline <= number(spec, "minReadySeconds").unwrap_or(0) {
            errors.invalid(&place, deadline, "must be greater than minReadySeconds");
        }
    }
    immutable(object, old, "selector", errors);
}

pub(super) fn replica_set(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, path) = (object.get("spec").unwrap_or(&NULL), Path::Root("spec"));
    errors.not_negative(&path.field("replicas"), number(spec, "replicas"));
    errors.not_negative(&path.field("minReadySeconds"), number(spec, "minReadySeconds"));
    selected(spec, &path, errors);
    immutable(object, old, "selector", errors);
}

/// A field of the spec that stays as it was made.
fn immutable(object: &Value, old: Option<&Value>, field: &str, errors: &mut Errors) {
    let Some(old) = old else { return };
    let value = |object: &Value| object.get("spec").and_then(|spec| get(spec, field)).cloned();
    if value(object) != value(old) {
        let path = Path::Root("spec");
        errors.invalid(&path.field(field), value(object).unwrap_or(NULL), "field is immutable");
    }
}

/// The selector finds the pods of the template.
fn selected(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (place, selector) = (path.field("selector"), get(spec, "selector"));
    match selector {
        None => errors.required(&place, ""),
        Some(selector) => {
            schedule::label_selector(selector, &place, errors);
            if list(selector, "matchExpressions").is_empty()
                && selector
                    .get("matchLabels")
                    .and_then(Value::as_object)
                    .is_none_or(serde_json::Map::is_empty)
            {
                errors.invalid(&place, selector.clone(), "empty selector is invalid for deployment");
            }
        }
    }
    let Ok(parsed) = LabelSelector::from_object(selector.unwrap_or(&NULL)) else {
        errors.invalid(&place, selector.cloned().unwrap_or(NULL), "invalid label selector");
        return;
    };
    let template = spec.get("template").unwrap_or(&NULL);
    let path = path.field("template");
    matches(&parsed, template, &path, errors);
    pod::template(template, &path, errors);
    let inside = path.field("spec");
    let policy = at(template, "spec.restartPolicy").and_then(Value::as_str).unwrap_or_default();
    errors.one_of(&inside.field("restartPolicy"), policy, &["Always"]);
    if at(template, "spec.activeDeadlineSeconds").is_some() {
        let why = "activeDeadlineSeconds in ReplicaSet is not Supported";
        errors.forbidden(&inside.field("activeDeadlineSeconds"), why);
    }
}

fn matches(selector: &LabelSelector, template: &Value, path: &Path<'_>, errors: &mut Errors) {
    let labels = at(template, "metadata.labels");
    if !selector.is_empty() && !selector.matches(labels.and_then(Value::as_object)) {
        let why = "`selector` does not match template `labels`";
        let metadata = path.field("metadata");
        errors.invalid(&metadata.field("labels"), labels.cloned().unwrap_or(NULL), why);
    }
}

fn strategy(strategy: &Value, path: &Path<'_>, errors: &mut Errors) {
    let rolling = get(strategy, "rollingUpdate");
    match text(strategy, "type") {
        "Recreate" => {
            if rolling.is_some() {
                let why = "may not be specified when strategy `type` is 'Recreate'";
                errors.forbidden(&path.field("rollingUpdate"), why);
            }
        }
        "RollingUpdate" => {
            rolling_update(rolling.unwrap_or(&NULL), &path.field("rollingUpdate"), errors);
        }
        other => {
            let quoted = format!("{{\"Type\":{other:?},\"RollingUpdate\":null}}");
            let known = "supported values: \"Recreate\", \"RollingUpdate\"";
            errors.unsupported_text(path, &quoted, known);
        }
    }
}

fn rolling_update(rolling: &Value, path: &Path<'_>, errors: &mut Errors) {
    let percent = |value: &Value| value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<i64>().ok());
    for field in ["maxUnavailable", "maxSurge"] {
        let Some(value) = get(rolling, field) else { continue };
        match value {
            Value::String(text) if percent(value).is_none() => {
                let why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
                           regex used for validation is '[0-9]+%')";
                errors.invalid(&path.field(field), text.as_str(), why);
            }
            Value::String(_) => {}
            other => errors.not_negative(&path.field(field), other.as_i64()),
        }
    }
    let amount =
        |field: &str| get(rolling, field).map_or(0, |v| v.as_i64().or_else(|| percent(v)).unwrap_or(0));
    let unavailable = rolling.get("maxUnavailable").cloned().unwrap_or(NULL);
    let named = unavailable.is_string() && percent(&unavailable).is_none();
    if amount("maxUnavailable") == 0 && amount("maxSurge") == 0 && !named {
        errors.invalid(
            &path.field("maxUnavailable"),
            unavailable.clone(),
            "may not be 0 when `maxSurge` is 0",
        );
    }
    if percent(&unavailable).is_some_and(|percent| percent > 100) {
        errors.invalid(&path.field("maxUnavailable"), unavailable, "must not be greater than 100%");
    }
}

pub(super) fn job(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, path) = (object.get("spec").unwrap_or(&NULL), Path::Root("spec"));
    generated(object, errors);
    job_spec(spec, &path, errors);
    match get(spec, "selector") {
        None => errors.required(&path.field("selector"), ""),
        Some(selector) => schedule::label_selector(selector, &path.field("selector"), errors),
    }
    let template = spec.get("template").unwrap_or(&NULL);
    if let Ok(selector) = LabelSelector::from_object(get(spec, "selector").unwrap_or(&NULL)) {
        matches(&selector, template, &path.field("template"), errors);
    }
    hostnames(object, errors);
    for field in [
        "selector",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        immutable(object, old, field, errors);
    }
    if let Some(old) = old {
        job_update(object, old, errors);
    }
}

fn job_update(object: &Value, old: &Value, errors: &mut Errors) {
    let suspended = at(old, "spec.suspend") == Some(&Value::Bool(true));
    let indexed = at(old, "spec.completionMode").and_then(Value::as_str) == Some("Indexed");
    let idle = at(old, "status.active").and_then(Value::as_i64).unwrap_or(0) == 0;
    let number = |object: &Value, field: &str| at(object, field).and_then(Value::as_i64);
    let elastic = indexed && number(object, "spec.completions") == number(object, "spec.parallelism");
    if !elastic {
        immutable(object, Some(old), "completions", errors);
    }
    if !(suspended && idle) {
        immutable(object, Some(old), "template", errors);
    }
}

/// The labels by which a job knows its pods are its own.
fn generated(object: &Value, errors: &mut Errors) {
    let spec = object.get("spec").unwrap_or(&NULL);
    if flag(spec, "manualSelector") || get(spec, "selector").is_none() {
        return;
    }
    let labels = spec.pointer("/template/metadata/labels").unwrap_or(&NULL);
    let path = Path::Root("spec");
    let (uid, name) = (meta(object, "uid"), meta(object, "name"));
    let template = path.field("template");
    let place = template.field("metadata");
    for (label, expected) in [
        ("controller-uid", uid),
        ("batch.kubernetes.io/controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/job-name", name),
    ] {
        if text(labels, label) != expected && !labels.is_null() {
            let why = format!("must be '{expected}'");
            errors.invalid(&place.field("labels").key(label), text(labels, label), &why);
        }
    }
    let expected = serde_json::json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}});
    let selector = spec.get("selector").unwrap_or(&NULL);
    if *selector != expected {
        errors.invalid(&path.field("selector"), selector.clone(), "`selector` not auto-generated");
    }
}

fn hostnames(object: &Value, errors: &mut Errors) {
    let spec = object.get("spec").unwrap_or(&NULL);
    let completions = number(spec, "completions").unwrap_or(0);
    if text(spec, "completionMode") != "Indexed" || completions <= 0 {
        return;
    }
    let last = format!("{}-{}", meta(object, "name"), completions - 1);
    if !names::NameRule::Label.check(&last).is_empty() {
        let why = format!("will not able to create pod with invalid DNS label: {last}");
        errors.invalid(&Path::Root("metadata.name"), meta(object, "name"), &why);
    }
}

fn job_spec(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        errors.not_negative(&path.field(field), number(spec, field));
    }
    if get(spec, "maxFailedIndexes").is_some() && get(spec, "backoffLimitPerIndex").is_none() {
        errors.required(&path.field("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    if let Some(manager) = get(spec, "managedBy").and_then(Value::as_str) {
        let named = manager.split_once('/').is_some_and(|(domain, rest)| {
            names::is_subdomain(domain) && !rest.is_empty() && !rest.contains(' ')
        });
        if !named {
            let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            errors.invalid(&path.field("managedBy"), manager, why);
        }
    }
    completion_mode(spec, path, errors);
    if let Some(policy) = get(spec, "podFailurePolicy") {
        failure_policy(policy, &path.field("podFailurePolicy"), errors);
    }
    let policy = text(spec, "podReplacementPolicy");
    let known: &[&str] = if get(spec, "podFailurePolicy").is_some() {
        &["Failed"]
    } else {
        &["Failed", "TerminatingOrFailed"]
    };
    errors.one_of(&path.field("podReplacementPolicy"), policy, known);
    let template = spec.get("template").unwrap_or(&NULL);
    pod::template(template, &path.field("template"), errors);
    let template_path = path.field("template");
    let inside = template_path.field("spec");
    let place = inside.field("restartPolicy");
    match at(template, "spec.restartPolicy").and_then(Value::as_str).unwrap_or_default() {
        "" | "Always" => errors.required(&place, "valid values: \"OnFailure\", \"Never\""),
        policy @ "OnFailure" if get(spec, "podFailurePolicy").is_some() => {
            let why = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.invalid(&place, policy, why);
        }
        policy => errors.one_of(&place, policy, &["OnFailure", "Never"]),
    }
}

fn completion_mode(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mode = text(spec, "completionMode");
    errors.one_of(&path.field("completionMode"), mode, &["NonIndexed", "Indexed"]);
    if mode == "Indexed" && get(spec, "completions").is_none() {
        errors.required(&path.field("completions"), "when completion mode is Indexed");
    }
    if mode != "Indexed" {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if let Some(number) = number(spec, field) {
                errors.invalid(&path.field(field), number, "requires indexed completion mode");
            }
        }
        if let Some(policy) = get(spec, "successPolicy") {
            errors.invalid(&path.field("successPolicy"), policy.clone(), "requires indexed completion mode");
        }
    }
}

fn failure_policy(policy: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (index, rule) in list(policy, "rules").iter().enumerate() {
        let rules = path.field("rules");
        let place = rules.index(index);
        let actions = ["Count", "FailIndex", "FailJob", "Ignore"];
        errors.one_of(&place.field("action"), text(rule, "action"), &actions);
        let (codes, conditions) = (get(rule, "onExitCodes"), list(rule, "onPodConditions"));
        if let Some(codes) = codes {
            let place = place.field("onExitCodes");
            errors.one_of(&place.field("operator"), text(codes, "operator"), &["In", "NotIn"]);
            let values = list(codes, "values");
            if values.is_empty() {
                let empty = Value::Array(Vec::new());
                errors.invalid(&place.field("values"), empty, "at least one value is required");
            }
            let mut seen = HashSet::new();
            for (at, value) in values.iter().filter_map(Value::as_i64).enumerate() {
                if !seen.insert(value) {
                    errors.duplicate(&place.field("values").index(at), value);
                }
            }
        }
        if codes.is_some() && !conditions.is_empty() {
            let why = "specifying both OnExitCodes and OnPodConditions is not supported";
            errors.invalid(&place, rule.clone(), why);
        }
        if codes.is_none() && conditions.is_empty() {
            let why = "specifying one of OnExitCodes and OnPodConditions is required";
            errors.invalid(&place, rule.clone(), why);
        }
    }
}
