//! Arbitrary jobs: every kind there is, every policy, every limit, both addressings.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use serde_json::{Map, Value, json};
use trainyard_core::framework::decider;
use trainyard_core::*;

/// Everything about a job that the properties vary.
#[derive(Clone, Debug)]
pub(crate) struct JobSpec {
    pub(crate) kind: &'static str,
    pub(crate) roles: Vec<RoleSpec>,
    pub(crate) backoff_limit: Option<u32>,
    pub(crate) deadline: Option<u32>,
    pub(crate) ttl: Option<u32>,
    pub(crate) clean: Option<&'static str>,
    pub(crate) all_workers: bool,
    pub(crate) as_one: bool,
    pub(crate) ports: Ports,
    pub(crate) gang: bool,
    pub(crate) tracks: bool,
}

/// How the replicas of a job are addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ports {
    /// By services.
    Fixed,
    /// By services, with the network of their machines and ports of their own there.
    HostNetwork,
    /// By ports of the one machine there is.
    OneMachine,
}

#[derive(Clone, Debug)]
pub(crate) struct RoleSpec {
    pub(crate) name: &'static str,
    pub(crate) replicas: u32,
    pub(crate) restart: &'static str,
}

const POLICIES: [&str; 4] = ["Always", "OnFailure", "Never", "ExitCode"];

fn role(name: &'static str, replicas: std::ops::RangeInclusive<u32>) -> impl Strategy<Value = RoleSpec> {
    (replicas, prop::sample::select(&POLICIES[..])).prop_map(move |(replicas, restart)| RoleSpec {
        name,
        replicas,
        restart,
    })
}

/// The replica types of a kind: mostly one leader where it knows any, mostly workers, sometimes the others.
fn roles_of(kind: &Kind) -> impl Strategy<Value = Vec<RoleSpec>> + use<> {
    let facts = facts(kind);
    let leader = if facts.leaders.is_empty() {
        Just(None).boxed()
    } else {
        let replicas = prop_oneof![4 => Just(1), 1 => Just(2)];
        let leader =
            (prop::sample::select(facts.leaders), replicas).prop_flat_map(|(name, n)| role(name, n..=n));
        prop::option::weighted(0.6, leader).boxed()
    };
    let others = facts.roles.iter().copied().filter(|name| !facts.leaders.contains(name));
    let others: Vec<_> = others
        .map(|name| {
            let often = if name == facts.followers { 0.9 } else { 0.3 };
            prop::option::weighted(often, role(name, 0..=3))
        })
        .collect();
    (leader, others)
        .prop_map(|(leader, others)| leader.into_iter().chain(others.into_iter().flatten()).collect())
}

fn facts(kind: &Kind) -> &'static Facts {
    Catalog::default().framework(kind.framework).unwrap().facts()
}

fn roles() -> impl Strategy<Value = (&'static Kind, Vec<RoleSpec>)> {
    prop::sample::select(kinds::ALL).prop_flat_map(|kind| (Just(kind), roles_of(kind)))
}

/// Any job.
pub(crate) fn job_spec() -> impl Strategy<Value = JobSpec> {
    let limits = (
        prop::option::weighted(0.7, 0_u32..=3),
        prop::option::weighted(0.2, 5_u32..=200),
        prop::option::weighted(0.2, 0_u32..=50),
        prop::sample::select(&[None, Some("None"), Some("Running"), Some("All")][..]),
    );
    let ports =
        prop_oneof![5 => Just(Ports::Fixed), 2 => Just(Ports::HostNetwork), 3 => Just(Ports::OneMachine)];
    let flags = (any::<bool>(), prop::bool::weighted(0.2), ports, any::<bool>(), any::<bool>());
    (roles(), limits, flags)
        .prop_map(|((kind, roles), limits, flags)| {
            let (backoff_limit, deadline, ttl, clean) = limits;
            let (all_workers, as_one, ports, gang, tracks) = flags;
            JobSpec {
                kind: kind.name,
                roles,
                backoff_limit,
                deadline,
                ttl,
                clean,
                all_workers,
                as_one,
                ports,
                gang,
                tracks,
            }
        })
        .prop_filter("a job that may run, with somebody to decide about it", JobSpec::can_end)
}

impl JobSpec {
    /// A job that asks for nothing but its replicas.
    pub(crate) fn plain(kind: &'static str, roles: Vec<RoleSpec>) -> Self {
        Self {
            kind,
            roles,
            backoff_limit: None,
            deadline: None,
            ttl: None,
            clean: None,
            all_workers: false,
            as_one: false,
            ports: Ports::Fixed,
            gang: false,
            tracks: false,
        }
    }

    /// The manifest.
    pub(crate) fn manifest(&self) -> Value {
        let kind = Catalog::default().kind(self.kind).unwrap();
        let (field, container) = (kind.replica_specs, facts(kind).container);
        let specs: Map<String, Value> = self
            .roles
            .iter()
            .map(|role| {
                let template = json!({ "spec": {
                    "containers": [{ "name": container, "image": "i" }],
                    "hostNetwork": self.ports == Ports::HostNetwork,
                } });
                let spec =
                    json!({ "replicas": role.replicas, "restartPolicy": role.restart, "template": template });
                (role.name.to_owned(), spec)
            })
            .collect();
        let mut policy = Map::new();
        let mut put = |key: &str, value: Option<Value>| value.map(|value| policy.insert(key.into(), value));
        put("backoffLimit", self.backoff_limit.map(Value::from));
        put("activeDeadlineSeconds", self.deadline.map(Value::from));
        put("ttlSecondsAfterFinished", self.ttl.map(Value::from));
        put("cleanPodPolicy", self.clean.map(Value::from));
        let mut spec = Map::from_iter([("runPolicy".into(), policy.into()), (field.into(), specs.into())]);
        if self.kind == "TFJob" && self.all_workers {
            spec.insert("successPolicy".into(), "AllWorkers".into());
        }
        let annotations = json!({
            "trainyard.dev/restart-scope": if self.as_one { "job" } else { "replica" },
            "trainyard.dev/host-ports": (self.ports == Ports::HostNetwork).to_string(),
        });
        json!({
            "apiVersion": "kubeflow.org/v1",
            "kind": self.kind,
            "metadata": { "name": "j", "namespace": "n", "uid": "job-uid", "annotations": annotations },
            "spec": spec,
        })
    }

    /// True when the job breaks no rule and has a replica whose end decides.
    fn can_end(&self) -> bool {
        let catalog = Catalog::default();
        let decoded = decode(&catalog, catalog.kind(self.kind).unwrap(), &self.manifest())
            .unwrap_or_else(|bad| panic!("{}", bad.error));
        let decider =
            decider(decoded.framework.facts(), &decoded.job).and_then(|name| decoded.job.role(name));
        decoded.errors.is_empty() && decider.is_some_and(|role| role.replicas > 0)
    }

    /// True when some end of a replica would be followed by a restart for ever.
    pub(crate) fn may_never_end(&self) -> bool {
        self.roles.iter().any(|role| role.restart == "Always") && self.backoff_limit.is_none()
    }
}

#[test]
fn every_kind_is_tried_and_leaders_are_left_out_where_that_is_legal() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen = BTreeSet::new();
    for _ in 0..500 {
        let spec = job_spec().new_tree(&mut runner).unwrap().current();
        let leaders = facts(Catalog::default().kind(spec.kind).unwrap()).leaders;
        seen.insert((spec.kind, spec.roles.iter().any(|role| leaders.contains(&role.name))));
    }
    for kind in kinds::ALL {
        assert!(seen.iter().any(|(name, _)| *name == kind.name), "{} is never tried", kind.name);
    }
    assert!(seen.contains(&("PaddleJob", true)) && seen.contains(&("PaddleJob", false)));
}
