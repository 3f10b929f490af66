//! What can be done to pods beside changing them: placing and evicting.

use axum::response::Response;
use serde_json::{Value, json};
use std::sync::Arc;

use super::body::{Input, Kind};
use super::{Call, reply};
use crate::failure::Failure;
use crate::object::{at, meta, set_at, time};
use crate::rules::delete::DeleteOptions;
use crate::store::{Outcome, Stored, Written};

/// `pods/x/binding`: puts an unplaced pod on a node.
pub(crate) async fn bind(call: &Call, input: Input) -> Result<Response, Failure> {
    let body = input.object(Kind::named("", "v1", "Binding")).await?;
    let body = call.ask_about(("", "v1", "Binding"), body).await?;
    place(call, &body).await
}

/// `bindings`: the same, and the body names the pod.
pub(crate) async fn bind_named(call: &Call, body: Value) -> Result<Response, Failure> {
    let catalog = call.app.catalog();
    let pods = catalog.get("", "v1", "pods").ok_or_else(Failure::no_such_resource)?;
    let call = Call {
        served: Arc::clone(pods),
        name: meta(&body, "name").to_owned(),
        subresource: "binding".into(),
        ..call.clone()
    };
    place(&call, &body).await
}

async fn place(call: &Call, body: &Value) -> Result<Response, Failure> {
    check_name(call, body, "Binding")?;
    let node = target(body)?;
    let uid = meta(body, "uid");
    let now = time(call.app.now());
    let decide = |current: Option<&Stored>| {
        let current = current.ok_or_else(|| Failure::not_found(&call.served, &call.name))?;
        let pod = current.value().map_err(Failure::internal)?;
        let mut pod = placed(call, pod, node, uid, &now)?;
        copy_marks(body, &mut pod);
        Ok(Outcome::Put(pod))
    };
    match call.app.transact(&call.key(), &[], decide).await? {
        Written::Put(_) => {
            let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
            Ok(reply::json(201, status.to_string()))
        }
        Written::Kept(_) | Written::Removed(_) => Err(Failure::internal("the binding was not stored")),
    }
}

/// What is done to a pod is said about the pod of the URL.
fn check_name(call: &Call, body: &Value, kind: &str) -> Result<(), Failure> {
    if meta(body, "name") == call.name {
        return Ok(());
    }
    Err(Failure::bad_request(format!("name in URL does not match name in {kind} object")))
}

/// The node that a binding names.
fn target(body: &Value) -> Result<&str, Failure> {
    let text = |field: &str| at(body, field).and_then(Value::as_str).unwrap_or_default();
    let (kind, node) = (text("target.kind"), text("target.name"));
    let mut wrong = Vec::new();
    if !["", "Node"].contains(&kind) {
        wrong.push(format!(
            "target.kind: Unsupported value: {kind:?}: supported values: \"Node\", \"<empty>\""
        ));
    }
    if node.is_empty() {
        wrong.push("target.name: Required value".to_owned());
    }
    match wrong.as_slice() {
        [] => Ok(node),
        [one] => Err(Failure::unexpected(one.clone())),
        many => Err(Failure::unexpected(format!("[{}]", many.join(", ")))),
    }
}

fn placed(call: &Call, mut pod: Value, node: &str, uid: &str, now: &str) -> Result<Value, Failure> {
    let conflict = |why: String| Failure::conflict_of("pods/binding", "", &call.name, &why);
    if !uid.is_empty() && uid != meta(&pod, "uid") {
        let found = meta(&pod, "uid");
        return Err(conflict(format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {found}"
        )));
    }
    if crate::object::is_deleting(&pod) {
        return Err(conflict(format!("pod {} is being deleted, cannot be assigned to a host", call.name)));
    }
    let taken = at(&pod, "spec.nodeName").and_then(Value::as_str).unwrap_or_default();
    if !taken.is_empty() {
        return Err(conflict(format!("pod {} is already assigned to node {taken:?}", call.name)));
    }
    set_at(&mut pod, &["spec".into(), "nodeName".into()], node.into());
    let mut conditions = at(&pod, "status.conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    conditions.retain(|c| c.get("type").and_then(Value::as_str) != Some("PodScheduled"));
    conditions.push(
        json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now}),
    );
    set_at(&mut pod, &["status".into(), "conditions".into()], conditions.into());
    Ok(pod)
}

/// Labels and annotations of a binding become the pod's: a scheduler says with them what it gave to the pod.
fn copy_marks(binding: &Value, pod: &mut Value) {
    for field in ["labels", "annotations"] {
        let Some(marks) = at(binding, &format!("metadata.{field}")).and_then(Value::as_object) else {
            continue;
        };
        for (name, value) in marks {
            set_at(pod, &["metadata".into(), field.into(), name.clone()], value.clone());
        }
    }
}

/// Says in the status of a pod why it ends: whoever looks at its exit can tell an eviction from a failure.
async fn target_for_disruption(call: &Call, options: &mut DeleteOptions) -> Result<(), Failure> {
    let rehearsed = DeleteOptions { dry_run: Some(vec!["All".into()]), ..options.clone() };
    call.app.delete(&call.served, &call.key(), &rehearsed).await?;
    let now = time(call.app.now());
    let decide = |current: Option<&Stored>| {
        let current = current.ok_or_else(|| Failure::not_found(&call.served, &call.name))?;
        let mut pod = current.value().map_err(Failure::internal)?;
        let mut conditions =
            at(&pod, "status.conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        let is_target = |c: &Value| c.get("type").and_then(Value::as_str) == Some("DisruptionTarget");
        if conditions.iter().any(|c| is_target(c) && c.get("status").is_some_and(|status| status == "True")) {
            return Ok(Outcome::Keep);
        }
        conditions.retain(|condition| !is_target(condition));
        conditions.push(json!({"type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
            "lastTransitionTime": now, "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}));
        set_at(&mut pod, &["status".into(), "conditions".into()], conditions.into());
        Ok::<Outcome, Failure>(Outcome::Put(pod))
    };
    call.app.transact(&call.key(), &[], decide).await?;
    // That was the version before this one.
    if let Some(preconditions) = &mut options.preconditions {
        preconditions.resource_version = None;
    }
    Ok(())
}

/// `pods/x/eviction`: a deletion by another name, until disruption budgets are served.
pub(crate) async fn evict(call: &Call, input: Input) -> Result<Response, Failure> {
    let body = input.object(Kind::named("policy", "v1", "Eviction")).await?;
    let body = call.ask_about(("policy", "v1", "Eviction"), body).await?;
    check_name(call, &body, "Eviction")?;
    let mut options: DeleteOptions = match body.get("deleteOptions") {
        None | Some(Value::Null) => DeleteOptions::default(),
        Some(value) => super::delete::options(value.clone())?,
    };
    if call.query.dry_run()? {
        options.dry_run = Some(vec!["All".into()]);
    }
    if !options.is_dry() {
        target_for_disruption(call, &mut options).await?;
    }
    call.app.delete(&call.served, &call.key(), &options).await?;
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(reply::json(201, status.to_string()))
}
