//! What the scheduler says, and what it must never do.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::simulator::{TICK, jobs, live, machines, stream};
use super::*;

const NOON: i64 = 1_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A pod with so many processors and GPUs, created at a second.
fn pod(name: &str, created: i64, cpu: &str, gpus: u32) -> Value {
    json!({
        "metadata": {
            "namespace": "default", "name": name, "uid": name, "creationTimestamp": at(created).to_string(),
            "annotations": {},
        },
        "spec": { "containers": [{
            "name": "a", "resources": { "limits": { "cpu": cpu, "nvidia.com/gpu": gpus } },
        }] },
    })
}

fn member(name: &str, created: i64, cpu: &str, gpus: u32, owner: &str, size: u32) -> Value {
    let mut pod = pod(name, created, cpu, gpus);
    pod["metadata"]["ownerReferences"] =
        json!([{ "apiVersion": "v1", "kind": "Job", "name": owner, "uid": owner, "controller": true }]);
    if size > 0 {
        pod["metadata"]["annotations"]["trainyard.dev/gang-size"] = json!(size.to_string());
    } else {
        pod["metadata"]["annotations"]["trainyard.dev/incarnation"] = json!("1");
    }
    pod
}

fn on_node(mut pod: Value, gpus: &str) -> Value {
    pod["spec"]["nodeName"] = json!("here");
    pod["metadata"]["annotations"]["trainyard.dev/gpus"] = json!(gpus);
    pod
}

fn machine() -> Inventory {
    Inventory::new("here", 4000, 8 << 30).with_fake_gpus(4)
}

fn decide_on(inventory: &Inventory, pods: &[Value], now: i64) -> Vec<Decision> {
    let pods: Vec<Pod> = pods.iter().map(|pod| serde_json::from_value(pod.clone()).unwrap()).collect();
    let (waiting, placed) = split(&pods, &BTreeMap::new(), inventory);
    schedule(&waiting, &placed, inventory, at(now))
}

fn decide(pods: &[Value], now: i64) -> Vec<String> {
    decide_on(&machine(), pods, now).iter().map(text).collect()
}

fn text(decision: &Decision) -> String {
    match decision {
        Decision::Place { pod, gpus } if gpus.is_empty() => format!("{} starts", pod.name),
        Decision::Place { pod, gpus } => format!("{} starts with {}", pod.name, gpus.join(",")),
        Decision::Wait { pod, message, .. } => format!("{}: {message}", pod.name),
    }
}

#[test]
fn a_pod_that_fits_starts_with_the_lowest_free_gpus() {
    let running = on_node(pod("old", 0, "1", 1), "GPU-fake-0");
    let decisions = decide(&[running, pod("new", NOON, "1", 2)], NOON);
    assert_eq!(decisions, ["new starts with GPU-fake-1,GPU-fake-2"]);
}

#[test]
fn who_holds_what_is_missing_is_told() {
    let holders: Vec<Value> = (0..4).map(|n| on_node(pod(&format!("a-{n}"), 0, "1", 0), "")).collect();
    let decisions = decide(&[holders, vec![pod("new", NOON, "2", 0)]].concat(), NOON);
    let message =
        "new: waiting for 2 cpu: 4 of 4 are in use by default/a-0, default/a-1, default/a-2, 1 more";
    assert_eq!(decisions, [message]);
}

#[test]
fn what_can_never_run_says_so_and_blocks_nobody() {
    let mut pods: Vec<Value> = (0..4).map(|n| member(&format!("g-{n}"), 0, "1", 1, "job", 4)).collect();
    pods.push(pod("large", 0, "64", 0));
    pods.push(pod("small", NOON, "1", 0));
    let decisions = decide_on(&machine().with_fake_gpus(1), &pods, NOON);
    let never = "g-0: 0/1 nodes are available: this machine has 1 nvidia.com/gpu, the gang of 4 pods needs 4: it can never run here";
    assert_eq!(text(&decisions[0]), never);
    assert!(matches!(decisions[0], Decision::Wait { never: true, .. }));
    let large =
        "large: 0/1 nodes are available: this machine has 4 cpu, the pod needs 64: it can never run here";
    assert_eq!(text(&decisions[4]), large);
    assert_eq!(text(&decisions[5]), "small starts");
}

#[test]
fn a_resource_nobody_knows_and_a_quantity_that_is_none_can_never_be_had() {
    let mut tpu = pod("tpu", 0, "1", 0);
    tpu["spec"]["containers"][0]["resources"]["limits"]["google.com/tpu"] = json!("4");
    let decisions = decide(&[tpu, pod("odd", 1, "lots", 0)], NOON);
    assert!(decisions[0].contains("this machine has 0 google.com/tpu, the pod needs 4"), "{decisions:?}");
    assert!(decisions[1].contains("\"lots\" is not a quantity"), "{decisions:?}");
}

#[test]
fn a_selector_for_another_node_is_told() {
    let mut here = pod("here", 0, "1", 0);
    here["spec"]["nodeSelector"] = json!({ "kubernetes.io/os": "linux", "kubernetes.io/hostname": "here" });
    let mut there = pod("there", 1, "1", 0);
    there["spec"]["nodeSelector"] = json!({ "pool": "a100" });
    let why = "there: 0/1 nodes are available: nodeSelector wants pool=a100, this machine has no such label: it can never run here";
    assert_eq!(decide(&[here, there], NOON), ["here starts", why]);
}

#[test]
fn a_gang_waits_until_it_is_complete() {
    let pods: Vec<Value> = (0..3).map(|n| member(&format!("g-{n}"), 0, "1", 0, "job", 4)).collect();
    let mut all = pods.clone();
    all.push(pod("other", NOON, "4", 0));
    let decisions = decide(&all, NOON);
    assert_eq!(decisions[0], "g-0: waiting for the gang: 3 of 4 pods exist");
    assert_eq!(decisions[3], "other starts", "an incomplete gang blocks nobody");
    let complete = [pods, vec![member("g-3", NOON, "1", 0, "job", 4)]].concat();
    assert_eq!(decide(&complete, NOON), ["g-0 starts", "g-1 starts", "g-2 starts", "g-3 starts"]);
}

#[test]
fn a_gang_that_does_not_fit_leaves_its_place_for_a_minute() {
    let running = on_node(pod("old", 0, "1", 0), "");
    let gang: Vec<Value> = (0..2).map(|n| member(&format!("g-{n}"), NOON, "2", 0, "job", 2)).collect();
    let small = pod("small", NOON + 1, "1", 0);
    let all = [vec![running, small], gang].concat();
    let room = "waiting for 4 cpu for the gang of 2 pods: 1 of 4 are in use by default/old";
    let soon = decide(&all, NOON + 59);
    assert_eq!(soon, [format!("g-0: {room}"), format!("g-1: {room}"), "small starts".into()]);
    let late = decide(&all, NOON + 60);
    let behind = "small: waiting behind default/g-0: it came first and has waited long, so nothing passes it";
    assert_eq!(late, [format!("g-0: {room}"), format!("g-1: {room}"), behind.into()]);
}

#[test]
fn a_gang_that_has_begun_comes_first() {
    let begun = on_node(member("g-0", NOON, "1", 0, "job", 3), "");
    let rest = [member("g-1", NOON, "1", 0, "job", 3), member("g-2", NOON, "2", 0, "job", 3)];
    let older = pod("older", 0, "1", 0);
    let decisions = decide(&[vec![older, begun], rest.to_vec()].concat(), NOON);
    let full = "older: waiting for 1 cpu: 4 of 4 are in use by default/g-0, default/g-1, default/g-2";
    assert_eq!(decisions, ["g-1 starts", "g-2 starts", full]);
}

#[test]
fn a_replacement_joins_its_gang_before_others() {
    let running = on_node(member("g-0", 0, "2", 0, "job", 2), "");
    let again = member("g-1", NOON, "2", 0, "job", 0);
    let decisions = decide(&[running.clone(), pod("older", 1, "2", 0), again], NOON);
    assert_eq!(decisions[0], "g-1 starts");
    // The last of its gang: nobody is left to join, and it waits for nobody.
    let mut ended = running;
    ended["status"] = json!({ "phase": "Succeeded" });
    let alone = member("g-1", NOON, "4", 0, "job", 0);
    assert_eq!(decide(&[ended, alone.clone()], NOON), ["g-1 starts"]);
    assert_eq!(decide(&[alone], NOON), ["g-1 starts"]);
}

#[test]
fn another_attempt_is_another_gang() {
    let mut old = on_node(member("g-0", 0, "1", 0, "job", 2), "");
    old["metadata"]["annotations"]["trainyard.dev/attempt"] = json!("1");
    let new = member("g-1", NOON, "1", 0, "job", 2);
    assert_eq!(decide(&[old, new], NOON), ["g-1: waiting for the gang: 1 of 2 pods exist"]);
}

#[test]
fn an_elastic_gang_begins_with_what_fits_and_the_rest_is_in_no_hurry() {
    let pods: Vec<Value> = (0..4).map(|n| member(&format!("g-{n}"), 0, "2", 0, "job", 2)).collect();
    let decisions = decide(&pods, NOON);
    let surplus = "waiting for room: the gang starts with 2 of 4 pods";
    assert_eq!(
        decisions,
        ["g-0 starts".into(), "g-1 starts".into(), format!("g-2: {surplus}"), format!("g-3: {surplus}")]
    );
    let running = [on_node(pods[0].clone(), ""), pods[1].clone(), pods[2].clone()];
    let one = decide(&running, NOON);
    assert_eq!(one[0], "g-1 starts");
    assert!(one[1].starts_with("g-2: waiting for 2 cpu"), "{one:?}");
}

#[test]
fn more_than_fits_beside_its_own_gang_blocks_nobody() {
    let running: Vec<Value> =
        (0..2).map(|n| on_node(member(&format!("g-{n}"), 0, "1500m", 0, "job", 3), "")).collect();
    let scaled = member("g-2", 1, "1500m", 0, "job", 3);
    let small = pod("small", NOON, "1", 0);
    let decisions = decide(&[running, vec![scaled, small]].concat(), NOON);
    assert!(decisions[0].contains("the pod needs 1500m beside the other pods of its gang"), "{decisions:?}");
    assert_eq!(decisions[1], "small starts");
}

#[test]
fn a_host_port_is_had_once() {
    let with_port = |mut pod: Value, protocol: &str| {
        let port = json!([{ "containerPort": 80, "hostPort": 8080, "protocol": protocol }]);
        pod["spec"]["containers"][0]["ports"] = port;
        pod
    };
    let first = with_port(pod("a", 0, "1", 0), "TCP");
    let second = with_port(pod("b", 1, "1", 0), "TCP");
    let other = with_port(pod("c", 2, "1", 0), "UDP");
    let decisions = decide(&[first, second, other], 3);
    assert_eq!(decisions, ["a starts", "b: waiting for host port 8080: in use by default/a", "c starts"]);
    let gang: Vec<Value> =
        (0..2).map(|n| with_port(member(&format!("g-{n}"), 0, "1", 0, "job", 2), "TCP")).collect();
    assert!(decide(&gang, 3)[0].contains("two pods of the gang of 2 pods want host port 8080"));
}

#[test]
fn what_has_ended_or_is_gated_or_goes_away_is_not_considered() {
    let mut ended = on_node(pod("ended", 0, "4", 4), "GPU-fake-0");
    ended["status"] = json!({ "phase": "Failed" });
    let mut gated = pod("gated", 0, "1", 0);
    gated["spec"]["schedulingGates"] = json!([{ "name": "quota" }]);
    let mut going = pod("going", 0, "1", 0);
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let all = decide(&[ended, gated, going, pod("new", 0, "4", 1)], NOON);
    assert_eq!(all, ["new starts with GPU-fake-0"]);
}

#[test]
fn gpus_are_dealt_to_containers() {
    let container = |name: &str, gpus: u32, policy: Option<&str>| json!({ "name": name, "restartPolicy": policy, "resources": { "limits": { "nvidia.com/gpu": gpus } } });
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "annotations": { "trainyard.dev/gpus": "A,B,C,D" } },
        "spec": {
            "initContainers": [container("early", 2, None), container("side", 1, Some("Always")), container("late", 2, None)],
            "containers": [container("one", 1, None), container("none", 0, None), container("two", 2, None)],
        },
    }))
    .unwrap();
    let cases: [(&str, &[&str]); 7] = [
        ("early", &["A", "B"]),
        ("side", &["A"]),
        ("late", &["B", "C"]),
        ("one", &["B"]),
        ("none", &[]),
        ("two", &["C", "D"]),
        ("unknown", &[]),
    ];
    for (name, expected) in cases {
        assert_eq!(gpus_of_container(&pod, name), expected, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_life_ends_well(jobs in jobs(), inventory in machines()) {
        let life = live(&jobs, &inventory)?;
        for number in life.must_be_done() {
            prop_assert!(life.done.contains(&number), "job{number} was never run");
        }
    }

    #[test]
    fn hostile_numbers_do_no_harm(
        cpus in proptest::collection::vec("(-?[0-9]{1,40}(\\.[0-9]{1,5})?(m|k|Ei|e[0-9]{1,9})?|[a-z]{1,3})", 1..6),
        sizes in proptest::collection::vec(any::<u32>(), 6),
        created in proptest::collection::vec(-377_705_000_000_i64..253_402_000_000, 6),
        now in -377_705_000_000_i64..253_402_000_000,
    ) {
        let mut pods = Vec::new();
        for (index, cpu) in cpus.iter().enumerate() {
            let mut pod = member(&format!("p{index}"), created[index], cpu, sizes[index], "job", sizes[index]);
            if index == 0 {
                pod = on_node(pod, "GPU-fake-0,GPU-fake-0,nonsense");
            }
            pods.push(pod);
        }
        let waiting = pods.len() - 1;
        prop_assert_eq!(decide(&pods, now).len(), waiting);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_large_gang_is_not_passed_for_ever(jobs in stream()) {
        let inventory = Inventory::new("here", 4000, 1 << 30);
        let life = live(&jobs, &inventory)?;
        // Its patience, then the few that came before it and their patience, then the longest of what runs.
        let latest = jobs[0].arrives + 2 * PATIENCE_SECONDS + 200 + 4 * TICK;
        prop_assert!(life.began[&0] <= latest, "began at {}, came at {}", life.began[&0], jobs[0].arrives);
    }
}
