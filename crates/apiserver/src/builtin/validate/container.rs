//! Containers of pods.

use serde_json::Value;
use std::collections::{HashMap, HashSet};

use super::errors::{Errors, Path, flag, get, list, number, text};
use super::{probe, resources, security};
use crate::object::names::{self, NameRule};

/// What the rest of the pod means for its containers.
pub(super) struct Context<'a> {
    /// The volumes that can be mounted.
    pub(super) volumes: &'a HashSet<&'a str>,
    pub(super) grace: i64,
}

/// `spec.containers`.
pub(super) fn regular(spec: &Value, path: &Path<'_>, context: &Context<'_>, errors: &mut Errors) {
    let containers = list(spec, "containers");
    if containers.is_empty() {
        errors.required(path, "");
        return;
    }
    let mut names = HashSet::new();
    for (index, container) in containers.iter().enumerate() {
        let path = path.index(index);
        common(container, &path, context, errors);
        if !names.insert(text(container, "name")) {
            errors.duplicate(&path.field("name"), text(container, "name"));
        }
        life(container, &path, context, errors);
        if get(container, "restartPolicy").is_some() {
            restart_policy(container, &path, errors);
        }
    }
    host_ports(containers, path, errors);
}

/// `spec.initContainers`: those that stay are like the others, those that end have no probes.
pub(super) fn init(spec: &Value, path: &Path<'_>, context: &Context<'_>, errors: &mut Errors) {
    const REFUSED: &str = "may not be set for init containers without restartPolicy=Always";
    let mut names: HashSet<&str> = list(spec, "containers").iter().map(|c| text(c, "name")).collect();
    for (index, container) in list(spec, "initContainers").iter().enumerate() {
        let path = path.index(index);
        common(container, &path, context, errors);
        if get(container, "restartPolicy").is_some() {
            restart_policy(container, &path, errors);
        }
        let name = text(container, "name");
        if names.contains(name) {
            errors.duplicate(&path.field("name"), name);
        } else if !name.is_empty() {
            names.insert(name);
        }
        if text(container, "restartPolicy") == "Always" {
            life(container, &path, context, errors);
        } else {
            for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if get(container, field).is_some() {
                    errors.forbidden(&path.field(field), REFUSED);
                }
            }
        }
    }
}

fn restart_policy(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    let policy = text(container, "restartPolicy");
    errors.one_of(&path.field("restartPolicy"), policy, &["Always", "Never", "OnFailure"]);
}

fn life(container: &Value, path: &Path<'_>, context: &Context<'_>, errors: &mut Errors) {
    if let Some(lifecycle) = get(container, "lifecycle") {
        let path = path.field("lifecycle");
        for hook in ["postStart", "preStop"] {
            if let Some(found) = get(lifecycle, hook) {
                probe::handler(
                    found,
                    &["exec", "httpGet", "tcpSocket", "sleep"],
                    context.grace,
                    &path.field(hook),
                    errors,
                );
            }
        }
    }
    for (name, only_one) in [("livenessProbe", true), ("readinessProbe", false), ("startupProbe", true)] {
        if let Some(found) = get(container, name) {
            probe::probe(found, only_one, name == "readinessProbe", &path.field(name), errors);
        }
    }
}

fn common(container: &Value, path: &Path<'_>, context: &Context<'_>, errors: &mut Errors) {
    let name = text(container, "name");
    if name.is_empty() {
        errors.required(&path.field("name"), "");
    } else {
        errors.name(&path.field("name"), NameRule::Label, name);
    }
    let image = text(container, "image");
    if image.is_empty() {
        errors.required(&path.field("image"), "");
    }
    let policy = text(container, "terminationMessagePolicy");
    errors.one_of(&path.field("terminationMessagePolicy"), policy, &["File", "FallbackToLogsOnError"]);
    ports(list(container, "ports"), &path.field("ports"), errors);
    for (index, variable) in list(container, "env").iter().enumerate() {
        env(variable, &path.field("env").index(index), errors);
    }
    env_from(list(container, "envFrom"), &path.field("envFrom"), errors);
    mounts(container, &path.field("volumeMounts"), context, errors);
    let policy = text(container, "imagePullPolicy");
    errors.one_of(&path.field("imagePullPolicy"), policy, &["Always", "IfNotPresent", "Never"]);
    if let Some(found) = get(container, "resources") {
        resources::requirements(found, &path.field("resources"), errors);
    }
    if let Some(found) = get(container, "securityContext") {
        security::container(found, &path.field("securityContext"), errors);
    }
}

/// Images of pods are taken as they are: spaces around one are a mistake.
pub(super) fn image_spaces(spec: &Value, field: &str, path: &Path<'_>, errors: &mut Errors) {
    for (index, container) in list(spec, field).iter().enumerate() {
        let image = text(container, "image");
        if image.trim() != image {
            let why = "must not have leading or trailing whitespace";
            errors.invalid(&path.field(field).index(index).field("image"), image, why);
        }
    }
}

/// What is wrong with the name of a port.
pub(super) fn port_name(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if name.len() > 15 {
        wrong.push("must be no more than 15 characters".to_owned());
    }
    if !name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-') || name.is_empty() {
        wrong.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !name.bytes().any(|c| c.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        wrong.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".to_owned());
    }
    wrong
}

fn ports(ports: &[Value], path: &Path<'_>, errors: &mut Errors) {
    let mut names = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = text(port, "name");
        if !name.is_empty() {
            let wrong = port_name(name);
            if !wrong.is_empty() {
                errors.all(&path.field("name"), name, &wrong);
            } else if !names.insert(name) {
                errors.duplicate(&path.field("name"), name);
            }
        }
        match number(port, "containerPort").unwrap_or(0) {
            0 => errors.required(&path.field("containerPort"), ""),
            number => errors.port(&path.field("containerPort"), number),
        }
        if let Some(number) = number(port, "hostPort").filter(|port| *port != 0) {
            errors.port(&path.field("hostPort"), number);
        }
        errors.one_of(&path.field("protocol"), text(port, "protocol"), &["SCTP", "TCP", "UDP"]);
    }
}

/// Two containers cannot have one port of the machine.
fn host_ports(containers: &[Value], path: &Path<'_>, errors: &mut Errors) {
    let mut taken = HashSet::new();
    for (index, container) in containers.iter().enumerate() {
        for (at, port) in list(container, "ports").iter().enumerate() {
            let Some(number) = number(port, "hostPort").filter(|port| *port != 0) else { continue };
            let place = format!("{}/{}/{number}", text(port, "protocol"), text(port, "hostIP"));
            if !taken.insert(place.clone()) {
                let path = path.index(index);
                errors.duplicate(&path.field("ports").index(at).field("hostPort"), place);
            }
        }
    }
}

/// Ports of a pod on the machine's network are the machine's ports.
pub(super) fn host_network(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    if !flag(spec, "hostNetwork") {
        return;
    }
    for (index, container) in list(spec, "containers").iter().enumerate() {
        for (at, port) in list(container, "ports").iter().enumerate() {
            let (inside, outside) = (number(port, "containerPort"), number(port, "hostPort").unwrap_or(0));
            if Some(outside) != inside {
                let containers = path.field("containers");
                let place = containers.index(index);
                let why = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(&place.field("ports").index(at).field("hostPort"), outside, why);
            }
        }
    }
}

fn env(variable: &Value, path: &Path<'_>, errors: &mut Errors) {
    let name = text(variable, "name");
    if name.is_empty() {
        errors.required(&path.field("name"), "");
    } else if !name.bytes().all(|c| (b' '..=b'~').contains(&c) && c != b'=') {
        let why = "a valid environment variable name must consist only of printable ASCII characters other than '='";
        errors.invalid(&path.field("name"), name, why);
    }
    let Some(from) = get(variable, "valueFrom") else { return };
    let path = path.field("valueFrom");
    let mut sources = 0;
    if let Some(found) = get(from, "fieldRef") {
        sources += 1;
        field_ref(found, ENV_FIELDS, &path.field("fieldRef"), errors);
    }
    if let Some(found) = get(from, "resourceFieldRef") {
        sources += 1;
        resource_ref(found, &path.field("resourceFieldRef"), errors);
    }
    for source in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(found) = get(from, source) {
            sources += 1;
            key_ref(found, &path.field(source), errors);
        }
    }
    sources += usize::from(get(from, "fileKeyRef").is_some());
    if sources == 0 {
        let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        errors.invalid(&path, "", why);
    } else if !text(variable, "value").is_empty() {
        errors.invalid(&path, "", "may not be specified when `value` is not empty");
    } else if sources > 1 {
        errors.invalid(&path, "", "may not have more than one field specified at a time");
    }
}

const ENV_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Fields that exist; not all of them can be had everywhere.
const FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.labels",
    "metadata.annotations",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// `metadata.labels['key']`: the map and the key.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, rest) = path.split_once("['")?;
    Some((map, rest.strip_suffix("']")?))
}

/// A reference to a field of the pod itself.
pub(super) fn field_ref(reference: &Value, known: &[&str], path: &Path<'_>, errors: &mut Errors) {
    let field = text(reference, "fieldPath");
    let place = path.field("fieldPath");
    if text(reference, "apiVersion").is_empty() {
        errors.required(&path.field("apiVersion"), "");
    } else if field.is_empty() {
        errors.required(&place, "");
    } else if let Some((map, key)) = subscript(field) {
        match map {
            "metadata.annotations" => errors.all(&place, key, &names::check_key(&key.to_lowercase())),
            "metadata.labels" => errors.all(&place, key, &names::check_key(key)),
            other => errors.invalid(&place, other, "does not support subscript"),
        }
    } else if !FIELDS.contains(&field) {
        let why = format!("error converting fieldPath: field label not supported: {field}");
        errors.invalid(&place, field, &why);
    } else if !known.contains(&field) {
        errors.unsupported(&place, field, known);
    }
}

/// A reference to a limit or a request.
pub(super) fn resource_ref(reference: &Value, path: &Path<'_>, errors: &mut Errors) {
    const KNOWN: [&str; 6] = [
        "limits.cpu",
        "limits.ephemeral-storage",
        "limits.memory",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.memory",
    ];
    let resource = text(reference, "resource");
    let huge = ["limits.hugepages-", "requests.hugepages-"].iter().any(|known| resource.starts_with(known));
    if resource.is_empty() {
        errors.required(&path.field("resource"), "");
    } else if !huge {
        errors.one_of(&path.field("resource"), resource, &KNOWN);
    }
}

fn key_ref(reference: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (name, key) = (text(reference, "name"), text(reference, "key"));
    if !name.is_empty() {
        errors.name(&path.field("name"), NameRule::Subdomain, name);
    }
    if key.is_empty() {
        errors.required(&path.field("key"), "");
    } else {
        errors.all(&path.field("key"), key, &names::check_config_key(key));
    }
}

fn env_from(sources: &[Value], path: &Path<'_>, errors: &mut Errors) {
    for (index, source) in sources.iter().enumerate() {
        let place = path.index(index);
        let found = ["configMapRef", "secretRef"].map(|kind| get(source, kind));
        for (kind, reference) in ["configMapRef", "secretRef"].iter().zip(&found) {
            let Some(name) = reference.map(|reference| text(reference, "name")) else { continue };
            if name.is_empty() {
                errors.required(&place.field(kind).field("name"), "");
            } else {
                errors.name(&place.field(kind).field("name"), NameRule::Subdomain, name);
            }
        }
        match found.iter().flatten().count() {
            0 => errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => errors.invalid(path, "", "may not have more than one field specified at a time"),
        }
    }
}

fn mounts(container: &Value, path: &Path<'_>, context: &Context<'_>, errors: &mut Errors) {
    let mut paths: HashMap<&str, ()> = HashMap::new();
    for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
        let place = path.index(index);
        let (name, to) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            errors.required(&place.field("name"), "");
        }
        if !context.volumes.contains(name) {
            errors.not_found(&place.field("name"), name);
        }
        if to.is_empty() {
            errors.required(&place.field("mountPath"), "");
        }
        if paths.insert(to, ()).is_some() {
            errors.invalid(&place.field("mountPath"), to, "must be unique");
        }
        for field in ["subPath", "subPathExpr"] {
            let inside = text(mount, field);
            if !inside.is_empty() {
                local_path(inside, &path.field(field), errors);
            }
        }
    }
}

/// A path that stays where it belongs.
pub(super) fn local_path(inside: &str, path: &Path<'_>, errors: &mut Errors) {
    if inside.starts_with('/') {
        errors.invalid(path, inside, "must be a relative path");
    }
    no_way_back(inside, path, errors);
}

pub(super) fn no_way_back(inside: &str, path: &Path<'_>, errors: &mut Errors) {
    if inside.split('/').any(|part| part == "..") {
        errors.invalid(path, inside, "must not contain '..'");
    }
}
