//! Probes and the hooks of a container's life.

use serde_json::Value;

use super::container::port_name;
use super::errors::{Errors, Path, get, list, number, text};

/// A probe. `only_one` when one success is always enough.
pub(super) fn probe(probe: &Value, only_one: bool, readiness: bool, path: &Path<'_>, errors: &mut Errors) {
    handler(probe, &["exec", "httpGet", "tcpSocket", "grpc"], i64::MAX, path, errors);
    for field in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        errors.not_negative(&path.field(field), number(probe, field));
    }
    if let Some(seconds) = number(probe, "terminationGracePeriodSeconds") {
        let place = path.field("terminationGracePeriodSeconds");
        if readiness {
            errors.invalid(&place, seconds, "must not be set for readinessProbes");
        } else if seconds <= 0 {
            errors.invalid(&place, seconds, "must be greater than 0");
        }
    }
    if let Some(successes) = number(probe, "successThreshold").filter(|n| only_one && *n != 1) {
        errors.invalid(&path.field("successThreshold"), successes, "must be 1");
    }
}

/// What a probe or a hook does: one thing.
pub(super) fn handler(action: &Value, kinds: &[&str], grace: i64, path: &Path<'_>, errors: &mut Errors) {
    let mut found = 0;
    for kind in kinds {
        let Some(action) = get(action, kind) else { continue };
        let place = path.field(kind);
        if found > 0 {
            errors.forbidden(&place, "may not specify more than 1 handler type");
            continue;
        }
        found += 1;
        match *kind {
            "exec" if list(action, "command").is_empty() => errors.required(&place.field("command"), ""),
            "httpGet" => http_get(action, &place, errors),
            "tcpSocket" => port(get(action, "port"), &place.field("port"), errors),
            "grpc" => errors.port(&place.field("port"), number(action, "port").unwrap_or(0)),
            "sleep" => sleep(number(action, "seconds").unwrap_or(0), grace, &place.field("seconds"), errors),
            _ => {}
        }
    }
    if found == 0 {
        errors.required(path, "must specify a handler type");
    }
}

fn sleep(seconds: i64, grace: i64, path: &Path<'_>, errors: &mut Errors) {
    if seconds < 0 || seconds > grace {
        let why = format!(
            "must be non-negative and less than terminationGracePeriodSeconds ({grace}). Got {seconds}"
        );
        errors.invalid(path, seconds, &why);
    }
}

fn http_get(action: &Value, path: &Path<'_>, errors: &mut Errors) {
    if text(action, "path").is_empty() {
        errors.required(&path.field("path"), "");
    }
    port(get(action, "port"), &path.field("port"), errors);
    errors.one_of(&path.field("scheme"), text(action, "scheme"), &["HTTP", "HTTPS"]);
    for header in list(action, "httpHeaders") {
        let name = text(header, "name");
        if name.is_empty() || !name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-') {
            let why = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for \
                       validation is '[-A-Za-z0-9]+')";
            errors.invalid(&path.field("httpHeaders"), name, why);
        }
    }
}

/// A number, or the name of a port.
pub(super) fn port(port: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    match port {
        Some(Value::String(name)) => errors.all(path, name, &port_name(name)),
        Some(number) => errors.port(path, number.as_i64().unwrap_or(0)),
        None => errors.port(path, 0),
    }
}
