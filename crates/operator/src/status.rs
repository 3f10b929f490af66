//! What is written to the job itself: the record, then the status, each on condition of the version that was seen.
//!
//! Whoever acts on a stale job learns of it here, before the first action.

use http::StatusCode;
use serde_json::{Map, Value, json};
use trainyard_api::labels;
use trainyard_core::{Plan, Resource};

use crate::api::{self, Answer};
use crate::jobs::Job;
use crate::observe::Observed;
use crate::queue::Key;
use crate::shell::Shell;
use crate::sinks;

/// Why the job could not be written or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// There was no answer.
    #[error("{what} got no answer")]
    Request {
        what: &'static str,
        #[source]
        source: api::Error,
    },
    /// The server said no to a read, or has no time.
    #[error("{what} was answered with {code}: {message}")]
    Refused { what: &'static str, code: u16, message: String },
    /// The server said no to a write, or had trouble of its own.
    #[error("{} was answered with {code}: {message}", part.name())]
    Unwritten { part: Part, code: u16, message: String },
    /// The answer makes no sense.
    #[error("the answer to {what} cannot be read")]
    Answer {
        what: &'static str,
        #[source]
        source: serde_json::Error,
    },
}

/// A part of a job that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Record,
    Status,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Record => "the record",
            Self::Status => "the status",
        }
    }

    /// What stands for it where refusals are remembered.
    pub(crate) fn resource(self) -> &'static Resource {
        match self {
            Self::Record => &Resource::RECORD,
            Self::Status => &Resource::STATUS,
        }
    }
}

/// Whether a plan may be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commit {
    /// It may; `wrote` says whether the job was changed.
    Go { wrote: bool },
    /// The job has changed since it was seen, or is gone: the plan is about nothing.
    Stale,
}

/// Writes down what must be known before the plan's actions, and makes sure that the plan is still about the job.
pub(crate) async fn commit(
    shell: &Shell,
    seen: &Observed,
    plan: &Plan,
    status: &Value,
) -> Result<Commit, Error> {
    let path = api::job(seen.key.kind(), &seen.key.namespace, &seen.key.name);
    let mut version: String = (*seen.job.version).into();
    let (mut sent, mut wrote) = (false, false);
    if let Some(record) = &plan.record {
        let body = json!({ "metadata": {
            "resourceVersion": version,
            "annotations": { labels::RECORD: record.render() },
        }});
        let Some(next) = patch(shell, seen, Part::Record, &path, &body).await? else {
            return Ok(Commit::Stale);
        };
        (version, sent, wrote) = (next, true, true);
    }
    if let Some(change) = plan.status.as_ref().and_then(|wanted| status_change(status, wanted)) {
        let body = json!({ "metadata": { "resourceVersion": version }, "status": change });
        let path = format!("{path}/status");
        let Some(next) = patch(shell, seen, Part::Status, &path, &body).await? else {
            return Ok(Commit::Stale);
        };
        // A definition that does not know a field drops it, and the job stays as it was: that is no change.
        wrote |= next != version;
        sent = true;
    }
    if sent || plan.actions.is_empty() || is_current(shell, seen, &path).await? {
        Ok(Commit::Go { wrote })
    } else {
        Ok(Commit::Stale)
    }
}

/// Reads the job anew after a plan turned out to be about an older one.
pub(crate) async fn refresh(shell: &Shell, key: &Key, uid: &str) -> Result<(), Error> {
    let what = "reading the job";
    let answer = shell.api.get(&api::job(key.kind(), &key.namespace, &key.name)).await;
    let answer = answer.map_err(|source| Error::Request { what, source })?;
    if answer.code == StatusCode::NOT_FOUND {
        let known = shell.jobs().remove(key, uid);
        if known {
            sinks::gone(shell, key, uid);
        }
        return Ok(());
    }
    expect_success(what, &answer)?;
    learn(shell, key, what, &answer).map(drop)
}

/// Sends a patch; returns the job's new version, or nothing if the job is not the one that was seen.
async fn patch(
    shell: &Shell,
    seen: &Observed,
    part: Part,
    path: &str,
    body: &Value,
) -> Result<Option<String>, Error> {
    shell.counters().writes.increment();
    let what = part.name();
    let answer = shell.api.merge_patch(path, body).await.map_err(|source| Error::Request { what, source })?;
    if matches!(answer.code, StatusCode::CONFLICT | StatusCode::NOT_FOUND) {
        return Ok(None);
    }
    if is_refusal(answer.code) {
        return Err(Error::Unwritten { part, code: answer.code.as_u16(), message: answer.message() });
    }
    expect_success(what, &answer)?;
    shell.memory().cleared(&seen.key, part.resource(), &seen.key.name);
    learn(shell, &seen.key, what, &answer).map(Some)
}

/// Whether the server said something about this write, and not only that it has no time or knows nobody.
fn is_refusal(code: StatusCode) -> bool {
    let later = [StatusCode::UNAUTHORIZED, StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS]
        .contains(&code);
    (code.is_client_error() || code.is_server_error()) && !later
}

/// An action without a write before it has nothing that would have failed on a stale job: so look.
async fn is_current(shell: &Shell, seen: &Observed, path: &str) -> Result<bool, Error> {
    let what = "reading the job";
    let answer = shell.api.get(path).await.map_err(|source| Error::Request { what, source })?;
    if answer.code == StatusCode::NOT_FOUND {
        return Ok(false);
    }
    expect_success(what, &answer)?;
    Ok(learn(shell, &seen.key, what, &answer)? == *seen.job.version)
}

fn expect_success(what: &'static str, answer: &Answer) -> Result<(), Error> {
    if answer.code.is_success() {
        return Ok(());
    }
    Err(Error::Refused { what, code: answer.code.as_u16(), message: answer.message() })
}

/// Takes in the job that an answer shows; returns its version.
fn learn(shell: &Shell, key: &Key, what: &'static str, answer: &Answer) -> Result<String, Error> {
    let read = Job::read(key.kind(), answer.text());
    let (key, job) = read.map_err(|source| Error::Answer { what, source })?;
    let version = job.version.to_string();
    shell.jobs().learn(key, job);
    Ok(version)
}

/// The merge patch that makes `seen` into `wanted`; nothing if they are the same.
fn status_change(seen: &Value, wanted: &trainyard_api::JobStatus) -> Option<Value> {
    let wanted = serde_json::to_value(wanted).unwrap_or_default();
    let empty = Map::new();
    let change = merge_diff(seen.as_object().unwrap_or(&empty), wanted.as_object().unwrap_or(&empty));
    (!change.is_empty()).then_some(Value::Object(change))
}

/// RFC 7386 backwards: what is to be removed is `null`, lists are replaced whole.
fn merge_diff(seen: &Map<String, Value>, wanted: &Map<String, Value>) -> Map<String, Value> {
    let gone = seen.iter().filter(|(key, value)| !value.is_null() && !wanted.contains_key(*key));
    let mut change: Map<String, Value> = gone.map(|(key, _)| (key.clone(), Value::Null)).collect();
    for (key, value) in wanted {
        match (seen.get(key), value) {
            (Some(Value::Object(before)), Value::Object(after)) => {
                let inner = merge_diff(before, after);
                if !inner.is_empty() {
                    change.insert(key.clone(), Value::Object(inner));
                }
            }
            (Some(before), after) if before == after => {}
            (_, after) => {
                change.insert(key.clone(), after.clone());
            }
        }
    }
    change
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(seen: Value, wanted: Value) -> Value {
        Value::Object(merge_diff(seen.as_object().unwrap(), wanted.as_object().unwrap()))
    }

    /// RFC 7386, as a server does it.
    fn apply(target: &mut Value, patch: &Value) {
        let Value::Object(patch) = patch else {
            *target = patch.clone();
            return;
        };
        if !target.is_object() {
            *target = json!({});
        }
        let map = target.as_object_mut().unwrap();
        for (key, value) in patch {
            if value.is_null() {
                map.remove(key);
            } else {
                apply(map.entry(key).or_insert(Value::Null), value);
            }
        }
    }

    #[test]
    fn a_patch_says_only_what_differs_and_removes_what_vanished() {
        let cases = [
            (json!({}), json!({}), json!({})),
            (json!({}), json!({ "a": {} }), json!({ "a": {} })),
            (json!({ "a": { "x": 1 } }), json!({ "a": {} }), json!({ "a": { "x": null } })),
            (json!({ "a": { "x": 1 }, "b": 1 }), json!({ "b": 1 }), json!({ "a": null })),
            (json!({ "l": [1, 2] }), json!({ "l": [1] }), json!({ "l": [1] })),
            (json!({ "l": [1] }), json!({ "l": [1] }), json!({})),
            (json!({ "a": null }), json!({}), json!({})),
            (json!({ "a": "wrong" }), json!({ "a": { "x": 1 } }), json!({ "a": { "x": 1 } })),
            (
                json!({ "a": { "x": { "y": 1, "z": 2 } } }),
                json!({ "a": { "x": { "y": 2, "z": 2 } } }),
                json!({ "a": { "x": { "y": 2 } } }),
            ),
        ];
        for (seen, wanted, patch) in cases {
            assert_eq!(diff(seen.clone(), wanted.clone()), patch, "{seen} -> {wanted}");
            let mut result = seen.clone();
            apply(&mut result, &patch);
            if seen["a"] != Value::Null || seen.get("a").is_none() {
                assert_eq!(result, wanted);
            }
        }
    }

    #[test]
    fn a_status_that_is_no_status_is_replaced() {
        let wanted = trainyard_api::JobStatus::default();
        assert_eq!(status_change(&json!({ "conditions": 7 }), &wanted), Some(json!({ "conditions": null })));
        assert_eq!(status_change(&Value::Null, &wanted), None);
    }
}
