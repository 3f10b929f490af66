//! Whose fault an end was decides what follows from it.

use std::collections::BTreeMap;

use crate::job_gen::{JobSpec, RoleSpec};
use crate::world::World;

fn one_worker(restart: &'static str) -> World {
    let spec = JobSpec {
        kind: "TFJob",
        roles: vec![RoleSpec { name: "Worker", replicas: 1, restart }],
        backoff_limit: Some(0),
        deadline: None,
        ttl: None,
        clean: None,
        all_workers: false,
        as_one: false,
        host_ports: false,
        gang: false,
        tracks: false,
    };
    let mut world = World::new(&spec, BTreeMap::from([("j-worker-0".into(), vec![1])]));
    world.reconcile();
    world.tick("j-worker-0");
    world
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
