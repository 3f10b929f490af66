//! Rules below the fields that hold Kubernetes' own types.
//!
//! k8s-openapi knows names and types, but neither merge keys nor defaults. Without them server-side apply would
//! treat `containers` as one value, and a second port on the same number would be a different object than in a
//! Deployment. The tables say what the Go types say in their markers; they match by the end of the path, because
//! the same type occurs in many places.

use serde_json::{Value, json};

use super::Node;

/// Lists that are maps in disguise, with the fields that identify an item.
const LIST_MAPS: &[(&str, &[&str])] = &[
    (".claims", &["name"]),
    (".containers", &["name"]),
    (".env", &["name"]),
    (".ephemeralContainers", &["name"]),
    (".evictionResponders", &["name"]),
    (".hostAliases", &["ip"]),
    (".imagePullSecrets", &["name"]),
    (".initContainers", &["name"]),
    (".ports", &["containerPort", "protocol"]),
    (".resourceClaims", &["name"]),
    (".schedulingGates", &["name"]),
    (".topologySpreadConstraints", &["topologyKey", "whenUnsatisfiable"]),
    (".volumeDevices", &["devicePath"]),
    (".volumeMounts", &["mountPath"]),
    (".volumes", &["name"]),
];

/// Lists in which every item is its own key.
const LIST_SETS: &[&str] = &[".bindMountOptions", ".exitCodes.values"];

/// Lists that say nothing: the finalizers of an embedded object's metadata.
const LIST_PLAIN: &[&str] = &[".metadata.finalizers"];

/// Objects that are replaced as a whole: references and selectors.
const ATOMIC_MAPS: &[&str] = &[
    ".configMapKeyRef",
    ".configMapRef",
    ".dataSource",
    ".fieldRef",
    ".fileKeyRef",
    ".imagePullSecrets[]",
    ".nodePublishSecretRef",
    ".nodeSelector",
    ".resourceFieldRef",
    ".secretKeyRef",
    ".secretRef",
    ".sources[].configMap",
    ".sources[].secret",
    ".volumes[].configMap",
];

/// References whose `name` is optional only for the sake of old clients: Kubernetes fills in the empty string.
const NAME_DEFAULTS_TO_EMPTY: &[&str] = &[
    ".configMapKeyRef",
    ".configMapRef",
    ".imagePullSecrets[]",
    ".nodePublishSecretRef",
    ".secretKeyRef",
    ".secretRef",
    ".sources[].configMap",
    ".sources[].secret",
    ".volumes[].configMap",
];

/// Other defaults that the Kubernetes types declare.
const DEFAULTS: &[(&str, &str)] = &[
    (".azureDisk.fsType", "ext4"),
    (".grpc.service", ""),
    (".iscsi.iscsiInterface", "default"),
    (".ports[].protocol", "TCP"),
    (".rbd.keyring", "/etc/ceph/keyring"),
    (".rbd.pool", "rbd"),
    (".rbd.user", "admin"),
    (".scaleIO.fsType", "xfs"),
    (".scaleIO.storageMode", "ThinProvisioned"),
];

/// Switches that are off unless set, and are stored so.
const DEFAULTS_TO_FALSE: &[&str] = &[".azureDisk.readOnly", ".fileKeyRef.optional"];

/// What the metadata of an embedded object keeps; the API server prunes the rest, which has no meaning there.
const EMBEDDED_METADATA: &[&str] = &["annotations", "finalizers", "labels", "name", "namespace"];

/// Applies the tables to one node.
pub(super) fn fix(path: &str, node: &mut Node) {
    node.remove("description");
    if path.ends_with(".metadata") {
        embedded_metadata(node);
    }
    if node.get("type") == Some(&json!("array")) {
        list(path, node);
    }
    if ends_with_any(path, ATOMIC_MAPS) {
        node.insert("x-kubernetes-map-type".into(), "atomic".into());
    }
    if ends_with_any(path, NAME_DEFAULTS_TO_EMPTY) {
        optional(node, "name");
        if let Some(Value::Object(name)) = node.get_mut("properties").and_then(|all| all.get_mut("name")) {
            name.insert("default".into(), "".into());
        }
    }
    if let Some((_, default)) = DEFAULTS.iter().find(|(end, _)| path.ends_with(end)) {
        node.insert("default".into(), (*default).into());
    }
    if ends_with_any(path, DEFAULTS_TO_FALSE) {
        node.insert("default".into(), false.into());
    }
}

fn list(path: &str, node: &mut Node) {
    let kind = if let Some((_, keys)) = LIST_MAPS.iter().find(|(end, _)| path.ends_with(end)) {
        node.insert("x-kubernetes-list-map-keys".into(), json!(keys));
        "map"
    } else if ends_with_any(path, LIST_SETS) {
        "set"
    } else if ends_with_any(path, LIST_PLAIN) {
        return;
    } else {
        "atomic"
    };
    node.insert("x-kubernetes-list-type".into(), kind.into());
}

fn embedded_metadata(node: &mut Node) {
    if let Some(Value::Object(fields)) = node.get_mut("properties") {
        fields.retain(|name, _| EMBEDDED_METADATA.contains(&name.as_str()));
    }
}

/// Label and node selectors are replaced as a whole. They are known by their fields, because the fields that hold
/// them have many names.
pub(super) fn selector(node: &mut Node) {
    let has = |field: &str| node.get("properties").and_then(|all| all.get(field)).is_some();
    if has("matchLabels") || has("matchFields") || has("nodeSelectorTerms") {
        node.insert("x-kubernetes-map-type".into(), "atomic".into());
    }
}

fn optional(node: &mut Node, field: &str) {
    let Some(Value::Array(required)) = node.get_mut("required") else {
        return;
    };
    required.retain(|name| name != field);
    if required.is_empty() {
        node.remove("required");
    }
}

fn ends_with_any(path: &str, ends: &[&str]) -> bool {
    ends.iter().any(|end| path.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{crd, schema};

    /// A line that matches nothing is a field that Kubernetes renamed or dropped, or a typing error.
    #[test]
    fn every_line_of_the_tables_matches_a_field() {
        let mut paths = Vec::new();
        for crd in crd::all().unwrap() {
            schema::walk(crd.schema().unwrap(), "", &mut |path, _| paths.push(path.to_owned()));
        }
        let lines = LIST_MAPS.iter().map(|(end, _)| end).chain(DEFAULTS.iter().map(|(end, _)| end));
        let others = [LIST_SETS, LIST_PLAIN, ATOMIC_MAPS, NAME_DEFAULTS_TO_EMPTY, DEFAULTS_TO_FALSE];
        for end in lines.chain(others.into_iter().flatten()) {
            assert!(paths.iter().any(|path| path.ends_with(end)), "{end}");
        }
    }

    #[test]
    fn lists_without_a_key_are_replaced_as_a_whole() {
        let mut node = Node::from_iter([("type".to_owned(), json!("array"))]);
        fix(".spec.template.spec.tolerations", &mut node);
        assert_eq!(node.get("x-kubernetes-list-type"), Some(&json!("atomic")));
    }

    #[test]
    fn a_name_with_a_default_is_not_required() {
        let Value::Object(mut node) = json!({
            "type": "object", "required": ["name"], "properties": { "name": { "type": "string" } }
        }) else {
            panic!("not a node")
        };
        fix(".spec.template.spec.imagePullSecrets[]", &mut node);
        assert_eq!(node.get("required"), None);
        assert_eq!(node.get("properties"), Some(&json!({ "name": { "type": "string", "default": "" } })));
    }
}
