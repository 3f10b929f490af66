//! Services and where they lead.

use serde_json::Value;
use std::collections::HashSet;

use super::container::port_name;
use super::errors::{Errors, Path, get, list, members, number, text, texts};
use crate::object::names::{self, NameRule};

const NULL: Value = Value::Null;
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

pub(super) fn service(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, path) = (object.get("spec").unwrap_or(&NULL), Path::Root("spec"));
    let kind = text(spec, "type");
    let headless = text(spec, "clusterIP") == "None";
    if !addresses(object, errors) {
        return;
    }
    if list(spec, "ports").is_empty() && !headless && kind != "ExternalName" {
        errors.required(&path.field("ports"), "");
    }
    by_type(spec, kind, headless, &path, errors);
    ports(spec, &path.field("ports"), errors);
    for (key, value) in members(spec, "selector") {
        errors.all(&path.field("selector"), key, &names::check_key(key));
        let value = value.as_str().unwrap_or_default();
        errors.all(&path.field("selector"), value, &names::check_value(value));
    }
    errors.one_of(&path.field("sessionAffinity"), text(spec, "sessionAffinity"), &["ClientIP", "None"]);
    let balancer = object.get("status").and_then(|status| status.get("loadBalancer")).unwrap_or(&NULL);
    if kind != "LoadBalancer" && !list(balancer, "ingress").is_empty() {
        let place = Path::Root("status");
        let why = "may only be used when `spec.type` is 'LoadBalancer'";
        errors.forbidden(&place.field("loadBalancer").field("ingress"), why);
    }
    for (index, address) in texts(spec, "externalIPs").enumerate() {
        let place = path.field("externalIPs");
        errors.address(&place.index(index), address);
        special(address).into_iter().for_each(|why| errors.invalid(&place.index(index), address, why));
    }
    let known = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    errors.one_of(&path.field("type"), kind, &known);
    traffic(spec, kind, &path, errors);
    if kind == "ClusterIP" {
        for (index, port) in list(spec, "ports").iter().enumerate() {
            if number(port, "nodePort").unwrap_or(0) != 0 {
                let ports = path.field("ports");
                let why = "may not be used when `type` is 'ClusterIP'";
                errors.forbidden(&ports.index(index).field("nodePort"), why);
            }
        }
    }
    if let Some(old) = old {
        update(spec, old.get("spec").unwrap_or(&NULL), &path, errors);
    }
}

/// Addresses are chosen before anything else is looked at. False if that is not possible.
pub(super) fn addresses(object: &Value, errors: &mut Errors) -> bool {
    let (spec, path) = (object.get("spec").unwrap_or(&NULL), Path::Root("spec"));
    let (families, known) =
        (text(spec, "ipFamilyPolicy"), ["PreferDualStack", "RequireDualStack", "SingleStack"]);
    if !families.is_empty() && !known.contains(&families) {
        errors.one_of(&path.field("ipFamilyPolicy"), families, &known);
        return false;
    }
    let address = text(spec, "clusterIP");
    let chosen = text(spec, "type") != "ExternalName" && !["", "None"].contains(&address);
    if chosen && address.parse::<std::net::IpAddr>().is_err() {
        errors.address(&path.field("clusterIPs").index(0), address);
        return false;
    }
    true
}

/// Why an address cannot be that of a machine elsewhere.
fn special(address: &str) -> Option<&'static str> {
    use std::net::IpAddr;
    let address: IpAddr = address.parse().ok()?;
    let local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    if address.is_unspecified() {
        Some("may not be unspecified (0.0.0.0)")
    } else if address.is_loopback() {
        Some("may not be in the loopback range (127.0.0.0/8, ::1/128)")
    } else if local {
        Some("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    } else {
        None
    }
}

fn update(spec: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (before, after) = (text(old, "clusterIP"), text(spec, "clusterIP"));
    let external = |spec: &Value| text(spec, "type") == "ExternalName";
    if !before.is_empty() && before != after && !external(spec) && !external(old) {
        errors.invalid(&path.field("clusterIPs").index(0), vec![after], "may not change once set");
    }
}

fn by_type(spec: &Value, kind: &str, headless: bool, path: &Path<'_>, errors: &mut Errors) {
    match kind {
        "NodePort" | "LoadBalancer" if headless => {
            let why = format!("may not be set to 'None' for {kind} services");
            errors.invalid(&path.field("clusterIPs").index(0), "None", &why);
        }
        "ExternalName" => {
            if !text(spec, "clusterIP").is_empty() {
                errors.forbidden(&path.field("clusterIPs"), "may not be set for ExternalName services");
            }
            let name = text(spec, "externalName");
            if name.is_empty() {
                errors.required(&path.field("externalName"), "");
            } else {
                let plain = name.strip_suffix('.').unwrap_or(name);
                errors.all(&path.field("externalName"), name, &NameRule::Subdomain.check(plain));
            }
        }
        _ => {}
    }
}

fn ports(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let all = list(spec, "ports");
    let mut names = HashSet::new();
    for (index, port) in all.iter().enumerate() {
        let (place, name) = (path.index(index), text(port, "name"));
        if name.is_empty() {
            if all.len() > 1 {
                errors.required(&place.field("name"), "");
            }
        } else {
            errors.name(&place.field("name"), NameRule::Label, name);
            if !names.insert(name) {
                errors.duplicate(&place.field("name"), name);
            }
        }
        errors.port(&place.field("port"), number(port, "port").unwrap_or(0));
        errors.one_of(&place.field("protocol"), text(port, "protocol"), &PROTOCOLS);
        match get(port, "targetPort") {
            Some(Value::String(name)) => errors.all(&place.field("targetPort"), name, &port_name(name)),
            target => {
                let target = target.and_then(Value::as_i64).unwrap_or(0);
                errors.port(&place.field("targetPort"), target);
            }
        }
    }
    let mut seen = HashSet::new();
    for (index, port) in all.iter().enumerate() {
        let (protocol, number) = (text(port, "protocol"), number(port, "port").unwrap_or(0));
        if !seen.insert((protocol, number)) {
            let quoted = format!(
                "{{\"Name\":\"\",\"Protocol\":{protocol:?},\"AppProtocol\":null,\"Port\":{number},\"TargetPort\":0,\"NodePort\":0}}"
            );
            errors.duplicate_text(&path.index(index), &quoted);
        }
    }
}

fn traffic(spec: &Value, kind: &str, path: &Path<'_>, errors: &mut Errors) {
    let outside = ["NodePort", "LoadBalancer"].contains(&kind)
        || (kind == "ClusterIP" && !list(spec, "externalIPs").is_empty());
    let policy = text(spec, "externalTrafficPolicy");
    if !policy.is_empty() && !outside {
        let why = "may only be set for externally-accessible services";
        errors.invalid(&path.field("externalTrafficPolicy"), policy, why);
    } else if !policy.is_empty() {
        errors.one_of(&path.field("externalTrafficPolicy"), policy, &["Cluster", "Local"]);
    }
    let policy = text(spec, "internalTrafficPolicy");
    if !policy.is_empty() {
        errors.one_of(&path.field("internalTrafficPolicy"), policy, &["Cluster", "Local"]);
    }
}

/// Whether the server's own controllers keep an object. Where the only node is this machine, pods have its loopback
/// address, and that is where their services lead.
fn is_kept_here(object: &Value) -> bool {
    const MARKS: [(&str, &str); 2] = [
        ("endpoints.kubernetes.io/managed-by", "endpoint-controller"),
        ("endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io"),
    ];
    let labels = object.pointer("/metadata/labels").unwrap_or(&NULL);
    MARKS.iter().any(|(name, value)| text(labels, name) == *value)
}

/// An address that only the machine itself can reach leads nowhere.
fn reachable(address: &str, kept_here: bool, path: &Path<'_>, errors: &mut Errors) {
    let Ok(parsed) = address.parse::<std::net::IpAddr>() else {
        errors.invalid(path, address, "must be a valid IP address");
        return;
    };
    if parsed.is_unspecified() {
        errors.invalid(path, address, &format!("may not be unspecified ({parsed})"));
    }
    if parsed.is_loopback() && !kept_here {
        errors.invalid(path, address, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    if let std::net::IpAddr::V4(parsed) = parsed
        && parsed.is_link_local()
    {
        let why = "may not be in the link-local range (169.254.0.0/16, fe80::/10)";
        errors.invalid(path, address, why);
    }
}

pub(super) fn endpoints(object: &Value, errors: &mut Errors) {
    let path = Path::Root("subsets");
    let kept_here = is_kept_here(object);
    for (index, subset) in list(object, "subsets").iter().enumerate() {
        let place = path.index(index);
        let kinds = ["addresses", "notReadyAddresses"];
        if kinds.iter().all(|kind| list(subset, kind).is_empty()) {
            errors.required(&place, "must specify `addresses` or `notReadyAddresses`");
        }
        for kind in kinds {
            for (at, address) in list(subset, kind).iter().enumerate() {
                let list = place.field(kind);
                let entry = list.index(at);
                errors.address(&entry.field("ip"), text(address, "ip"));
                reachable(text(address, "ip"), kept_here, &entry.field("ip"), errors);
            }
        }
        let several = list(subset, "ports").len() > 1;
        for (at, port) in list(subset, "ports").iter().enumerate() {
            let ports = place.field("ports");
            let entry = ports.index(at);
            if several && text(port, "name").is_empty() {
                errors.required(&entry.field("name"), "");
            }
            errors.port(&entry.field("port"), number(port, "port").unwrap_or(0));
            errors.one_of(&entry.field("protocol"), text(port, "protocol"), &PROTOCOLS);
        }
    }
}

pub(super) fn slice(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let kind = text(object, "addressType");
    let root = Path::Root("addressType");
    if kind.is_empty() {
        errors.required(&root, "");
    } else {
        errors.one_of(&root, kind, &["FQDN", "IPv4", "IPv6"]);
    }
    slice_ports(object, errors);
    let path = Path::Root("endpoints");
    let kept_here = is_kept_here(object);
    for (index, endpoint) in list(object, "endpoints").iter().enumerate() {
        let place = path.index(index);
        if list(endpoint, "addresses").is_empty() {
            errors.required(&place.field("addresses"), "must contain at least 1 address");
        }
        for (at, address) in texts(endpoint, "addresses").enumerate() {
            let addresses = place.field("addresses");
            let entry = addresses.index(at);
            match kind {
                "FQDN" => errors.name(&entry, NameRule::Subdomain, address),
                "IPv4" | "IPv6" if address.parse::<std::net::IpAddr>().is_err() => {
                    errors.address(&entry, address)
                }
                "IPv4" | "IPv6" => reachable(address, kept_here, &entry, errors),
                _ => {}
            }
        }
    }
    if old.is_some_and(|old| text(old, "addressType") != kind) {
        errors.invalid(&root, kind, "field is immutable");
    }
}

fn slice_ports(object: &Value, errors: &mut Errors) {
    let path = Path::Root("ports");
    let mut names = HashSet::new();
    for (index, port) in list(object, "ports").iter().enumerate() {
        let (place, name) = (path.index(index), text(port, "name"));
        if !name.is_empty() {
            errors.name(&place.field("name"), NameRule::Label, name);
        }
        if !names.insert(name) {
            errors.duplicate(&place.field("name"), name);
        }
        if let Some(number) = number(port, "port") {
            errors.port(&place.field("port"), number);
        }
        errors.one_of(&place.field("protocol"), text(port, "protocol"), &PROTOCOLS);
    }
}
