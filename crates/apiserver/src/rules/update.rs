//! What a replaced object looks like.

use serde_json::{Value, json};
use std::collections::HashSet;

use super::admit::{self, Admitted, Replaced, Strictness, admit};
use super::create;
use super::track::Track;
use crate::decode::Decoded;
use crate::failure::{Cause, Failure};
use crate::fields;
use crate::object::{carry, carry_meta, finalizers, is_deleting, meta, meta_map, meta_mut, set_meta};
use crate::registry::Served;
use crate::store::Outcome;

/// What the server chooses for a service.
const ADDRESSES: [&str; 4] = ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"];

/// Which part of an object a request writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Everything but the status, where that is a subresource.
    Main,
    /// The status alone.
    Status,
}

/// A replacement of an object.
#[derive(Clone, Copy)]
pub(crate) struct Update<'a> {
    pub(crate) served: &'a Served,
    pub(crate) scope: Scope,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) strictness: Strictness,
    /// Whether an object without a resourceVersion may replace any version.
    pub(crate) unconditional: bool,
    /// Whether the replacement was made from the stored object.
    pub(crate) patched: bool,
    /// Who writes; nobody when the replacement already says who owns what.
    pub(crate) track: Option<&'a Track<'a>>,
}

/// Makes of a replacement what webhooks are shown: it has its defaults, and is not checked yet.
pub(crate) fn draft(request: &Update<'_>, old: &Value, mut new: Decoded) -> Result<Admitted, Failure> {
    let served = request.served;
    create::namespace(served, &mut new.object, request.namespace)?;
    check_name(request.name, &new.object)?;
    check_version(request, old, &new.object)?;
    admit::draft(served, new, false, request.strictness)
}

/// Makes of a stored object and its replacement the object to be stored. Both are of the request's version.
pub(crate) fn update(request: &Update<'_>, old: &Value, new: Decoded) -> Result<Admitted, Failure> {
    let served = request.served;
    let mut new = new;
    create::namespace(served, &mut new.object, request.namespace)?;
    check_name(request.name, &new.object)?;
    if let Err(failure) = check_version(request, old, &new.object) {
        return Err(told(request, new, failure));
    }
    let Decoded { object: mut new, remarks, patched } = new;
    let mut new = match request.scope {
        Scope::Main => {
            if served.status {
                carry(&mut new, old, "status");
            }
            new
        }
        Scope::Status => status_only(request, old, new),
    };
    let causes = keep_identity(old, &mut new);
    if served.custom {
        ignore_empty_owners(&mut new);
    }
    let kept = if served.is_core("services") { keep_addresses(old, &mut new) } else { Vec::new() };
    if served.is_core("pods") {
        keep_class(old, &mut new);
        keep(old, &mut new, &["priority", "preemptionPolicy"]);
    }
    let new = Decoded { object: new, remarks, patched };
    let replaced = Replaced { old, kept: &kept, causes };
    let mut admitted =
        admit(served, new, Some(replaced), (request.scope, request.strictness), request.track)?;
    if served.is_core("services") && becomes_name(old, &admitted.object) {
        drop_unchanged(old, &mut admitted.object, &["internalTrafficPolicy"]);
    }
    if served.counts_changes()
        && request.scope == Scope::Main
        && desired_differs(served, old, &admitted.object)
    {
        let generation = meta_map(old).and_then(|m| m.get("generation")).and_then(Value::as_i64).unwrap_or(0);
        set_meta(&mut admitted.object, "generation", generation + 1);
    }
    fields::forget_times(old, &mut admitted.object);
    Ok(admitted)
}

/// The stored object with the status that was sent. Of a built-in kind it also takes the metadata, as far as that is
/// not the business of whoever writes the spec.
fn status_only(request: &Update<'_>, old: &Value, mut new: Value) -> Value {
    let served = request.served;
    let sent = |field: &str| matches!(field, "status" | "metadata");
    if let Some(members) = new.as_object_mut() {
        members.retain(|field, _| sent(field) || old.get(field).is_some());
    }
    for field in old.as_object().into_iter().flat_map(|members| members.keys()).filter(|field| !sent(field)) {
        carry(&mut new, old, field);
    }
    if served.custom || served.is_crd() {
        let sent = request.track.is_none().then(|| new.get("metadata").cloned()).flatten();
        carry(&mut new, old, "metadata");
        if let Some(metadata) = sent {
            carry_meta(&mut new, &json!({"metadata": metadata}), "managedFields");
        }
        return new;
    }
    let kept = match (served.group.as_str(), served.plural.as_str()) {
        ("", "pods") => "ownerReferences",
        ("apps", "deployments") => "labels",
        _ => "",
    };
    if !kept.is_empty() {
        carry_meta(&mut new, old, kept);
    }
    new
}

/// Of a custom object, what its schema does not know is said before anything about its version, and with it.
fn told(request: &Update<'_>, new: Decoded, failure: Failure) -> Failure {
    if !request.served.custom {
        return failure;
    }
    match admit::draft(request.served, new, false, request.strictness) {
        Ok(drafted) => failure.warned(&drafted.warnings),
        Err(earlier) => earlier,
    }
}

pub(crate) fn check_name(wanted: &str, new: &Value) -> Result<(), Failure> {
    let name = meta(new, "name");
    if name.is_empty() {
        return Err(Failure::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            wanted
        )));
    } else if name != wanted {
        return Err(Failure::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            wanted
        )));
    }
    Ok(())
}

/// The change was built on the version that is stored.
fn check_version(request: &Update<'_>, old: &Value, new: &Value) -> Result<(), Failure> {
    let (served, name) = (request.served, request.name);
    let uid = meta(new, "uid");
    let another = !uid.is_empty() && uid != meta(old, "uid");
    if another && !request.patched {
        let uids = ("UID", uid, meta(old, "uid"));
        return Err(Failure::precondition(served, request.namespace, name, uids));
    }
    let version = meta(new, "resourceVersion");
    if version.is_empty() && !request.unconditional {
        let why = "must be specified for an update";
        let cause = Cause::invalid("metadata.resourceVersion", 0, why);
        // The storage knows the resource and not the kind.
        return Err(Failure::invalid_kind(&served.plural, &served.group, name, vec![cause]));
    }
    if !version.is_empty() && version.parse::<u64>().is_err() {
        return Err(Failure::unexpected(format!("strconv.ParseUint: parsing {version:?}: invalid syntax")));
    }
    if !version.is_empty() && version != meta(old, "resourceVersion") {
        return Err(Failure::modified(served, name));
    }
    if another {
        let cause = Cause::invalid("metadata.uid", uid, "field is immutable");
        // Two sets of rules look at it.
        return Err(Failure::invalid(served, name, vec![cause.clone(), cause]));
    }
    Ok(())
}

/// What an update cannot change: identity and the deletion, which only the server writes. Whoever tries is told.
fn keep_identity(old: &Value, new: &mut Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let known: HashSet<&str> = finalizers(old).into_iter().collect();
    let added: Vec<&str> = finalizers(new).into_iter().filter(|f| !known.contains(f)).collect();
    if is_deleting(old) && !added.is_empty() {
        let why = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.iter().map(|f| format!("{f:?}")).collect::<Vec<_>>().join(", ")
        );
        causes.push(Cause::forbidden("metadata.finalizers", &why));
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        let value = |object: &Value| meta_map(object).and_then(|m| m.get(field)).cloned();
        if let (Some(given), stored) = (value(new), value(old))
            && stored.as_ref() != Some(&given)
        {
            causes.push(Cause::invalid(format!("metadata.{field}"), given, "field is immutable"));
        }
    }
    // The rules of all objects and those of this kind both look at it.
    causes.extend_from_within(..);
    for field in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
    ] {
        carry_meta(new, old, field);
    }
    if let Some(metadata) = meta_mut(new) {
        metadata.remove("selfLink");
        // An emptied list or map is a missing one, or removing the last entry twice would be two versions.
        metadata.retain(|field, value| field == "managedFields" || !is_empty(value));
    }
    causes
}

/// An empty list of owners forgets all of them, except in a custom object, where it is a missing one.
fn ignore_empty_owners(new: &mut Value) {
    if let Some(metadata) = meta_mut(new)
        && metadata.get("managedFields").is_some_and(is_empty)
    {
        metadata.remove("managedFields");
    }
}

/// A service keeps the addresses it has when the new one names none, unless it is to have none. Who does not name them
/// does not own them.
fn keep_addresses(old: &Value, new: &mut Value) -> Vec<&'static str> {
    if becomes_name(old, new) {
        drop_unchanged(old, new, &ADDRESSES);
    }
    if is_name(new) || is_name(old) {
        return Vec::new();
    }
    keep(old, new, &ADDRESSES)
}

/// How a pod is treated when memory is short was decided when it was made.
fn keep_class(old: &Value, new: &mut Value) {
    let (Some(known), Some(status)) =
        (old.pointer("/status/qosClass"), new.get_mut("status").and_then(Value::as_object_mut))
    else {
        return;
    };
    status.entry("qosClass").or_insert_with(|| known.clone());
}

fn is_name(service: &Value) -> bool {
    service.pointer("/spec/type").and_then(Value::as_str) == Some("ExternalName")
}

fn becomes_name(old: &Value, new: &Value) -> bool {
    is_name(new) && !is_name(old)
}

/// A service that becomes a name loses what names have not, unless the writer changed it.
fn drop_unchanged(old: &Value, new: &mut Value, fields: &[&str]) {
    let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) else { return };
    for field in fields {
        if spec.get(*field) == old.get("spec").and_then(|spec| spec.get(*field)) {
            spec.remove(*field);
        }
    }
}

/// Takes over fields of the spec that the new one leaves out, and says which.
fn keep(old: &Value, new: &mut Value, fields: &[&'static str]) -> Vec<&'static str> {
    let Some(map) = new.get_mut("spec").and_then(Value::as_object_mut) else {
        return Vec::new();
    };
    let mut kept = Vec::new();
    for field in fields {
        if let (None, Some(known)) = (map.get(*field), old.get("spec").and_then(|s| s.get(*field))) {
            map.insert((*field).into(), known.clone());
            kept.push(*field);
        }
    }
    kept
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(serde_json::Map::is_empty)
}

/// Whether anything but metadata (and status, where it is a subresource) differs.
fn desired_differs(served: &Served, old: &Value, new: &Value) -> bool {
    let counts =
        |field: &str| field != "metadata" && field != "apiVersion" && !(served.status && field == "status");
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else {
        return false;
    };
    let annotations = |object: &serde_json::Map<String, Value>| {
        object.get("metadata").and_then(|m| m.get("annotations")).cloned()
    };
    old.iter().filter(|(field, _)| counts(field)).ne(new.iter().filter(|(field, _)| counts(field)))
        || (served.annotations_count && annotations(old) != annotations(new))
}

/// What an updated object means for the store: nothing if it is the same, the end if it was only kept by its
/// finalizers and the last of them is gone. What is removed is what was stored: nobody ever saw it without them.
pub(crate) fn settle(served: &Served, old: &Value, mut new: Value) -> Outcome {
    let gone = is_deleting(&new) && finalizers(&new).is_empty() && grace(&new) == 0 && !holds(served, &new);
    if *old == new && !gone {
        return Outcome::Keep;
    }
    if gone {
        let mut last = old.clone();
        served.store_form(&mut last);
        return Outcome::Remove(last);
    }
    served.store_form(&mut new);
    Outcome::Put(new)
}

/// The seconds a deleting object still has; nobody waits for an object without them.
fn grace(object: &Value) -> i64 {
    meta_map(object).and_then(|m| m.get("deletionGracePeriodSeconds")).and_then(Value::as_i64).unwrap_or(0)
}

/// Namespaces have finalizers of their own, in `spec`.
pub(crate) fn holds(served: &Served, object: &Value) -> bool {
    served.is_core("namespaces")
        && object
            .get("spec")
            .and_then(|s| s.get("finalizers"))
            .and_then(Value::as_array)
            .is_some_and(|list| !list.is_empty())
}
