//! Nodes.

use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeSet;

use super::read::{age, flag, items, map, text, text_or};

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE: &str = "kubernetes.io/role";

pub(super) fn cells(node: &Value, now: Timestamp) -> Vec<Value> {
    let info = |field: &str| text_or(node, &format!("status.nodeInfo.{field}"), "<unknown>").to_owned();
    let kernel = match text(node, "status.nodeInfo.architecture") {
        "" => info("kernelVersion"),
        architecture => format!("{} ({architecture})", info("kernelVersion")),
    };
    vec![
        text(node, "metadata.name").into(),
        status(node).into(),
        roles(node).into(),
        age(node, now),
        text(node, "status.nodeInfo.kubeletVersion").into(),
        address(node, "InternalIP").into(),
        address(node, "ExternalIP").into(),
        info("osImage").into(),
        kernel.into(),
        info("containerRuntimeVersion").into(),
    ]
}

fn status(node: &Value) -> String {
    let ready = items(node, "status.conditions").iter().rfind(|c| text(c, "type") == "Ready");
    let mut status = match ready.map(|c| text(c, "status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if flag(node, "spec.unschedulable") {
        status.push_str(",SchedulingDisabled");
    }
    status
}

fn roles(node: &Value) -> String {
    let mut roles = BTreeSet::new();
    for (label, value) in map(node, "metadata.labels").into_iter().flatten() {
        match label.strip_prefix(ROLE_PREFIX) {
            Some(role) => roles.insert(role),
            None if label == ROLE => roles.insert(value.as_str().unwrap_or_default()),
            None => false,
        };
    }
    roles.remove("");
    if roles.is_empty() { "<none>".into() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}

fn address<'a>(node: &'a Value, kind: &str) -> &'a str {
    let found = items(node, "status.addresses").iter().find(|a| text(a, "type") == kind);
    found.map_or("<none>", |address| text(address, "address"))
}
