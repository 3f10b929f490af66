//! Config maps, secrets, claims and volumes.

use serde_json::Value;

use super::errors::{Errors, Path, flag, get, list, members, text, texts};
use super::resources::{amount, spelled};
use super::volume;
use crate::builtin::base64;
use crate::decode::json::Node;
use crate::object::meta;

const NULL: Value = Value::Null;
/// The most a config map or a secret holds.
const MOST: usize = 1 << 20;

fn bytes_of(base64: &str) -> usize {
    let padding = base64.bytes().rev().take_while(|c| *c == b'=').count();
    (base64.len() / 4 * 3).saturating_sub(padding)
}

pub(super) fn config_map(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let root = Path::Root("data");
    let binary = object.get("binaryData").unwrap_or(&NULL);
    let mut size = 0;
    volume::keys(object, "data", errors);
    for (key, value) in members(object, "data") {
        if get(binary, key).is_some() {
            errors.invalid(&root.key(key), key, "duplicate of key present in binaryData");
        }
        size += value.as_str().map_or(0, str::len);
    }
    volume::keys(object, "binaryData", errors);
    size +=
        members(object, "binaryData").map(|(_, v)| bytes_of(v.as_str().unwrap_or_default())).sum::<usize>();
    if size > MOST {
        errors.too_long("[]", MOST);
    }
    frozen(object, old, &["data", "binaryData"], errors);
}

/// What was made immutable stays as it is.
fn frozen(object: &Value, old: Option<&Value>, fields: &[&str], errors: &mut Errors) {
    let Some(old) = old.filter(|old| flag(old, "immutable")) else { return };
    const WHY: &str = "field is immutable when `immutable` is set";
    if !flag(object, "immutable") {
        errors.forbidden(&Path::Root("immutable"), WHY);
    }
    for field in fields {
        if get(old, field) != get(object, field) {
            errors.forbidden(&Path::Root(field), WHY);
        }
    }
}

pub(super) fn secret(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    volume::keys(object, "data", errors);
    let size: usize = members(object, "data").map(|(_, v)| bytes_of(v.as_str().unwrap_or_default())).sum();
    if size > MOST {
        errors.too_long("data", MOST);
    }
    let root = Path::Root("data");
    let data = object.get("data").unwrap_or(&NULL);
    let needed: &[&str] = match text(object, "type") {
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/basic-auth" if get(data, "username").is_none() && get(data, "password").is_none() => {
            &["username", "password"]
        }
        "kubernetes.io/service-account-token" => {
            const NAME: &str = "kubernetes.io/service-account.name";
            let annotations = object.pointer("/metadata/annotations").unwrap_or(&NULL);
            if text(annotations, NAME).is_empty() {
                errors.required(&Path::Root("metadata.annotations").key(NAME), "");
            }
            &[]
        }
        _ => &[],
    };
    for key in needed {
        match get(data, key).and_then(Value::as_str) {
            None => errors.required(&root.key(key), ""),
            Some(coded) if key.starts_with(".docker") => {
                if let Err(why) = Node::parse(&base64::decode(coded)) {
                    errors.invalid(&root.key(key), "<secret contents redacted>", &why);
                }
            }
            Some(_) => {}
        }
    }
    if let Some(old) = old
        && text(old, "type") != text(object, "type")
    {
        errors.invalid(&Path::Root("type"), text(object, "type"), "field is immutable");
    }
    frozen(object, old, &["data"], errors);
}

const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

fn modes(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let place = path.field("accessModes");
    for mode in texts(spec, "accessModes") {
        errors.one_of(&place, mode, &MODES);
    }
    if list(spec, "accessModes").len() > 1
        && texts(spec, "accessModes").any(|mode| mode == "ReadWriteOncePod")
    {
        errors.forbidden(&place, "may not use ReadWriteOncePod with other access modes");
    }
}

pub(super) fn claim(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, path) = (object.get("spec").unwrap_or(&NULL), Path::Root("spec"));
    if list(spec, "accessModes").is_empty() {
        errors.required(&path.field("accessModes"), "at least 1 access mode is required");
    }
    if let Some(selector) = get(spec, "selector") {
        super::schedule::label_selector(selector, &path.field("selector"), errors);
    }
    modes(spec, &path, errors);
    let storage = spec.pointer("/resources/requests/storage").map(spelled);
    let resources = path.field("resources");
    match storage {
        None => errors.required(&resources.key("storage"), ""),
        Some(storage) if amount(&storage).is_some_and(|amount| amount <= 0) => {
            errors.invalid(&resources.key("storage"), storage, "must be greater than zero");
        }
        Some(_) => {}
    }
    volume::class(spec.get("storageClassName"), &path.field("storageClassName"), errors);
    errors.one_of(&path.field("volumeMode"), text(spec, "volumeMode"), &["Block", "Filesystem"]);
    if let Some(old) = old {
        claim_update(spec, old, &path, errors);
    }
}

/// A claim is made once; later it may only grow, or be given its volume.
fn claim_update(spec: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let before = old.get("spec").unwrap_or(&NULL);
    let without = |spec: &Value| {
        let mut spec = spec.clone();
        if let Some(map) = spec.as_object_mut() {
            map.retain(|field, _| {
                !["resources", "volumeName", "volumeAttributesClassName"].contains(&field.as_str())
            });
        }
        spec
    };
    let named = text(before, "volumeName");
    let bound = !named.is_empty() && named != text(spec, "volumeName");
    if without(spec) != without(before) || bound {
        let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        let changes = super::diff::changes(before, spec);
        errors.forbidden(path, &format!("{why}\n{changes}"));
    }
}

pub(super) fn persistent_volume(object: &Value, errors: &mut Errors) {
    let (spec, path) = (object.get("spec").unwrap_or(&NULL), Path::Root("spec"));
    if list(spec, "accessModes").is_empty() {
        errors.required(&path.field("accessModes"), "");
    }
    modes(spec, &path, errors);
    let capacity = get(spec, "capacity").filter(|c| c.as_object().is_some_and(|map| !map.is_empty()));
    if capacity.is_none() {
        errors.required(&path.field("capacity"), "");
    }
    if capacity.is_none_or(|capacity| get(capacity, "storage").is_none()) {
        errors.unsupported(&path.field("capacity"), capacity.cloned().unwrap_or(NULL), &["storage"]);
    }
    for (name, value) in members(spec, "capacity") {
        let value = spelled(value);
        if amount(&value).is_some_and(|amount| amount <= 0) {
            errors.invalid(&path.field("capacity").key(name), value, "must be greater than zero");
        }
    }
    let policy = text(spec, "persistentVolumeReclaimPolicy");
    errors.one_of(&path.field("persistentVolumeReclaimPolicy"), policy, &["Delete", "Recycle", "Retain"]);
    volume_source(spec, &path, errors);
    if policy == "Recycle" && spec.pointer("/hostPath/path").and_then(Value::as_str) == Some("/") {
        let why = "may not be 'recycle' for a hostPath mount of '/'";
        errors.forbidden(&path.field("persistentVolumeReclaimPolicy"), why);
    }
    volume::class(spec.get("storageClassName"), &path.field("storageClassName"), errors);
    errors.one_of(&path.field("volumeMode"), text(spec, "volumeMode"), &["Block", "Filesystem"]);
    if meta(object, "name").is_empty() {
        errors.required(&Path::Root("metadata.name"), "");
    }
}

/// The sources a volume of the cluster may have are nearly those of a pod's.
fn volume_source(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    volume::source(spec, path, errors);
}
