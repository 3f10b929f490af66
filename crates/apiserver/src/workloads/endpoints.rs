//! Endpoints and endpoint slices of services with a selector: the addresses of the pods they select.

use serde_json::{Map, Value, json};

use super::client::{Actor, Refused, path};
use super::pods::{Pod, controller_of};
use super::{Controllers, Look};
use crate::object::{at, is_deleting, meta, set_at};
use crate::selector::LabelSelector;
use crate::store::{Key, Stored};

const SLICES: Actor = Actor { component: "endpointslice-controller" };
const ENDPOINTS: Actor = Actor { component: "endpoint-controller" };
const MANAGED: &str = "endpoints.kubernetes.io/managed-by";
const HEADLESS: &str = "service.kubernetes.io/headless";
/// Endpoints of one slice.
const SLICE: usize = 100;
/// Addresses of one Endpoints object; the rest is left out, as its readers expect.
const MOST: usize = 1000;

/// A pod that a service leads to.
struct Target {
    pod: Pod,
    /// The number of each port of the service on this pod; none where its name is unknown there.
    ports: Vec<Option<i64>>,
    ready: bool,
}

pub(super) async fn look(all: &Controllers, stored: &Stored) -> Look {
    let service = stored.value().map_err(Refused::internal)?;
    let labels = at(&service, "spec.selector").and_then(Value::as_object).filter(|map| !map.is_empty());
    let external = at(&service, "spec.type").and_then(Value::as_str) == Some("ExternalName");
    let Some(labels) = labels.filter(|_| !external && !is_deleting(&service)) else {
        return Ok(None);
    };
    let selector = LabelSelector::from_object(&json!({"matchLabels": labels})).map_err(Refused::internal)?;
    let early = at(&service, "spec.publishNotReadyAddresses") == Some(&Value::Bool(true));
    let ports = ports_of(&service);
    let mut targets = Vec::new();
    for stored in all.index.members(&stored.key).filter_map(|key| all.app.store.get(key)) {
        let Some(pod) = Pod::of(&stored).filter(|pod| selector.matches(Some(&pod.metadata.labels))) else {
            continue;
        };
        if pod.status.pod_ip.is_empty() || pod.is_over() {
            continue;
        }
        let object = stored.value().map_err(Refused::internal)?;
        let numbers = ports.iter().map(|port| number(port, &object)).collect();
        let ready = early || (pod.is_ready() && !pod.is_deleting());
        targets.push(Target { pod, ports: numbers, ready });
    }
    write_slices(all, &service, &ports, &targets).await?;
    write_endpoints(all, &service, &ports, &targets).await?;
    Ok(None)
}

/// Removes what a service that is gone left behind.
pub(super) async fn gone(all: &Controllers, service: &Key) -> Look {
    let key = Key::new(&"/endpoints".into(), service.namespace(), service.name());
    let Some(stored) = all.app.store.get(&key) else { return Ok(None) };
    let object = stored.value().map_err(Refused::internal)?;
    let labels = object.pointer("/metadata/labels");
    if labels.and_then(|l| l.get(MANAGED)).is_some() {
        let place = path("v1", service.namespace(), "endpoints", service.name());
        all.client.delete(ENDPOINTS, &place, &stored.uid, "Background").await?;
    }
    Ok(None)
}

fn ports_of(service: &Value) -> Vec<Value> {
    at(service, "spec.ports").and_then(Value::as_array).cloned().unwrap_or_default()
}

/// What a port of the service is on a pod.
fn number(port: &Value, pod: &Value) -> Option<i64> {
    match port.get("targetPort") {
        Some(Value::String(name)) => {
            let containers = at(pod, "spec.containers").and_then(Value::as_array)?;
            let ports = containers.iter().filter_map(|c| c.get("ports")?.as_array()).flatten();
            let named = |found: &&Value| {
                found.get("name").and_then(Value::as_str) == Some(name)
                    && found.get("protocol").and_then(Value::as_str)
                        == port.get("protocol").and_then(Value::as_str)
            };
            ports.into_iter().find(named)?.get("containerPort")?.as_i64()
        }
        Some(target) => target.as_i64(),
        None => port.get("port").and_then(Value::as_i64),
    }
}

fn is_headless(service: &Value) -> bool {
    at(service, "spec.clusterIP").and_then(Value::as_str) == Some("None")
}

/// Labels of the service, and what is said about who made the object.
fn labels(service: &Value, own: &[(&str, &str)]) -> Map<String, Value> {
    let mut labels = at(service, "metadata.labels").and_then(Value::as_object).cloned().unwrap_or_default();
    labels.remove(HEADLESS);
    if is_headless(service) {
        labels.insert(HEADLESS.into(), "".into());
    }
    labels.extend(own.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())));
    labels
}

/// Targets with the same numbers for the same ports belong together.
fn grouped(targets: &[Target], no_ports: bool) -> Vec<(Vec<Option<i64>>, Vec<&Target>)> {
    let mut groups: Vec<(Vec<Option<i64>>, Vec<&Target>)> = Vec::new();
    for target in targets {
        if !no_ports && target.ports.iter().all(Option::is_none) {
            continue;
        }
        match groups.iter_mut().find(|(ports, _)| *ports == target.ports) {
            Some((_, group)) => group.push(target),
            None => groups.push((target.ports.clone(), vec![target])),
        }
    }
    groups
}

fn described(ports: &[Value], numbers: &[Option<i64>], unnamed: bool) -> Vec<Value> {
    let known = ports.iter().zip(numbers).filter_map(|(port, number)| Some((port, (*number)?)));
    let describe = |(port, number): (&Value, i64)| {
        let mut described = Map::new();
        for field in ["name", "protocol", "appProtocol"] {
            if let Some(value) = port.get(field) {
                described.insert(field.into(), value.clone());
            }
        }
        if unnamed {
            described.entry("name").or_insert_with(|| "".into());
        }
        described.insert("port".into(), number.into());
        Value::Object(described)
    };
    known.map(describe).collect()
}

fn reference(pod: &Pod) -> Value {
    let metadata = &pod.metadata;
    json!({"kind": "Pod", "namespace": metadata.namespace, "name": metadata.name, "uid": metadata.uid})
}

fn endpoint(service: &Value, target: &Target) -> Value {
    let pod = &target.pod;
    let ready = pod.is_ready() || target.ready;
    let mut endpoint = json!({
        "addresses": [pod.status.pod_ip],
        "conditions": {"ready": target.ready, "serving": ready, "terminating": pod.is_deleting()},
        "targetRef": reference(pod),
    });
    add_names(service, pod, &mut endpoint);
    endpoint
}

fn add_names(service: &Value, pod: &Pod, address: &mut Value) {
    if !pod.spec.node_name.is_empty() {
        set_at(address, &["nodeName".into()], pod.spec.node_name.as_str().into());
    }
    if !pod.spec.hostname.is_empty() && pod.spec.subdomain == meta(service, "name") {
        set_at(address, &["hostname".into()], pod.spec.hostname.as_str().into());
    }
}

async fn write_slices(
    all: &Controllers,
    service: &Value,
    ports: &[Value],
    targets: &[Target],
) -> Result<(), Refused> {
    let mut wanted: Vec<(Vec<Value>, Vec<Value>)> = Vec::new();
    for (numbers, group) in grouped(targets, ports.is_empty()) {
        for part in group.chunks(SLICE) {
            let endpoints = part.iter().map(|target| endpoint(service, target)).collect();
            wanted.push((described(ports, &numbers, true), endpoints));
        }
    }
    if wanted.is_empty() {
        wanted.push((Vec::new(), Vec::new()));
    }
    let stored = all.index.children(meta(service, "uid")).filter_map(|key| all.app.store.get(key));
    let mut known: Vec<Value> = stored.filter_map(|stored| stored.value().ok()).collect();
    known.retain(|slice| !is_deleting(slice));
    let mut known = known.into_iter();
    for (ports, endpoints) in wanted {
        write_slice(all, service, known.next(), ports, endpoints).await?;
    }
    for slice in known {
        let place = slice_path(service, meta(&slice, "name"));
        all.client.delete(SLICES, &place, meta(&slice, "uid"), "Background").await?;
    }
    Ok(())
}

fn slice_path(service: &Value, name: &str) -> String {
    path("discovery.k8s.io/v1", meta(service, "namespace"), "endpointslices", name)
}

async fn write_slice(
    all: &Controllers,
    service: &Value,
    known: Option<Value>,
    ports: Vec<Value>,
    endpoints: Vec<Value>,
) -> Result<(), Refused> {
    let name = meta(service, "name");
    let labels = labels(
        service,
        &[
            ("kubernetes.io/service-name", name),
            ("endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io"),
        ],
    );
    let Some(mut slice) = known else {
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"generateName": format!("{name}-"), "namespace": meta(service, "namespace"),
                "labels": labels, "ownerReferences": [controller_of(service)]},
            "ports": ports, "endpoints": endpoints,
        });
        return create(all, SLICES, &slice_path(service, ""), &slice).await;
    };
    let list =
        |slice: &Value, field: &str| slice.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    let same = at(&slice, "metadata.labels").and_then(Value::as_object) == Some(&labels)
        && list(&slice, "ports") == ports
        && list(&slice, "endpoints") == endpoints;
    if same {
        return Ok(());
    }
    set_at(&mut slice, &["metadata".into(), "labels".into()], labels.into());
    set_at(&mut slice, &["ports".into()], ports.into());
    set_at(&mut slice, &["endpoints".into()], endpoints.into());
    all.client.update(SLICES, &slice_path(service, meta(&slice, "name")), &slice).await.map(|_| ())
}

/// Creates an object, unless nothing new is taken where it belongs.
async fn create(all: &Controllers, actor: Actor, path: &str, object: &Value) -> Result<(), Refused> {
    match all.client.create(actor, path, object).await {
        Err(refused) if !refused.is_terminating() => Err(refused),
        _ => Ok(()),
    }
}

fn subsets(service: &Value, ports: &[Value], targets: &[Target]) -> Vec<Value> {
    let address = |target: &&Target| {
        let mut address = json!({"ip": target.pod.status.pod_ip, "targetRef": reference(&target.pod)});
        add_names(service, &target.pod, &mut address);
        address
    };
    let mut subsets = Vec::new();
    for (numbers, group) in grouped(targets, ports.is_empty()) {
        let mut subset = Map::new();
        for (field, ready) in [("addresses", true), ("notReadyAddresses", false)] {
            let some = group.iter().filter(|t| t.ready == ready && !t.pod.is_deleting()).take(MOST);
            let list: Vec<Value> = some.map(address).collect();
            if !list.is_empty() {
                subset.insert(field.into(), list.into());
            }
        }
        if subset.is_empty() {
            continue;
        }
        let ports = described(ports, &numbers, false);
        if !ports.is_empty() {
            subset.insert("ports".into(), ports.into());
        }
        subsets.push(subset.into());
    }
    subsets
}

async fn write_endpoints(
    all: &Controllers,
    service: &Value,
    ports: &[Value],
    targets: &[Target],
) -> Result<(), Refused> {
    let (namespace, name) = (meta(service, "namespace"), meta(service, "name"));
    let labels = labels(service, &[(MANAGED, "endpoint-controller")]);
    let subsets = subsets(service, ports, targets);
    let mut object = json!({"apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": name, "namespace": namespace, "labels": labels}});
    if !subsets.is_empty() {
        set_at(&mut object, &["subsets".into()], subsets.clone().into());
    }
    let key = Key::new(&"/endpoints".into(), namespace, name);
    let Some(stored) = all.app.store.get(&key) else {
        return create(all, ENDPOINTS, &path("v1", namespace, "endpoints", ""), &object).await;
    };
    let known = stored.value().map_err(Refused::internal)?;
    let before = known.get("subsets").and_then(Value::as_array).cloned().unwrap_or_default();
    if before == subsets && at(&known, "metadata.labels").and_then(Value::as_object) == Some(&labels) {
        return Ok(());
    }
    set_at(
        &mut object,
        &["metadata".into(), "resourceVersion".into()],
        meta(&known, "resourceVersion").into(),
    );
    all.client.update(ENDPOINTS, &path("v1", namespace, "endpoints", name), &object).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_ports_are_looked_up_on_each_pod() {
        let pod = json!({"spec": {"containers": [{"ports": [
            {"name": "web", "containerPort": 8080, "protocol": "TCP"}]}]}});
        for (target, expected) in [(json!(80), Some(80)), (json!("web"), Some(8080)), (json!("other"), None)]
        {
            assert_eq!(number(&json!({"port": 1, "targetPort": target, "protocol": "TCP"}), &pod), expected);
        }
    }

    #[test]
    fn only_ready_pods_are_addresses() {
        let target = |ip: &str, ready: bool| Target {
            pod: serde_json::from_value(json!({"metadata": {"name": ip}, "status": {"podIP": ip}})).unwrap(),
            ports: vec![Some(80)],
            ready,
        };
        let service = json!({"metadata": {"name": "s"}});
        let ports = [json!({"port": 80, "protocol": "TCP"})];
        let subsets = subsets(&service, &ports, &[target("10.0.0.1", true), target("10.0.0.2", false)]);
        assert_eq!(subsets[0]["addresses"][0]["ip"], "10.0.0.1");
        assert_eq!(subsets[0]["notReadyAddresses"][0]["ip"], "10.0.0.2");
        assert_eq!(subsets[0]["ports"], json!([{"port": 80, "protocol": "TCP"}]));
    }
}
