//! Objects beside pods and services: found by a list, changed by an update.
//!
//! For some of them the role of the operator we replace grants neither `get` nor `patch`.

use serde_json::Value;
use trainyard_core::Resource;

use super::{Did, Trouble, Verb, forget, judge, learn, text};
use crate::api;
use crate::shell::Shell;

/// One of them as it is now, if it is there.
pub(super) async fn find(
    shell: &Shell,
    what: &Resource,
    namespace: &str,
    name: &str,
) -> Result<Option<Value>, String> {
    let named = format!("metadata.name={name}");
    let path = api::query(&api::children(what, namespace), &[("fieldSelector", Some(named.as_str()))]);
    let answer = shell.api.get(&path).await.map_err(|error| text(&error))?;
    if !answer.code.is_success() {
        return Err(answer.message());
    }
    let list: Value = serde_json::from_slice(&answer.body).map_err(|error| error.to_string())?;
    let items = list.get("items").and_then(Value::as_array);
    let is_it =
        |item: &&Value| item.pointer("/metadata/name").and_then(Value::as_str).is_some_and(|n| n == name);
    Ok(items.into_iter().flatten().find(is_it).cloned())
}

/// Changes one as a merge patch would, unless it has become another.
pub(super) async fn amend(
    shell: &Shell,
    what: &'static Resource,
    namespace: &str,
    (name, uid): (&str, &str),
    patch: &Value,
) -> Result<Did, Trouble> {
    let found = find(shell, what, namespace, name).await.map_err(Trouble::Passing)?;
    let is_it = |object: &Value| object.pointer("/metadata/uid").and_then(Value::as_str) == Some(uid);
    let Some(mut object) = found.filter(is_it) else {
        forget(shell, what, uid);
        return Ok(Did::Before);
    };
    json_patch::merge(&mut object, patch);
    if let Some(members) = object.as_object_mut() {
        members.insert("apiVersion".into(), what.api_version().into());
        members.insert("kind".into(), what.kind.into());
    }
    let answer = shell.api.update(&api::child(what, namespace, name), &object).await;
    // Somebody else was faster; the next look is at what they wrote.
    if let Ok(answer) = &answer
        && answer.code == http::StatusCode::CONFLICT
    {
        return Err(Trouble::Passing(answer.message()));
    }
    let (meaning, answer) = judge(Verb::Amend, answer)?;
    match meaning.did() {
        Did::Before => forget(shell, what, uid),
        Did::Now => drop(learn(shell, what, answer.text())),
    }
    Ok(meaning.did())
}
