//! Where a pod may run: tolerations, selectors of nodes, affinity, spreading.

use serde_json::Value;
use std::collections::HashSet;

use super::errors::{Errors, Path, get, list, number, text, texts};
use crate::object::names;

pub(super) const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// `spec.tolerations`.
pub(super) fn tolerations(tolerations: &[Value], path: &Path<'_>, errors: &mut Errors) {
    for (index, toleration) in tolerations.iter().enumerate() {
        let place = path.index(index);
        let field = |name: &str| text(toleration, name);
        let (key, operator, value, effect) =
            (field("key"), field("operator"), field("value"), field("effect"));
        if !key.is_empty() {
            errors.all(&place.field("key"), key, &names::check_key(key));
        }
        if key.is_empty() && operator != "Exists" {
            let why =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.invalid(&place.field("operator"), operator, why);
        }
        if get(toleration, "tolerationSeconds").is_some() && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(&place.field("effect"), effect, why);
        }
        match operator {
            "" | "Equal" => errors.all(&place.field("operator"), value, &names::check_value(value)),
            "Exists" if !value.is_empty() => {
                errors.invalid(
                    &place.field("operator"),
                    value,
                    "value must be empty when `operator` is 'Exists'",
                );
            }
            "Exists" => {}
            other => errors.unsupported(&place.field("operator"), other, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            errors.one_of(&place.field("effect"), effect, &EFFECTS);
        }
    }
}

/// `matchLabels` and `matchExpressions`.
pub(super) fn label_selector(selector: &Value, path: &Path<'_>, errors: &mut Errors) {
    let place = path.field("matchLabels");
    for (key, value) in super::errors::members(selector, "matchLabels") {
        errors.all(&place, key, &names::check_key(key));
        let value = value.as_str().unwrap_or_default();
        errors.all(&place, value, &names::check_value(value));
    }
    let expressions = path.field("matchExpressions");
    for (index, expression) in list(selector, "matchExpressions").iter().enumerate() {
        requirement(
            expression,
            &expressions.index(index),
            &["In", "NotIn", "Exists", "DoesNotExist"],
            errors,
        );
    }
}

fn requirement(requirement: &Value, path: &Path<'_>, operators: &[&str], errors: &mut Errors) {
    let (operator, values) = (text(requirement, "operator"), list(requirement, "values"));
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(&path.field("values"), "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(&path.field("values"), why);
        }
        "Gt" | "Lt" if operators.contains(&operator) && values.len() != 1 => {
            let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.required(&path.field("values"), why);
        }
        known if operators.contains(&known) => {}
        other => errors.invalid(&path.field("operator"), other, "not a valid selector operator"),
    }
    let key = text(requirement, "key");
    errors.all(&path.field("key"), key, &names::check_key(key));
    for (index, value) in texts(requirement, "values").enumerate() {
        errors.all(&path.field("values").index(index), value, &names::check_value(value));
    }
}

/// `spec.affinity`.
pub(super) fn affinity(affinity: &Value, path: &Path<'_>, errors: &mut Errors) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    if let Some(node) = get(affinity, "nodeAffinity") {
        let path = path.field("nodeAffinity");
        if let Some(required) = get(node, REQUIRED) {
            node_terms(required, &path.field(REQUIRED), errors);
        }
        for (index, preferred) in list(node, PREFERRED).iter().enumerate() {
            let preferences = path.field(PREFERRED);
            let place = preferences.index(index);
            weight(preferred, &place, errors);
            node_term(
                preferred.get("preference").unwrap_or(&Value::Null),
                &place.field("preference"),
                errors,
            );
        }
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(pods) = get(affinity, kind) else { continue };
        let path = path.field(kind);
        let required = path.field(REQUIRED);
        for (index, term) in list(pods, REQUIRED).iter().enumerate() {
            pod_term(term, &required.index(index), errors);
        }
        let preferences = path.field(PREFERRED);
        for (index, preferred) in list(pods, PREFERRED).iter().enumerate() {
            let place = preferences.index(index);
            weight(preferred, &place, errors);
            let term = preferred.get("podAffinityTerm").unwrap_or(&Value::Null);
            pod_term(term, &place.field("podAffinityTerm"), errors);
        }
    }
}

fn weight(preferred: &Value, path: &Path<'_>, errors: &mut Errors) {
    let weight = number(preferred, "weight").unwrap_or(0);
    if !(1..=100).contains(&weight) {
        errors.invalid(&path.field("weight"), weight, "must be in the range 1-100");
    }
}

fn node_terms(selector: &Value, path: &Path<'_>, errors: &mut Errors) {
    let place = path.field("nodeSelectorTerms");
    let terms = list(selector, "nodeSelectorTerms");
    if terms.is_empty() {
        errors.required(&place, "must have at least one node selector term");
    }
    for (index, term) in terms.iter().enumerate() {
        node_term(term, &place.index(index), errors);
    }
}

fn node_term(term: &Value, path: &Path<'_>, errors: &mut Errors) {
    let operators = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
    let place = path.field("matchExpressions");
    for (index, expression) in list(term, "matchExpressions").iter().enumerate() {
        requirement(expression, &place.index(index), &operators, errors);
    }
    let place = path.field("matchFields");
    for (index, field) in list(term, "matchFields").iter().enumerate() {
        let place = place.index(index);
        if list(field, "values").len() != 1 {
            let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.required(&place.field("values"), why);
        }
        if text(field, "key") != "metadata.name" {
            errors.invalid(&place.field("key"), text(field, "key"), "not a valid field selector key");
        }
    }
}

fn pod_term(term: &Value, path: &Path<'_>, errors: &mut Errors) {
    for field in ["labelSelector", "namespaceSelector"] {
        if let Some(selector) = get(term, field) {
            label_selector(selector, &path.field(field), errors);
        }
    }
    let key = text(term, "topologyKey");
    if key.is_empty() {
        errors.required(&path.field("topologyKey"), "can not be empty");
    }
    errors.all(&path.field("topologyKey"), key, &names::check_key(key));
}

/// `spec.topologySpreadConstraints`.
pub(super) fn spread(constraints: &[Value], path: &Path<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, constraint) in constraints.iter().enumerate() {
        let place = path.index(index);
        let skew = number(constraint, "maxSkew").unwrap_or(0);
        if skew <= 0 {
            errors.invalid(&place.field("maxSkew"), skew, "must be greater than zero");
        }
        let (key, when) = (text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable"));
        if key.is_empty() {
            errors.required(&place.field("topologyKey"), "can not be empty");
        } else {
            errors.all(&place.field("topologyKey"), key, &names::check_key(key));
        }
        errors.one_of(&place.field("whenUnsatisfiable"), when, &["DoNotSchedule", "ScheduleAnyway"]);
        if !seen.insert((key, when)) {
            errors.duplicate(&place.field("{topologyKey, whenUnsatisfiable}"), format!("{{{key}, {when}}}"));
        }
        if let Some(selector) = get(constraint, "labelSelector") {
            label_selector(selector, &place.field("labelSelector"), errors);
        }
    }
}
