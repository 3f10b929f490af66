//! Pods, and the templates of pods.

use serde_json::Value;
use std::collections::HashSet;

use super::errors::{Errors, Path, get, list, members, number, text, texts};
use super::{container, schedule, security, volume};
use crate::object::names::{self, NameRule};

/// A pod that is created.
pub(super) fn create(pod: &Value, errors: &mut Errors) {
    check(pod, errors);
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let path = Path::Root("spec");
    if !list(spec, "ephemeralContainers").is_empty() {
        errors.forbidden(&path.field("ephemeralContainers"), "cannot be set on create");
    }
    if !text(spec, "nodeName").is_empty() && !list(spec, "schedulingGates").is_empty() {
        errors
            .forbidden(&path.field("nodeName"), "cannot be set until all schedulingGates have been cleared");
    }
}

/// What holds for a pod at any time.
pub(super) fn check(pod: &Value, errors: &mut Errors) {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let path = Path::Root("spec");
    annotations(pod, errors);
    pod_spec(spec, &path, errors);
    container::image_spaces(spec, "containers", &path, errors);
    container::image_spaces(spec, "initContainers", &path, errors);
}

fn annotations(pod: &Value, errors: &mut Errors) {
    const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    let root = Path::Root("metadata.annotations");
    let metadata = pod.get("metadata").unwrap_or(&Value::Null);
    for (name, value) in members(metadata, "annotations") {
        let value = value.as_str().unwrap_or_default();
        if name == COST && value.parse::<i32>().is_err() {
            errors.invalid(&root.key(name), value, "must be a 32bit integer");
        }
        let seccomp = name == "seccomp.security.alpha.kubernetes.io/pod";
        let known = ["runtime/default", "docker/default", "unconfined"].contains(&value);
        if seccomp && !known && !value.starts_with("localhost/") {
            errors.invalid(&root.field(name), value, "must be a valid seccomp profile");
        }
    }
}

/// `spec.template` of what makes pods.
pub(super) fn template(template: &Value, path: &Path<'_>, errors: &mut Errors) {
    let metadata = template.get("metadata").unwrap_or(&Value::Null);
    let labels = path.field("labels");
    for (key, value) in members(metadata, "labels") {
        errors.all(&labels, key, &names::check_key(key));
        let value = value.as_str().unwrap_or_default();
        errors.all(&labels, value, &names::check_value(value));
    }
    let annotations = path.field("annotations");
    for (key, _) in members(metadata, "annotations") {
        errors.all(&annotations, key, &names::check_key(&key.to_lowercase()));
    }
    let spec = template.get("spec").unwrap_or(&Value::Null);
    pod_spec(spec, &path.field("spec"), errors);
    if !list(spec, "ephemeralContainers").is_empty() {
        let why = "ephemeral containers not allowed in pod template";
        errors.forbidden(&path.field("spec").field("ephemeralContainers"), why);
    }
}

fn pod_spec(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let volumes = volume::volumes(spec, &path.field("volumes"), errors);
    let grace = number(spec, "terminationGracePeriodSeconds").unwrap_or(30);
    let context = container::Context { volumes: &volumes, grace };
    container::regular(spec, &path.field("containers"), &context, errors);
    container::init(spec, &path.field("initContainers"), &context, errors);
    container::host_network(spec, path, errors);
    let policy = text(spec, "restartPolicy");
    errors.one_of(&path.field("restartPolicy"), policy, &["Always", "OnFailure", "Never"]);
    let known = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    errors.one_of(&path.field("dnsPolicy"), text(spec, "dnsPolicy"), &known);
    for (key, value) in members(spec, "nodeSelector") {
        errors.all(&path.field("nodeSelector"), key, &names::check_key(key));
        let value = value.as_str().unwrap_or_default();
        errors.all(&path.field("nodeSelector"), value, &names::check_value(value));
    }
    security::pod(spec, path, errors);
    if let Some(affinity) = get(spec, "affinity") {
        schedule::affinity(affinity, &path.field("affinity"), errors);
    }
    dns(spec, &path.field("dnsConfig"), errors);
    gates(spec, path, errors);
    schedule::spread(
        list(spec, "topologySpreadConstraints"),
        &path.field("topologySpreadConstraints"),
        errors,
    );
    identity(spec, path, errors);
    schedule::tolerations(list(spec, "tolerations"), &path.field("tolerations"), errors);
    aliases(spec, &path.field("hostAliases"), errors);
    for field in ["priorityClassName", "runtimeClassName"] {
        if !text(spec, field).is_empty() {
            errors.name(&path.field(field), NameRule::Subdomain, text(spec, field));
        }
    }
    let policy = text(spec, "preemptionPolicy");
    if !policy.is_empty() {
        errors.one_of(&path.field("preemptionPolicy"), policy, &["PreemptLowerPriority", "Never"]);
    }
    if let Some(os) = get(spec, "os") {
        errors.one_of(&path.field("os"), text(os, "name"), &["linux", "windows"]);
    }
}

/// Who it is, where it is, for how long.
fn identity(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    for field in ["serviceAccountName", "nodeName"] {
        if !text(spec, field).is_empty() {
            errors.name(&path.field(field), NameRule::Subdomain, text(spec, field));
        }
    }
    let most = i64::from(i32::MAX);
    if let Some(seconds) = number(spec, "activeDeadlineSeconds").filter(|s| !(1..=most).contains(s)) {
        let why = "must be between 1 and 2147483647, inclusive";
        errors.invalid(&path.field("activeDeadlineSeconds"), seconds, why);
    }
    for field in ["hostname", "subdomain"] {
        if !text(spec, field).is_empty() {
            errors.name(&path.field(field), NameRule::Label, text(spec, field));
        }
    }
}

fn gates(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (index, gate) in list(spec, "readinessGates").iter().enumerate() {
        let kind = text(gate, "conditionType");
        let place = path.field("readinessGates");
        errors.all(&place.index(index).field("conditionType"), kind, &names::check_key(kind));
    }
    let mut seen = HashSet::new();
    for (index, gate) in list(spec, "schedulingGates").iter().enumerate() {
        let (name, gates) = (text(gate, "name"), path.field("schedulingGates"));
        let place = gates.index(index);
        if name.is_empty() {
            errors.required(&place, "");
        } else {
            errors.all(&place, name, &names::check_key(name));
        }
        if !seen.insert(name) {
            errors.duplicate(&place, name);
        }
    }
}

fn dns(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let alone = text(spec, "dnsPolicy") == "None";
    let Some(config) = get(spec, "dnsConfig") else {
        if alone {
            errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        return;
    };
    if alone && list(config, "nameservers").is_empty() {
        let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        errors.required(&path.field("nameservers"), why);
    }
    for (index, server) in texts(config, "nameservers").enumerate() {
        errors.address(&path.field("nameservers").index(index), server);
    }
    for (index, search) in texts(config, "searches").enumerate() {
        let name = search.strip_suffix('.').unwrap_or(search);
        let wrong = if name.is_empty() { None } else { names::check_search(name) };
        if let Some(why) = wrong {
            errors.invalid(&path.field("searches").index(index), search, why);
        }
    }
    for (index, option) in list(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            errors.required(&path.field("options").index(index), "must not be empty");
        }
    }
}

fn aliases(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (index, alias) in list(spec, "hostAliases").iter().enumerate() {
        let place = path.index(index);
        errors.address(&place.field("ip"), text(alias, "ip"));
        for (at, name) in texts(alias, "hostnames").enumerate() {
            errors.name(&place.field("hostnames").index(at), NameRule::Subdomain, name);
        }
    }
}

/// What whoever writes a status can get wrong.
fn status(pod: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::Root("status");
    if let Some(seen) =
        pod.pointer("/status/observedGeneration").and_then(Value::as_i64).filter(|seen| *seen < 0)
    {
        errors.invalid(&path.field("observedGeneration"), seen, "must be a non-negative integer");
    }
    let class = |pod: &Value| pod.pointer("/status/qosClass").cloned();
    if let (Some(before), after) = (class(old), class(pod).unwrap_or_default())
        && before != after
    {
        errors.invalid(&path.field("qosClass"), after, "field is immutable");
    }
    let addresses = list(pod.get("status").unwrap_or(&Value::Null), "podIPs");
    for (index, address) in addresses.iter().enumerate() {
        errors.address(&path.field("podIPs").index(index), text(address, "ip"));
    }
    let is_six = |address: &Value| text(address, "ip").contains(':');
    let families: HashSet<bool> = addresses.iter().map(is_six).collect();
    if addresses.len() > families.len() {
        let shown: Vec<String> =
            addresses.iter().map(|a| format!("{{\"IP\":{:?}}}", text(a, "ip"))).collect();
        let why = "may specify no more than one IP for each IP family";
        errors.invalid_text(&path.field("podIPs"), &format!("[{}]", shown.join(",")), why);
    }
}

/// What of a pod may change once it exists.
pub(super) fn update(pod: &Value, old: &Value, errors: &mut Errors) {
    check(pod, errors);
    let null = Value::Null;
    status(pod, old, errors);
    let (new, old) = (pod.get("spec").unwrap_or(&null), old.get("spec").unwrap_or(&null));
    if new == old {
        return;
    }
    let path = Path::Root("spec");
    for field in ["containers", "initContainers"] {
        if list(new, field).len() != list(old, field).len() {
            errors.forbidden(&path.field(field), "pod updates may not add or remove containers");
            return;
        }
        // A second set of rules, which looks at images alone.
        for (index, container) in list(new, field).iter().enumerate() {
            if text(container, "image").is_empty() {
                errors.required(&path.field(field).index(index).field("image"), "");
            }
        }
        container::image_spaces(new, field, &path, errors);
    }
    if !deadline(new, old, &path.field("activeDeadlineSeconds"), errors) {
        return;
    }
    let identity = |toleration| ["key", "operator", "value", "effect"].map(|field| text(toleration, field));
    let kept: HashSet<_> = list(new, "tolerations").iter().map(identity).collect();
    if !list(old, "tolerations").iter().all(|toleration| kept.contains(&identity(toleration))) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        errors.forbidden(&path.field("tolerations"), why);
    }
    let gates = |spec: &Value| {
        list(spec, "schedulingGates").iter().map(|g| text(g, "name").to_owned()).collect::<HashSet<_>>()
    };
    let known = gates(old);
    let places = path.field("schedulingGates");
    for (index, gate) in list(new, "schedulingGates").iter().map(|gate| text(gate, "name")).enumerate() {
        if !known.contains(gate) {
            let why = format!("only deletion is allowed, but found new scheduling gate '{gate}'");
            errors.forbidden(&places.index(index).field("name"), &why);
        }
    }
    if fixed_part(new, old) != *old {
        let fields = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                      `spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` \
                      (allow it to be set to 1 if it was previously negative)";
        let changes = super::diff::changes(old, &fixed_part(new, old));
        errors.forbidden(&path, &format!("pod updates may not change fields other than {fields}\n{changes}"));
    }
}

/// A deadline may only come nearer. False when nothing else is worth looking at.
fn deadline(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) -> bool {
    let most = i64::from(i32::MAX);
    match (number(new, "activeDeadlineSeconds"), number(old, "activeDeadlineSeconds")) {
        (Some(now), _) if !(0..=most).contains(&now) => {
            errors.invalid(path, now, "must be between 0 and 2147483647, inclusive");
            return false;
        }
        (Some(now), Some(before)) if before < now => {
            errors.invalid(path, now, "must be less than or equal to previous value");
            return false;
        }
        (None, Some(_)) => {
            errors.invalid(path, Value::Null, "must not update from a positive integer to nil value");
        }
        _ => {}
    }
    true
}

/// The new spec with everything that may change as it was.
fn fixed_part(new: &Value, old: &Value) -> Value {
    let mut spec = new.clone();
    let Some(map) = spec.as_object_mut() else { return spec };
    let mut fields = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates", "ephemeralContainers"];
    let was_negative = number(old, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0);
    if was_negative && number(new, "terminationGracePeriodSeconds") == Some(1) {
        fields.push("terminationGracePeriodSeconds");
    }
    if !list(old, "schedulingGates").is_empty() {
        // Where it may run is still being made up.
        fields.extend(["nodeSelector", "affinity"]);
    }
    for field in fields {
        match old.get(field) {
            Some(value) => map.insert(field.into(), value.clone()),
            None => map.remove(field),
        };
    }
    for field in ["containers", "initContainers"] {
        let containers = map.get_mut(field).and_then(Value::as_array_mut);
        for (container, before) in containers.into_iter().flatten().zip(list(old, field)) {
            if let (Some(container), Some(image)) = (container.as_object_mut(), before.get("image")) {
                container.insert("image".into(), image.clone());
            }
        }
    }
    spec
}
