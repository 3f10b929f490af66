//! Defaults that hold for every kind. They are applied to the view and never written back to the object.

use serde_json::{Value, json};
use trainyard_api::{ReplicaSpec, ReplicaSpecs, RestartPolicy};

use crate::framework::Facts;
use crate::job::Role;
use crate::validate::MAX_REPLICAS;

/// Replica specs as roles: canonical spelling, framework order, counts, policies and ports filled in.
pub(crate) fn roles(facts: &Facts, specs: ReplicaSpecs) -> Vec<Role> {
    let mut roles: Vec<(usize, Role)> = Vec::new();
    for (key, spec) in specs {
        let place = facts.roles.iter().position(|name| name.eq_ignore_ascii_case(&key));
        let name =
            place.and_then(|at| facts.roles.get(at)).map_or_else(|| key.clone(), |name| (*name).to_owned());
        let role = role(facts, name, spec);
        // Of two spellings of one type the one that is not canonical wins, as it always did.
        let twin = roles.iter().position(|(_, other)| other.name == role.name);
        match twin.and_then(|at| roles.get_mut(at)) {
            Some(slot) if role.name != key => slot.1 = role,
            Some(_) => {}
            None => roles.push((place.unwrap_or(usize::MAX), role)),
        }
    }
    roles.sort_by(|a, b| (a.0, &a.1.name).cmp(&(b.0, &b.1.name)));
    let mut left = MAX_REPLICAS;
    let bounded = |(_, mut role): (usize, Role)| {
        // More are refused by validation. But a refused job is still looked at once it has failed, and a look must
        // not make room for two thousand million replicas.
        role.replicas = role.replicas.min(left);
        left -= role.replicas;
        role
    };
    roles.into_iter().map(bounded).collect()
}

fn role(facts: &Facts, name: String, spec: ReplicaSpec) -> Role {
    let mut template = spec.template.0;
    let port = ensure_port(facts, &mut template);
    let single = facts.single.contains(&name.as_str());
    let restart = spec.restart_policy.as_deref().and_then(RestartPolicy::parse);
    // Where there can be one only, two are refused as a thousand are.
    let replicas = match spec.replicas {
        Some(replicas) => u32::try_from(replicas).unwrap_or(0).min(if single { 2 } else { u32::MAX }),
        None => u32::from(!facts.absent.contains(&name.as_str())),
    };
    Role {
        single,
        label: name.to_lowercase(),
        name,
        replicas,
        restart: restart.unwrap_or(facts.restart),
        template,
        port,
    }
}

/// Finds the port peers use, or adds it: on the training container, else on the first.
fn ensure_port(facts: &Facts, template: &mut Value) -> u16 {
    if facts.port_name.is_empty() {
        return facts.port;
    }
    let Some(containers) = template.pointer_mut("/spec/containers").and_then(Value::as_array_mut) else {
        return facts.port;
    };
    let named = |c: &Value| c.get("name").and_then(Value::as_str) == Some(facts.container);
    let at = containers.iter().position(named).unwrap_or(0);
    let Some(container) = containers.get_mut(at).and_then(Value::as_object_mut) else {
        return facts.port;
    };
    let ports = container.entry("ports").or_insert_with(|| json!([]));
    let Some(ports) = ports.as_array_mut() else {
        return facts.port;
    };
    let existing = ports.iter().find(|p| p.get("name").and_then(Value::as_str) == Some(facts.port_name));
    if let Some(port) = existing {
        let number = port.get("containerPort").and_then(Value::as_u64).and_then(|n| u16::try_from(n).ok());
        return number.unwrap_or(facts.port);
    }
    ports.push(json!({ "name": facts.port_name, "containerPort": facts.port }));
    facts.port
}
