//! What a pod may ask about itself: the downward API.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};

use crate::quantity::{div_away, parse_millis};
use crate::sources::{AllContainers, NodeFacts};

/// A field of the pod, by its path. Whole maps are for files and are written as a kubelet writes them there.
pub(crate) fn field(pod: &Pod, node: &NodeFacts, path: &str) -> Result<String, String> {
    let meta = &pod.metadata;
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone());
    Ok(match path {
        "metadata.name" => text(&meta.name),
        "metadata.namespace" => text(&meta.namespace),
        "metadata.uid" => text(&meta.uid),
        "metadata.labels" => lines(meta.labels.as_ref()),
        "metadata.annotations" => lines(meta.annotations.as_ref()),
        "spec.nodeName" => node.node_name.clone(),
        "spec.serviceAccountName" => account.unwrap_or_default(),
        "status.hostIP" | "status.hostIPs" => node.host_ip.clone(),
        "status.podIP" | "status.podIPs" => node.pod_ip.clone(),
        _ => match entry(path) {
            Some(("metadata.labels", key)) => value(meta.labels.as_ref(), key),
            Some(("metadata.annotations", key)) => value(meta.annotations.as_ref(), key),
            _ => return Err(format!("unsupported fieldPath: {path}")),
        },
    })
}

/// `metadata.labels['key']` in its two parts.
fn entry(path: &str) -> Option<(&str, &str)> {
    let (map, key) = path.strip_suffix("']")?.split_once("['")?;
    Some((map, key))
}

fn value(map: Option<&BTreeMap<String, String>>, key: &str) -> String {
    map.and_then(|map| map.get(key)).cloned().unwrap_or_default()
}

fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    let lines: Vec<String> =
        map.into_iter().flatten().map(|(key, value)| format!("{key}={value:?}")).collect();
    lines.join("\n")
}

/// A request or limit of a container, divided and rounded up. Where no limit is set the machine is the limit.
pub(crate) fn resource(
    pod: &Pod,
    container: &str,
    node: &NodeFacts,
    selector: &ResourceFieldSelector,
) -> Result<String, String> {
    let spec = pod.spec.as_ref();
    let found = spec.and_then(|spec| spec.containers().find(|candidate| candidate.name == container));
    let found = found.ok_or_else(|| format!("container {container} not found"))?;
    let amount = amount(found, &selector.resource, node)?;
    let divisor = selector.divisor.as_ref().map_or("1", |divisor| divisor.0.as_str());
    let divisor = match parse_millis(divisor).map_err(|error| error.to_string())? {
        0 => 1000,
        millis => millis,
    };
    let amount = parse_millis(amount.as_deref().unwrap_or("0")).map_err(|error| error.to_string())?;
    Ok(div_away(amount, divisor).to_string())
}

fn amount(container: &Container, path: &str, node: &NodeFacts) -> Result<Option<String>, String> {
    let resources = container.resources.as_ref();
    let limits = resources.and_then(|resources| resources.limits.as_ref());
    let requests = resources.and_then(|resources| resources.requests.as_ref());
    let limit = |name: &str| limits.and_then(|limits| limits.get(name));
    let found = match path.split_once('.') {
        Some(("limits", name)) => limit(name).or_else(|| node.allocatable.get(name)),
        Some(("requests", name)) => requests.and_then(|requests| requests.get(name)).or_else(|| limit(name)),
        _ => return Err(format!("unsupported container resource: {path}")),
    };
    Ok(found.map(|quantity| quantity.0.clone()))
}
