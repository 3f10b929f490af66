//! Address families of services. Like most clusters, this one has IPv4 alone.

use serde_json::Value;

use crate::failure::Cause;

const OURS: &str = "IPv4";

fn spec<'a>(service: &'a Value, field: &str) -> Option<&'a Value> {
    service.get("spec")?.get(field)
}

fn text<'a>(service: &'a Value, field: &str) -> &'a str {
    spec(service, field).and_then(Value::as_str).unwrap_or_default()
}

fn families(service: &Value) -> &[Value] {
    spec(service, "ipFamilies").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// What is wrong with the families of a service that is about to get its addresses; `old` is what it replaces.
pub(crate) fn check(service: &mut Value, old: Option<&Value>) -> Vec<Cause> {
    if text(service, "type") == "ExternalName" {
        return Vec::new();
    }
    if old.is_some_and(|old| prefers_as_before(service, old)) {
        return Vec::new();
    }
    if old.is_some_and(|old| families(old) == families(service))
        && text(service, "ipFamilyPolicy") == "SingleStack"
    {
        keep_first(service);
    }
    // Somebody else says where it leads to, and may use any family.
    let selects = spec(service, "selector").and_then(Value::as_object).is_some_and(|map| !map.is_empty());
    if text(service, "clusterIP") == "None" && !selects {
        return Vec::new();
    }
    let mut causes = Vec::new();
    if text(service, "ipFamilyPolicy") == "RequireDualStack" {
        let why = "this cluster is not configured for dual-stack services";
        causes.push(Cause::invalid("spec.ipFamilyPolicy", "RequireDualStack", why));
    }
    for (index, family) in families(service).iter().enumerate().filter(|(_, family)| **family != OURS) {
        let field = format!("spec.ipFamilies[{index}]");
        causes.push(Cause::invalid(field, family.clone(), "not configured on this cluster"));
    }
    causes
}

/// Who prefers two families keeps those that are there, as long as nothing about them changes.
fn prefers_as_before(service: &Value, old: &Value) -> bool {
    let prefers = |service: &Value| text(service, "ipFamilyPolicy") == "PreferDualStack";
    let same = |field: &str| spec(service, field) == spec(old, field);
    prefers(service) && prefers(old) && ["type", "clusterIPs", "ipFamilies"].into_iter().all(same)
}

/// Who asks for one family keeps the first.
fn keep_first(service: &mut Value) {
    if let Some(list) = service.pointer_mut("/spec/ipFamilies").and_then(Value::as_array_mut) {
        list.truncate(1);
    }
}
