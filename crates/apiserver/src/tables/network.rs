//! Services and where they lead.

use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeSet;

use super::read::{age, first, int, items, labels, text, texts};

/// How many addresses or ports are listed.
const LISTED: usize = 3;

pub(super) fn service(object: &Value, now: Timestamp) -> Vec<Value> {
    let address = items(object, "spec.clusterIPs").first().and_then(Value::as_str).unwrap_or("<none>");
    let ports: Vec<String> = items(object, "spec.ports").iter().map(port).collect();
    let ports = if ports.is_empty() { "<none>".into() } else { ports.join(",") };
    vec![
        text(object, "metadata.name").into(),
        text(object, "spec.type").into(),
        address.into(),
        external(object).into(),
        ports.into(),
        age(object, now),
        labels(object, "spec.selector").into(),
    ]
}

fn port(port: &Value) -> String {
    let (number, protocol) = (int(port, "port"), text(port, "protocol"));
    match int(port, "nodePort") {
        node if node > 0 => format!("{number}:{node}/{protocol}"),
        _ => format!("{number}/{protocol}"),
    }
}

fn external(service: &Value) -> String {
    let given = texts(service, "spec.externalIPs");
    let or = |all: Vec<&str>, none: &str| if all.is_empty() { none.to_owned() } else { all.join(",") };
    match text(service, "spec.type") {
        "ClusterIP" | "NodePort" => or(given, "<none>"),
        "LoadBalancer" => {
            let points = items(service, "status.loadBalancer.ingress").iter();
            let named =
                points.map(|p| if text(p, "ip").is_empty() { text(p, "hostname") } else { text(p, "ip") });
            let balanced: BTreeSet<&str> = named.filter(|name| !name.is_empty()).collect();
            or(balanced.into_iter().chain(given).collect(), "<pending>")
        }
        "ExternalName" => text(service, "spec.externalName").to_owned(),
        _ => "<unknown>".into(),
    }
}

/// An address with its port; colons in it ask for brackets.
fn join(address: &str, port: i64) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

pub(super) fn endpoints(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut all = Vec::new();
    let subsets = items(object, "subsets");
    for subset in subsets {
        let addresses: Vec<&str> = items(subset, "addresses").iter().map(|a| text(a, "ip")).collect();
        let ports = items(subset, "ports");
        if ports.is_empty() {
            all.extend(addresses.iter().map(|address| (*address).to_owned()));
        }
        for port in ports {
            all.extend(addresses.iter().map(|address| join(address, int(port, "port"))));
        }
    }
    let none = if subsets.is_empty() { "<none>" } else { "" };
    vec![text(object, "metadata.name").into(), first(&all, LISTED, ",", none).into(), age(object, now)]
}

pub(super) fn endpoint_slice(object: &Value, now: Timestamp) -> Vec<Value> {
    let ports: Vec<String> = items(object, "ports").iter().map(slice_port).collect();
    let addresses: Vec<&str> =
        items(object, "endpoints").iter().flat_map(|endpoint| texts(endpoint, "addresses")).collect();
    vec![
        text(object, "metadata.name").into(),
        text(object, "addressType").into(),
        first(&ports, LISTED, ",", "<unset>").into(),
        first(&addresses, LISTED, ",", "<unset>").into(),
        age(object, now),
    ]
}

fn slice_port(port: &Value) -> String {
    match (port.get("port").and_then(Value::as_i64), port.get("name").and_then(Value::as_str)) {
        (Some(number), _) => number.to_string(),
        (None, Some(name)) => name.to_owned(),
        (None, None) => "*".into(),
    }
}
