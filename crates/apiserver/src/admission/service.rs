//! Where a service is on this machine: at the port of one of its pods, which share the machine's addresses.

use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::app::App;
use crate::object::at;
use crate::selector::LabelSelector;
use crate::store::{Key, Range, Stored};

/// An address behind a port of a service, or why there is none, in the words of a real server.
pub(super) fn resolve(app: &App, namespace: &str, name: &str, port: u16) -> Result<SocketAddr, String> {
    let found = app.store.get(&Key::new(&"/services".into(), namespace, name));
    let service = found.and_then(|stored| stored.value().ok());
    let service = service.ok_or_else(|| format!("service {name:?} not found"))?;
    let ports = at(&service, "spec.ports").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let wanted = ports.iter().find(|own| own.get("port").and_then(Value::as_u64) == Some(port.into()));
    let wanted = wanted.ok_or_else(|| format!("no service port {port} found for service {name:?}"))?;
    let none = || format!("no endpoints available for service {name:?}");
    let selector = at(&service, "spec.selector").and_then(Value::as_object).filter(|s| !s.is_empty());
    let Some(selector) = selector else {
        let port_name = wanted.get("name").and_then(Value::as_str).unwrap_or_default();
        return by_hand(app, namespace, name, port_name).ok_or_else(none);
    };
    let labels = serde_json::json!({"matchLabels": selector});
    let selector = LabelSelector::from_object(&labels).map_err(|error| error.to_string())?;
    let prefix = format!("{namespace}/");
    let pods = app.store.page("/pods", Range { prefix: &prefix, after: None, limit: usize::MAX }).items;
    let behind = |pod: &Stored| {
        let pod = (!pod.deleting && selector.matches(pod.labels().as_ref())).then(|| pod.value().ok())??;
        let running = at(&pod, "status.phase").and_then(Value::as_str) == Some("Running");
        Some(SocketAddr::new(address(&pod), target(&pod, wanted, port)?)).filter(|_| running)
    };
    pods.iter().find_map(|pod| behind(pod)).ok_or_else(none)
}

/// A service without a selector has the endpoints that somebody wrote.
fn by_hand(app: &App, namespace: &str, name: &str, port_name: &str) -> Option<SocketAddr> {
    let endpoints = app.store.get(&Key::new(&"/endpoints".into(), namespace, name))?.value().ok()?;
    let subsets = endpoints.get("subsets")?.as_array()?;
    subsets.iter().find_map(|subset| {
        let address = subset.get("addresses")?.as_array()?.first()?.get("ip")?.as_str()?.parse().ok()?;
        let ports = subset.get("ports")?.as_array()?;
        let named = |port: &&Value| {
            port.get("name").and_then(Value::as_str).unwrap_or_default() == port_name || ports.len() == 1
        };
        let port = ports.iter().find(named)?.get("port")?.as_u64()?;
        Some(SocketAddr::new(address, u16::try_from(port).ok()?))
    })
}

fn address(pod: &Value) -> IpAddr {
    let own = at(pod, "status.podIP").and_then(Value::as_str).and_then(|ip| ip.parse().ok());
    own.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// The port of a pod that a port of a service means: by number, by name, or the same.
fn target(pod: &Value, port: &Value, same: u16) -> Option<u16> {
    let name = match port.get("targetPort") {
        None | Some(Value::Null) => return Some(same),
        Some(Value::Number(number)) => return u16::try_from(number.as_u64()?).ok(),
        Some(other) => other.as_str()?,
    };
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    let containers = at(pod, "spec.containers")?.as_array()?;
    let ports = containers.iter().filter_map(|container| container.get("ports")?.as_array()).flatten();
    let named = ports.filter(|own| own.get("name").and_then(Value::as_str) == Some(name));
    named.filter_map(|own| own.get("containerPort")?.as_u64()).find_map(|number| u16::try_from(number).ok())
}
