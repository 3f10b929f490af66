//! Custom resource definitions: what makes one valid, and what it serves.

mod validate;

use serde_json::{Value, json};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

use crate::builtin::CRD_TABLE;
use crate::fields::Writer;
use crate::object::at;
use crate::object::names::NameRule;
use crate::registry::{Catalog, Conversion, ScalePaths, Served, priority};
use crate::rules::track::Track;
use crate::schema::Structural;
use crate::store::Key;
use crate::tables::Columns;

pub(crate) use self::validate::validate;

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn texts(object: &Value, path: &str) -> Vec<String> {
    list(object, path).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn flag(object: &Value, field: &str) -> bool {
    object.get(field).and_then(Value::as_bool).unwrap_or(false)
}

/// Names that follow from others, and the one conversion there is.
pub(crate) fn default(object: &mut Value) {
    let kind = text(object, "spec.names.kind").to_owned();
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut).filter(|_| !kind.is_empty()) {
        names.entry("singular").or_insert_with(|| kind.to_lowercase().into());
        names.entry("listKind").or_insert_with(|| format!("{kind}List").into());
    }
}

/// The status of a new definition, before anybody looked at its names.
pub(crate) fn introduce(object: &mut Value) {
    let stored = validate::stored_versions(object);
    if let Some(map) = object.as_object_mut() {
        let names = json!({"plural": "", "kind": ""});
        map.insert(
            "status".into(),
            json!({"conditions": null, "acceptedNames": names, "storedVersions": stored}),
        );
    }
}

/// The status of a valid definition: it is served from the moment it is stored, unless other resources of its group
/// already have its names.
fn establish(object: &mut Value, catalog: &Catalog, now: &str) {
    let stored = validate::stored_versions(object);
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.retain(|field, value| field != "conditions" || !value.is_null());
    }
    let (accepted, conflict) = accept(object, catalog);
    if let Some((reason, name)) = conflict {
        let message = format!("{name:?} is already in use");
        condition(object, "NamesAccepted", "False", (reason, &message), now);
        condition(object, "Established", "False", ("NotAccepted", "not all names are accepted"), now);
    } else {
        condition(object, "NamesAccepted", "True", ("NoConflicts", "no conflicts found"), now);
        let message = "the initial names have been accepted";
        condition(object, "Established", "True", ("InitialNamesAccepted", message), now);
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.insert("acceptedNames".into(), accepted);
        status.insert("storedVersions".into(), stored.into());
    }
}

/// The names that no other resource of the group has, and the last one that another has, with the reason.
fn accept(object: &Value, catalog: &Catalog) -> (Value, Option<(&'static str, String)>) {
    let (group, plural) = (text(object, "spec.group"), text(object, "spec.names.plural"));
    let all = catalog.all();
    let others: Vec<_> = all.iter().filter(|s| s.group == group && s.plural != plural).collect();
    let is_resource = |name: &str| {
        others
            .iter()
            .any(|s| s.plural == name || s.singular == name || s.short_names.iter().any(|n| n == name))
    };
    let is_kind = |name: &str| others.iter().any(|s| s.kind == name || s.list_kind == name);
    let mut accepted = json!({"plural": "", "kind": ""});
    let mut conflict = None;
    let fields: [(&str, &'static str, bool); 5] = [
        ("plural", "PluralConflict", false),
        ("singular", "SingularConflict", false),
        ("shortNames", "ShortNamesConflict", false),
        ("kind", "KindConflict", true),
        ("listKind", "ListKindConflict", true),
    ];
    for (field, reason, of_kinds) in fields {
        let Some(value) = at(object, &format!("spec.names.{field}")) else { continue };
        let names = value.as_array().map_or_else(|| vec![value.clone()], Clone::clone);
        let taken = names
            .iter()
            .filter_map(Value::as_str)
            .find(|name| if of_kinds { is_kind(name) } else { is_resource(name) });
        match taken {
            Some(name) => conflict = Some((reason, name.to_owned())),
            None => {
                if let Some(map) = accepted.as_object_mut() {
                    map.insert(field.into(), value.clone());
                }
            }
        }
    }
    if let (Some(map), Some(categories)) = (accepted.as_object_mut(), at(object, "spec.names.categories")) {
        map.insert("categories".into(), categories.clone());
    }
    (accepted, conflict)
}

/// The same, with the server as the owner of that status.
pub(crate) fn establish_as(track: &Track<'_>, object: &mut Value, now: &str) {
    let before = object.clone();
    establish(object, track.catalog, now);
    let writer = Writer { manager: "kube-apiserver", subresource: "status", now };
    Track { writer, ..*track }.updated(&before, object);
}

/// The status of a definition that waits for its objects to go.
pub(crate) fn set_terminating(object: &mut Value, now: &str) {
    let message = "CustomResource deletion is in progress";
    condition(object, "Terminating", "True", ("InstanceDeletionPending", message), now);
}

/// Sets a condition, unless it already has that status.
fn condition(object: &mut Value, kind: &str, value: &str, (reason, message): (&str, &str), now: &str) {
    let Some(map) = object.as_object_mut() else { return };
    let status = map.entry("status").or_insert_with(|| json!({}));
    let Some(status) = status.as_object_mut() else {
        return;
    };
    let conditions = status.entry("conditions").or_insert(Value::Null);
    if conditions.is_null() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else {
        return;
    };
    if !conditions.iter().any(|c| text(c, "type") == kind && text(c, "status") == value) {
        conditions.retain(|c| text(c, "type") != kind);
        conditions.push(json!({
            "type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": now,
        }));
    }
}

/// Whether its names were accepted.
fn is_established(object: &Value) -> bool {
    list(object, "status.conditions")
        .iter()
        .any(|c| text(c, "type") == "Established" && text(c, "status") == "True")
}

/// The table of a definition's objects.
pub(crate) fn table(object: &Value) -> Arc<str> {
    format!("{}/{}", text(object, "spec.group"), text(object, "spec.names.plural")).into()
}

/// What a stored definition serves. A schema that no longer parses (it did when it was stored) serves nothing
/// rather than everything.
pub(crate) fn served(object: &Value) -> Vec<Served> {
    if !is_established(object) {
        return Vec::new();
    }
    let versions = list(object, "spec.versions");
    versions
        .iter()
        .filter(|version| flag(version, "served"))
        .filter_map(|version| one(object, version))
        .collect()
}

/// The version objects are stored in, whether it is served or not.
pub(crate) fn storage(object: &Value) -> Option<Served> {
    let version = list(object, "spec.versions").iter().find(|v| flag(v, "storage"))?;
    one(object, version)
}

fn one(object: &Value, version: &Value) -> Option<Served> {
    let source = at(version, "schema.openAPIV3Schema")?;
    let schema = Structural::parse(source).ok()?;
    let group = text(object, "spec.group");
    let name = text(version, "name");
    let stored =
        list(object, "spec.versions").iter().find(|v| flag(v, "storage")).map(|v| text(v, "name"))?;
    Some(Served {
        group: group.into(),
        version: name.into(),
        plural: text(object, "spec.names.plural").into(),
        singular: text(object, "spec.names.singular").into(),
        kind: text(object, "spec.names.kind").into(),
        message: None,
        blank: OnceLock::new(),
        list_kind: text(object, "spec.names.listKind").into(),
        short_names: texts(object, "spec.names.shortNames"),
        categories: texts(object, "spec.names.categories"),
        namespaced: text(object, "spec.scope") != "Cluster",
        api_version: format!("{group}/{name}").into(),
        storage_version: format!("{group}/{stored}").into(),
        conversion: Conversion::ApiVersion,
        table: table(object),
        status: at(version, "subresources.status").is_some(),
        scale: at(version, "subresources.scale").map(scale),
        generation: true,
        fields: list(version, "selectableFields")
            .iter()
            .map(|f| text(f, "jsonPath").trim_start_matches('.').to_owned())
            .collect(),
        schema: Some(Arc::new(schema)),
        storage_schema: storage_schema(object, version),
        columns: Some(Columns::of(version)),
        deprecation: flag(version, "deprecated").then(|| deprecation(object, version)),
        schema_hash: hash(source),
        schema_since: 0,
        names: NameRule::Subdomain,
        custom: true,
        returns_deleted: false,
        annotations_count: false,
        put_creates: false,
        put_unconditional: false,
        one_by_one: false,
        review: false,
    })
}

/// The schema of the version objects are stored in, where that is another one.
fn storage_schema(object: &Value, version: &Value) -> Option<Arc<Structural>> {
    let stored = list(object, "spec.versions").iter().find(|v| flag(v, "storage"))?;
    if flag(version, "storage") {
        return None;
    }
    Structural::parse(at(stored, "schema.openAPIV3Schema")?).ok().map(Arc::new)
}

/// The warning of the definition, or one that says what to use instead.
fn deprecation(object: &Value, version: &Value) -> String {
    let given = text(version, "deprecationWarning");
    if !given.is_empty() {
        return given.to_owned();
    }
    let (group, kind) = (text(object, "spec.group"), text(object, "spec.names.kind"));
    let name = text(version, "name");
    let better = list(object, "spec.versions")
        .iter()
        .filter(|other| flag(other, "served") && !flag(other, "deprecated"))
        .map(|other| text(other, "name"))
        .filter(|other| priority(other) > priority(name))
        .max_by_key(|other| priority(other));
    let instead = better.map(|other| format!("; use {group}/{other} {kind}")).unwrap_or_default();
    format!("{group}/{name} {kind} is deprecated{instead}")
}

fn hash(schema: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    schema.to_string().hash(&mut hasher);
    hasher.finish()
}

fn scale(scale: &Value) -> ScalePaths {
    let path = |field: &str| -> Vec<String> {
        text(scale, field).split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    ScalePaths {
        spec_replicas: path("specReplicasPath"),
        status_replicas: path("statusReplicasPath"),
        selector: Some(path("labelSelectorPath")).filter(|p| !p.is_empty()),
    }
}

/// Whether a table is the one of definitions.
pub(crate) fn is_table(table: &str) -> bool {
    table == CRD_TABLE
}

/// The definition of a table, if there can be one: the core group has none.
pub(crate) fn key(table: &str) -> Option<Key> {
    let (group, plural) = table.split_once('/')?;
    (!group.is_empty()).then(|| Key::new(&CRD_TABLE.into(), "", &format!("{plural}.{group}")))
}
