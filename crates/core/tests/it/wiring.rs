//! What replicas are told, over all sizes of a job: golden files show a few.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use trainyard_core::explain::explain;
use trainyard_core::*;

use crate::job_gen::{JobSpec, Ports, RoleSpec};
use crate::world::World;

type Env = BTreeMap<String, String>;

/// The environment of each replica of a job, in order; a value that Kubernetes fills in reads as its field.
fn environments(kind: &str, roles: &[(&str, u32)]) -> Vec<Env> {
    let catalog = Catalog::default();
    let kind = catalog.kind(kind).unwrap();
    let container = catalog.framework(kind.framework).unwrap().facts().container;
    let template = json!({ "spec": { "containers": [{ "name": container, "image": "i" }] } });
    let specs: BTreeMap<&str, Value> =
        roles.iter().map(|(name, n)| (*name, json!({ "replicas": n, "template": template }))).collect();
    let job = json!({
        "metadata": { "name": "j", "namespace": "n", "uid": "u" },
        "spec": { kind.replica_specs: specs },
    });
    let explained = explain(&catalog, kind, &job, &Options::default());
    assert_eq!(explained.errors, vec![]);
    let pods = explained.children.iter().filter(|child| child.what == &Resource::POD);
    pods.map(|pod| {
        let entries = pod.body["spec"]["containers"][0]["env"].as_array().unwrap();
        entries
            .iter()
            .map(|entry| {
                let field = &entry["valueFrom"]["fieldRef"]["fieldPath"];
                let value = entry["value"].as_str().or(field.as_str()).unwrap();
                (entry["name"].as_str().unwrap().to_owned(), value.to_owned())
            })
            .collect()
    })
    .collect()
}

fn numbers(environments: &[Env], name: &str) -> Vec<usize> {
    environments.iter().map(|env| env[name].parse().unwrap()).collect()
}

#[test]
fn xgboost_ranks_follow_each_other_and_every_worker_is_listed() {
    for workers in 0..5 {
        let all = environments("XGBoostJob", &[("Master", 1), ("Worker", workers)]);
        let world = workers as usize + 1;
        assert_eq!(numbers(&all, "RANK"), (0..world).collect::<Vec<_>>());
        assert_eq!(numbers(&all, "WORLD_SIZE"), vec![world; world]);
        let listed: Vec<_> = (0..workers).map(|i| format!("j-worker-{i}")).collect();
        for env in &all {
            assert_eq!(env.get("WORKER_ADDRS"), (world > 1).then(|| listed.join(",")).as_ref());
            assert_eq!(env.contains_key("WORKER_PORT"), world > 1);
        }
    }
}

#[test]
fn jax_processes_are_numbered_and_agree_on_the_coordinator() {
    for workers in 1..5 {
        let all = environments("JAXJob", &[("Worker", workers)]);
        assert_eq!(numbers(&all, "PROCESS_ID"), (0..workers as usize).collect::<Vec<_>>());
        for env in &all {
            assert_eq!(env["NUM_PROCESSES"], workers.to_string());
            assert_eq!(env["COORDINATOR_ADDRESS"], "j-worker-0");
        }
    }
}

#[test]
fn paddle_has_one_replica_that_names_itself_and_servers_only_with_a_master() {
    for masters in 0..3 {
        for workers in 1..4 {
            let roles = [("Master", masters), ("Worker", workers)];
            let all = environments("PaddleJob", if masters == 0 { &roles[1..] } else { &roles });
            let total = (masters + workers) as usize;
            assert_eq!(numbers(&all, "PADDLE_NNODES"), vec![total; total]);
            let meeting = if masters > 0 { "j-master-0:36543" } else { "j-worker-0:36543" };
            let told: Vec<&str> = all.iter().map(|env| env["PADDLE_MASTER"].as_str()).collect();
            assert_eq!(told[0], "$(POD_IP_DUMMY):36543");
            assert_eq!(all[0]["POD_IP_DUMMY"], "status.podIP");
            assert!(told[1..].iter().all(|at| *at == meeting), "{told:?}");
            let having = |name: &str| all.iter().filter(|env| env.contains_key(name)).count();
            assert_eq!(having("POD_IP_DUMMY"), 1);
            let parts = if masters > 0 { (masters as usize, workers as usize) } else { (0, 0) };
            assert_eq!((having("PADDLE_SERVER_NUM"), having("PADDLE_TRAINER_NUM")), parts);
        }
    }
}

/// The attempts in which the master of an XGBoostJob ran, when its first run ends with this code.
fn attempts_of_a_tracker(ports: Ports, restart: &'static str, code: i32) -> Vec<u32> {
    let role = |name, replicas| RoleSpec { name, replicas, restart };
    let roles = vec![role("Master", 1), role("Worker", 2)];
    let spec = JobSpec { backoff_limit: Some(1), ports, ..JobSpec::plain("XGBoostJob", roles) };
    let mut world = World::new(&spec, BTreeMap::from([("j-master-0".into(), vec![code, 0])]));
    assert!(world.settle() && world.outcome().contains("Succeeded=True"), "{}", world.outcome());
    world.starts.iter().filter(|start| start.slot == "j-master-0").map(|start| start.attempt).collect()
}

/// XGBoost's tracker cannot listen on its port again for a minute, and every attempt has other ports.
#[test]
fn where_addresses_are_ports_a_tracker_runs_once_in_an_attempt() {
    for ports in [Ports::OneMachine, Ports::HostNetwork] {
        assert_eq!(attempts_of_a_tracker(ports, "OnFailure", 1), [0, 1], "{ports:?}");
        assert_eq!(attempts_of_a_tracker(ports, "ExitCode", 137), [0, 1], "{ports:?}");
    }
    assert_eq!(
        attempts_of_a_tracker(Ports::Fixed, "OnFailure", 1),
        [0, 0],
        "services have names: it restarts in place"
    );
}
