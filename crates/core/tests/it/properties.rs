//! The properties of the planner, P1 to P11, each over at least ten thousand worlds.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use trainyard_core::*;

use crate::job_gen::{JobSpec, Ports, job_spec};
use crate::world::{Crash, Forgery, PodForgery, RUNS_ON, World};

const CASES: u32 = 10_000;

/// One thing that happens.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Tick(usize),
    Evict(usize),
    Delete(usize),
    StripLabels(usize),
    LoseRecord,
    ForgeRecord(Forgery),
    ForgePod(usize, PodForgery),
    Copy { with_status: bool },
    Drain { pod: usize, code: i32, evicted: bool },
    Refuse(usize, &'static str),
    Skew(usize, i64),
    Break(bool),
    RefuseWrites(&'static Resource, u16),
    GrantWrites,
    Suspend(bool),
    Scale(u32),
    Pass(i64),
    Reconcile { job_age: usize, pod_age: usize, crash: Crash },
}

fn crash() -> impl Strategy<Value = Crash> {
    prop_oneof![
        3 => Just(Crash::NONE),
        1 => (0_u8..=3, any::<u64>()).prop_map(|(stage, mask)| Crash { stage, mask }),
    ]
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let age = || prop_oneof![3 => Just(0_usize), 1 => 0_usize..=6];
    prop_oneof![
        8 => (0_usize..6).prop_map(Step::Tick),
        1 => (0_usize..6).prop_map(Step::Evict),
        1 => (0_usize..6).prop_map(Step::Delete),
        1 => Just(Step::Suspend(true)),
        2 => Just(Step::Suspend(false)),
        1 => (1_u32..=4).prop_map(Step::Scale),
        2 => (1_i64..=60).prop_map(Step::Pass),
        1 => (0_usize..6).prop_map(Step::StripLabels),
        10 => (age(), age(), crash()).prop_map(|(job_age, pod_age, crash)| Step::Reconcile { job_age, pod_age, crash }),
        4 => hostile(),
    ]
}

/// Why nodes refuse pods: reasons that Kubernetes knows, and one that nobody does.
const REFUSALS: [&str; 4] = ["UnexpectedAdmissionError", "SysctlForbidden", "OutOfcpu", "SomethingNew"];

/// Numbers that somebody writes on pods.
const FORGERIES: [PodForgery; 7] = [
    PodForgery::Attempt(1),
    PodForgery::Attempt(7),
    PodForgery::Attempt(1_000_000),
    PodForgery::Attempt(u32::MAX),
    PodForgery::Incarnation(3),
    PodForgery::Incarnation(u32::MAX),
    PodForgery::Stripped,
];

/// What careless users, busy clusters and wrong clocks do.
fn hostile() -> impl Strategy<Value = Step> {
    use Forgery::{Huge, Long, Nonsense, OfAnother};
    let drain = (0_usize..6, prop::sample::select(&[0, 0, 1, 143][..]), any::<bool>());
    prop_oneof![
        1 => Just(Step::LoseRecord),
        1 => prop::sample::select(&[Nonsense, Huge, OfAnother, Long][..]).prop_map(Step::ForgeRecord),
        2 => (0_usize..6, prop::sample::select(&FORGERIES[..])).prop_map(|(n, what)| Step::ForgePod(n, what)),
        1 => any::<bool>().prop_map(|with_status| Step::Copy { with_status }),
        2 => any::<bool>().prop_map(Step::Break),
        3 => drain.prop_map(|(pod, code, evicted)| Step::Drain { pod, code, evicted }),
        3 => (0_usize..6, prop::sample::select(&REFUSALS[..])).prop_map(|(n, reason)| Step::Refuse(n, reason)),
        2 => (0_usize..6, prop::sample::select(&[-3600, 3600][..])).prop_map(|(n, by)| Step::Skew(n, by)),
        1 => refuse_writes(&[&Resource::RECORD, &Resource::STATUS]),
        1 => Just(Step::GrantWrites),
    ]
}

/// The server refuses to store one of these parts of the job.
fn refuse_writes(parts: &'static [&'static Resource]) -> impl Strategy<Value = Step> {
    (prop::sample::select(parts), prop::sample::select(&[422, 500][..]))
        .prop_map(|(part, code)| Step::RefuseWrites(part, code))
}

/// What must not cost a restart, nor give one back.
fn turn() -> impl Strategy<Value = Vec<Step>> {
    let (job_age, pod_age, crash) = (0, 0, Crash::NONE);
    let look = move || Step::Reconcile { job_age, pod_age, crash };
    let cycle = [Step::Suspend(true), look(), look(), Step::Suspend(false)].to_vec();
    let refuse = (0_usize..6, prop::sample::select(&REFUSALS[..]));
    let drain = (0_usize..6, prop::sample::select(&[0, 1, 143][..]), any::<bool>());
    prop_oneof![
        Just(cycle),
        // Where the status is refused no end of a job can be stored, and the kubelet goes on.
        refuse_writes(&[&Resource::RECORD]).prop_map(|step| vec![step]),
        Just(vec![Step::GrantWrites]),
        refuse.prop_map(|(n, reason)| vec![Step::Refuse(n, reason)]),
        drain.prop_map(|(pod, code, evicted)| vec![Step::Drain { pod, code, evicted }]),
    ]
}

pub(crate) fn exits() -> impl Strategy<Value = BTreeMap<String, Vec<i32>>> {
    let codes = prop::collection::vec(prop::sample::select(&[0, 1, 130, 137, RUNS_ON][..]), 0..4);
    let names = ["j-master-0", "j-chief-0", "j-worker-0", "j-worker-1", "j-worker-2"];
    prop::collection::vec(codes, names.len())
        .prop_map(move |codes| names.iter().map(|n| (*n).to_owned()).zip(codes).collect())
}

pub(crate) fn run(world: &mut World, step: &Step) {
    let name = |world: &World, n: usize| {
        let names = world.pod_names();
        names.get(n % names.len().max(1)).cloned().unwrap_or_default()
    };
    match step {
        Step::Tick(n) => {
            world.tick(&name(world, *n));
        }
        Step::Evict(n) => world.evict(&name(world, *n)),
        Step::Delete(n) => world.delete(&name(world, *n)),
        Step::StripLabels(n) => world.strip_labels(&name(world, *n)),
        Step::LoseRecord => world.lose_record(),
        Step::ForgeRecord(what) => world.forge_record(*what),
        Step::ForgePod(n, what) => world.forge_pod(&name(world, *n), *what),
        Step::Copy { with_status } => world.copy(*with_status),
        Step::Drain { pod, code, evicted } => world.drain(&name(world, *pod), *code, *evicted),
        Step::Refuse(n, reason) => {
            world.refuse(&name(world, *n), reason);
        }
        Step::Skew(n, seconds) => world.skew(&name(world, *n), *seconds),
        Step::RefuseWrites(part, code) => world.refuse_writes(part, *code),
        Step::GrantWrites => world.grant_writes(),
        Step::Break(broken) => world.break_spec(*broken),
        Step::Suspend(on) => world.suspend(*on),
        Step::Scale(n) => world.scale(*n),
        Step::Pass(seconds) => world.pass(*seconds),
        Step::Reconcile { job_age, pod_age, crash } => {
            if let Some((plan, job)) = world.plan(*job_age, *pod_age) {
                world.execute(&plan, &job, *crash);
            }
        }
    }
}

/// Without a deadline a replica that runs on keeps its job from ending.
fn all_end(exits: BTreeMap<String, Vec<i32>>) -> BTreeMap<String, Vec<i32>> {
    let end =
        |codes: Vec<i32>| codes.into_iter().map(|code| if code == RUNS_ON { 0 } else { code }).collect();
    exits.into_iter().map(|(name, codes)| (name, end(codes))).collect()
}

pub(crate) fn world_after(spec: &JobSpec, exits: &BTreeMap<String, Vec<i32>>, steps: &[Step]) -> World {
    let mut world = World::new(spec, exits.clone());
    for step in steps {
        run(&mut world, step);
    }
    world
}

/// The same worlds each time, so that nobody's work is held up by a world that somebody else's work met. The long tests
/// look at others: `TRAINYARD_SEED` is a number, or `random`.
pub(crate) fn config() -> Config {
    let rng_seed = match std::env::var("TRAINYARD_SEED") {
        Ok(seed) => seed.parse().map_or(RngSeed::Random, RngSeed::Fixed),
        Err(_) => RngSeed::Fixed(1),
    };
    Config {
        cases: CASES,
        rng_seed,
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(config())]

    /// P1 and P11: once a plan is carried out, the next one, from the same world, asks for nothing and says nothing.
    #[test]
    fn p1_p11_a_plan_is_a_fixpoint_and_makes_no_noise(
        spec in job_spec(), exits in exits(), steps in prop::collection::vec(step(), 0..25),
    ) {
        let mut world = world_after(&spec, &exits, &steps);
        // A job that fails for its spec is cleaned up by the plan after.
        world.break_spec(false);
        world.grant_writes();
        if world.says_refused() {
            // The plan that tries a refused record again leaves what is said of the refusal to the plan after.
            world.reconcile();
        }
        let Some(mut first) = world.reconcile() else { return Ok(()) };
        // Pods come after what they need, and go when their end is written down: that is one more plan each.
        let others = [&Resource::POD, &Resource::SERVICE];
        let follows = |action: &Action| match action {
            Action::Create(child) => !others.contains(&child.what),
            action => matches!(action, Action::Release { .. }),
        };
        for _ in 0..3 {
            let Some((next, _)) = world.plan(0, 0) else { return Ok(()) };
            if !first.actions.iter().chain(&next.actions).any(follows) {
                break;
            }
            let Some(next) = world.reconcile() else { return Ok(()) };
            first = next;
        }
        let Some((again, _)) = world.plan(0, 0) else { return Ok(()) };
        prop_assert_eq!(&again.record, &None, "after {:#?}", first);
        prop_assert_eq!(&again.status, &None, "after {:#?}", first);
        prop_assert!(again.actions.is_empty(), "{:?} after {:#?}", again.actions, first);
        prop_assert!(again.events.is_empty(), "{:?}", again.events);
        prop_assert!(world.strangers().is_empty(), "of another attempt, and not asked to end: {:?}", world.strangers());
        prop_assert!(world.forgotten().is_empty(), "succeeded and not remembered: {:?}", world.forgotten());
    }

    /// P2: wherever a plan is cut off, the world ends where it would have ended.
    #[test]
    fn p2_any_subset_of_a_plan_may_be_done(
        spec in job_spec(), exits in exits(), steps in prop::collection::vec(step(), 0..20), crash in crash(),
    ) {
        let mut world = world_after(&spec, &exits, &steps);
        // A plan whose writes are refused is not cut off: it is replaced by another.
        world.grant_writes();
        let mut whole = world.clone();
        let mut broken = world;
        if let Some((plan, job)) = broken.plan(0, 0) {
            broken.execute(&plan, &job, crash);
            broken.reconcile();
            whole.execute(&plan, &job, Crash::NONE);
        }
        for world in [&mut whole, &mut broken] {
            world.suspend(false);
            world.break_spec(false);
            world.settle();
        }
        prop_assert_eq!(whole.outcome(), broken.outcome());
    }

    /// P3 and P5: whatever is stale, a job that ended starts no pod, and a replica that succeeded does not run again.
    #[test]
    fn p3_p5_stale_views_never_undo_an_end(
        spec in job_spec(), exits in exits(), steps in prop::collection::vec(step(), 0..40),
    ) {
        let mut world = World::new(&spec, exits);
        for step in &steps {
            let ended = world.is_over();
            let before: BTreeSet<String> = world.state.pods.values().map(|p| p.view.uid.to_string()).collect();
            run(&mut world, step);
            // A copy is another job.
            if ended && !matches!(step, Step::Copy { .. }) {
                prop_assert!(world.is_over(), "an end was undone by {:?}", step);
                let new = world.state.pods.values().find(|p| !before.contains(&*p.view.uid));
                prop_assert!(new.is_none(), "{:?} was created after the end by {:?}", new, step);
            }
        }
        for start in &world.starts {
            prop_assert!(!start.after_success, "ran again after success: {:?}", start);
        }
    }

    /// P4: the order in which pods and services are listed means nothing.
    #[test]
    fn p4_order_means_nothing(
        spec in job_spec(), exits in exits(), steps in prop::collection::vec(step(), 0..25), turn in 0_usize..8,
    ) {
        let world = world_after(&spec, &exits, &steps);
        let Some(job) = world.job() else { return Ok(()) };
        let mut pods: Vec<PodView> = world.state.pods.values().map(|p| p.view.clone()).collect();
        let mut services: Vec<ServiceView> = world.state.services.values().cloned().collect();
        let extras: Vec<ExtraView> = world.state.extras.values().cloned().collect();
        let straight = world.plan_of(job, world.state.broken, &pods, &services, &extras);
        let rotate = |n: usize| turn % n.max(1);
        let (p, s) = (rotate(pods.len()), rotate(services.len()));
        pods.rotate_left(p);
        services.rotate_left(s);
        pods.reverse();
        let turned = world.plan_of(job, world.state.broken, &pods, &services, &extras);
        let sorted = |plan: &Plan| {
            let mut actions: Vec<String> = plan.actions.iter().map(|a| format!("{a} {a:?}")).collect();
            actions.sort();
            actions
        };
        prop_assert_eq!(sorted(&straight), sorted(&turned));
        prop_assert_eq!(&straight.record, &turned.record);
        prop_assert_eq!(&straight.status, &turned.status);
        prop_assert_eq!(&straight.events, &turned.events);
        prop_assert_eq!(&straight.wake, &turned.wake);
        prop_assert_eq!(&straight.report, &turned.report);
    }

    /// P6: no more restarts than the user allowed, and what is counted is never uncounted.
    #[test]
    fn p6_restarts_are_bounded_and_counters_grow(
        spec in job_spec(), exits in exits(),
        order in prop::collection::vec((0_usize..6, crash(), prop::option::weighted(0.2, turn())), 0..60),
    ) {
        let mut world = World::new(&spec, exits);
        let mut last = Record::default();
        // A pod that goes before its end could be written down takes its restarts with it, unless it is kept until then.
        let happens = |step: &&Step| spec.tracks || !matches!(step, Step::RefuseWrites(..));
        for (n, crash, turn) in order {
            turn.iter().flatten().filter(happens).for_each(|step| run(&mut world, step));
            // An operator that is there sees every end before the kubelet answers it; it may be cut off on the way.
            if let Some((plan, job)) = world.plan(0, 0) {
                world.execute(&plan, &job, crash);
            }
            world.reconcile();
            world.reconcile();
            if let Some(job) = world.job() {
                let now = &job.record;
                prop_assert!((now.attempt, now.restarts) >= (last.attempt, last.restarts.min(now.restarts)));
                prop_assert!(now.restarts >= last.restarts, "{:?} after {:?}", now, last);
                last = now.clone();
            }
            run(&mut world, &Step::Tick(n));
            world.pass(400);
        }
        for start in &world.starts {
            // From a stale list of pods nobody could know; from a fresh one it must never happen.
            prop_assert!(!start.beside_old, "two attempts at once: {:?}", start);
        }
        let costly = world.starts.iter().filter(|start| start.costs).count();
        if let Some(limit) = spec.backoff_limit {
            // Restarting all at once is one unit, however many replicas had failed.
            let as_one = spec.as_one || spec.ports != Ports::Fixed;
            prop_assert!(as_one || costly <= limit as usize, "{} restarts, {} allowed", costly, limit);
            prop_assert!(last.restarts <= limit, "{:?}", last);
        }
    }

    /// P7: only objects of this job are touched, and only under names that follow from it.
    #[test]
    fn p7_only_what_is_ours_is_touched(
        spec in job_spec(), exits in exits(), steps in prop::collection::vec(step(), 0..25),
    ) {
        let world = world_after(&spec, &exits, &steps);
        let Some((plan, job)) = world.plan(0, 0) else { return Ok(()) };
        let ours: BTreeSet<&str> = world.state.pods.values().map(|p| &*p.view.uid)
            .chain(world.state.services.values().map(|s| &*s.uid))
            .chain(world.state.extras.values().map(|e| &*e.uid)).collect();
        for action in &plan.actions {
            match action {
                Action::Create(child) => {
                    let text = |pointer: &str| child.body.pointer(pointer).and_then(|v| v.as_str());
                    prop_assert_eq!(text("/metadata/ownerReferences/0/uid"), Some(job.uid.as_str()));
                    prop_assert_eq!(text("/metadata/namespace"), Some(job.namespace.as_str()));
                    if [&Resource::POD, &Resource::SERVICE].contains(&child.what) {
                        let slot = job.slots().find(|slot| slot.child_name(&job) == child.name);
                        prop_assert!(slot.is_some(), "{} is no replica", child.name);
                    }
                }
                Action::Delete { uid, .. } | Action::Amend { uid, .. } | Action::Release { uid, .. } => {
                    prop_assert!(ours.contains(uid.as_str()));
                }
                Action::DeleteJob { uid } => prop_assert_eq!(uid, &job.uid),
            }
        }
    }

    /// P8: conditions make sense in every state of every world.
    #[test]
    fn p8_conditions_make_sense(
        spec in job_spec(), exits in exits(), steps in prop::collection::vec(step(), 0..40),
    ) {
        let mut world = World::new(&spec, exits);
        for step in &steps {
            run(&mut world, step);
            let notes = world.notes();
            prop_assert!(notes.is_empty(), "{:?} after {:?}", notes, step);
        }
    }

    /// P9: left alone with a fair kubelet, every job comes to an end, and is cleaned up.
    #[test]
    fn p9_every_job_ends(
        spec in job_spec(), exits in exits(), steps in prop::collection::vec(step(), 0..25), lost in any::<bool>(),
    ) {
        let exits = if spec.deadline.is_some() { exits } else { all_end(exits) };
        let mut world = world_after(&spec, &exits, &steps);
        if lost {
            run(&mut world, &Step::LoseRecord);
        }
        world.suspend(false);
        world.break_spec(false);
        world.grant_writes();
        let settled = world.settle();
        if !spec.may_never_end() {
            prop_assert!(settled, "still moving: {}", world.outcome());
            prop_assert!(world.is_over(), "stuck: {} {:?}", world.outcome(), world.plan(0, 0).map(|p| p.0.report));
            prop_assert!(!world.cleans_all() || world.state.pods.is_empty());
        }
    }

    /// P10: where a node places gangs, no pod runs before all of its gang are there, and that never deadlocks.
    #[test]
    fn p10_gangs_start_whole_and_never_deadlock(spec in job_spec(), exits in exits(), deletes in 0_usize..6) {
        let spec = JobSpec { gang: true, ..spec };
        let mut world = World::new(&spec, all_end(exits));
        world.reconcile();
        let wanted = world.job().map(|job| job.total_replicas() as usize).unwrap_or_default();
        for name in world.pod_names() {
            world.tick(&name);
            prop_assert!(world.starts.is_empty() || world.state.pods.len() == wanted);
        }
        run(&mut world, &Step::Delete(deletes));
        let settled = world.settle();
        prop_assert!(spec.may_never_end() || (settled && world.is_over()), "stuck: {}", world.outcome());
    }
}
