//! A job kind that only this test knows: what an operator author writes. This file, and one line in a table.

use serde::Deserialize;
use trainyard_api::{ReplicaSpecs, RestartPolicy, RunPolicy};
use trainyard_core::framework::{Facts, Framework, Rendezvous};
use trainyard_core::job::{JobView, Slot};
use trainyard_core::kind::{Kind, Wording, check_as};
use trainyard_core::net::Net;
use trainyard_core::pod_draft::PodDraft;

/// Where things are.
pub(crate) static KIND: Kind = Kind {
    name: "RingJob",
    group: "example.com",
    version: "v1",
    plural: "ringjobs",
    singular: "ringjob",
    controller: "ringjob-controller",
    replica_specs: "ringReplicaSpecs",
    framework: "ring",
    selector_in_status: false,
    exact_replica_types: true,
    check_spec: check_as::<Spec>,
    wording: |_| Wording {
        qualified: false,
        succeeded: "has come full circle",
        failed_qualified: false,
        failed: "is broken because",
    },
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    #[expect(dead_code, reason = "only decoded")]
    run_policy: RunPolicy,
    #[expect(dead_code, reason = "only decoded")]
    ring_replica_specs: ReplicaSpecs,
}

/// How replicas find each other: everybody knows the next.
pub(crate) struct Ring;

static FACTS: Facts = Facts {
    name: "ring",
    roles: &["Member"],
    leaders: &[],
    followers: "Member",
    container: "ring",
    port_name: "ring-port",
    port: 7000,
    restart: RestartPolicy::Never,
    rendezvous: Rendezvous::Everyone,
    ..Facts::USUAL
};

impl Framework for Ring {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn wire(&self, _: &JobView, slot: Slot<'_>, net: &Net<'_>, pod: &mut PodDraft) {
        let next = Slot { index: (slot.index + 1) % slot.role.replicas, ..slot };
        pod.set_env(FACTS.container, "NEXT", format!("{}:{}", net.host(next), net.port(next)));
    }
}
