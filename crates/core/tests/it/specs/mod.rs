//! Arbitrary specs through decode, defaults, validation and plan: nothing panics, and every job ends in its pods or in a
//! condition that says why it has none.
//!
//! 20,000 of them; `TRAINYARD_SPECS` asks for more, and `TRAINYARD_SEED` (a number, or `random`) for others. One that
//! fails is named by its own seed, with which `TRAINYARD_SPECS=1` shows it again.

mod generate;

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use trainyard_api::JobStatus;
use trainyard_core::conditions::{is_finished, is_true, types};
use trainyard_core::field_error::one_line;
use trainyard_core::invalid::{InvalidJob, plan_invalid};
use trainyard_core::*;

use generate::{Dice, manifest};

const SPECS: u64 = 20_000;

/// What became of a spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Pods,
    Refused,
    Suspended,
    Elsewhere,
    Over,
    Empty,
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

fn seed() -> u64 {
    match std::env::var("TRAINYARD_SEED").as_deref() {
        Ok("random") => RandomState::new().build_hasher().finish(),
        _ => number("TRAINYARD_SEED").unwrap_or(1),
    }
}

fn options(dice: &mut Dice) -> Options {
    let scheduler = *dice.pick(&["", "", "volcano", "plugins"]);
    Options {
        addressing: if dice.once_in(3) { Addressing::HostPorts } else { Addressing::Service },
        gang_on_pods: dice.once_in(2),
        gang: GangScheduler::named(scheduler),
        cluster_domain: dice.once_in(4).then(|| "cluster.local".into()),
        ..Options::default()
    }
}

/// Plans one spec until nothing is missing but its pods; says what became of it, or what is wrong with that.
fn end_of(seed: u64) -> Result<End, String> {
    let mut dice = Dice(seed);
    let (kind, object) = manifest(&mut dice);
    let options = options(&mut dice);
    let catalog = Catalog::default();
    explain::explain(&catalog, kind, &object, &options);
    let decoded = match decode(&catalog, kind, &object) {
        Ok(decoded) if decoded.errors.is_empty() => decoded,
        Ok(decoded) => {
            let (status, elsewhere) = (&decoded.job.status, decoded.job.policy.managed_elsewhere);
            return refused(kind, status, elsewhere, &decoded.errors);
        }
        Err(bad) => return refused(kind, &bad.status, bad.managed_elsewhere, &[bad.error]),
    };
    planned(&decoded, &options)
}

/// A spec that is wrong must say so in a condition, unless its job had ended before.
fn refused(
    kind: &'static Kind,
    status: &JobStatus,
    managed_elsewhere: bool,
    errors: &[FieldError],
) -> Result<End, String> {
    let job = InvalidJob {
        kind,
        namespace: "n",
        name: "j",
        deleting: false,
        managed_elsewhere,
        status,
        judged: false,
        errors,
        pods: &[],
    };
    let plan = plan_invalid(&job, Timestamp::UNIX_EPOCH);
    if managed_elsewhere {
        return Ok(End::Elsewhere);
    }
    if is_finished(status) {
        return Ok(End::Over);
    }
    let told = plan.status.ok_or("no status for a spec that is wrong")?;
    let failed = told.conditions.iter().find(|c| c.type_ == types::FAILED).ok_or("it did not fail")?;
    let cause = one_line(errors);
    if errors.iter().any(|error| error.path.is_empty() || error.message.is_empty()) {
        return Err(format!("an error without field or cause: {errors:?}"));
    }
    match &failed.message {
        Some(message) if message.contains(&cause) => Ok(End::Refused),
        message => Err(format!("{message:?} does not say {cause}")),
    }
}

fn planned(decoded: &Decoded, options: &Options) -> Result<End, String> {
    let job = &decoded.job;
    let ports = PortSpace { first: 1_024, last: 65_535, taken: Vec::new() };
    let mut extras: Vec<ExtraView> = Vec::new();
    let mut pods: BTreeMap<String, Value> = BTreeMap::new();
    // Objects that pods need come first, and may need one another.
    for _ in 0..6 {
        let seen = Seen {
            job,
            pods: &[],
            services: &[],
            extras: &extras,
            ports: Some(&ports),
            failures: &[],
            tail: None,
            priorities: &Priorities::default(),
            options,
            now: Timestamp::UNIX_EPOCH,
        };
        let plan = plan(decoded.framework, &seen);
        let status = plan.status.clone().unwrap_or_else(|| job.status.clone());
        if let Some(end) = without_pods(decoded, &plan, &status) {
            return Ok(end);
        }
        for action in plan.actions {
            match action {
                Action::Create(child) if *child.what == Resource::POD => {
                    drop(pods.insert(child.name, child.body))
                }
                Action::Create(child) if *child.what != Resource::SERVICE => extras.push(granted(&child)),
                _ => {}
            }
        }
        if !pods.is_empty() {
            return complete(job, &pods);
        }
    }
    Err("neither pods nor a condition that says why".into())
}

/// An object that was created, as its own controller leaves it.
fn granted(child: &Child) -> ExtraView {
    let mut view = ExtraView::granted(child);
    let content = Arc::make_mut(&mut view.content);
    if let Some(content) = content.as_object_mut() {
        content.insert("status".into(), json!({ "phase": "Inqueue" }));
    }
    view
}

/// Why a job has no pods, if its conditions say so.
fn without_pods(decoded: &Decoded, plan: &Plan, status: &JobStatus) -> Option<End> {
    let message = |type_: &str| {
        let found = status.conditions.iter().find(|c| c.type_ == type_);
        found.and_then(|c| c.message.clone()).unwrap_or_default()
    };
    let policy = &decoded.job.policy;
    let nothing = Plan { report: plan.report.clone(), ..Plan::default() };
    if policy.managed_elsewhere && *plan == nothing {
        return Some(End::Elsewhere);
    }
    if policy.suspend && is_true(status, types::SUSPENDED) {
        return Some(End::Suspended);
    }
    if is_finished(status) {
        return Some(End::Over);
    }
    // What was said when the job was new is not said again when it is scaled.
    let said =
        !decoded.job.status.conditions.is_empty() || message(types::CREATED).contains("asks for no replicas");
    let empty = decoded.job.total_replicas() == 0 && said;
    empty.then_some(End::Empty)
}

/// Every replica has its pod, and every pod is one that an API server can read.
fn complete(job: &JobView, pods: &BTreeMap<String, Value>) -> Result<End, String> {
    use k8s_openapi::api::core::v1::Pod;
    let due = |slot: &Slot<'_>| !job.record.is_finished(&slot.role.name, slot.index);
    let missing = job.slots().filter(due).find(|slot| !pods.contains_key(&slot.child_name(job)));
    if let Some(slot) = missing {
        return Err(format!("{} has no pod", slot.child_name(job)));
    }
    for (name, body) in pods.iter().take(4) {
        if let Err(error) = serde_json::from_value::<Pod>(body.clone()) {
            return Err(format!("{name} is no pod: {error}: {body}"));
        }
    }
    Ok(End::Pods)
}

#[test]
fn specs_of_all_sorts_end_in_pods_or_in_a_condition_that_says_why() {
    let (first, specs) = (seed(), number("TRAINYARD_SPECS").unwrap_or(SPECS));
    let mut ends: BTreeMap<(&str, End), u64> = BTreeMap::new();
    let mut wrong = Vec::new();
    for n in 0..specs {
        let seed = first.wrapping_add(n);
        let end = catch_unwind(AssertUnwindSafe(|| end_of(seed))).unwrap_or_else(|_| Err("it panics".into()));
        let (kind, object) = manifest(&mut Dice(seed));
        match end {
            Ok(end) => *ends.entry((kind.name, end)).or_default() += 1,
            Err(why) => wrong.push(format!("TRAINYARD_SEED={seed} TRAINYARD_SPECS=1: {why}, of {object:#}")),
        }
    }
    assert!(
        wrong.is_empty(),
        "{} specs, of which the first: {}",
        wrong.len(),
        wrong[..wrong.len().min(3)].join("\n")
    );
    println!("{ends:#?}");
    if specs >= SPECS {
        for kind in kinds::ALL {
            for end in [End::Pods, End::Refused, End::Suspended, End::Elsewhere] {
                assert!(ends.contains_key(&(kind.name, end)), "no {} ends in {end:?}", kind.name);
            }
        }
    }
}

/// Found by the specs: nothing was ever said of such a job.
#[test]
fn specs_that_ask_for_no_replicas_say_so() {
    let catalog = Catalog::default();
    for kind in kinds::ALL {
        let object = json!({ "metadata": { "name": "j" }, "spec": { kind.replica_specs: {} } });
        let Ok(decoded) = decode(&catalog, kind, &object) else { panic!("{} does not decode", kind.name) };
        if decoded.errors.is_empty() {
            assert_eq!(planned(&decoded, &Options::default()), Ok(End::Empty), "{}", kind.name);
        }
    }
}

/// Found by the specs: such a job waited for ever for two thousand million ports in a row.
#[test]
fn specs_of_elastic_jobs_without_bounds_get_ports() {
    let catalog = Catalog::default();
    let kind = catalog.kind("PyTorchJob").unwrap();
    let template = json!({ "spec": { "containers": [{ "name": "pytorch", "image": "i" }] } });
    let object = json!({ "metadata": { "name": "j", "uid": "u" }, "spec": {
        "elasticPolicy": { "minReplicas": 1, "maxReplicas": i32::MAX },
        kind.replica_specs: { "Worker": { "replicas": 1, "template": template } },
    } });
    let Ok(decoded) = decode(&catalog, kind, &object) else { panic!("it does not decode") };
    let options = Options { addressing: Addressing::HostPorts, ..Options::default() };
    assert_eq!(planned(&decoded, &options), Ok(End::Pods));
}
