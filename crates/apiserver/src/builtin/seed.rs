//! What every cluster has from its first second: namespaces and the priority classes of the system itself.

use serde_json::{Value, json};
use std::net::SocketAddr;

use super::{defaults, table};
use crate::registry::Served;
use crate::store::{Key, Store};

/// Name, value, description: the words of a real server.
const PRIORITY_CLASSES: [(&str, i64, &str); 2] = [
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
];

/// The objects of a new server.
pub(crate) fn objects(namespaces: &[String], now: &str) -> Vec<(Key, Value)> {
    let named =
        |name: &str| json!({"name": name, "uid": uuid::Uuid::new_v4().to_string(), "creationTimestamp": now});
    let mut objects = Vec::new();
    for served in table() {
        match (served.group.as_str(), served.plural.as_str()) {
            ("", "namespaces") => objects.extend(namespaces.iter().map(|name| {
                let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": named(name)});
                finished(&served, object)
            })),
            ("scheduling.k8s.io", "priorityclasses") => {
                objects.extend(PRIORITY_CLASSES.iter().map(|(name, value, description)| {
                    let mut object = json!({
                        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": named(name),
                        "value": value, "description": description,
                    });
                    crate::object::set_meta(&mut object, "generation", 1);
                    finished(&served, object)
                }));
            }
            _ => {}
        }
    }
    objects
}

/// The service by which pods find this server, and its endpoints, as far as they are not there as they should be.
pub(crate) fn api_service(
    store: &Store,
    address: SocketAddr,
    now: &str,
) -> Result<Vec<(Key, Value)>, String> {
    let (ip, port) = (address.ip().to_string(), address.port());
    let labels = json!({"component": "apiserver", "provider": "kubernetes"});
    let skip = json!({"endpointslice.kubernetes.io/skip-mirror": "true"});
    let wanted = [
        (
            "/services",
            "Service",
            labels,
            json!({"spec": {
            "type": "ClusterIP", "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
        }, "status": {"loadBalancer": {}}}),
        ),
        (
            "/endpoints",
            "Endpoints",
            skip,
            json!({"subsets": [{
                "addresses": [{"ip": ip}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
            }]}),
        ),
        (
            "discovery.k8s.io/endpointslices",
            "EndpointSlice",
            json!({"kubernetes.io/service-name": "kubernetes"}),
            json!({
                "addressType": "IPv4", "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}],
                "ports": [{"name": "https", "protocol": "TCP", "port": port}],
            }),
        ),
    ];
    let mut changes = Vec::new();
    for (table, kind, labels, content) in wanted {
        let api_version = if kind == "EndpointSlice" { "discovery.k8s.io/v1" } else { "v1" };
        let key = Key::new(&table.into(), "default", "kubernetes");
        let known = store.latest(&key).map(|stored| stored.value()).transpose().map_err(|e| e.to_string())?;
        let mut object = known.clone().unwrap_or_else(|| {
            json!({"apiVersion": api_version, "kind": kind, "metadata": {
                "name": "kubernetes", "namespace": "default", "uid": uuid::Uuid::new_v4().to_string(),
                "creationTimestamp": now, "labels": labels,
            }})
        });
        if let (Some(object), Value::Object(content)) = (object.as_object_mut(), content) {
            object.extend(content);
        }
        if known.as_ref() != Some(&object) {
            changes.push((key, object));
        }
    }
    Ok(changes)
}

fn finished(served: &Served, mut object: Value) -> (Key, Value) {
    defaults::apply(served, &mut object, true);
    let name = crate::object::meta(&object, "name").to_owned();
    (Key::new(&served.table, "", &name), object)
}

#[cfg(test)]
mod tests {
    use super::super::NAMESPACE_TABLE;
    use super::*;

    #[test]
    fn a_new_server_has_namespaces_and_classes() {
        let objects = objects(&["default".into()], "2026-01-01T00:00:00Z");
        let keys: Vec<String> = objects.iter().map(|(key, _)| key.to_string()).collect();
        assert_eq!(keys.len(), 3, "{keys:?}");
        let (_, namespace) = objects.iter().find(|(key, _)| &**key.table() == NAMESPACE_TABLE).unwrap();
        assert_eq!(namespace["status"]["phase"], "Active");
        let class = objects.iter().find(|(key, _)| key.name() == "system-node-critical");
        assert_eq!(class.unwrap().1["preemptionPolicy"], "PreemptLowerPriority");
    }
}
