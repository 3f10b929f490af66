//! Whose fault an end was decides what follows from it.

use std::collections::BTreeMap;

use crate::job_gen::{JobSpec, RoleSpec};
use crate::world::World;

fn workers(kind: &'static str, replicas: u32, restart: &'static str, limit: Option<u32>, code: i32) -> World {
    let roles = vec![RoleSpec { name: "Worker", replicas, restart }];
    let spec = JobSpec { backoff_limit: limit, ..JobSpec::plain(kind, roles) };
    let mut world = World::new(&spec, BTreeMap::from([("j-worker-0".into(), vec![code])]));
    world.reconcile();
    world.tick("j-worker-0");
    world
}

fn one_worker(restart: &'static str) -> World {
    workers("TFJob", 1, restart, Some(0), 1)
}

/// The events of the next plan: whether they warn, and their reasons.
fn told(world: &mut World) -> Vec<(bool, String)> {
    let events = world.reconcile().map(|plan| plan.events).unwrap_or_default();
    events.into_iter().map(|event| (event.warning, event.reason)).collect()
}

#[test]
fn an_eviction_is_no_failure_whatever_the_exit_code() {
    for restart in ["Always", "OnFailure", "ExitCode"] {
        let mut world = one_worker(restart);
        world.evict("j-worker-0");
        world.reconcile();
        assert!(!world.is_over(), "{restart}: {}", world.outcome());
        assert_eq!(world.job().unwrap().record.restarts, 0, "{restart}: it costs nothing");
    }
}

#[test]
fn the_same_end_by_itself_is_one() {
    for restart in ["Always", "OnFailure", "ExitCode", "Never"] {
        let mut world = one_worker(restart);
        world.tick("j-worker-0");
        world.reconcile();
        assert!(world.is_over(), "{restart}: {}", world.outcome());
    }
}

#[test]
fn an_exit_code_that_fails_the_job_is_a_warning() {
    let mut world = workers("JAXJob", 2, "ExitCode", None, 1);
    world.tick("j-worker-0");
    let first = (true, "FirstFailure".into());
    assert_eq!(told(&mut world), [(false, "ExitedWithCode".into()), first, (true, "JAXJobFailed".into())]);
}

#[test]
fn the_end_of_a_replica_that_decides_nothing_is_told_once() {
    let mut world = workers("JAXJob", 2, "Never", None, 0);
    world.tick("j-worker-0");
    assert_eq!(told(&mut world), [(false, "ExitedWithCode".into())]);
    assert_eq!(told(&mut world), []);
}

#[test]
fn a_running_pod_that_is_deleted_is_a_restart_that_is_told() {
    let mut world = workers("JAXJob", 2, "OnFailure", None, 0);
    world.reconcile();
    world.delete("j-worker-0");
    assert_eq!(told(&mut world), [(true, "JAXJobRestarting".into())]);
    assert_eq!(told(&mut world), []);
}
