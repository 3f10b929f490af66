//! Hostile but legal use: each of these once ended, repeated or froze a job that was healthy.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::json;
use trainyard_api::labels;
use trainyard_core::conditions::{is_finished, is_true, types};
use trainyard_core::invalid::plan_broken;
use trainyard_core::*;

use crate::job_gen::{JobSpec, Ports, RoleSpec};
use crate::world::{PodForgery, RUNS_ON, World};

fn workers(restart: &'static str, limit: Option<u32>) -> JobSpec {
    let roles = vec![RoleSpec { name: "Worker", replicas: 2, restart }];
    JobSpec { backoff_limit: limit, ..JobSpec::plain("JAXJob", roles) }
}

/// A job whose two workers run, and run on.
fn running(spec: &JobSpec) -> World {
    let exits = ["j-worker-0", "j-worker-1"].map(|name| (name.to_owned(), vec![RUNS_ON]));
    let mut world = World::new(spec, BTreeMap::from(exits));
    world.reconcile();
    for name in ["j-worker-0", "j-worker-1"] {
        world.tick(name);
    }
    world.reconcile();
    world
}

fn ended(exit: i32, second: i64) -> ContainerState {
    let at = Timestamp::from_second(second).ok();
    ContainerState::Terminated { exit, reason: None, started: at, finished: at }
}

fn condition(world: &World, type_: &str) -> Option<String> {
    let conditions = &world.job()?.status.conditions;
    conditions.iter().find(|c| c.type_ == type_).and_then(|c| c.message.clone())
}

#[test]
fn a_copy_of_a_job_inherits_nothing() {
    let mut world = running(&workers("Never", Some(1)));
    world.alter("j-worker-0", |pod| {
        (pod.phase, pod.containers[0].state) = (Phase::Succeeded, ended(0, 1_000_000));
    });
    world.reconcile();
    let record = world.job().unwrap().record.clone();
    assert!(record.is_finished("Worker", 0));
    let copied = |uid: &str, status: bool| {
        let mut manifest = workers("Never", Some(1)).manifest();
        manifest["metadata"]["uid"] = uid.into();
        manifest["metadata"]["annotations"] = json!({ labels::RECORD: record.render() });
        if status {
            manifest["status"] = serde_json::to_value(&world.job().unwrap().status).unwrap();
        }
        let kind = Catalog::default().kind("JAXJob").unwrap();
        decode(&Catalog::default(), kind, &manifest).ok().unwrap().job
    };
    let original = world.job().unwrap().uid.clone();
    assert!(copied(&original, true).record.is_finished("Worker", 0), "the job itself remembers");
    for with_status in [false, true] {
        let copy = copied("another", with_status);
        assert!(!copy.has_record && copy.record == Record::blank("another"));
    }
}

#[test]
fn a_pod_that_was_asked_to_end_and_exits_with_0_is_not_done() {
    // Asked at 2,000,010; by deletion or by a disruption of which the pod is told.
    let (before, tie, after) = (2_000_009, 2_000_010, 2_000_011);
    for (finished, done) in [(before, true), (tie, false), (after, false)] {
        for by_disruption in [false, true] {
            let mut world = running(&workers("OnFailure", None));
            world.alter("j-worker-0", |pod| {
                (pod.phase, pod.containers[0].state) = (Phase::Succeeded, ended(0, finished));
                pod.created = Timestamp::from_second(1_000_000).ok();
                let asked = Timestamp::from_second(2_000_010).ok();
                if by_disruption {
                    (pod.disruption, pod.disrupted) = (Some("EvictionByEvictionAPI".into()), asked);
                } else {
                    pod.deleting = asked;
                }
            });
            world.reconcile();
            let record = &world.job().unwrap().record;
            assert_eq!(record.is_finished("Worker", 0), done, "{finished} {by_disruption}");
            assert_eq!(record.incarnation("Worker", 0) == 1, !done, "it is made again if it is not done");
        }
    }
}

#[test]
fn a_node_whose_clock_is_late_proves_nothing() {
    let mut world = running(&workers("OnFailure", None));
    world.alter("j-worker-0", |pod| {
        (pod.phase, pod.containers[0].state) = (Phase::Succeeded, ended(0, 999_000));
        pod.created = Timestamp::from_second(1_000_000).ok();
        pod.taken_on = Timestamp::from_second(998_000).ok();
        pod.deleting = Timestamp::from_second(1_000_100).ok();
    });
    world.reconcile();
    assert!(!world.job().unwrap().record.is_finished("Worker", 0));
}

#[test]
fn a_pod_that_its_node_refuses_is_replaced_once_at_once_and_then_later_and_later() {
    for reason in ["UnexpectedAdmissionError", "SysctlForbidden", "SomethingNew"] {
        let mut world = running(&workers("OnFailure", Some(1)));
        let mut gaps = Vec::new();
        for _ in 0..6 {
            let refused = world.now;
            world.alter("j-worker-0", |pod| {
                pod.phase = Phase::Failed;
                pod.reason = Some(reason.into());
                pod.containers[0].state = ContainerState::Waiting { reason: None };
            });
            while world.state.pods["j-worker-0"].view.reason.is_some() {
                world.reconcile();
                world.tick_if_deleting("j-worker-0");
                world.reconcile();
                if world.state.pods.get("j-worker-0").is_some_and(|pod| pod.view.reason.is_some()) {
                    world.pass(1);
                }
            }
            gaps.push((world.now.duration_since(refused)).as_secs());
        }
        assert_eq!(gaps, [0, 10, 20, 40, 80, 160], "{reason}");
        assert_eq!(world.job().unwrap().record.restarts, 0, "{reason}: it is not the program's doing");
    }
}

#[test]
fn a_clock_that_is_ahead_holds_no_restart_up() {
    let mut world = running(&workers("ExitCode", None));
    let now = world.now.as_second();
    world.alter("j-worker-0", |pod| {
        pod.incarnation = 1;
        (pod.phase, pod.containers[0].state) = (Phase::Failed, ended(137, now + 3600));
        pod.seen_over = Timestamp::from_second(now).ok();
    });
    world.reconcile();
    let (plan, _) = world.plan(0, 0).unwrap();
    assert_eq!(plan.wake.map(Timestamp::as_second), Some(now + 10));
}

#[test]
fn a_lost_record_neither_ends_a_healthy_job_nor_gives_it_a_new_budget() {
    // Free replacements were no restarts, and are none afterwards.
    let mut world = running(&workers("OnFailure", Some(0)));
    world.evict("j-worker-0");
    world.reconcile();
    world.tick_if_deleting("j-worker-0");
    world.reconcile();
    world.tick("j-worker-0");
    world.reconcile();
    assert_eq!(world.state.pods["j-worker-0"].view.incarnation, 1);
    world.lose_record();
    world.reconcile();
    assert!(!world.is_over(), "{}", world.outcome());

    // A restart that was paid for stays paid, also one of the whole job.
    for as_one in [false, true] {
        let spec = JobSpec { as_one, ..workers("OnFailure", Some(1)) };
        let mut world = running(&spec);
        world.alter("j-worker-0", |pod| {
            (pod.phase, pod.containers[0].state) = (Phase::Failed, ended(1, 1_000_000));
        });
        for _ in 0..4 {
            world.reconcile();
            for name in ["j-worker-0", "j-worker-1"] {
                world.tick_if_deleting(name);
            }
        }
        world.reconcile();
        assert_eq!(world.state.pods["j-worker-0"].view.used, 1, "as one: {as_one}");
        world.lose_record();
        world.tick("j-worker-0");
        world.reconcile();
        assert!(!world.is_over());
        world.alter("j-worker-0", |pod| {
            (pod.phase, pod.containers[0].state) = (Phase::Failed, ended(1, 1_000_000));
        });
        world.reconcile();
        assert!(
            is_true(&world.job().unwrap().status, types::FAILED),
            "as one: {as_one}: {}",
            world.outcome()
        );
    }
}

#[test]
fn a_lost_record_keeps_the_ports_of_what_runs() {
    let spec = JobSpec { ports: Ports::OneMachine, ..workers("OnFailure", None) };
    let mut world = running(&spec);
    let ports = world.job().unwrap().record.ports;
    assert!(ports.is_some());
    world.lose_record();
    world.reconcile();
    assert_eq!(world.job().unwrap().record.ports, ports);
}

#[test]
fn a_job_that_has_succeeded_does_not_fail_for_its_spec() {
    let roles = |workers: u32| {
        let role = |name, replicas| RoleSpec { name, replicas, restart: "OnFailure" };
        JobSpec::plain("PyTorchJob", vec![role("Master", 1), role("Worker", workers)])
    };
    let mut world = World::new(&roles(1), BTreeMap::new());
    world.reconcile();
    for name in ["j-master-0", "j-worker-0"] {
        world.tick(name);
        world.tick(name);
    }
    let kind = Catalog::default().kind("PyTorchJob").unwrap();
    let broken = decode(&Catalog::default(), kind, &roles(0).manifest()).ok().unwrap();
    assert!(!broken.errors.is_empty());
    let pods: Vec<PodView> = world.state.pods.values().map(|pod| pod.view.clone()).collect();
    let seen = Seen {
        job: &broken.job,
        pods: &pods,
        services: &[],
        extras: &[],
        ports: None,
        failures: &[],
        tail: None,
        priorities: &Priorities::default(),
        options: &world.options,
        now: world.now,
    };
    let status = plan_broken(broken.framework, &seen, &broken.errors).status.unwrap();
    assert!(is_true(&status, types::SUCCEEDED) && !is_true(&status, types::FAILED));
}

#[test]
fn a_misspelt_option_is_told_and_ignored() {
    let mut spec = workers("Never", None).manifest();
    spec["metadata"]["annotations"] = json!({ labels::START_DEADLINE: "10m" });
    let kind = Catalog::default().kind("JAXJob").unwrap();
    let decoded = decode(&Catalog::default(), kind, &spec).ok().unwrap();
    assert!(decoded.errors.is_empty() && decoded.job.start_deadline().is_none());
    let mut world = running(&workers("Never", None));
    world.edit(|job| job.ignored = decoded.job.ignored.clone());
    let first = world.reconcile().unwrap();
    assert_eq!(first.events.len(), 1, "{:?}", first.events);
    assert!(condition(&world, types::INVALID_ANNOTATION).unwrap().contains("10m"));
    assert!(world.reconcile().unwrap().events.is_empty(), "told once");
    world.edit(|job| job.ignored.clear());
    world.reconcile();
    assert_eq!(condition(&world, types::INVALID_ANNOTATION), None);
}

#[test]
fn no_pod_starts_after_the_end_of_its_job() {
    let spec = JobSpec { clean: Some("None"), ..workers("Never", None) };
    let mut world = World::new(&spec, BTreeMap::from([("j-worker-0".into(), vec![1])]));
    world.reconcile();
    world.tick("j-worker-0");
    world.tick("j-worker-0");
    world.reconcile();
    assert!(world.is_over());
    world.reconcile();
    assert!(world.state.pods["j-worker-1"].view.deleting.is_some(), "it has not started");
    assert!(world.state.pods["j-worker-0"].view.deleting.is_none(), "the policy keeps what has ended");
}

#[test]
fn a_job_that_does_not_start_in_time_leaves_nothing_running() {
    let spec = JobSpec { clean: Some("None"), ..workers("OnFailure", None) };
    let mut world = World::new(&spec, BTreeMap::from([("j-worker-0".into(), vec![RUNS_ON])]));
    world.edit(|job| {
        job.annotations.insert(labels::START_DEADLINE.into(), "60".into());
    });
    world.reconcile();
    world.tick("j-worker-0");
    world.reconcile();
    world.pass(61);
    // The plan is cut off after the status: the next one goes on.
    let (plan, job) = world.plan(0, 0).unwrap();
    world.execute(&plan, &job, crate::world::Crash { stage: 2, mask: 0 });
    assert!(world.is_over());
    world.reconcile();
    assert!(world.state.pods.values().all(|pod| pod.view.deleting.is_some()), "{}", world.outcome());
}

#[test]
fn a_job_scaled_down_to_replicas_that_are_done_leaves_none_running() {
    let spec = JobSpec { clean: Some("None"), ..workers("OnFailure", None) };
    let mut world = running(&spec);
    world.alter("j-worker-0", |pod| {
        (pod.phase, pod.containers[0].state) = (Phase::Succeeded, ended(0, 1_000_000));
    });
    world.reconcile();
    world.scale(1);
    let (plan, job) = world.plan(0, 0).unwrap();
    world.execute(&plan, &job, crate::world::Crash { stage: 2, mask: 0 });
    assert!(is_true(&world.job().unwrap().status, types::SUCCEEDED));
    world.reconcile();
    assert!(world.state.pods["j-worker-1"].view.deleting.is_some());
    assert!(world.state.pods["j-worker-0"].view.deleting.is_none());
}

#[test]
fn a_replica_that_crashes_again_and_again_is_told_once() {
    let mut world = running(&workers("OnFailure", None));
    let mut writes = 0;
    for round in 1..6_u32 {
        let waiting = ContainerState::Waiting { reason: Some("CrashLoopBackOff".into()) };
        let since = Some(world.now);
        for state in [waiting, ContainerState::Running] {
            world.alter("j-worker-0", |pod| {
                let container = &mut pod.containers[0];
                container.since = since.filter(|_| state == ContainerState::Running);
                container.state = state.clone();
                container.last = Some(Box::new(End { exit: 1, reason: Some("Error".into()) }));
                container.restarts = round;
            });
            let before = world.job().unwrap().status.clone();
            world.reconcile();
            let told = |status: &trainyard_api::JobStatus| {
                let told = status.conditions.iter().find(|c| c.type_ == types::WAITING);
                told.and_then(|c| c.message.clone())
            };
            writes += usize::from(told(&before) != told(&world.job().unwrap().status));
            world.pass(10);
        }
    }
    assert_eq!(writes, 1);
    let told = condition(&world, types::WAITING).unwrap();
    assert!(told.contains("j-worker-0") && told.contains("exit code 1 (Error)"), "{told}");
    assert!(is_true(&world.job().unwrap().status, types::RUNNING), "Running stays as it was");
    let (plan, _) = world.plan(0, 0).unwrap();
    world.now = plan.wake.unwrap();
    world.reconcile();
    assert_eq!(condition(&world, types::WAITING), None, "it has run for two minutes");
}

#[test]
fn suspending_a_job_neither_delays_its_restarts_nor_forgets_any() {
    let mut world = running(&workers("OnFailure", Some(3)));
    world.alter("j-worker-0", |pod| pod.containers[0].restarts = 2);
    for _ in 0..5 {
        world.suspend(true);
        for _ in 0..3 {
            world.reconcile();
            for name in ["j-worker-0", "j-worker-1"] {
                world.tick_if_deleting(name);
            }
        }
        world.suspend(false);
        world.reconcile();
        assert_ne!(condition(&world, types::RESTARTING).as_deref().map(|_| true), Some(true));
        for name in ["j-worker-0", "j-worker-1"] {
            world.tick(name);
        }
        world.reconcile();
    }
    assert_eq!(world.job().unwrap().record.restarts, 2, "the kubelet's restarts stay counted");
    let now = world.now.as_second();
    world.alter("j-worker-0", |pod| {
        (pod.phase, pod.containers[0].state) = (Phase::Failed, ended(1, now));
    });
    world.reconcile();
    assert!(!world.is_over());
    world.reconcile();
    assert!(world.state.pods["j-worker-0"].view.deleting.is_some(), "the first failure is restarted at once");
}

#[test]
fn after_a_resume_nothing_has_failed() {
    let mut world = running(&workers("OnFailure", None));
    world.suspend(true);
    world.reconcile();
    world.suspend(false);
    world.reconcile();
    assert!(world.state.pods.values().any(|pod| pod.view.deleting.is_some()), "old pods still end");
    let status = &world.job().unwrap().status;
    assert!(!is_true(status, types::RESTARTING), "{:?}", status.conditions);
    assert_eq!(status.replica_statuses["Worker"].failed, None);
}

#[test]
fn nobody_claims_ports_that_its_spec_does_not_need() {
    let spec = JobSpec { ports: Ports::OneMachine, ..workers("Never", None) };
    let world = running(&spec);
    let held = |change: &dyn Fn(&mut JobView)| {
        let mut job = world.job().unwrap().clone();
        job.record.ports = Some(PortBlock { base: 20_000, size: 9_999 });
        change(&mut job);
        ports_held(world.framework(), &job, Addressing::HostPorts).map(|block| block.size)
    };
    assert_eq!(held(&|_| {}), Some(8));
    assert_eq!(held(&|job| job.policy.suspend = true), None);
    let failed = conditions::Change { type_: types::FAILED, status: "True", reason: "R", message: "m" };
    let fail = |job: &mut JobView| {
        conditions::set(&mut job.status, failed, world.now);
    };
    assert_eq!(held(&fail), None);
}

#[test]
fn a_pod_that_is_deleted_by_force_under_never_is_not_made_again() {
    let mut world = running(&workers("Never", None));
    world.state.pods.remove("j-worker-0");
    world.alter("j-worker-1", |_| {});
    world.reconcile();
    assert!(is_true(&world.job().unwrap().status, types::FAILED), "{}", world.outcome());
    // One that has not run may be.
    let mut world = World::new(&workers("Never", None), BTreeMap::new());
    world.reconcile();
    world.state.pods.remove("j-worker-0");
    world.alter("j-worker-1", |_| {});
    world.reconcile();
    assert!(!world.is_over() && world.state.pods.contains_key("j-worker-0"));
}

#[test]
fn a_job_that_restarts_as_one_restarts_nothing_in_place() {
    let spec = JobSpec { as_one: true, ..workers("Always", None) };
    let mut world = World::new(&spec, BTreeMap::new());
    let plan = world.reconcile().unwrap();
    let policies: Vec<_> = plan
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::Create(child) if child.what == &Resource::POD => {
                child.body.pointer("/spec/restartPolicy")
            }
            _ => None,
        })
        .collect();
    assert_eq!(policies, ["Never", "Never"]);
    world.tick("j-worker-0");
    world.tick("j-worker-0");
    assert_eq!(world.state.pods["j-worker-0"].view.phase, Phase::Succeeded);
    world.reconcile();
    let record = &world.job().unwrap().record;
    assert_eq!((record.attempt, record.restarts), (1, 1), "Always means always");
}

#[test]
fn a_refused_record_keeps_no_job_with_an_invalid_spec_from_saying_so() {
    let mut world = running(&workers("OnFailure", None));
    world.break_spec(true);
    world.refuse_writes(&Resource::RECORD, 422);
    world.exit("j-worker-0", 0);
    world.reconcile();
    let plan = world.reconcile().unwrap();
    assert!(condition(&world, types::INVALID_SPEC).is_some(), "{:?}", plan.report);
    assert!(plan.wake.is_some_and(|wake| wake > world.now), "the record is tried again later");
    world.exit("j-worker-1", 0);
    world.reconcile();
    assert!(is_true(&world.job().unwrap().status, types::SUCCEEDED));
}

/// What somebody writes on pods, and whether the record is lost as well.
fn forged(attempts: [u32; 2], has_record: bool) -> World {
    let mut world = running(&workers("OnFailure", Some(3)));
    for (name, attempt) in ["j-worker-0", "j-worker-1"].into_iter().zip(attempts) {
        world.forge_pod(name, PodForgery::Attempt(attempt));
    }
    if !has_record {
        world.lose_record();
    }
    world.reconcile();
    world
}

#[test]
fn a_number_that_somebody_wrote_on_a_pod_does_not_split_the_job() {
    let deleted = |world: &World| {
        let pods = world.state.pods.values().filter(|pod| pod.view.deleting.is_some());
        pods.map(|pod| pod.view.name.to_string()).collect::<Vec<_>>()
    };
    // The job was suspended once, so it is in attempt 1 and has a record.
    let with_record = |attempts| {
        let mut world = running(&workers("OnFailure", Some(3)));
        for on in [true, false] {
            world.suspend(on);
            world.reconcile();
            for name in world.pod_names() {
                world.tick_if_deleting(&name);
            }
        }
        world.reconcile();
        for (name, attempt) in ["j-worker-0", "j-worker-1"].into_iter().zip(attempts) {
            world.tick(name);
            world.forge_pod(name, PodForgery::Attempt(attempt));
        }
        world.reconcile();
        world
    };
    for invented in [7, u32::MAX] {
        let world = with_record([1, invented]);
        assert_eq!(deleted(&world), ["j-worker-1"], "the record knows better than {invented}");
        assert_eq!(world.job().unwrap().record.attempt, 1);
    }
    let world = with_record([7, 7]);
    assert_eq!((deleted(&world).len(), world.job().unwrap().record.attempt), (0, 7), "an old record");
    let world = forged([0, 7], false);
    assert_eq!((deleted(&world).len(), world.job().unwrap().record.attempt), (2, 8), "nobody knows");
    let world = forged([u32::MAX, u32::MAX], false);
    assert_eq!((deleted(&world).len(), world.job().unwrap().record.attempt), (2, 0), "no job comes so far");
}

#[test]
fn a_job_that_is_resumed_while_its_record_is_refused_fails_for_nothing() {
    let mut world = running(&workers("Never", None));
    world.refuse_writes(&Resource::RECORD, 422);
    world.suspend(true);
    world.reconcile();
    world.reconcile();
    assert!(is_true(&world.job().unwrap().status, types::SUSPENDED), "it is suspended all the same");
    assert!(world.state.pods.values().all(|pod| pod.view.deleting.is_some()));
    world.suspend(false);
    world.reconcile();
    world.reconcile();
    assert!(!is_finished(&world.job().unwrap().status), "{:?}", condition(&world, types::FAILED));
    world.grant_writes();
    for _ in 0..3 {
        world.reconcile();
        for name in world.pod_names() {
            world.tick_if_deleting(&name);
        }
    }
    world.reconcile();
    let job = world.job().unwrap();
    assert!(!is_finished(&job.status) && !is_true(&job.status, types::SUSPENDED));
    assert_eq!((job.record.attempt, world.state.pods.len()), (1, 2), "its replicas start anew");
}

#[test]
fn a_job_that_was_scaled_down_and_has_succeeded_does_not_fail_for_its_spec() {
    let mut world = running(&workers("OnFailure", None));
    world.scale(1);
    world.reconcile();
    world.exit("j-worker-0", 0);
    world.drain("j-worker-1", 0, false);
    world.break_spec(true);
    world.reconcile();
    assert!(is_true(&world.job().unwrap().status, types::SUCCEEDED), "{:?}", world.job().unwrap().status);
}
