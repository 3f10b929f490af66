//! From actions to calls. There is no decision about jobs here: an action is one call, and a table says what an
//! answer to it means.

use std::sync::Arc;

use futures::StreamExt;
use serde_json::json;
use trainyard_api::labels;
use trainyard_core::{Action, Child, ExtraView, Resource};

use crate::api::{self, Answer};
use crate::health::Counters;
use crate::memory::Refusal;
use crate::queue::Key;
use crate::shell::Shell;
use crate::sinks::{self, ChildResource, EXTRAS, Learnt, PODS, SERVICES};

mod beside;
mod orphan;

/// The job that actions are carried out for.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) key: Key,
    pub(crate) uid: Arc<str>,
    /// Changes when the job's spec does.
    pub(crate) spec: u64,
}

/// What became of one action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Effect {
    pub(crate) verb: Verb,
    /// `Pod`, `Service`, or the kind of the job itself.
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) result: Result<Did, Trouble>,
}

/// Whether there was anything to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Did {
    /// It was done now.
    Now,
    /// It was so already.
    Before,
}

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Create,
    Delete,
    Amend,
    DeleteJob,
}

/// Why an action was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The server said no, and will say so again.
    Refused(String),
    /// The name belongs to an object that is not the job's.
    Taken(String),
    /// The server has had trouble with it for a while; it is tried again.
    Lasting(String),
    /// It may go better next time.
    Passing(String),
}

/// What an answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// It is done.
    Done,
    /// There is nothing to do it to, or not any more.
    Gone,
    /// There is something of that name.
    Taken,
    /// The server will not.
    Refused,
    /// The server cannot now.
    Later,
}

impl Meaning {
    fn did(self) -> Did {
        if self == Self::Gone { Did::Before } else { Did::Now }
    }
}

/// The table of status codes.
fn meaning(verb: Verb, code: u16, reason: &str) -> Meaning {
    match (verb, code) {
        (_, 200..=299) => Meaning::Done,
        (Verb::Create, 409) if reason == "AlreadyExists" => Meaning::Taken,
        // A conflict inside the server, for example between two writers of one quota.
        (Verb::Create, 409) => Meaning::Later,
        // 409: the name belongs to another object by now.
        (Verb::Delete | Verb::DeleteJob, 404 | 409) | (Verb::Amend, 404) => Meaning::Gone,
        // The same, or others wrote to it so often that the server gave up: the watch tells which.
        (Verb::Amend, 409) => Meaning::Later,
        // 401: our own credentials are about to be renewed.
        (_, 401 | 408 | 429) => Meaning::Later,
        (_, 400..=499) => Meaning::Refused,
        _ => Meaning::Later,
    }
}

/// Carries out actions, in parallel; their effects come in the order of the actions.
pub(crate) async fn execute(shell: &Shell, target: &Target, actions: Vec<Action>) -> Vec<Effect> {
    let at_once = shell.options.effort.requests_per_job.max(1);
    let calls = actions.into_iter().enumerate().map(|(position, action)| async move {
        shell.counters().writes.increment();
        let effect = perform(shell, target, action).await;
        count(shell.counters(), &effect);
        (position, effect)
    });
    let mut effects: Vec<(usize, Effect)> =
        futures::stream::iter(calls).buffer_unordered(at_once).collect().await;
    effects.sort_by_key(|(position, _)| *position);
    effects.into_iter().map(|(_, effect)| effect).collect()
}

fn count(counters: &Counters, effect: &Effect) {
    let counter = match (effect.verb, effect.kind, &effect.result) {
        (Verb::Create, "Pod", Ok(Did::Now)) => &counters.pods_created,
        (Verb::Create, "Service", Ok(Did::Now)) => &counters.services_created,
        (Verb::Create, "Service", Err(_)) => &counters.services_not_created,
        (Verb::Create, "PodGroup", Ok(Did::Now)) => &counters.groups_created,
        (Verb::Delete, "PodGroup", Ok(Did::Now)) => &counters.groups_deleted,
        _ => return,
    };
    counter.increment();
}

async fn perform(shell: &Shell, target: &Target, action: Action) -> Effect {
    let namespace = &target.key.namespace;
    match action {
        Action::Create(child) => {
            let result = create(shell, target, &child).await;
            let result = remember(shell, target, &child, result);
            Effect { verb: Verb::Create, kind: child.what.kind, name: child.name, result }
        }
        Action::Delete { what, name, uid, force, why: _ } => {
            let path = api::child(what, namespace, &name);
            let result = delete(shell, what, &path, &uid, force).await;
            Effect { verb: Verb::Delete, kind: what.kind, name, result }
        }
        Action::Amend { what, name, uid, patch } if extra(what).is_some() => {
            let result = beside::amend(shell, what, namespace, (&name, &uid), &patch).await;
            Effect { verb: Verb::Amend, kind: what.kind, name, result }
        }
        Action::Amend { what, name, uid, patch } => {
            let path = api::child(what, namespace, &name);
            let answer = shell.api.merge_patch(&path, &patch).await;
            let result = settle(shell, Verb::Amend, what, &uid, answer);
            Effect { verb: Verb::Amend, kind: what.kind, name, result }
        }
        Action::Release { name, uid } => {
            let what = &Resource::POD;
            let path = api::child(what, namespace, &name);
            // Takes ours from the list and leaves the others, whatever the list has become.
            let taken = json!({ "uid": uid, "$deleteFromPrimitiveList/finalizers": [labels::TRACKING] });
            let answer = shell.api.strategic_patch(&path, &json!({ "metadata": taken })).await;
            let result = settle(shell, Verb::Amend, what, &uid, answer);
            Effect { verb: Verb::Amend, kind: what.kind, name, result }
        }
        Action::DeleteJob { uid } => {
            let kind = target.key.kind();
            let path = api::job(kind, namespace, &target.key.name);
            let options = json!({ "preconditions": { "uid": uid }, "propagationPolicy": "Background" });
            let result = shell.api.delete(&path, &options).await;
            let result = judge(Verb::DeleteJob, result).map(|(meaning, _)| meaning.did());
            Effect { verb: Verb::DeleteJob, kind: kind.name, name: target.key.name.to_string(), result }
        }
    }
}

/// Why a child was not created.
enum NotCreated {
    Refused(Refusal),
    Taken(Refusal),
    /// The server has trouble.
    Unwell(Refusal),
    Passing(String),
}

async fn create(shell: &Shell, target: &Target, child: &Child) -> Result<Did, NotCreated> {
    let path = api::children(child.what, &target.key.namespace);
    let answer = shell.api.create(&path, &child.body).await.map_err(|e| NotCreated::Passing(text(&e)))?;
    let code = answer.code.as_u16();
    if answer.code.is_success() {
        learn(shell, child.what, answer.text());
        return Ok(Did::Now);
    }
    let status = answer.status();
    let message = status.message.unwrap_or_else(|| answer.code.to_string());
    match meaning(Verb::Create, code, status.reason.as_deref().unwrap_or_default()) {
        Meaning::Taken => claim(shell, target, child).await,
        Meaning::Refused => Err(NotCreated::Refused(refusal(child, code, message))),
        Meaning::Later if answer.code.is_server_error() => {
            Err(NotCreated::Unwell(refusal(child, code, message)))
        }
        Meaning::Done | Meaning::Gone | Meaning::Later => Err(NotCreated::Passing(message)),
    }
}

fn refusal(child: &Child, code: u16, message: String) -> Refusal {
    Refusal { what: child.what, name: child.name.clone(), code, message }
}

/// Something of the wanted name is there. If it is ours, all is well: it may have been created by a request whose
/// answer was lost, or have lost the labels that it is watched by.
async fn claim(shell: &Shell, target: &Target, child: &Child) -> Result<Did, NotCreated> {
    let there = look(shell, target, child).await.map_err(NotCreated::Passing)?;
    let Some(learnt) = learn(shell, child.what, &there) else {
        return Err(NotCreated::Passing(format!("{} {} cannot be read", child.what.kind, child.name)));
    };
    if let Some(found) = orphan::find(child, &there) {
        return orphan::adopt(shell, target, child, &found).await;
    }
    if learnt.owner.as_deref() != Some(&*target.uid) {
        let Learnt { controller, .. } = learnt;
        let message = format!(
            "{} \"{}\" already exists and is controlled by {controller}",
            child.what.plural, child.name
        );
        return Err(NotCreated::Taken(refusal(child, 409, message)));
    }
    if learnt.known {
        return Ok(Did::Before);
    }
    // The watch has passed it: it is about to be told that it is gone.
    Err(NotCreated::Passing(format!("{} {} is gone again", child.what.kind, child.name)))
}

/// The object that has the name of a child, as text.
async fn look(shell: &Shell, target: &Target, child: &Child) -> Result<String, String> {
    let namespace = &target.key.namespace;
    if extra(child.what).is_some() {
        let found = beside::find(shell, child.what, namespace, &child.name).await?;
        return found.map(|object| object.to_string()).ok_or_else(|| "it is gone again".to_owned());
    }
    let path = api::child(child.what, namespace, &child.name);
    let answer = shell.api.get(&path).await.map_err(|error| text(&error))?;
    if answer.code.is_success() { Ok(answer.text().to_owned()) } else { Err(answer.message()) }
}

async fn delete(
    shell: &Shell,
    what: &'static Resource,
    path: &str,
    uid: &str,
    force: bool,
) -> Result<Did, Trouble> {
    let preconditions = json!({ "uid": uid });
    let options = if force {
        json!({ "preconditions": preconditions, "gracePeriodSeconds": 0 })
    } else {
        json!({ "preconditions": preconditions })
    };
    settle(shell, Verb::Delete, what, uid, shell.api.delete(path, &options).await)
}

/// Takes in what an answer says about an existing child.
fn settle(
    shell: &Shell,
    verb: Verb,
    what: &'static Resource,
    uid: &str,
    answer: Result<Answer, api::Error>,
) -> Result<Did, Trouble> {
    let (meaning, answer) = judge(verb, answer)?;
    let gone = meaning == Meaning::Gone || answer.status().kind.as_deref() == Some("Status");
    if gone {
        forget(shell, what, uid);
    } else {
        learn(shell, what, answer.text());
    }
    Ok(meaning.did())
}

fn judge(verb: Verb, answer: Result<Answer, api::Error>) -> Result<(Meaning, Answer), Trouble> {
    let answer = answer.map_err(|error| Trouble::Passing(text(&error)))?;
    match meaning(verb, answer.code.as_u16(), "") {
        meaning @ (Meaning::Done | Meaning::Gone) => Ok((meaning, answer)),
        Meaning::Refused => Err(Trouble::Refused(answer.message())),
        Meaning::Taken | Meaning::Later => Err(Trouble::Passing(answer.message())),
    }
}

/// Keeps what was refused, for the next plan, and forgets it once it was granted.
fn remember(
    shell: &Shell,
    target: &Target,
    child: &Child,
    result: Result<Did, NotCreated>,
) -> Result<Did, Trouble> {
    let keep = |refusal: Refusal| {
        let now = shell.now();
        shell.memory().refused(&target.key, target.spec, refusal, now)
    };
    match result {
        Ok(did) => {
            shell.memory().cleared(&target.key, child.what, &child.name);
            Ok(did)
        }
        Err(NotCreated::Refused(refusal)) => {
            shell.counters().refused_writes.increment();
            let message = refusal.message.clone();
            keep(refusal);
            Err(Trouble::Refused(message))
        }
        Err(NotCreated::Taken(refusal)) => {
            shell.counters().refused_writes.increment();
            let message = refusal.message.clone();
            keep(refusal);
            Err(Trouble::Taken(message))
        }
        Err(NotCreated::Unwell(refusal)) => {
            let message = refusal.message.clone();
            Err(if keep(refusal) { Trouble::Lasting(message) } else { Trouble::Passing(message) })
        }
        Err(NotCreated::Passing(message)) => Err(Trouble::Passing(message)),
    }
}

/// The one place that knows which resource has which cache.
fn learn(shell: &Shell, what: &Resource, raw: &str) -> Option<Learnt> {
    if *what == Resource::POD {
        sinks::learn(&PODS, shell, raw).ok()
    } else if *what == Resource::SERVICE {
        sinks::learn(&SERVICES, shell, raw).ok()
    } else {
        extra(what).and_then(|extra| sinks::learn(extra, shell, raw).ok())
    }
}

fn forget(shell: &Shell, what: &Resource, uid: &str) {
    if *what == Resource::POD {
        shell.pods().remove(uid);
    } else if *what == Resource::SERVICE {
        shell.services().remove(uid);
    } else if let Some(extra) = extra(what) {
        (extra.cache)(shell).remove(uid);
    }
}

fn extra(what: &Resource) -> Option<&'static ChildResource<ExtraView>> {
    EXTRAS.iter().find(|extra| extra.what == what)
}

/// An error and what caused it, in one line.
fn text(error: &api::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
