//! The objects themselves: a replica's pod and its service.

use serde_json::{Value, json};
use trainyard_api::{RestartPolicy, labels};

use crate::action::{Child, Resource};
use crate::framework::{Facts, Framework, is_leader};
use crate::job::{JobView, Slot};
use crate::names;
use crate::net::Net;
use crate::pod_draft::PodDraft;
use crate::record::Record;
use crate::seen::Options;
use crate::steps::gang;

/// A replica's pod.
pub(crate) fn pod(
    framework: &dyn Framework,
    job: &JobView,
    slot: Slot<'_>,
    record: &Record,
    options: &Options,
) -> Child {
    let facts = framework.facts();
    let name = slot.child_name(job);
    let mut draft = PodDraft::new(&slot.role.template, &name, &job.namespace);
    for (key, value) in names::labels(job, slot) {
        draft.set_label(key, value);
    }
    if framework.is_master(job, slot) {
        draft.set_label(labels::JOB_ROLE, labels::JOB_ROLE_MASTER);
    }
    let incarnation = record.incarnation(&slot.role.name, slot.index);
    let numbers = [
        (labels::ATTEMPT, record.attempt),
        (labels::INCARNATION, incarnation),
        (labels::USED, record.restarts),
    ];
    for (key, number) in numbers.into_iter().filter(|(_, number)| *number > 0) {
        draft.set_annotation(key, number.to_string());
    }
    if let Some(ports) = &record.ports {
        draft.set_annotation(labels::PORTS, ports.render());
    }
    // A replica that is replaced joins a gang that has been placed: it waits for nobody.
    if options.gang_on_pods && incarnation == 0 {
        draft.set_annotation(labels::GANG_SIZE, gang_size(job, record).to_string());
    }
    draft.set_metadata("ownerReferences", owner(job));
    if options.track_pods {
        draft.push_finalizer(labels::TRACKING);
    }
    let net = Net::new(job, options, record.ports);
    draft.set_spec("restartPolicy", restart_in_place(framework, job, slot, record, &net).of_pod());
    framework.wire(job, slot, &net, &mut draft);
    if let Some(scheduler) = &options.gang {
        gang::decorate(scheduler, job, &slot.role.label, &mut draft);
    }
    if let Some(port) = net.host_port(slot) {
        draft.set_host_port(facts.container, facts.port_name, port);
        if net.by_service() {
            // The names of services are not known to the machine's own name server.
            draft.default_spec("dnsPolicy", "ClusterFirstWithHostNet");
        }
    }
    Child { what: &Resource::POD, name, body: draft.into_body() }
}

/// What the kubelet may do about a container that ended.
fn restart_in_place(
    framework: &dyn Framework,
    job: &JobView,
    slot: Slot<'_>,
    record: &Record,
    net: &Net<'_>,
) -> RestartPolicy {
    let moves = framework.needs_new_port() && net.host_port(slot).is_some();
    let is_last = job.policy.backoff_limit.is_some_and(|limit| record.restarts >= limit);
    match slot.role.restart {
        // The first restart in place is immediate: nobody could stop one that the limit does not allow.
        RestartPolicy::OnFailure if is_last => RestartPolicy::Never,
        // A container that comes back alone would be of the old attempt among those of the new one.
        RestartPolicy::OnFailure | RestartPolicy::Always if job.restarts_as_one() => RestartPolicy::Never,
        RestartPolicy::OnFailure if moves && is_leader(framework.facts(), job, slot) => RestartPolicy::Never,
        policy => policy,
    }
}

/// How many pods have to be placed together. Replicas that are done will not come again.
pub(crate) fn gang_size(job: &JobView, record: &Record) -> u32 {
    let left = u32::try_from(left(job, record)).unwrap_or(u32::MAX);
    job.policy.min_available.map_or(left, |min| min.min(left))
}

/// Replicas that are not done.
pub(crate) fn left(job: &JobView, record: &Record) -> usize {
    job.slots().filter(|slot| !record.is_finished(&slot.role.name, slot.index)).count()
}

/// A replica's headless service, with every port of the training container. Where the number of a port changes with the
/// attempt (`moves`), the service goes by its name.
pub(crate) fn service(facts: &Facts, job: &JobView, slot: Slot<'_>, moves: bool) -> Child {
    let name = slot.child_name(job);
    let labels = names::labels(job, slot);
    let body = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": job.namespace,
            "labels": labels,
            "ownerReferences": owner(job),
        },
        "spec": { "clusterIP": "None", "selector": labels, "ports": ports(facts, slot, moves) },
    });
    Child { what: &Resource::SERVICE, name, body }
}

/// One entry per port name: the API refuses duplicates, and unnamed ports cannot be told apart.
fn ports(facts: &Facts, slot: Slot<'_>, moves: bool) -> Vec<Value> {
    let containers = slot.role.template.pointer("/spec/containers").and_then(Value::as_array);
    let training = containers
        .into_iter()
        .flatten()
        .find(|c| c.get("name").and_then(Value::as_str) == Some(facts.container));
    let ports = training.and_then(|c| c.get("ports")).and_then(Value::as_array);
    let mut seen = Vec::new();
    let mut list = Vec::new();
    for port in ports.into_iter().flatten() {
        let name = port.get("name").and_then(Value::as_str).unwrap_or_default();
        let Some(number) = port.get("containerPort") else {
            continue;
        };
        if seen.contains(&name) {
            continue;
        }
        seen.push(name);
        list.push(match name {
            "" => json!({ "port": number }),
            name if moves && name == facts.port_name => {
                json!({ "name": name, "port": number, "targetPort": name })
            }
            name => json!({ "name": name, "port": number }),
        });
    }
    list
}

pub(crate) fn owner(job: &JobView) -> Value {
    json!([{
        "apiVersion": job.kind.api_version(),
        "kind": job.kind.name,
        "name": job.name,
        "uid": job.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    }])
}
