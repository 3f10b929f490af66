//! Services and their endpoints.

use serde_json::{Value, json};

use super::fill::{Fields, below, items, made, read, text, value};

/// Three hours: how long a client stays with its pod.
const AFFINITY_SECONDS: i64 = 10_800;

pub(super) fn service(object: &mut Fields, new: bool) {
    let Some(spec) = made(object, "spec") else { return };
    text(spec, "sessionAffinity", "None");
    affinity(spec);
    text(spec, "type", "ClusterIP");
    for port in items(spec, "ports") {
        text(port, "protocol", "TCP");
        let unset = port.get("targetPort").is_none_or(|target| target == 0 || target == "");
        if let (true, Some(number)) = (unset, port.get("port").cloned()) {
            port.insert("targetPort".into(), number);
        }
    }
    let kind = read(spec, "type").to_owned();
    let outside = items_of(spec, "externalIPs") > 0 && kind == "ClusterIP";
    if ["NodePort", "LoadBalancer"].contains(&kind.as_str()) || outside {
        text(spec, "externalTrafficPolicy", "Cluster");
    }
    if ["ClusterIP", "NodePort", "LoadBalancer"].contains(&kind.as_str()) {
        text(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        value(spec, "allocateLoadBalancerNodePorts", true);
    }
    if kind != "ExternalName" {
        families(spec);
    }
    if new {
        object.insert("status".into(), json!({"loadBalancer": {}}));
    }
}

fn items_of(fields: &Fields, name: &str) -> usize {
    fields.get(name).and_then(Value::as_array).map_or(0, Vec::len)
}

fn affinity(spec: &mut Fields) {
    if read(spec, "sessionAffinity") == "None" {
        spec.remove("sessionAffinityConfig");
    } else if read(spec, "sessionAffinity") == "ClientIP" {
        let given = spec.get("sessionAffinityConfig").and_then(|c| c.pointer("/clientIP/timeoutSeconds"));
        if given.is_none() {
            let config = json!({"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}});
            spec.insert("sessionAffinityConfig".into(), config);
        }
    }
}

/// One family, the only one there is here. The first address is also the list's first.
fn families(spec: &mut Fields) {
    let headless = read(spec, "clusterIP") == "None";
    let selects = below(spec, "selector").is_some_and(|selector| !selector.is_empty());
    if headless && !selects {
        // Whoever writes its endpoints decides about families, so all are allowed.
        text(spec, "ipFamilyPolicy", "RequireDualStack");
        if read(spec, "ipFamilyPolicy") != "SingleStack" {
            value(spec, "ipFamilies", json!(["IPv4", "IPv6"]));
        }
    }
    text(spec, "ipFamilyPolicy", "SingleStack");
    value(spec, "ipFamilies", json!(["IPv4"]));
    let address = read(spec, "clusterIP").to_owned();
    if !address.is_empty() {
        value(spec, "clusterIPs", json!([address]));
    } else if let Some(first) = spec.get("clusterIPs").and_then(|list| list.get(0)).cloned() {
        spec.insert("clusterIP".into(), first);
    }
}

pub(super) fn endpoints(object: &mut Fields) {
    for subset in items(object, "subsets") {
        items(subset, "ports").for_each(|port| text(port, "protocol", "TCP"));
    }
}

pub(super) fn endpoint_slice(object: &mut Fields) {
    for port in items(object, "ports") {
        value(port, "name", "");
        text(port, "protocol", "TCP");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_complete() {
        let mut given = json!({"spec": {"type": "LoadBalancer", "sessionAffinity": "ClientIP",
            "ports": [{"port": 80}, {"port": 81, "targetPort": "web"}]}});
        service(given.as_object_mut().unwrap(), true);
        let spec = &given["spec"];
        assert_eq!(spec["ports"][0], json!({"port": 80, "protocol": "TCP", "targetPort": 80}));
        assert_eq!(spec["ports"][1]["targetPort"], "web");
        assert_eq!(spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"], 10_800);
        assert_eq!(spec["externalTrafficPolicy"], "Cluster");
        assert_eq!(spec["allocateLoadBalancerNodePorts"], true);
    }
}
