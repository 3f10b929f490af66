//! Pods that are kept for a job that is gone: nobody is left who would write down their end, so they are let go.

use trainyard_core::{Action, release_all};

use crate::api;
use crate::execute::{self, Effect, Target};
use crate::queue::Key;
use crate::shell::Shell;
use crate::wire;

/// Why it is not known whether a job is gone.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot ask for a job whose pods are left")]
    Ask(#[source] api::Error),
    #[error("cannot learn about a job whose pods are left: {0}")]
    Answer(String),
}

/// Lets go of pods of jobs of this name that are not there any more.
pub(crate) async fn release(shell: &Shell, key: &Key) -> Result<Vec<Effect>, Error> {
    let known = shell.jobs().get(key).map(|job| job.uid.clone());
    let strangers = shell.pods().strangers(key, known.as_deref());
    let kept = strangers.into_iter().map(|(uid, pods)| (uid, release_all(&pods)));
    let kept: Vec<(Box<str>, Vec<Action>)> = kept.filter(|(_, actions)| !actions.is_empty()).collect();
    if kept.is_empty() {
        return Ok(Vec::new());
    }
    // The watch of pods may be ahead of that of jobs: only the server knows whether the job is gone.
    let path = api::job(key.kind(), &key.namespace, &key.name);
    let answer = shell.api.get(&path).await.map_err(Error::Ask)?;
    let current = match answer.code.as_u16() {
        404 if answer.status().is_about(&key.name) => None,
        // The kind is not served, for now or for good: that says nothing about the job.
        200..=299 => wire::meta(answer.text()).ok().map(|meta| meta.uid),
        _ => return Err(Error::Answer(answer.message())),
    };
    let mut effects = Vec::new();
    for (uid, actions) in kept.into_iter().filter(|(uid, _)| Some(uid) != current.as_ref()) {
        let target = Target { key: key.clone(), uid: (&*uid).into(), spec: 0 };
        effects.extend(execute::execute(shell, &target, actions).await);
    }
    Ok(effects)
}
