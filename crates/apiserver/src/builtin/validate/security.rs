//! Who the processes of a pod are, and what they may do.

use serde_json::Value;

use super::errors::{Errors, Path, flag, get, list, number, text};

fn id(value: Option<i64>, path: &Path<'_>, errors: &mut Errors) {
    if let Some(id) = value.filter(|id| !(0..=i64::from(i32::MAX)).contains(id)) {
        errors.invalid(path, id, "must be between 0 and 2147483647, inclusive");
    }
}

/// A container's security context.
pub(super) fn container(context: &Value, path: &Path<'_>, errors: &mut Errors) {
    for field in ["runAsUser", "runAsGroup"] {
        id(number(context, field), &path.field(field), errors);
    }
    let kind = text(context, "procMount");
    if !kind.is_empty() {
        errors.one_of(&path.field("procMount"), kind, &["Default", "Unmasked"]);
    }
    seccomp(context, path, errors);
    if get(context, "allowPrivilegeEscalation") == Some(&Value::Bool(false)) {
        if flag(context, "privileged") {
            let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.invalid_text(path, &as_written(context), why);
        }
        if list(context.get("capabilities").unwrap_or(&Value::Null), "add")
            .iter()
            .any(|c| c == "CAP_SYS_ADMIN")
        {
            let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.invalid_text(path, &as_written(context), why);
        }
    }
}

/// The context as a real server quotes it: by the names of its own type, all of them.
fn as_written(context: &Value) -> String {
    const FIELDS: [&str; 12] = [
        "Capabilities",
        "Privileged",
        "SELinuxOptions",
        "WindowsOptions",
        "RunAsUser",
        "RunAsGroup",
        "RunAsNonRoot",
        "ReadOnlyRootFilesystem",
        "AllowPrivilegeEscalation",
        "ProcMount",
        "SeccompProfile",
        "AppArmorProfile",
    ];
    let member = |name: &&str| {
        let mut own = (*name).to_owned();
        let lower = if own.starts_with("SE") { 2 } else { 1 };
        if let Some(start) = own.get_mut(..lower) {
            start.make_ascii_lowercase();
        }
        format!("{name:?}:{}", context.get(&own).unwrap_or(&Value::Null))
    };
    format!("{{{}}}", FIELDS.iter().map(member).collect::<Vec<_>>().join(","))
}

fn seccomp(context: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(profile) = get(context, "seccompProfile") else { return };
    let path = path.field("seccompProfile");
    let (kind, local) = (text(profile, "type"), text(profile, "localhostProfile"));
    match kind {
        "Localhost" if local.is_empty() => {
            errors.required(&path.field("localhostProfile"), "must be set when seccomp type is Localhost");
        }
        "Localhost" => super::container::local_path(local, &path.field("localhostProfile"), errors),
        "RuntimeDefault" | "Unconfined" => {
            if get(profile, "localhostProfile").is_some() {
                let why = "can only be set when seccomp type is Localhost";
                errors.invalid(&path.field("localhostProfile"), local, why);
            }
        }
        "" => errors.required(&path.field("type"), "type is required when seccompProfile is set"),
        other => {
            errors.unsupported(&path.field("type"), other, &["Localhost", "RuntimeDefault", "Unconfined"]);
        }
    }
}

/// The pod's security context.
pub(super) fn pod(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let place = path.field("securityContext");
    if flag(spec, "hostPID") && flag(spec, "shareProcessNamespace") {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&place.field("shareProcessNamespace"), true, why);
    }
    let Some(context) = get(spec, "securityContext") else { return };
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(number(context, field), &place.field(field), errors);
    }
    for (index, group) in list(context, "supplementalGroups").iter().enumerate() {
        id(group.as_i64(), &place.field("supplementalGroups").index(index), errors);
    }
    sysctls(list(context, "sysctls"), &place.field("sysctls"), errors);
    let policy = text(context, "fsGroupChangePolicy");
    if !policy.is_empty() {
        errors.one_of(&place.field("fsGroupChangePolicy"), policy, &["OnRootMismatch", "Always"]);
    }
    seccomp(context, &place, errors);
}

fn sysctls(sysctls: &[Value], path: &Path<'_>, errors: &mut Errors) {
    let is_part = |part: &str| {
        let edge = |c: Option<u8>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        edge(part.bytes().next())
            && edge(part.bytes().last())
            && part.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || b"-_".contains(&c))
    };
    let mut seen = std::collections::HashSet::new();
    for (index, sysctl) in sysctls.iter().enumerate() {
        let (name, place) = (text(sysctl, "name"), path.index(index));
        if name.is_empty() {
            errors.required(&place.field("name"), "");
        } else if name.len() > 253 || !name.split(['.', '/']).all(is_part) {
            let why = "must have at most 253 characters and match regex \
                       ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            errors.invalid(&place.field("name"), name, why);
        } else if !seen.insert(name) {
            errors.duplicate(&place.field("name"), name);
        }
    }
}
