//! Validation of the built-in kinds: what a real server refuses, in its words and its order.
//!
//! Shapes are right when objects come here, since they were decoded by their types: only values are looked at.

mod access;
mod container;
mod data;
mod diff;
mod errors;
mod events;
mod others;
mod pod;
mod probe;
mod resources;
mod schedule;
mod security;
mod service;
mod volume;
mod workload;

use serde_json::Value;

use self::errors::Errors;
pub(crate) use self::resources::amount;
use crate::failure::Cause;
use crate::registry::Served;

/// What is wrong with an object before its metadata is looked at.
pub(crate) fn first(served: &Served, object: &Value) -> Vec<Cause> {
    let mut errors = Errors::default();
    if served.is_core("services") {
        service::addresses(object, &mut errors);
    }
    errors.into_causes()
}

/// What is wrong with an object; `old` is what it replaces.
pub(crate) fn check(served: &Served, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut errors = Errors::default();
    match (served.group.as_str(), served.plural.as_str()) {
        ("", "pods") => match old {
            None => pod::create(object, &mut errors),
            Some(old) => pod::update(object, old, &mut errors),
        },
        ("", "services") => service::service(object, old, &mut errors),
        ("", "endpoints") => service::endpoints(object, &mut errors),
        ("", "configmaps") => data::config_map(object, old, &mut errors),
        ("", "secrets") => data::secret(object, old, &mut errors),
        ("", "persistentvolumeclaims") => data::claim(object, old, &mut errors),
        ("", "persistentvolumes") => data::persistent_volume(object, &mut errors),
        ("", "namespaces") => others::namespace(object, old, &mut errors),
        ("", "nodes") => others::node(object, old, &mut errors),
        ("", "events") => events::core(object, &mut errors),
        ("events.k8s.io", "events") => events::new(object, old, &mut errors),
        ("apps", "deployments") => workload::deployment(object, old, &mut errors),
        ("apps", "replicasets") => workload::replica_set(object, old, &mut errors),
        ("batch", "jobs") => workload::job(object, old, &mut errors),
        ("coordination.k8s.io", "leases") => others::lease(object, &mut errors),
        ("scheduling.k8s.io", "priorityclasses") => others::priority_class(object, old, &mut errors),
        ("autoscaling", "horizontalpodautoscalers") => others::autoscaler(object, &mut errors),
        ("discovery.k8s.io", "endpointslices") => service::slice(object, old, &mut errors),
        ("rbac.authorization.k8s.io", "roles" | "clusterroles") => {
            access::role(object, served.namespaced, &mut errors);
        }
        ("rbac.authorization.k8s.io", _) => access::binding(object, old, served.namespaced, &mut errors),
        ("admissionregistration.k8s.io", plural) => {
            access::webhooks(object, plural.starts_with("mutating"), &mut errors);
        }
        _ => {}
    }
    errors.into_causes()
}
