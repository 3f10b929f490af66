//! Namespaces, nodes, leases, priority classes and autoscalers.

use serde_json::Value;
use std::collections::HashSet;

use super::errors::{Errors, Path, get, list, number, text, texts};
use super::schedule::EFFECTS;
use crate::object::{is_deleting, meta, names};

const NULL: Value = Value::Null;

/// The phase of a namespace says whether it is being deleted, and nothing else.
pub(super) fn namespace(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let phase = |object: &Value| text(object.get("status").unwrap_or(&NULL), "phase").to_owned();
    let now = phase(object);
    if old.is_none_or(|old| phase(old) == now) {
        return;
    }
    let (wanted, is) = if is_deleting(object) { ("Terminating", "is not") } else { ("Active", "is") };
    if now != wanted {
        let why = format!("may only be '{wanted}' if `deletionTimestamp` {is} empty");
        errors.invalid(&Path::Root("status.Phase"), now, &why);
    }
}

/// Addresses for the pods of a node: given once.
fn ranges(spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    let path = Path::Root("spec.podCIDRs");
    let mut families = HashSet::new();
    for (index, range) in texts(spec, "podCIDRs").enumerate() {
        let address = range.split_once('/').and_then(|(address, bits)| {
            let address: std::net::IpAddr = address.parse().ok()?;
            let most = if address.is_ipv4() { 32 } else { 128 };
            bits.parse::<u8>().ok().filter(|bits| *bits <= most).map(|_| address)
        });
        match address {
            Some(address) => _ = families.insert(address.is_ipv4()),
            None => {
                let why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
                errors.invalid(&path.index(index), range, why);
            }
        }
    }
    let ranges = list(spec, "podCIDRs");
    if ranges.len() > 1 && families.len() != ranges.len() {
        let why = "may specify no more than one CIDR for each IP family";
        errors.invalid(&path, Value::Array(ranges.to_vec()), why);
    }
    let before = old.and_then(|old| old.get("spec")).map_or(&[][..], |spec| list(spec, "podCIDRs"));
    if !before.is_empty() && before != ranges {
        errors.forbidden(&path, "node updates may not change podCIDR except from \"\" to valid");
    }
}

pub(super) fn node(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = object.get("spec").unwrap_or(&NULL);
    ranges(spec, old, errors);
    let path = Path::Root("metadata.taints");
    let mut seen = HashSet::new();
    for (index, taint) in list(spec, "taints").iter().enumerate() {
        let place = path.index(index);
        let (key, value, effect) = (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
        errors.all(&place.field("key"), key, &names::check_key(key));
        if !value.is_empty() {
            errors.all(&place.field("value"), value, &names::check_value(value));
        }
        errors.one_of(&place.field("effect"), effect, &EFFECTS);
        if !seen.insert((key, effect)) {
            let quoted = format!(
                "{{\"Key\":{key:?},\"Value\":{value:?},\"Effect\":{effect:?},\"TimeAdded\":null}}: taints must be unique by key and effect pair"
            );
            errors.duplicate_text(&place, &quoted);
        }
    }
}

pub(super) fn lease(object: &Value, errors: &mut Errors) {
    let (spec, path) = (object.get("spec").unwrap_or(&NULL), Path::Root("spec"));
    if let Some(seconds) = number(spec, "leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        errors.invalid(&path.field("leaseDurationSeconds"), seconds, "must be greater than 0");
    }
    errors.not_negative(&path.field("leaseTransitions"), number(spec, "leaseTransitions"));
}

pub(super) fn priority_class(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (name, value) = (meta(object, "name"), number(object, "value").unwrap_or(0));
    let known = [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];
    if name.starts_with("system-") {
        if !known.contains(&(name, value)) {
            let why = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a \
                 known system priority class"
            );
            errors.forbidden(&Path::Root("metadata.name"), &why);
        }
    } else if value > 1_000_000_000 {
        let why = "maximum allowed value of a user defined priority is 1000000000";
        errors.forbidden(&Path::Root("value"), why);
    }
    let policy = text(object, "preemptionPolicy");
    errors.one_of(&Path::Root("preemptionPolicy"), policy, &["PreemptLowerPriority", "Never"]);
    if let Some(old) = old {
        if number(old, "value") != number(object, "value") {
            errors.forbidden(&Path::Root("value"), "may not be changed in an update.");
        }
        if text(old, "preemptionPolicy") != policy {
            errors.invalid(&Path::Root("preemptionPolicy"), policy, "field is immutable");
        }
    }
}

pub(super) fn autoscaler(object: &Value, errors: &mut Errors) {
    let (spec, path) = (object.get("spec").unwrap_or(&NULL), Path::Root("spec"));
    let (least, most) = (number(spec, "minReplicas"), number(spec, "maxReplicas").unwrap_or(0));
    if let Some(least) = least.filter(|least| *least < 1) {
        errors.invalid(&path.field("minReplicas"), least, "must be greater than or equal to 1");
    }
    if most < 1 {
        errors.required(&path.field("maxReplicas"), "must be set and greater than 0");
    }
    if least.is_some_and(|least| most < least) {
        errors.invalid(&path.field("maxReplicas"), most, "must be greater than or equal to `minReplicas`");
    }
    let target = spec.get("scaleTargetRef").unwrap_or(&NULL);
    let place = path.field("scaleTargetRef");
    for field in ["kind", "name"] {
        if text(target, field).is_empty() {
            errors.required(&place.field(field), "");
        }
    }
    if text(target, "apiVersion").is_empty() {
        errors.invalid(&place.field("apiVersion"), "", "apiVersion must specify API group");
    }
    let external = |metric: &Value| ["Object", "External"].contains(&text(metric, "type"));
    if least == Some(0) && !list(spec, "metrics").iter().any(external) {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.forbidden(&path.field("metrics"), why);
    }
    for (index, metric) in list(spec, "metrics").iter().enumerate() {
        let metrics = path.field("metrics");
        self::metric(metric, &metrics.index(index), errors);
    }
    for way in ["scaleUp", "scaleDown"] {
        if let Some(rules) = spec.get("behavior").and_then(|behavior| get(behavior, way)) {
            let behavior = path.field("behavior");
            scaling(rules, &behavior.field(way), errors);
        }
    }
}

fn metric(metric: &Value, path: &Path<'_>, errors: &mut Errors) {
    const KINDS: [(&str, &str); 5] = [
        ("ContainerResource", "containerResource"),
        ("External", "external"),
        ("Object", "object"),
        ("Pods", "pods"),
        ("Resource", "resource"),
    ];
    let kind = text(metric, "type");
    let Some((_, field)) = KINDS.iter().find(|(known, _)| *known == kind) else {
        // Found by two rules: it is one fault with two causes.
        errors.unsupported(&path.field("type"), kind, &KINDS.map(|(known, _)| known));
        errors.unsupported(&path.field("type"), kind, &KINDS.map(|(known, _)| known));
        return;
    };
    let Some(source) = get(metric, field) else {
        errors.required(&path.field(field), "must populate information for the given metric source");
        return;
    };
    if ["resource", "containerResource"].contains(field) {
        let place = path.field(field);
        if text(source, "name").is_empty() {
            errors.required(&place.field("name"), "must specify a resource name");
        }
        let target = source.get("target").unwrap_or(&NULL);
        let nothing = get(target, "averageUtilization").is_none() && get(target, "averageValue").is_none();
        if nothing {
            let why = "must set either a target raw value or a target utilization";
            errors.required(&place.field("target").field("averageUtilization"), why);
        }
    }
}

fn scaling(rules: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let Some(window) = number(rules, "stabilizationWindowSeconds") {
        let place = path.field("stabilizationWindowSeconds");
        if window < 0 {
            errors.invalid(&place, window, "must be greater than or equal to zero");
        }
        if window > 3600 {
            errors.invalid(&place, window, "must be less than or equal to 3600");
        }
    }
    errors.one_of(&path.field("selectPolicy"), text(rules, "selectPolicy"), &["Disabled", "Max", "Min"]);
    let place = path.field("policies");
    if list(rules, "policies").is_empty() {
        errors.required(&place, "must specify at least one Policy");
    }
    for (index, policy) in list(rules, "policies").iter().enumerate() {
        let place = place.index(index);
        errors.one_of(&place.field("type"), text(policy, "type"), &["Percent", "Pods"]);
        for (field, most) in [("value", i64::MAX), ("periodSeconds", 1800)] {
            let number = number(policy, field).unwrap_or(0);
            if number <= 0 {
                errors.invalid(&place.field(field), number, "must be greater than zero");
            }
            if number > most {
                errors.invalid(&place.field(field), number, &format!("must be less than or equal to {most}"));
            }
        }
    }
}
