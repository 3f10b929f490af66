//! Services that nobody controls and that were made for this very replica: somebody deleted a job and left its children.

use serde_json::{Value, json};
use trainyard_core::{Child, Resource};

use super::{Did, NotCreated, Target, delete, learn, text};
use crate::api;
use crate::shell::Shell;

/// The orphan that stands in the way of a service, if it is one.
pub(super) fn find(child: &Child, there: &str) -> Option<Value> {
    let object: Value = serde_json::from_str(there).ok().filter(|_| child.what == &Resource::SERVICE)?;
    let labels = child.body.pointer("/metadata/labels").and_then(Value::as_object)?;
    let has = |(name, value): (&String, &Value)| {
        let found = object.pointer("/metadata/labels").and_then(|labels| labels.get(name));
        found == Some(value)
    };
    let controls = |owner: &Value| owner.get("controller") == Some(&Value::Bool(true));
    let free = !owners(&object).iter().any(controls);
    let stays = object.pointer("/metadata/deletionTimestamp").is_none_or(Value::is_null);
    (free && stays && !labels.is_empty() && labels.iter().all(has)).then_some(object)
}

/// Makes it the job's. The role of the operator we replace does not allow that: then it makes room for a new one.
pub(super) async fn adopt(
    shell: &Shell,
    target: &Target,
    child: &Child,
    orphan: &Value,
) -> Result<Did, NotCreated> {
    let part =
        |name: &str| orphan.get("metadata").and_then(|meta| meta.get(name)).cloned().unwrap_or_default();
    let mut owners = owners(orphan);
    let ours = child.body.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    owners.extend(ours.into_iter().flatten().cloned());
    let patch = json!({ "metadata": {
        "uid": part("uid"), "resourceVersion": part("resourceVersion"), "ownerReferences": owners,
    } });
    let path = api::child(child.what, &target.key.namespace, &child.name);
    let answer = shell.api.merge_patch(&path, &patch).await;
    let answer = answer.map_err(|error| NotCreated::Passing(text(&error)))?;
    if answer.code.is_success() {
        learn(shell, child.what, answer.text());
        return Ok(Did::Before);
    }
    if answer.code == http::StatusCode::FORBIDDEN {
        let uid = part("uid");
        // Whatever becomes of it, the next look finds out.
        let _ = delete(shell, child.what, &path, uid.as_str().unwrap_or_default(), false).await;
    }
    Err(NotCreated::Passing(answer.message()))
}

fn owners(object: &Value) -> Vec<Value> {
    object.pointer("/metadata/ownerReferences").and_then(Value::as_array).cloned().unwrap_or_default()
}
