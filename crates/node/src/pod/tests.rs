//! Lives of pods, one look at a time.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::sight::{BackOff, Health, Refusal, Run, Sight};
use super::step::{Step, step};
use crate::runtime::{Exit, ExitReason, Instance};

const T0: i64 = 1_800_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(T0 + seconds).unwrap()
}

fn pod(spec: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": "p", "namespace": "n", "uid": "u" }, "spec": spec,
        "status": { "phase": "Pending", "startTime": at(0).to_string() },
    }))
    .unwrap()
}

fn one(policy: &str) -> Pod {
    pod(json!({ "restartPolicy": policy, "containers": [{ "name": "main" }] }))
}

const UP: Instance = Instance::Running { pid: 1, started_at: Timestamp::UNIX_EPOCH };
const WELL: Health = Health { started: true, ready: true, dead: false };

fn ended(code: i32, from: i64, to: i64) -> Instance {
    let reason = if code == 0 { ExitReason::Completed } else { ExitReason::Error };
    Instance::Ended(Exit {
        code,
        signal: None,
        reason,
        message: None,
        started_at: at(from),
        finished_at: at(to),
    })
}

fn exit(code: i32) -> Exit {
    match ended(code, 0, 1) {
        Instance::Ended(exit) => exit,
        _ => unreachable!(),
    }
}

fn run(number: u32, instance: Instance) -> Run {
    Run { number, level: number, instance, previous: None, health: WELL }
}

fn look(pod: &Pod, runs: &[(&str, Run)], now: i64) -> Step {
    look_with(pod, runs, now, None)
}

fn look_with(pod: &Pod, runs: &[(&str, Run)], now: i64, veto: Option<&Refusal>) -> Step {
    let runs: BTreeMap<String, Run> =
        runs.iter().map(|(name, run)| ((*name).to_owned(), run.clone())).collect();
    let refusals = BTreeMap::new();
    step(&Sight { pod, runs: &runs, refusals: &refusals, veto, back_off: BackOff::default(), now: at(now) })
}

fn phase(step: &Step) -> &str {
    step.status.phase.as_deref().unwrap()
}

fn started(step: &Step) -> Vec<(&str, u32)> {
    step.start.iter().map(|start| (start.container.as_str(), start.number)).collect()
}

fn stopped(step: &Step) -> Vec<&str> {
    step.stop.iter().map(|stop| stop.container.as_str()).collect()
}

#[test]
fn a_new_pod_starts_and_a_running_one_is_left_alone() {
    let first = look(&one("Never"), &[], 0);
    assert_eq!((started(&first), phase(&first)), (vec![("main", 0)], "Pending"));
    let second = look(&one("Never"), &[("main", run(0, UP))], 1);
    assert!(second.start.is_empty() && second.stop.is_empty());
    assert_eq!(phase(&second), "Running");
}

#[test]
fn the_restart_policy_decides_what_an_end_means() {
    for (policy, code, expected) in [
        ("Never", 0, "Succeeded"),
        ("Never", 3, "Failed"),
        ("OnFailure", 0, "Succeeded"),
        ("OnFailure", 3, "Running"),
        ("Always", 0, "Running"),
        ("Always", 3, "Running"),
    ] {
        let step = look(&one(policy), &[("main", run(0, ended(code, 0, 5)))], 5);
        assert_eq!(phase(&step), expected, "{policy} {code}");
        // The first restart is immediate.
        assert_eq!(started(&step).is_empty(), expected != "Running", "{policy} {code}");
    }
}

#[test]
fn restarts_come_later_and_later_and_a_long_run_is_forgiven() {
    let pod = one("OnFailure");
    for (number, delay) in [(1, 10), (2, 20), (3, 40), (5, 160), (6, 300), (60, 300)] {
        let runs = [("main", run(number, ended(1, 0, 100)))];
        let early = look(&pod, &runs, 100 + delay - 1);
        assert!(early.start.is_empty(), "{number}");
        assert_eq!(early.wake, Some(at(100 + delay)), "{number}");
        assert_eq!(started(&look(&pod, &runs, 100 + delay)), [("main", number + 1)]);
    }
    let patient = look(&pod, &[("main", run(9, ended(1, 0, 601)))], 601);
    assert_eq!(started(&patient), [("main", 10)]);
    assert_eq!(patient.start[0].level, 1);
}

#[test]
fn a_container_in_back_off_says_so_and_how_it_ended() {
    let step = look(&one("OnFailure"), &[("main", run(2, ended(7, 0, 5)))], 6);
    let status = &step.status.container_statuses.as_ref().unwrap()[0];
    assert_eq!(status.restart_count, 2);
    let waiting = status.state.as_ref().unwrap().waiting.as_ref().unwrap();
    assert_eq!(waiting.reason.as_deref(), Some("CrashLoopBackOff"));
    let last = status.last_state.as_ref().unwrap().terminated.as_ref().unwrap();
    assert_eq!(last.exit_code, 7);
}

fn with_init() -> Pod {
    pod(json!({ "restartPolicy": "Never",
        "initContainers": [{ "name": "fetch" }, { "name": "proxy", "restartPolicy": "Always" }, { "name": "unpack" }],
        "containers": [{ "name": "a" }, { "name": "b" }] }))
}

#[test]
fn init_containers_come_one_after_the_other_and_sidecars_stay() {
    let pod = with_init();
    assert_eq!(started(&look(&pod, &[], 0)), [("fetch", 0)]);
    let done = ("fetch", run(0, ended(0, 0, 1)));
    assert_eq!(started(&look(&pod, &[("fetch", run(0, UP))], 0)), []);
    assert_eq!(started(&look(&pod, std::slice::from_ref(&done), 1)), [("proxy", 0)]);
    let young = Run { health: Health { started: false, ready: false, dead: false }, ..run(0, UP) };
    assert_eq!(started(&look(&pod, &[done.clone(), ("proxy", young)], 1)), []);
    let proxy = ("proxy", run(0, UP));
    assert_eq!(started(&look(&pod, &[done.clone(), proxy.clone()], 1)), [("unpack", 0)]);
    let unpacked = ("unpack", run(0, ended(0, 1, 2)));
    let step = look(&pod, &[done.clone(), proxy.clone(), unpacked.clone()], 2);
    assert_eq!(started(&step), [("a", 0), ("b", 0)]);
    assert_eq!(phase(&step), "Pending");
    // A sidecar that dies beside the main containers comes back; they do not wait for it.
    let dead = ("proxy", run(0, ended(1, 0, 3)));
    let step = look(&pod, &[done.clone(), dead, unpacked.clone(), ("a", run(0, UP)), ("b", run(0, UP))], 3);
    assert_eq!(started(&step), [("proxy", 1)]);
    // When the main containers are through, the sidecar is ended, and only then the pod.
    let over = [done, proxy, unpacked, ("a", run(0, ended(0, 2, 3))), ("b", run(0, ended(0, 2, 4)))];
    let step = look(&pod, &over, 4);
    assert_eq!((stopped(&step), phase(&step)), (vec!["proxy"], "Running"));
    let mut over = over.to_vec();
    over[1].1.instance = ended(143, 0, 5);
    assert_eq!(phase(&look(&pod, &over, 5)), "Succeeded");
}

#[test]
fn an_init_container_that_fails_for_good_fails_the_pod() {
    let step = look(&with_init(), &[("fetch", run(0, ended(2, 0, 1)))], 1);
    assert_eq!((phase(&step), step.start.is_empty()), ("Failed", true));
}

#[test]
fn one_container_of_two_that_fails_lets_the_other_finish() {
    let pod = pod(json!({ "restartPolicy": "Never", "containers": [{ "name": "a" }, { "name": "b" }] }));
    let step = look(&pod, &[("a", run(0, ended(1, 0, 1))), ("b", run(0, UP))], 1);
    assert_eq!((phase(&step), step.stop.is_empty()), ("Running", true));
    let step = look(&pod, &[("a", run(0, ended(1, 0, 1))), ("b", run(0, ended(0, 0, 2)))], 2);
    assert_eq!(phase(&step), "Failed");
}

#[test]
fn a_deadline_ends_the_pod_and_is_the_reason() {
    let mut pod = one("OnFailure");
    pod.spec.as_mut().unwrap().active_deadline_seconds = Some(60);
    pod.spec.as_mut().unwrap().termination_grace_period_seconds = Some(5);
    let before = look(&pod, &[("main", run(0, UP))], 59);
    assert_eq!((before.wake, before.stop.is_empty()), (Some(at(60)), true));
    let after = look(&pod, &[("main", run(0, UP))], 60);
    assert_eq!((after.stop[0].by, phase(&after)), (at(65), "Running"));
    let over = look(&pod, &[("main", run(0, ended(143, 0, 61)))], 61);
    assert_eq!((phase(&over), over.status.reason.as_deref()), ("Failed", Some("DeadlineExceeded")));
    assert!(over.start.is_empty());
    // A deadline that is set late leaves the grace period all the same.
    assert_eq!(look(&pod, &[("main", run(0, UP))], 5000).stop[0].by, at(5005));
    // Without restarts too, and also if the program takes its end well.
    pod.spec.as_mut().unwrap().restart_policy = Some("Never".into());
    for code in [0, 143] {
        let over = look(&pod, &[("main", run(0, ended(code, 0, 61)))], 62);
        assert_eq!(
            (phase(&over), over.status.reason.as_deref()),
            ("Failed", Some("DeadlineExceeded")),
            "{code}"
        );
    }
    // What had finished before has finished.
    assert_eq!(phase(&look(&pod, &[("main", run(0, ended(0, 0, 50)))], 100)), "Succeeded");
}

#[test]
fn a_deleted_pod_ends_in_its_time_and_is_removed_when_nothing_runs() {
    let mut pod = one("Always");
    pod.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(40)));
    let step = look(&pod, &[("main", run(0, UP))], 10);
    assert_eq!((step.stop[0].by, step.remove), (at(40), false));
    let step = look(&pod, &[("main", run(0, ended(143, 0, 12)))], 12);
    assert!(step.remove && step.start.is_empty());
    assert!(look(&pod, &[], 10).remove, "a pod that never started");
    // One that was over before stays what it was.
    let status = pod.status.as_mut().unwrap();
    (status.phase, status.reason) = (Some("Failed".into()), Some("PortTaken".into()));
    let step = look(&pod, &[("main", run(0, ended(0, 0, 1)))], 12);
    assert!(step.remove && step.status == pod.status.unwrap());
}

#[test]
fn states_name_the_run_they_are_of() {
    let second = Run { previous: Some(exit(3)), ..run(1, ended(4, 5, 6)) };
    let step = look(&one("Never"), &[("main", second)], 9);
    let status = &step.status.container_statuses.as_ref().unwrap()[0];
    let id = |state: &Option<k8s_openapi::api::core::v1::ContainerState>| {
        state.as_ref().unwrap().terminated.as_ref().unwrap().container_id.clone().unwrap()
    };
    assert_eq!(id(&status.state), "trainyard://u/main/1");
    assert_eq!(id(&status.last_state), "trainyard://u/main/0");
}

#[test]
fn a_container_that_its_probe_gave_up_is_stopped_and_restarted_by_policy() {
    let sick = Run { health: Health { started: true, ready: false, dead: true }, ..run(0, UP) };
    let step = look(&one("Always"), &[("main", sick)], 3);
    assert_eq!((stopped(&step), step.stop[0].by), (vec!["main"], at(33)));
    assert_eq!(phase(&step), "Running");
}

#[test]
fn a_taken_port_fails_the_pod_before_it_starts() {
    let veto = Refusal { reason: "PortTaken".into(), message: "port 1 is in use".into() };
    let step = look_with(&one("Always"), &[], 0, Some(&veto));
    assert_eq!((phase(&step), step.status.reason.as_deref()), ("Failed", Some("PortTaken")));
    assert!(step.start.is_empty());
}

#[test]
fn what_is_over_stays_over() {
    let mut pod = one("Always");
    pod.status.as_mut().unwrap().phase = Some("Failed".into());
    let step = look(&pod, &[], 9);
    assert!(step.start.is_empty() && !step.remove);
    assert_eq!(phase(&step), "Failed");
    // Something that runs although it should not is ended at once.
    assert_eq!(look(&pod, &[("main", run(0, UP))], 9).stop[0].by, at(9));
}

fn any_instance() -> impl Strategy<Value = Instance> {
    let code = prop_oneof![Just(0), Just(1), Just(137), any::<i32>()];
    prop_oneof![
        Just(Instance::Absent),
        Just(Instance::Starting),
        Just(UP),
        (code, 0..1000_i64, 0..1000_i64).prop_map(|(code, from, len)| ended(code, from, from + len)),
    ]
}

fn any_run() -> impl Strategy<Value = Run> {
    (any::<u32>(), any::<u32>(), any_instance(), any::<(bool, bool, bool)>()).prop_map(
        |(number, level, instance, (started, ready, dead))| Run {
            number,
            level,
            instance,
            previous: None,
            health: Health { started, ready, dead },
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    /// Whatever is found on disk: nothing runs twice, what ends does not start, what is over is not up.
    #[test]
    fn every_look_makes_sense(
        policy in prop_oneof![Just("Never"), Just("OnFailure"), Just("Always")],
        runs in prop::collection::btree_map(prop_oneof![Just("fetch"), Just("proxy"), Just("unpack"), Just("a"), Just("b")], any_run(), 0..6),
        now in 0..5000_i64,
        deleted in any::<bool>(),
        deadline in prop::option::of(0..5000_i64),
    ) {
        let mut pod = with_init();
        let spec = pod.spec.as_mut().unwrap();
        spec.restart_policy = Some(policy.into());
        spec.active_deadline_seconds = deadline;
        if deleted {
            pod.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(now)));
        }
        let runs: Vec<(&str, Run)> = runs.into_iter().collect();
        let step = look(&pod, &runs, now);
        let up = |name: &str| runs.iter().any(|(n, run)| *n == name && matches!(run.instance, Instance::Starting | Instance::Running { .. }));
        for start in &step.start {
            prop_assert!(!up(&start.container), "{} would run twice", start.container);
        }
        for stop in &step.stop {
            prop_assert!(up(&stop.container), "{} does not run", stop.container);
            prop_assert!(step.start.iter().all(|start| start.container != stop.container));
        }
        if deleted {
            prop_assert!(step.start.is_empty());
        }
        let any_up = runs.iter().any(|(name, _)| up(name));
        if ["Succeeded", "Failed"].contains(&phase(&step)) || step.remove {
            prop_assert!(!any_up && step.start.is_empty(), "over, and something runs");
        }
        if step.start.is_empty() && step.stop.is_empty() && !any_up && !step.remove {
            prop_assert!(step.wake.is_some() || phase(&step) != "Running" , "nothing would ever happen again");
        }
        // The same look gives the same step.
        prop_assert_eq!(look(&pod, &runs, now), step);
    }
}
