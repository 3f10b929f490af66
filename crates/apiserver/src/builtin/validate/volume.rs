//! Volumes of pods.

use serde_json::Value;
use std::collections::HashSet;

use super::container::{field_ref, local_path, no_way_back, resource_ref};
use super::errors::{Errors, Path, get, list, number, text};
use super::resources::{amount, spelled};
use crate::object::names::{self, NameRule};

/// The kinds of volumes, in the order they are looked for.
const KINDS: [&str; 31] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
    "local",
];
const HOST_PATHS: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
const VOLUME_FIELDS: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// Checks the volumes of a pod and returns the names of those that can be mounted.
pub(super) fn volumes<'a>(spec: &'a Value, path: &Path<'_>, errors: &mut Errors) -> HashSet<&'a str> {
    let mut names = HashSet::new();
    for (index, volume) in list(spec, "volumes").iter().enumerate() {
        let (place, before) = (path.index(index), errors.found());
        source(volume, &place, errors);
        let name = text(volume, "name");
        if name.is_empty() {
            errors.required(&place.field("name"), "");
        } else {
            errors.name(&place.field("name"), NameRule::Label, name);
        }
        if names.contains(name) {
            errors.duplicate(&place.field("name"), name);
        }
        if errors.found() == before {
            names.insert(name);
        }
    }
    names
}

/// What a volume is made of: exactly one thing.
pub(super) fn source(volume: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut found = false;
    for kind in KINDS {
        let Some(source) = get(volume, kind) else { continue };
        let place = path.field(kind);
        if found {
            errors.forbidden(&place, "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        match kind {
            "emptyDir" => empty_dir(source, &place, errors),
            "hostPath" => host_path(source, &place, errors),
            "secret" => files(source, "secretName", &place, errors),
            "configMap" => files(source, "name", &place, errors),
            "nfs" => nfs(source, &place, errors),
            "persistentVolumeClaim" if text(source, "claimName").is_empty() => {
                errors.required(&place.field("claimName"), "");
            }
            "downwardAPI" => {
                mode(source, "defaultMode", &place, errors);
                downward(list(source, "items"), &place, errors);
            }
            "projected" => projected(source, &place, errors),
            _ => {}
        }
    }
    if !found {
        errors.required(path, "must specify a volume type");
    }
}

fn empty_dir(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    let limit = get(source, "sizeLimit").map(spelled).and_then(|text| amount(&text));
    if limit.is_some_and(|limit| limit < 0) {
        errors.forbidden(&path.field("sizeLimit"), "SizeLimit field must be a valid resource quantity");
    }
}

pub(super) fn host_path(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    let place = text(source, "path");
    if place.is_empty() {
        errors.required(&path.field("path"), "");
        return;
    }
    no_way_back(place, &path.field("path"), errors);
    errors.one_of(&path.field("type"), text(source, "type"), &HOST_PATHS);
}

pub(super) fn nfs(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    for field in ["server", "path"] {
        if text(source, field).is_empty() {
            errors.required(&path.field(field), "");
        }
    }
    if !text(source, "path").starts_with('/') {
        errors.invalid(&path.field("path"), text(source, "path"), "must be an absolute path");
    }
}

fn mode(source: &Value, field: &str, path: &Path<'_>, errors: &mut Errors) {
    if let Some(mode) = number(source, field).filter(|mode| !(0..=0o777).contains(mode)) {
        let why = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.invalid(&path.field(field), mode, why);
    }
}

/// A volume whose files are the keys of an object.
fn files(source: &Value, name: &str, path: &Path<'_>, errors: &mut Errors) {
    if text(source, name).is_empty() {
        errors.required(&path.field(name), "");
    }
    mode(source, "defaultMode", path, errors);
    items(source, path, errors);
}

fn items(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (index, item) in list(source, "items").iter().enumerate() {
        let items = path.field("items");
        let place = items.index(index);
        if text(item, "key").is_empty() {
            errors.required(&place.field("key"), "");
        }
        if text(item, "path").is_empty() {
            errors.required(&place.field("path"), "");
        }
        file_path(text(item, "path"), &place.field("path"), errors);
        mode(item, "mode", &place, errors);
    }
}

fn file_path(inside: &str, path: &Path<'_>, errors: &mut Errors) {
    local_path(inside, path, errors);
    if inside.starts_with("..") && !inside.starts_with("../") && inside != ".." {
        errors.invalid(path, inside, "must not start with '..'");
    }
}

fn downward(items: &[Value], path: &Path<'_>, errors: &mut Errors) {
    for item in items {
        if text(item, "path").is_empty() {
            errors.required(&path.field("path"), "");
        }
        file_path(text(item, "path"), &path.field("path"), errors);
        match (get(item, "fieldRef"), get(item, "resourceFieldRef")) {
            (Some(_), Some(_)) => {
                errors.invalid(
                    path,
                    "resource",
                    "fieldRef and resourceFieldRef can not be specified simultaneously",
                );
            }
            (Some(field), None) => field_ref(field, VOLUME_FIELDS, &path.field("fieldRef"), errors),
            (None, Some(resource)) => {
                if text(resource, "containerName").is_empty() {
                    errors.required(&path.field("resourceFieldRef").field("containerName"), "");
                }
                resource_ref(resource, &path.field("resourceFieldRef"), errors);
            }
            (None, None) => errors.required(path, "one of fieldRef and resourceFieldRef is required"),
        }
        mode(item, "mode", path, errors);
    }
}

fn projected(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    mode(source, "defaultMode", path, errors);
    for (index, source) in list(source, "sources").iter().enumerate() {
        let sources = path.field("sources");
        let place = sources.index(index);
        let kinds = ["secret", "configMap", "downwardAPI", "serviceAccountToken"];
        if kinds.iter().filter(|kind| get(source, kind).is_some()).count() > 1 {
            errors.forbidden(&place, "may not specify more than 1 volume type");
        }
        for kind in ["secret", "configMap"] {
            if let Some(found) = get(source, kind) {
                if text(found, "name").is_empty() {
                    errors.required(&place.field(kind).field("name"), "");
                }
                items(found, &place.field(kind), errors);
            }
        }
        if let Some(found) = get(source, "downwardAPI") {
            downward(list(found, "items"), &place.field("downwardAPI"), errors);
        }
        if let Some(token) = get(source, "serviceAccountToken") {
            self::token(token, &place.field("serviceAccountToken"), errors);
        }
    }
}

fn token(token: &Value, path: &Path<'_>, errors: &mut Errors) {
    let seconds = number(token, "expirationSeconds").unwrap_or(3600);
    if seconds < 600 {
        errors.invalid(
            &path.field("expirationSeconds"),
            seconds,
            "may not specify a duration less than 10 minutes",
        );
    }
    if seconds > 1 << 32 {
        errors.invalid(
            &path.field("expirationSeconds"),
            seconds,
            "may not specify a duration larger than 2^32 seconds",
        );
    }
    if text(token, "path").is_empty() {
        errors.required(&path.field("path"), "");
    } else {
        file_path(text(token, "path"), &path.field("path"), errors);
    }
}

/// The name of a class of storage.
pub(super) fn class(name: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    if let Some(name) = name.and_then(Value::as_str).filter(|name| !name.is_empty()) {
        errors.all(path, name, &NameRule::Subdomain.check(name));
    }
}

/// The key of a file that a config map or secret may have.
pub(super) fn keys(object: &Value, field: &str, errors: &mut Errors) {
    let root = Path::Root(field);
    for (key, _) in super::errors::members(object, field) {
        errors.all(&root.key(key), key, &names::check_config_key(key));
    }
}
