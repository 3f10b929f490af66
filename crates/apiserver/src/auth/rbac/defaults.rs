//! The roles and bindings of a new cluster: made at the first start, and given what is missing at every other.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

use super::rule::missing;
use super::{CLUSTER_BINDINGS, CLUSTER_ROLES, GROUP, aggregate, rules_of};
use crate::object::{at, meta, set_at};
use crate::store::{Key, Store};

const TEXT: &str = include_str!("defaults.yaml");
const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Defaults {
    cluster_roles: Vec<Role>,
    cluster_role_bindings: Vec<Binding>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Role {
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    aggregation_rule: Option<Value>,
    rules: Option<Value>,
}

#[derive(Deserialize)]
struct Binding {
    name: String,
    groups: Vec<String>,
}

/// What has to be written so that the defaults are there.
pub(crate) fn changes(store: &Store, now: &str) -> Result<Vec<(Key, Value)>, String> {
    let wanted: Defaults = serde_saphyr::from_str(TEXT).map_err(|error| error.to_string())?;
    let mut roles: Vec<Value> = wanted.cluster_roles.into_iter().map(role).collect();
    sum_up(&mut roles);
    let bindings: Vec<Value> = wanted.cluster_role_bindings.into_iter().map(binding).collect();
    let roles = roles.into_iter().map(|role| (CLUSTER_ROLES, role));
    let bindings = bindings.into_iter().map(|binding| (CLUSTER_BINDINGS, binding));
    let mut changes = Vec::new();
    for (table, wanted) in roles.chain(bindings) {
        let key = Key::new(&table.into(), "", meta(&wanted, "name"));
        let change = match store.latest(&key) {
            None => Some(stamp(wanted, now)),
            Some(stored) => stored.value().ok().and_then(|current| completed(current, &wanted)),
        };
        changes.extend(change.map(|object| (key, object)));
    }
    Ok(changes)
}

/// `admin` selects `edit`, which selects `view`: one sum after the other until nothing changes.
fn sum_up(roles: &mut [Value]) {
    for _ in 0..roles.len() {
        let sums = aggregate::sums(roles);
        let sums: Vec<(String, Vec<Value>)> =
            sums.into_iter().map(|(name, rules)| (name.to_owned(), rules)).collect();
        for (name, rules) in sums {
            if let Some(role) = roles.iter_mut().find(|role| meta(role, "name") == name) {
                aggregate::set_rules(role, &rules);
            }
        }
    }
}

fn metadata(name: &str, labels: BTreeMap<String, String>) -> Value {
    let mut all: Map<String, Value> = labels.into_iter().map(|(name, value)| (name, value.into())).collect();
    all.insert("kubernetes.io/bootstrapping".into(), "rbac-defaults".into());
    json!({"name": name, "labels": all, "annotations": {AUTO_UPDATE: "true"}})
}

fn role(role: Role) -> Value {
    let mut object = json!({
        "kind": "ClusterRole", "apiVersion": format!("{GROUP}/v1"), "metadata": metadata(&role.name, role.labels),
        "rules": role.rules.unwrap_or_else(|| json!([])),
    });
    if let (Some(rule), Some(map)) = (role.aggregation_rule, object.as_object_mut()) {
        map.insert("aggregationRule".into(), rule);
    }
    object
}

fn binding(binding: Binding) -> Value {
    let group = |name: &String| json!({"kind": "Group", "apiGroup": GROUP, "name": name});
    json!({
        "kind": "ClusterRoleBinding", "apiVersion": format!("{GROUP}/v1"),
        "metadata": metadata(&binding.name, BTreeMap::new()),
        "subjects": binding.groups.iter().map(group).collect::<Vec<_>>(),
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": binding.name},
    })
}

fn stamp(mut object: Value, now: &str) -> Value {
    crate::object::set_meta(&mut object, "uid", uuid::Uuid::new_v4().to_string());
    crate::object::set_meta(&mut object, "creationTimestamp", now);
    object
}

/// An object with what it lacks of a default, if it lacks something. Nothing is taken away, and what says that it is
/// not to be updated is left alone.
fn completed(mut current: Value, wanted: &Value) -> Option<Value> {
    let annotations = current.pointer("/metadata/annotations");
    if annotations.and_then(|all| all.get(AUTO_UPDATE)).and_then(Value::as_str) == Some("false") {
        return None;
    }
    let before = current.clone();
    for field in ["labels", "annotations"] {
        let marks = at(wanted, &format!("metadata.{field}")).and_then(Value::as_object);
        for (name, value) in marks.into_iter().flatten() {
            set_at(&mut current, &["metadata".into(), field.into(), name.clone()], value.clone());
        }
    }
    let lacking: Vec<Value> =
        missing(&rules_of(&current), &rules_of(wanted)).iter().map(|rule| json!(rule)).collect();
    // A sum is the controller's to keep.
    if wanted.get("aggregationRule").is_none() {
        extend(&mut current, "rules", lacking);
    }
    let subjects = current.get("subjects").and_then(Value::as_array).cloned().unwrap_or_default();
    let wanted = wanted.get("subjects").and_then(Value::as_array).cloned().unwrap_or_default();
    extend(
        &mut current,
        "subjects",
        wanted.into_iter().filter(|subject| !subjects.contains(subject)).collect(),
    );
    (current != before).then_some(current)
}

fn extend(object: &mut Value, field: &str, more: Vec<Value>) {
    let Some(map) = object.as_object_mut().filter(|_| !more.is_empty()) else { return };
    match map.entry(field).or_insert_with(|| json!([])) {
        Value::Array(list) => list.extend(more),
        other => *other = more.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_changed_stays_and_what_is_missing_comes() {
        let rule = |verb: &str| json!({"apiGroups": [""], "resources": ["pods"], "verbs": [verb]});
        let wanted =
            json!({"metadata": metadata("a", BTreeMap::new()), "rules": [rule("get"), rule("list")]});
        assert_eq!(completed(wanted.clone(), &wanted), None);
        let mut own =
            json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "rules": [rule("get"), rule("delete")]});
        let after = completed(own.clone(), &wanted).unwrap();
        assert_eq!(after["rules"], json!([rule("get"), rule("delete"), rule("list")]));
        assert_eq!(after["metadata"]["labels"]["x"], "y");
        assert_eq!(after["metadata"]["annotations"][AUTO_UPDATE], "true");
        own["metadata"]["annotations"] = json!({AUTO_UPDATE: "false"});
        assert_eq!(completed(own, &wanted), None);
    }
}
