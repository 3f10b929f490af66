//! The properties of a planner in a world that misbehaves, P12 to P18, each over thousands of worlds.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;
use trainyard_api::labels;
use trainyard_core::conditions::is_finished;
use trainyard_core::*;

use crate::job_gen::{JobSpec, Ports, RoleSpec, job_spec};
use crate::properties::{Step, config, exits, run, step, world_after};
use crate::world::{Crash, RUNS_ON, World};

/// What a plan creates, without identities.
fn creations(plan: &Plan) -> BTreeMap<String, String> {
    let created = plan.actions.iter().filter_map(|action| match action {
        Action::Create(child) => {
            let mut body = child.body.clone();
            body["metadata"]["ownerReferences"] = serde_json::Value::Null;
            Some((format!("{} {}", child.what.kind, child.name), body.to_string()))
        }
        Action::Delete { .. } | Action::Amend { .. } | Action::Release { .. } | Action::DeleteJob { .. } => {
            None
        }
    });
    created.collect()
}

proptest! {
    #![proptest_config(config())]

    /// P12: a job has Succeeded only if whoever decides has done its work, and not because it was asked to end.
    #[test]
    fn p12_success_is_earned(
        spec in job_spec(), exits in exits(), steps in prop::collection::vec(step(), 0..40),
    ) {
        let mut world = World::new(&spec, exits);
        for step in &steps {
            let ended = world.is_over();
            run(&mut world, step);
            prop_assert!(ended || world.unearned().is_none(), "{:?} after {:?}", world.unearned(), step);
        }
    }

    /// P13: a copy of a job is a new job, whatever was written on the old one.
    #[test]
    fn p13_a_copy_is_a_new_job(
        spec in job_spec(), exits in exits(), steps in prop::collection::vec(step(), 0..40),
    ) {
        // What users changed in the spec meanwhile is in the copy, too.
        let changes = |step: &Step| {
            matches!(step, Step::Suspend(_) | Step::Scale(_) | Step::Break(_) | Step::RefuseWrites(..))
        };
        let kept = |step: &&Step| !changes(step);
        let steps: Vec<Step> = steps.iter().filter(kept).cloned().collect();
        let spec = JobSpec { ports: Ports::Fixed, ..spec };
        let mut copy = world_after(&spec, &exits, &steps);
        let mut new = World::new(&spec, exits);
        copy.copy(false);
        if copy.job().is_none() {
            return Ok(());
        }
        for _ in 0..3 {
            let (copied, made) = (copy.reconcile().unwrap(), new.reconcile().unwrap());
            prop_assert_eq!(creations(&copied), creations(&made));
            let types = |plan: Plan| plan.status.map(|status| {
                status.conditions.into_iter().map(|c| (c.type_, c.status)).collect::<Vec<_>>()
            });
            prop_assert_eq!(types(copied), types(made));
        }
    }

    /// P14: a job that loses its record goes on; it does not end by that, and no pod that runs is ended.
    #[test]
    fn p14_a_lost_record_ends_nothing(
        spec in job_spec(), exits in exits(), steps in prop::collection::vec(step(), 0..40),
    ) {
        let mut world = world_after(&spec, &exits, &steps);
        world.reconcile();
        world.reconcile();
        let Some((before, _)) = world.plan(0, 0) else { return Ok(()) };
        let quiet = before.status.is_none() && before.actions.is_empty() && before.record.is_none();
        // What is left of an earlier attempt looks like a replica that somebody deletes: only the record could tell.
        if !quiet || world.is_over() || world.has_leftovers() {
            return Ok(());
        }
        run(&mut world, &Step::LoseRecord);
        let (after, _) = world.plan(0, 0).unwrap();
        prop_assert!(!after.status.as_ref().is_some_and(is_finished), "ended by it: {:?}", after.report);
        let running: Vec<&str> = world.running();
        let ended = after.actions.iter().find(|action| {
            matches!(action, Action::Delete { what, name, .. }
                if **what == Resource::POD && running.contains(&name.as_str()))
        });
        prop_assert!(ended.is_none(), "{:?}", ended);
    }

    /// P15: a node that refuses every pod gets only so many of them in an hour.
    #[test]
    fn p15_refused_pods_are_not_replaced_without_end(
        spec in job_spec(), reason in prop::sample::select(&["UnexpectedAdmissionError", "SysctlForbidden"][..]),
    ) {
        let mut world = World::new(&JobSpec { deadline: None, ttl: None, ..spec }, BTreeMap::new());
        let replicas = world.job().unwrap().total_replicas() as usize;
        let end = world.now.as_second() + 3600;
        let mut refused = 0;
        while world.now.as_second() < end {
            world.reconcile();
            let names = world.pod_names();
            let pending = names.iter().filter(|name| world.refuse(name, reason)).count();
            let gone = names.iter().filter(|name| world.leaves(name)).count();
            refused += pending;
            prop_assert!(refused <= replicas * 20, "{} pods in an hour", refused);
            if pending + gone == 0 {
                let wake = world.plan(0, 0).and_then(|(plan, _)| plan.wake);
                let Some(wake) = wake.filter(|wake| *wake > world.now) else { break };
                world.now = wake;
            }
        }
    }

    /// P16: once everything was done about the end of a job, no pod of it is yet to start.
    #[test]
    fn p16_nothing_starts_after_the_end(
        spec in job_spec(), exits in exits(), steps in prop::collection::vec(step(), 0..40),
    ) {
        let mut world = world_after(&spec, &exits, &steps);
        for _ in 0..3 {
            world.reconcile();
        }
        prop_assert!(world.yet_to_start().is_empty(), "{:?}", world.yet_to_start());
    }

    /// P17: no clock of a node makes a replica wait longer than the longest delay.
    #[test]
    fn p17_no_clock_prolongs_a_delay(
        spec in job_spec(), exits in exits(), steps in prop::collection::vec(step(), 0..40),
        skew in prop::sample::select(&[-3600, 3600][..]),
    ) {
        let spec = JobSpec { deadline: None, ttl: None, ..spec };
        let mut world = World::new(&spec, exits);
        for step in &steps {
            for name in world.pod_names() {
                world.skew(&name, skew);
            }
            run(&mut world, step);
            let Some((plan, _)) = world.plan(0, 0) else { return Ok(()) };
            let waits = plan.wake.map(|wake| wake.duration_since(world.now).as_secs());
            prop_assert!(waits.is_none_or(|waits| waits <= 300), "{:?} s: {}", waits, plan.report);
        }
    }

    /// P18: a record that the server refuses holds up what relies on it, and nothing else.
    #[test]
    fn p18_a_refused_record_holds_up_no_end(
        spec in job_spec(), exits in exits(), steps in prop::collection::vec(step(), 0..40), code in prop::sample::select(&[422, 500][..]),
    ) {
        let mut world = world_after(&spec, &exits, &steps);
        world.grant_writes();
        let Some((free, job)) = world.plan(0, 0) else { return Ok(()) };
        let broken = world.state.broken;
        world.refuse_writes(&Resource::RECORD, code);
        for _ in 0..3 {
            world.execute(&free, &job, Crash { stage: 1, ..Crash::NONE });
        }
        if free.record.is_none() {
            return Ok(());
        }
        let (held, _) = world.plan(0, 0).unwrap();
        prop_assert_eq!(&held.record, &None, "a refused record is tried at once: {:?}", held.report);
        prop_assert!(held.wake.is_some(), "a refused record is never tried again");
        let status = free.status.as_ref().unwrap_or(&job.status);
        // A pod is let go as soon as what became of it is stored.
        let relies = |action: &&Action| !matches!(action, Action::Release { .. });
        if is_finished(status) || job.policy.suspend && !broken {
            prop_assert_eq!(&held.status, &free.status);
            prop_assert_eq!(&held.actions, &free.actions);
        } else {
            prop_assert_eq!(held.actions.iter().find(relies), None);
        }
        if !held.actions.iter().all(|action| relies(&action)) || broken && is_finished(status) {
            // A pod that goes is news, and a job that fails for its spec is cleaned up by the plan after.
            return Ok(());
        }
        world.reconcile();
        let Some((again, _)) = world.plan(0, 0) else { return Ok(()) };
        prop_assert_eq!((&again.record, &again.status), (&None, &None), "after {:?}", held);
        let more = |action: &&Action| relies(action) && !held.actions.contains(action);
        prop_assert_eq!(again.actions.iter().find(more), None, "after {:?}", held);
    }
}

/// A job that was preempted often restarts a failed replica as soon as one that never was.
#[test]
fn suspend_cycles_cost_no_delay() {
    let spec = JobSpec::plain("TFJob", vec![RoleSpec { name: "Worker", replicas: 2, restart: "ExitCode" }]);
    let exits = BTreeMap::from([("j-worker-0".into(), vec![RUNS_ON; 9])]);
    let mut world = World::new(&spec, exits);
    let settle = |world: &mut World| {
        for _ in 0..3 {
            world.reconcile();
            for name in world.pod_names() {
                world.tick(&name);
            }
        }
        world.reconcile();
    };
    for _ in 0..5 {
        settle(&mut world);
        world.suspend(true);
        settle(&mut world);
        world.suspend(false);
    }
    settle(&mut world);
    world.exit("j-worker-0", 137);
    let plan = world.reconcile().unwrap();
    let waits = plan.wake.map(|wake| wake.duration_since(world.now).as_secs());
    assert!(waits.is_none_or(|waits| waits <= 10), "the first failure waits {waits:?} s");
}

/// A job that asks for ports of its own, read from an object whose record claims all ports there are.
fn claims_all_ports(suspend: bool) -> Decoded {
    let spec = JobSpec { ports: Ports::HostNetwork, ..two_workers() };
    let mut object = spec.manifest();
    let record = json!({ "v": 2, "uid": "job-uid", "ports": { "base": 20_000, "size": 10_000 } });
    object["metadata"]["annotations"][labels::RECORD] = record.to_string().into();
    object["spec"]["runPolicy"]["suspend"] = suspend.into();
    let catalog = Catalog::default();
    decode(&catalog, catalog.kind(spec.kind).unwrap(), &object).unwrap_or_else(|bad| panic!("{}", bad.error))
}

#[test]
fn a_forged_block_of_ports_keeps_nobody_from_ports() {
    let held = |suspend: bool| {
        let Decoded { job, framework, .. } = claims_all_ports(suspend);
        assert!(job.record.ports.is_some());
        ports_held(framework, &job, Addressing::Service)
    };
    assert_eq!(held(true), None, "a suspended job holds no ports");
    assert!(held(false).is_some_and(|block| block.size <= 8), "a job holds no more than it needs");
}

#[test]
fn a_typo_in_an_annotation_fails_no_job() {
    for key in [labels::START_DEADLINE, labels::HOST_PORTS, labels::RESTART_SCOPE] {
        let mut object = two_workers().manifest();
        object["metadata"]["annotations"][key] = "10m".into();
        let catalog = Catalog::default();
        let decoded = decode(&catalog, catalog.kind("JAXJob").unwrap(), &object);
        let decoded = decoded.unwrap_or_else(|bad| panic!("{}", bad.error));
        assert_eq!((decoded.errors.len(), decoded.job.ignored.len()), (0, 1), "{key}");
    }
}

fn two_workers() -> JobSpec {
    JobSpec::plain("JAXJob", vec![RoleSpec { name: "Worker", replicas: 2, restart: "ExitCode" }])
}
