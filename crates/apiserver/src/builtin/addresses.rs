//! Addresses and node ports of services: each given to one service at a time.
//!
//! What is taken is derived from the stored services when the server opens, and followed with each write: there is no
//! second record that could disagree with them.

use rand::Rng;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::failure::Cause;
use crate::object::at;
use crate::store::{Key, Stored};

pub(crate) const TABLE: &str = "/services";
/// `10.96.0.0/16`, as in most clusters.
const NETWORK: [u8; 2] = [10, 96];
/// Addresses below are given only to who asks for them, so that fixed ones rarely collide with given ones.
const FIRST: u16 = 256;
const PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;
const FIRST_PORT: u16 = 30_086;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Held {
    address: Option<u16>,
    ports: Vec<u16>,
}

/// What is given out; true once a stored service has it.
type Given = HashMap<u16, bool>;

#[derive(Debug, Default)]
struct Taken {
    addresses: Given,
    ports: Given,
    /// By service: what it has, as of which revision.
    services: HashMap<Key, (u64, Held)>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Addresses {
    taken: Arc<Mutex<Taken>>,
}

/// What was given to a service that is not stored yet. Given back when it never is.
#[derive(Debug)]
pub(crate) struct Reservation {
    addresses: Addresses,
    held: Held,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut taken = self.addresses.lock();
        let drop = |given: &mut Given, number: u16| {
            if given.get(&number) == Some(&false) {
                given.remove(&number);
            }
        };
        if let Some(address) = self.held.address {
            drop(&mut taken.addresses, address);
        }
        for port in &self.held.ports {
            drop(&mut taken.ports, *port);
        }
    }
}

/// The number of an address in the network.
fn number(address: &str) -> Option<u16> {
    let [a, b, c, d] = address.parse::<Ipv4Addr>().ok()?.octets();
    ([a, b] == NETWORK).then(|| u16::from_be_bytes([c, d])).filter(|number| (1..u16::MAX).contains(number))
}

fn text(number: u16) -> String {
    let [c, d] = number.to_be_bytes();
    Ipv4Addr::new(NETWORK[0], NETWORK[1], c, d).to_string()
}

fn spec<'a>(service: &'a Value, field: &str) -> &'a str {
    at(service, "spec").and_then(|s| s.get(field)).and_then(Value::as_str).unwrap_or_default()
}

fn ports(service: &Value) -> &[Value] {
    at(service, "spec.ports").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn node_port(port: &Value) -> Option<u16> {
    u16::try_from(port.get("nodePort")?.as_i64()?).ok().filter(|port| *port > 0)
}

impl Held {
    fn of(service: &Value) -> Self {
        let mut held: Vec<u16> = ports(service).iter().filter_map(node_port).collect();
        held.extend(
            at(service, "spec")
                .and_then(|s| s.get("healthCheckNodePort"))
                .and_then(|p| u16::try_from(p.as_i64()?).ok().filter(|port| *port > 0)),
        );
        Self { address: number(spec(service, "clusterIP")), ports: held }
    }
}

impl Addresses {
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a service that was written, or removed.
    pub(crate) fn notice(&self, stored: &Stored, removed: bool) {
        let Ok(service) = stored.value() else { return };
        let held = if removed { Held::default() } else { Held::of(&service) };
        let mut taken = self.lock();
        let known = taken.services.get(&stored.key);
        if known.is_some_and(|(revision, _)| *revision >= stored.revision) {
            return;
        }
        let before = known.map(|(_, held)| held.clone()).unwrap_or_default();
        if let Some(address) = before.address {
            taken.addresses.remove(&address);
        }
        for port in &before.ports {
            taken.ports.remove(port);
        }
        taken.addresses.extend(held.address.map(|address| (address, true)));
        taken.ports.extend(held.ports.iter().map(|port| (*port, true)));
        if removed {
            taken.services.remove(&stored.key);
        } else {
            taken.services.insert(stored.key.clone(), (stored.revision, held));
        }
    }

    /// Gives a service what it needs and does not have. `old` is what it replaces.
    pub(crate) fn assign(&self, service: &mut Value, old: Option<&Value>) -> Result<Reservation, Vec<Cause>> {
        let mut reservation = Reservation { addresses: self.clone(), held: Held::default() };
        let kind = spec(service, "type").to_owned();
        let before = old.map(Held::of).unwrap_or_default();
        if kind == "ExternalName" {
            return Ok(reservation);
        }
        if spec(service, "clusterIP") != "None" {
            self.assign_address(service, &before, &mut reservation)?;
        }
        let allowed = at(service, "spec.allocateLoadBalancerNodePorts") != Some(&Value::Bool(false));
        let needed = kind == "NodePort" || (kind == "LoadBalancer" && allowed);
        self.assign_ports(service, old, &before, needed, &mut reservation)?;
        Ok(reservation)
    }

    fn assign_address(
        &self,
        service: &mut Value,
        before: &Held,
        reservation: &mut Reservation,
    ) -> Result<(), Vec<Cause>> {
        let asked = spec(service, "clusterIP").to_owned();
        let mut taken = self.lock();
        let address = if asked.is_empty() {
            taken.free_address()
        } else {
            let wrong = |why: &str| {
                let message = format!("failed to allocate IP {asked}: {why}");
                vec![Cause::invalid("spec.clusterIPs", json!([asked]), &message)]
            };
            let Some(address) = number(&asked) else {
                return Err(wrong("the provided network does not match the current range"));
            };
            if before.address == Some(address) {
                return Ok(());
            }
            if taken.addresses.contains_key(&address) {
                return Err(wrong("provided IP is already allocated"));
            }
            Some(address)
        };
        let Some(address) = address else {
            let why = "failed to allocate a serviceIP: range is full";
            return Err(vec![Cause::internal("spec.clusterIPs", why)]);
        };
        taken.addresses.insert(address, false);
        reservation.held.address = Some(address);
        if let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert("clusterIP".into(), text(address).into());
            spec.insert("clusterIPs".into(), json!([text(address)]));
        }
        Ok(())
    }

    fn assign_ports(
        &self,
        service: &mut Value,
        old: Option<&Value>,
        before: &Held,
        needed: bool,
        reservation: &mut Reservation,
    ) -> Result<(), Vec<Cause>> {
        let identity = |port: &Value| ["port", "protocol"].map(|field| port.get(field).map(Value::to_string));
        let mut known: HashMap<_, Option<u16>> = HashMap::new();
        for port in old.map(ports).unwrap_or_default() {
            known.entry(identity(port)).or_insert_with(|| node_port(port));
        }
        let mut taken = self.lock();
        let list = service.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
        for (index, port) in list.into_iter().flatten().enumerate() {
            let kept = known.get(&identity(port)).copied().flatten();
            let number = match (node_port(port), kept) {
                (Some(asked), _)
                    if before.ports.contains(&asked) || reservation.held.ports.contains(&asked) =>
                {
                    continue;
                }
                (Some(asked), _) => {
                    let wrong =
                        |why: &str| vec![Cause::invalid(format!("spec.ports[{index}].nodePort"), asked, why)];
                    if !PORTS.contains(&asked) {
                        let why = "provided port is not in the valid range. The range of valid ports is 30000-32767";
                        return Err(wrong(why));
                    }
                    if taken.ports.contains_key(&asked) {
                        return Err(wrong("provided port is already allocated"));
                    }
                    asked
                }
                (None, Some(kept)) if needed => kept,
                (None, _) if needed => match taken.free_port() {
                    Some(port) => port,
                    None => {
                        let field = format!("spec.ports[{index}].nodePort");
                        return Err(vec![Cause::internal(
                            field,
                            "failed to allocate a nodePort: range is full",
                        )]);
                    }
                },
                (None, _) => continue,
            };
            if let Entry::Vacant(free) = taken.ports.entry(number) {
                free.insert(false);
                reservation.held.ports.push(number);
            }
            if let Some(port) = port.as_object_mut() {
                port.insert("nodePort".into(), number.into());
            }
        }
        Ok(())
    }
}

impl Taken {
    /// A random free address: consecutive ones would be reused too soon after they were given back.
    fn free_address(&self) -> Option<u16> {
        let start = rand::rng().random_range(FIRST..u16::MAX);
        (start..u16::MAX).chain(1..start).find(|number| !self.addresses.contains_key(number))
    }

    fn free_port(&self) -> Option<u16> {
        let start = rand::rng().random_range(FIRST_PORT..=*PORTS.end());
        (start..=*PORTS.end()).chain(*PORTS.start()..start).find(|port| !self.ports.contains_key(port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(clusterip: &str, kind: &str) -> Value {
        json!({"spec": {"type": kind, "clusterIP": clusterip, "ports": [{"port": 80, "protocol": "TCP"}]}})
    }

    #[test]
    fn an_address_is_given_once() {
        let addresses = Addresses::default();
        let mut first = service("10.96.0.5", "ClusterIP");
        let held = addresses.assign(&mut first, None).unwrap();
        let again = addresses.assign(&mut service("10.96.0.5", "ClusterIP"), None).unwrap_err();
        assert_eq!(
            again[0].message,
            "Invalid value: [\"10.96.0.5\"]: failed to allocate IP 10.96.0.5: provided IP is already allocated"
        );
        drop(held);
        assert!(addresses.assign(&mut service("10.96.0.5", "ClusterIP"), None).is_ok());
        assert!(addresses.assign(&mut service("10.97.0.5", "ClusterIP"), None).is_err());
    }

    #[test]
    fn who_asks_for_nothing_gets_something() {
        let addresses = Addresses::default();
        let mut service = service("", "NodePort");
        let held = addresses.assign(&mut service, None).unwrap();
        let address = service["spec"]["clusterIP"].as_str().unwrap();
        assert!(address.starts_with("10.96.") && service["spec"]["clusterIPs"] == json!([address]));
        let port = u16::try_from(service["spec"]["ports"][0]["nodePort"].as_i64().unwrap()).unwrap();
        assert!(PORTS.contains(&port));
        assert_eq!(held.held.ports, [port]);
    }

    #[test]
    fn headless_and_external_services_have_none() {
        let addresses = Addresses::default();
        for mut service in [service("None", "ClusterIP"), service("", "ExternalName")] {
            let held = addresses.assign(&mut service, None).unwrap();
            assert_eq!(held.held, Held::default());
        }
    }
}
