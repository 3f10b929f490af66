//! Pods, and the templates of pods in everything that makes them.

use serde_json::{Value, json};

use super::fill::{Fields, below, count, items, made, read, text, value};

/// The mode of files made from secrets, config maps and the like: `rw-r--r--`.
const FILE_MODE: i64 = 0o644;
/// How long a pod stays on a node in trouble when it does not say.
const TOLERATED_SECONDS: i64 = 300;

/// A pod. `new` when it is being created.
pub(super) fn pod(object: &mut Fields, new: bool) {
    if let Some(status) = below(object, "status") {
        addresses(status);
    }
    let created = object.get("metadata").and_then(|m| m.get("creationTimestamp")).cloned();
    let Some(spec) = made(object, "spec") else { return };
    pod_spec(spec);
    for list in ["containers", "initContainers"] {
        items(spec, list).for_each(requests_from_limits);
    }
    value(spec, "enableServiceLinks", true);
    if spec.get("hostNetwork") == Some(&Value::Bool(true)) {
        for list in ["containers", "initContainers"] {
            items(spec, list).for_each(host_ports);
        }
    }
    tolerate_trouble(spec);
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
        // An old way to say "now, but gracefully".
        spec.insert("terminationGracePeriodSeconds".into(), 1.into());
    }
    if new {
        service_account(spec, "default");
        let class = quality_of_service(spec);
        let gated = items(spec, "schedulingGates").next().is_some();
        let mut status = json!({"phase": "Pending", "qosClass": class});
        if let (true, Some(status)) = (gated, status.as_object_mut()) {
            status.insert(
                "conditions".into(),
                json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
                    "lastProbeTime": null, "lastTransitionTime": created,
                    "message": "Scheduling is blocked due to non-empty scheduling gates"}]),
            );
        }
        object.insert("status".into(), status);
    }
}

/// A pod's only address is also the first of all, and the first of all is its address.
fn addresses(status: &mut Fields) {
    let address = read(status, "podIP");
    let first = status.get("podIPs").and_then(|all| all.get(0)?.get("ip")?.as_str());
    if let (true, Some(first)) = (address.is_empty(), first.filter(|first| !first.is_empty())) {
        let first = Value::from(first);
        status.insert("podIP".into(), first);
        return;
    }
    if !address.is_empty() && first != Some(address) {
        let all = json!([{ "ip": address }]);
        status.insert("podIPs".into(), all);
    }
}

/// The template of pods in another object's `spec.template`.
pub(super) fn template(owner: &mut Fields) {
    let Some(template) = made(owner, "template") else { return };
    value(template, "metadata", Fields::new());
    if let Some(spec) = made(template, "spec") {
        pod_spec(spec);
    }
}

fn pod_spec(spec: &mut Fields) {
    text(spec, "restartPolicy", "Always");
    text(spec, "dnsPolicy", "ClusterFirst");
    text(spec, "schedulerName", "default-scheduler");
    value(spec, "terminationGracePeriodSeconds", 30);
    value(spec, "securityContext", Fields::new());
    let account = read(spec, "serviceAccount").to_owned();
    service_account(spec, &account);
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        items(spec, list).for_each(container);
    }
    items(spec, "volumes").for_each(volume);
}

/// The account has two names in the API, an old one and a new one, which always agree.
fn service_account(spec: &mut Fields, fallback: &str) {
    if !fallback.is_empty() {
        text(spec, "serviceAccountName", fallback);
    }
    let name = read(spec, "serviceAccountName").to_owned();
    if !name.is_empty() && read(spec, "serviceAccount") != name {
        spec.insert("serviceAccount".into(), name.into());
    }
}

fn container(container: &mut Fields) {
    if read(container, "imagePullPolicy").is_empty() {
        let policy = pull_policy(read(container, "image"));
        container.insert("imagePullPolicy".into(), policy.into());
    }
    text(container, "terminationMessagePath", "/dev/termination-log");
    text(container, "terminationMessagePolicy", "File");
    value(container, "resources", Fields::new());
    items(container, "ports").for_each(|port| text(port, "protocol", "TCP"));
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(found) = below(container, name) {
            probe(found);
        }
    }
    if let Some(lifecycle) = below(container, "lifecycle") {
        for name in ["postStart", "preStop"] {
            below(lifecycle, name).and_then(|hook| below(hook, "httpGet")).map(http_get);
        }
    }
    for variable in items(container, "env") {
        below(variable, "valueFrom").and_then(|from| below(from, "fieldRef")).map(field_ref);
    }
}

/// A tag that moves is pulled every time.
fn pull_policy(image: &str) -> &'static str {
    let name = image.rsplit('/').next().unwrap_or(image);
    let floating = !name.contains('@') && name.split_once(':').is_none_or(|(_, tag)| tag == "latest");
    if floating && !image.is_empty() { "Always" } else { "IfNotPresent" }
}

fn probe(probe: &mut Fields) {
    for (name, number) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        count(probe, name, number);
    }
    below(probe, "httpGet").map(http_get);
    if let Some(grpc) = below(probe, "grpc") {
        value(grpc, "service", "");
    }
}

fn http_get(action: &mut Fields) {
    text(action, "path", "/");
    text(action, "scheme", "HTTP");
}

fn field_ref(reference: &mut Fields) {
    text(reference, "apiVersion", "v1");
}

/// Volumes that are sources of files get a mode; one that says nothing is an empty directory.
fn volume(volume: &mut Fields) {
    if volume.keys().all(|field| field == "name") {
        volume.insert("emptyDir".into(), Fields::new().into());
    }
    for name in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = below(volume, name) {
            value(source, "defaultMode", FILE_MODE);
        }
    }
    if let Some(downward) = below(volume, "downwardAPI") {
        field_refs(downward);
    }
    if let Some(projected) = below(volume, "projected") {
        for source in items(projected, "sources") {
            below(source, "downwardAPI").map(field_refs);
            if let Some(token) = below(source, "serviceAccountToken") {
                value(token, "expirationSeconds", 3600);
            }
        }
    }
    if let Some(path) = below(volume, "hostPath") {
        value(path, "type", "");
    }
    if let Some(image) = below(volume, "image").filter(|image| read(image, "pullPolicy").is_empty()) {
        let policy = pull_policy(read(image, "reference"));
        image.insert("pullPolicy".into(), policy.into());
    }
    let claim = below(volume, "ephemeral").and_then(|source| below(source, "volumeClaimTemplate"));
    if let Some(claim) = claim.and_then(|template| below(template, "spec")) {
        text(claim, "volumeMode", "Filesystem");
    }
}

fn field_refs(source: &mut Fields) {
    for item in items(source, "items") {
        below(item, "fieldRef").map(field_ref);
    }
}

/// A limit without a request asks for as much.
fn requests_from_limits(container: &mut Fields) {
    let Some(resources) = below(container, "resources") else { return };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    if let Some(requests) = made(resources, "requests") {
        for (resource, amount) in limits {
            requests.entry(resource).or_insert(amount);
        }
    }
}

fn host_ports(container: &mut Fields) {
    for port in items(container, "ports") {
        if let Some(number) = port.get("containerPort").and_then(Value::as_i64) {
            count(port, "hostPort", number);
        }
    }
}

/// Pods outlive short trouble of their node. Added at admission, so templates do not show it.
fn tolerate_trouble(spec: &mut Fields) {
    value(spec, "tolerations", json!([]));
    let Some(list) = spec.get_mut("tolerations").and_then(Value::as_array_mut) else { return };
    for trouble in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = list.iter().any(|toleration| {
            let field = |name: &str| toleration.get(name).and_then(Value::as_str).unwrap_or_default();
            (field("key") == trouble || field("key").is_empty())
                && ["", "NoExecute"].contains(&field("effect"))
        });
        if !tolerated {
            list.push(json!({"key": trouble, "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": TOLERATED_SECONDS}));
        }
    }
}

/// The pod's class by what its containers ask for.
fn quality_of_service(spec: &Fields) -> &'static str {
    let containers =
        ["initContainers", "containers"].iter().filter_map(|list| spec.get(*list)?.as_array()).flatten();
    let (mut any, mut all) = (false, true);
    for container in containers {
        for resource in ["cpu", "memory"] {
            let amount = |kind: &str| container.get("resources")?.get(kind)?.get(resource);
            let (limit, request) = (amount("limits"), amount("requests"));
            any |= limit.is_some() || request.is_some();
            all &= limit.is_some() && request.is_none_or(|request| Some(request) == limit);
        }
    }
    match (any, all) {
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
        (false, _) => "BestEffort",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pull_policy_follows_the_tag() {
        for (image, policy) in [
            ("a", "Always"),
            ("r:5000/a", "Always"),
            ("a:latest", "Always"),
            ("r:5000/a:1", "IfNotPresent"),
            ("a@sha256:00", "IfNotPresent"),
        ] {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }

    #[test]
    fn tolerations_of_the_user_stand() {
        let mut spec = json!({"tolerations": [{"operator": "Exists"}]});
        tolerate_trouble(spec.as_object_mut().unwrap());
        assert_eq!(spec["tolerations"].as_array().unwrap().len(), 1);
        let mut spec =
            json!({"tolerations": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]});
        tolerate_trouble(spec.as_object_mut().unwrap());
        let keys: Vec<&Value> = spec["tolerations"].as_array().unwrap().iter().map(|t| &t["key"]).collect();
        assert_eq!(keys, ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]);
    }

    #[test]
    fn both_names_of_the_account_agree() {
        for (given, name) in [
            (json!({}), Value::Null),
            (json!({"serviceAccount": "a"}), json!("a")),
            (json!({"serviceAccountName": "b", "serviceAccount": "a"}), json!("b")),
        ] {
            let mut spec = given;
            pod_spec(spec.as_object_mut().unwrap());
            assert_eq!((&spec["serviceAccountName"], &spec["serviceAccount"]), (&name, &name));
        }
    }
}
