//! What the framework needs beside pods and services: created before the pods, kept as it should be.

use serde_json::{Value, json};
use trainyard_api::labels;
use trainyard_api::reasons::suffix;

use crate::action::{Action, Child, Resource, Why};
use crate::extra::{self, Around, ExtraView};
use crate::plan::{Draft, Flow};
use crate::pod::Phase;
use crate::steps::replicas;

pub(crate) fn apply(draft: &mut Draft<'_>) -> Flow {
    for want in wanted(draft) {
        if !settle(draft, &want) {
            draft.hold(suffix::NEEDS, format!("{} {} is not there yet", want.what.kind, want.name));
        }
    }
    Flow::Go
}

fn wanted(draft: &Draft<'_>) -> Vec<Child> {
    let runs =
        |name: &&str| draft.seen.pods.iter().any(|pod| *pod.name == **name && pod.phase == Phase::Running);
    let mut running: Vec<&str> = draft.seen.pods.iter().map(|pod| &*pod.name).filter(runs).collect();
    running.sort_unstable();
    draft.framework.extras(Around { job: draft.job(), running: &running, options: draft.seen.options })
}

/// Makes an object as it is wanted; says whether it is there.
pub(crate) fn settle(draft: &mut Draft<'_>, want: &Child) -> bool {
    match find(draft, want.what, &want.name) {
        Some(view) if view.deleting => false,
        Some(view) => {
            let content = extra::content(want);
            if !extra::covers(&view.content, &content) || !is_watched(view) {
                amend(draft, view, content);
            }
            true
        }
        None if is_shared(draft, want) => true,
        None => {
            if replicas::may_try(draft, want.what, &want.name) {
                draft.act(Action::Create(want.clone()));
            }
            false
        }
    }
}

/// Whether its changes are told. One that another operator made for the job lacks the label; accounts may not be changed
/// by the role of that operator, and nothing is read of them.
fn is_watched(view: &ExtraView) -> bool {
    view.labelled || *view.what == Resource::SERVICE_ACCOUNT
}

/// An account that somebody else made is as good as one of ours: users name their own.
fn is_shared(draft: &Draft<'_>, want: &Child) -> bool {
    let taken = |name: &str| {
        draft.seen.failures.iter().any(|f| f.what == want.what && f.name == name && f.code == 409)
    };
    *want.what == Resource::SERVICE_ACCOUNT && taken(&want.name)
}

pub(crate) fn find<'a>(draft: &Draft<'a>, what: &Resource, name: &str) -> Option<&'a ExtraView> {
    draft.seen.extras.iter().find(|view| view.what == what && *view.name == *name)
}

fn amend(draft: &mut Draft<'_>, view: &ExtraView, content: Value) {
    let labels = json!({ labels::OPERATOR_NAME: draft.job().kind.controller });
    let mut patch = json!({ "metadata": { "uid": &*view.uid, "labels": labels } });
    if let (Some(patch), Value::Object(content)) = (patch.as_object_mut(), content) {
        patch.extend(content);
    }
    let (name, uid) = (view.name.to_string(), view.uid.to_string());
    draft.say("extras", format!("{} {name} is brought up to date", view.what.kind));
    draft.act(Action::Amend { what: view.what, name, uid, patch });
}

/// The user suspended the job: nothing may scale it, and no gang waits for it.
pub(crate) fn suspended(draft: &mut Draft<'_>) {
    let goes = |what: &Resource| *what == Resource::AUTOSCALER || is_gang(what);
    delete(draft, goes, Why::Suspended);
}

/// The job has ended: its gang goes. The rest goes with the job itself.
pub(crate) fn ended(draft: &mut Draft<'_>) {
    delete(draft, is_gang, Why::CleanUp);
}

fn is_gang(what: &Resource) -> bool {
    *what == Resource::VOLCANO_GANG || *what == Resource::PLUGINS_GANG
}

fn delete(draft: &mut Draft<'_>, goes: impl Fn(&Resource) -> bool, why: Why) {
    for view in draft.seen.extras.iter().filter(|view| goes(view.what) && !view.deleting) {
        let (name, uid) = (view.name.to_string(), view.uid.to_string());
        draft.act(Action::Delete { what: view.what, name, uid, force: false, why });
    }
}
