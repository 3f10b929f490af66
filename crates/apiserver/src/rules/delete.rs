//! What a DELETE makes of an object.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{CRD_CLEANUP, FOREGROUND, ORPHAN, update};
use crate::crd;
use crate::failure::Failure;
use crate::object::{
    at, carry_meta, finalizers, is_deleting, meta, meta_map, meta_mut, set_finalizers, set_meta, time,
};
use crate::registry::Served;
use crate::store::Outcome;

/// Namespaces everything counts on.
const PROTECTED: &[&str] = &["default", "kube-public", "kube-system"];

/// What becomes of the objects that name this one as their owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum Propagation {
    /// They are collected after it is gone.
    #[default]
    Background,
    /// They go first.
    Foreground,
    /// They stay.
    Orphan,
}

/// Only delete the object I mean.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Preconditions {
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
}

/// `DeleteOptions`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) propagation_policy: Option<Propagation>,
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) preconditions: Option<Preconditions>,
    pub(crate) dry_run: Option<Vec<String>>,
}

impl DeleteOptions {
    /// Whether nothing is to be changed.
    pub(crate) fn is_dry(&self) -> bool {
        self.dry_run.as_ref().is_some_and(|list| !list.is_empty())
    }

    /// As webhooks are told.
    pub(crate) fn show(&self) -> Value {
        let mut options = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
        let preconditions = self.preconditions.as_ref().map(|wanted| {
            let mut shown = json!({});
            for (field, text) in [("uid", &wanted.uid), ("resourceVersion", &wanted.resource_version)] {
                if let (Some(text), Some(map)) = (text, shown.as_object_mut()) {
                    map.insert(field.into(), text.as_str().into());
                }
            }
            shown
        });
        for (field, value) in [
            ("gracePeriodSeconds", self.grace_period_seconds.map(Value::from)),
            ("propagationPolicy", self.propagation_policy.map(|policy| format!("{policy:?}").into())),
            ("orphanDependents", self.orphan_dependents.map(Value::from)),
            ("preconditions", preconditions),
            ("dryRun", self.dry_run.clone().filter(|list| !list.is_empty()).map(Value::from)),
        ] {
            if let (Some(value), Some(map)) = (value, options.as_object_mut()) {
                map.insert(field.into(), value);
            }
        }
        options
    }

    /// A deletion of exactly this object.
    pub(crate) fn of(uid: &str, propagation: Option<Propagation>) -> Self {
        let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        Self { propagation_policy: propagation, preconditions: Some(preconditions), ..Self::default() }
    }
}

/// Decides a deletion. `object` is in stored form.
pub(crate) fn delete(
    served: &Served,
    mut object: Value,
    options: &DeleteOptions,
    now: Timestamp,
) -> Result<Outcome, Failure> {
    check(served, &object, options)?;
    let old = object.clone();
    let grace = grace(served, &object, options);
    let kept = kept_by(served, &object, options);
    set_finalizers(&mut object, kept);
    let removable = grace == 0 && finalizers(&object).is_empty() && !update::holds(served, &object);
    if removable {
        // Whoever watches pods sees that this one was given no time.
        if served.is_core("pods") {
            begin(&mut object, 0, now);
        }
        return Ok(Outcome::Remove(object));
    }
    begin(&mut object, grace, now);
    if served.is_core("namespaces") {
        set_phase_terminating(&mut object);
    }
    // These two are deleted by rules of their own, which know no grace and count no generation.
    if served.is_core("namespaces") || served.is_crd() {
        if let Some(metadata) = meta_mut(&mut object) {
            metadata.remove("deletionGracePeriodSeconds");
        }
        carry_meta(&mut object, &old, "generation");
    }
    if served.is_crd() {
        crd::set_terminating(&mut object, &time(now));
    }
    Ok(if object == old { Outcome::Keep } else { Outcome::Put(object) })
}

fn check(served: &Served, object: &Value, options: &DeleteOptions) -> Result<(), Failure> {
    let name = meta(object, "name");
    if served.is_core("namespaces") && PROTECTED.contains(&name) {
        return Err(Failure::forbidden(served, name, "this namespace may not be deleted", None));
    }
    let Some(preconditions) = &options.preconditions else {
        return Ok(());
    };
    for (what, wanted, field, happened) in [
        ("UID", &preconditions.uid, "uid", "deleted and then recreated"),
        ("ResourceVersion", &preconditions.resource_version, "resourceVersion", "modified"),
    ] {
        let found = meta(object, field);
        if let Some(wanted) = wanted
            && wanted != found
        {
            let why = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object \
                 might have been {happened}"
            );
            return Err(Failure::conflict_of_kind(served, name, &why));
        }
    }
    Ok(())
}

/// How long somebody (a node) gets to end what the object stands for. Only pods on a node have such a somebody.
fn grace(served: &Served, object: &Value, options: &DeleteOptions) -> i64 {
    let text = |path: &str| at(object, path).and_then(Value::as_str).unwrap_or_default();
    let is_running =
        !text("spec.nodeName").is_empty() && !["Succeeded", "Failed"].contains(&text("status.phase"));
    if !served.is_core("pods") || !is_running {
        return 0;
    }
    let own = at(object, "spec.terminationGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(30);
    // A negative period is an old way to say "now, but gracefully".
    match options.grace_period_seconds.unwrap_or(own) {
        seconds if seconds < 0 => 1,
        seconds => seconds,
    }
}

/// The finalizers the object has once it is being deleted under a policy.
fn kept_by(served: &Served, object: &Value, options: &DeleteOptions) -> Vec<String> {
    let mut kept: Vec<String> = finalizers(object).into_iter().map(str::to_owned).collect();
    let policy = match (options.propagation_policy, options.orphan_dependents) {
        (Some(policy), _) => Some(policy),
        (None, Some(true)) => Some(Propagation::Orphan),
        (None, Some(false)) => Some(Propagation::Background),
        // Deleting a job used to leave its pods; whoever wants them gone says so.
        (None, None) if served.group == "batch" && served.plural == "jobs" && undecided(object) => {
            Some(Propagation::Orphan)
        }
        (None, None) => None,
    };
    let wanted = match policy {
        None => None,
        Some(Propagation::Background) => Some(None),
        Some(Propagation::Foreground) => Some(Some(FOREGROUND)),
        Some(Propagation::Orphan) => Some(Some(ORPHAN)),
    };
    // Without a policy the finalizers decide; with one, it replaces them.
    if let Some(wanted) = wanted {
        kept.retain(|f| f != FOREGROUND && f != ORPHAN);
        kept.extend(wanted.map(str::to_owned));
    }
    if served.is_crd() && !is_deleting(object) && !kept.iter().any(|f| f == CRD_CLEANUP) {
        kept.push(CRD_CLEANUP.to_owned());
    }
    kept
}

/// Whether no earlier deletion said what becomes of dependents.
fn undecided(object: &Value) -> bool {
    !finalizers(object).iter().any(|f| [FOREGROUND, ORPHAN].contains(f))
}

/// Marks an object as deleting, or shortens the time it has. That time counts from the first request: whoever wants to know
/// when the object was asked to end subtracts the period from `deletionTimestamp`.
pub(crate) fn begin(object: &mut Value, grace: i64, now: Timestamp) {
    let left = meta_map(object).and_then(|m| m.get("deletionGracePeriodSeconds")).and_then(Value::as_i64);
    if is_deleting(object) && left.is_none_or(|left| left <= grace) {
        return;
    }
    if !is_deleting(object)
        && let Some(generation) = meta_map(object).and_then(|m| m.get("generation")).and_then(Value::as_i64)
    {
        set_meta(object, "generation", generation + 1);
    }
    let asked = left.and_then(|left| asked(object, left)).unwrap_or(now);
    let end = asked.checked_add(SignedDuration::from_secs(grace)).unwrap_or(asked);
    set_meta(object, "deletionTimestamp", time(end));
    set_meta(object, "deletionGracePeriodSeconds", grace);
}

/// When an object that has `left` seconds to end was asked to.
fn asked(object: &Value, left: i64) -> Option<Timestamp> {
    let end: Timestamp = meta(object, "deletionTimestamp").parse().ok()?;
    end.checked_sub(SignedDuration::from_secs(left)).ok()
}

fn set_phase_terminating(object: &mut Value) {
    if let Some(map) = object.as_object_mut() {
        map.insert("status".into(), json!({"phase": "Terminating"}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;

    fn pods() -> Served {
        builtin::table().find(|s| s.plural == "pods").unwrap()
    }

    fn outcome(object: Value, options: &DeleteOptions) -> Outcome {
        delete(&pods(), object, options, Timestamp::UNIX_EPOCH).unwrap()
    }

    #[test]
    fn a_pod_waits_for_its_node_only() {
        let pod = |node: &str, phase: &str| json!({"metadata": {"name": "a"}, "spec": {"nodeName": node}, "status": {"phase": phase}});
        let options = DeleteOptions::default();
        assert!(matches!(outcome(pod("", "Pending"), &options), Outcome::Remove(_)));
        assert!(matches!(outcome(pod("n", "Succeeded"), &options), Outcome::Remove(_)));
        let Outcome::Put(kept) = outcome(pod("n", "Running"), &options) else { panic!("not kept") };
        assert_eq!(meta(&kept, "deletionTimestamp"), "1970-01-01T00:00:30Z");
        assert!(matches!(outcome(kept.clone(), &options), Outcome::Keep));
        let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        assert!(matches!(outcome(kept, &now), Outcome::Remove(_)));
    }

    #[test]
    fn a_shorter_period_counts_from_the_first_request() {
        let pod = json!({
            "metadata": {"name": "a", "finalizers": ["x/y"]}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"},
        });
        let Outcome::Put(mut pod) = outcome(pod, &DeleteOptions::default()) else { panic!("not kept") };
        for (grace, end) in [(20, "1970-01-01T00:00:20Z"), (0, "1970-01-01T00:00:00Z")] {
            begin(&mut pod, grace, Timestamp::from_second(7).unwrap());
            assert_eq!(
                (meta(&pod, "deletionTimestamp"), &pod["metadata"]["deletionGracePeriodSeconds"]),
                (end, &json!(grace))
            );
        }
    }

    #[test]
    fn finalizers_keep_an_object_and_a_policy_replaces_its_own() {
        let object = json!({"metadata": {"name": "a", "finalizers": ["x/y", ORPHAN], "generation": 3}});
        let options = DeleteOptions::of("", Some(Propagation::Foreground));
        let options = DeleteOptions { preconditions: None, ..options };
        let Outcome::Put(kept) = outcome(object, &options) else { panic!("not kept") };
        assert_eq!(finalizers(&kept), ["x/y", FOREGROUND]);
        assert_eq!(kept["metadata"]["generation"], 4);
    }
}
