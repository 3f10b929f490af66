//! Pods that are kept until their end is written down: when they are let go, and when not yet.

use std::collections::BTreeMap;

use trainyard_core::*;

use crate::job_gen::{JobSpec, RoleSpec};
use crate::world::{RUNS_ON, World};

/// Two workers, of which the first runs on and the second ends with this code; both run.
fn two_workers(restart: &'static str, code: i32) -> World {
    let roles = vec![RoleSpec { name: "Worker", replicas: 2, restart }];
    let spec = JobSpec { tracks: true, ..JobSpec::plain("JAXJob", roles) };
    let exits = [("j-worker-0".into(), vec![RUNS_ON]), ("j-worker-1".into(), vec![code])];
    let mut world = World::new(&spec, BTreeMap::from(exits));
    world.reconcile();
    world.tick("j-worker-0");
    world.tick("j-worker-1");
    world
}

/// Whom a plan lets go.
fn released(plan: &Plan) -> Vec<&str> {
    let names = plan.actions.iter().filter_map(|action| match action {
        Action::Release { name, .. } => Some(name.as_str()),
        _ => None,
    });
    names.collect()
}

#[test]
fn a_success_is_stored_before_its_pod_may_go() {
    let mut world = two_workers("Never", 0);
    world.tick("j-worker-1");
    let first = world.reconcile().unwrap();
    assert!(first.record.is_some() && released(&first).is_empty(), "{:?}", first.actions);
    let second = world.reconcile().unwrap();
    assert_eq!(released(&second), ["j-worker-1"], "and the one that runs stays");
    assert!(released(&world.reconcile().unwrap()).is_empty(), "once is enough");
}

#[test]
fn a_pod_that_succeeded_and_was_deleted_unseen_is_counted_and_goes() {
    let mut world = two_workers("OnFailure", 0);
    world.tick("j-worker-1");
    world.delete("j-worker-1");
    world.tick("j-worker-1");
    assert!(world.state.pods.contains_key("j-worker-1"), "it is kept");
    world.reconcile();
    world.reconcile();
    assert!(!world.state.pods.contains_key("j-worker-1"), "it is counted, and gone");
    let plan = world.reconcile().unwrap();
    assert!(plan.actions.is_empty(), "nobody is made in its place: {:?}", plan.actions);
}

#[test]
fn a_failure_is_counted_before_its_pod_may_go() {
    let mut world = two_workers("ExitCode", 137);
    world.tick("j-worker-1");
    world.pass(1);
    world.delete("j-worker-1");
    world.tick("j-worker-1");
    let first = world.reconcile().unwrap();
    assert_eq!(first.record.as_ref().map(|record| record.restarts), Some(1));
    assert!(released(&first).is_empty());
    assert_eq!(released(&world.reconcile().unwrap()), ["j-worker-1"]);
}

#[test]
fn a_job_that_ended_lets_everybody_go_once_that_is_stored() {
    let mut world = two_workers("Never", 1);
    world.tick("j-worker-1");
    let first = world.reconcile().unwrap();
    assert!(world.is_over() && released(&first).is_empty());
    assert_eq!(released(&world.reconcile().unwrap()), ["j-worker-0", "j-worker-1"]);
}

#[test]
fn a_suspended_job_keeps_nobody() {
    let mut world = two_workers("Never", 0);
    world.suspend(true);
    world.reconcile();
    assert_eq!(released(&world.reconcile().unwrap()), ["j-worker-0", "j-worker-1"]);
}
