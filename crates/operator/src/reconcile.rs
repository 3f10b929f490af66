//! One look at a job: observe, plan, commit, execute, report.

use std::time::Duration;

use jiff::Timestamp;
use tracing::{debug, warn};

use crate::counts;
use crate::execute::{self, Did, Effect, Target, Trouble, Verb};
use crate::memory::Refusal;
use crate::observe::{self, Observed, Planned};
use crate::orphans;
use crate::queue::{Key, Moment, Next};
use crate::report;
use crate::shell::Shell;
use crate::sinks;
use crate::status::{self, Commit, Part};
use crate::tail;

/// No timer is longer. Wall clock and waiting clock drift apart: a laptop sleeps, a clock is set.
const LONGEST_SLEEP: Duration = Duration::from_secs(15 * 60);

/// Looks at a job and does what it needs.
pub(crate) async fn reconcile(shell: &Shell, key: &Key) -> Next {
    shell.counters().reconciles.increment();
    let released = match orphans::release(shell, key).await {
        Ok(effects) => effects,
        Err(error) => return failed(shell, &error, None),
    };
    let left = troubled(shell, &released);
    let Some(seen) = observe::observe(shell, key) else {
        return if left { Next::Retry(None) } else { Next::Forget };
    };
    let Planned { mut plan, mut status } = seen.plan(shell, None);
    if let Some(ask) = &plan.ask {
        let tail = tail::read(shell, &key.namespace, ask).await;
        Planned { plan, status } = seen.plan(shell, Some(&tail));
    }
    debug!(report = %plan.report, actions = plan.actions.len(), "planned");
    let wake = plan.wake.map(|at| moment(shell, at));
    let commit = match status::commit(shell, &seen, &plan, &status).await {
        Ok(commit) => commit,
        Err(error) => return not_written(shell, &seen, &error, wake),
    };
    let Commit::Go { wrote } = commit else { return stale(shell, &seen).await };
    if wrote {
        counts::fates(key.kind(), &status, &plan).into_iter().for_each(|fate| shell.health.count(key, fate));
    }
    let target = Target { key: key.clone(), uid: seen.job.uid.clone(), spec: seen.job.spec };
    let effects = execute::execute(shell, &target, plan.actions).await;
    for notice in plan.events.iter().chain(&report::notices(&effects)) {
        shell.events.show(key, &seen.job.uid, notice, shell.now());
    }
    let acted = wrote || !effects.is_empty();
    // Where some of it was done the rest is worth another try soon: a big job must not wait for a minute because one
    // request in ten fails.
    let progress = effects.iter().any(|effect| effect.result.is_ok());
    release_if_gone(shell, &seen);
    if (troubled(shell, &effects) && !progress) || left {
        Next::Retry(wake)
    } else if acted {
        // What was done is known to the caches by now; whether anything follows from it, the next plan says.
        Next::Again
    } else {
        Next::Rest(wake)
    }
}

/// The moment at which a time on the wall will have come.
fn moment(shell: &Shell, at: Timestamp) -> Moment {
    let wait = Duration::try_from(at.duration_since(shell.now())).unwrap_or_default().min(LONGEST_SLEEP);
    // Timers have the resolution of a millisecond; one that fires early would fire again at once.
    shell.moment().saturating_add(wait).saturating_add(Duration::from_millis(1))
}

/// The job has changed: look at it as it is now.
async fn stale(shell: &Shell, seen: &Observed) -> Next {
    shell.counters().stale_plans.increment();
    debug!("the plan was made from an older job; it is dropped");
    if let Err(error) = status::refresh(shell, &seen.key, &seen.job.uid).await {
        return failed(shell, &error, None);
    }
    let current = shell.jobs().get(&seen.key).map(|job| job.version.clone());
    if current.as_ref() == Some(&seen.job.version) { Next::Retry(None) } else { Next::Again }
}

/// The record or the status was not written. What that means for the job, the next plan says.
fn not_written(shell: &Shell, seen: &Observed, error: &status::Error, wake: Option<Moment>) -> Next {
    let next = failed(shell, error, wake);
    let status::Error::Unwritten { part, code, message } = error else { return next };
    let (key, now) = (&seen.key, shell.now());
    let (what, name) = (part.resource(), key.name.to_string());
    let refusal = Refusal { what, name, code: *code, message: message.clone() };
    if !shell.memory().refused(key, seen.job.spec, refusal, now) {
        return next;
    }
    shell.counters().refused_writes.increment();
    shell.events.show(key, &seen.job.uid, &report::not_written(*part, message), now);
    match part {
        Part::Record => Next::Again,
        Part::Status => next,
    }
}

fn failed(shell: &Shell, error: &dyn std::error::Error, wake: Option<Moment>) -> Next {
    shell.counters().reconcile_errors.increment();
    let reason = error.source().map(ToString::to_string);
    warn!(%error, reason, "the job could not be looked after; it is tried again");
    Next::Retry(wake)
}

/// True when something has to be tried again. What was refused of creates is in the next plan's hands.
fn troubled(shell: &Shell, effects: &[Effect]) -> bool {
    let mut again = false;
    for effect in effects {
        let (verb, kind, name) = (effect.verb, effect.kind, &effect.name);
        match &effect.result {
            Ok(Did::Now | Did::Before) => {}
            Err(Trouble::Refused(message) | Trouble::Taken(message)) => {
                warn!(?verb, kind, name, message, "refused");
                again |= verb != Verb::Create;
            }
            Err(Trouble::Passing(message) | Trouble::Lasting(message)) => {
                warn!(?verb, kind, name, message, "not done; it is tried again");
                again = true;
            }
        }
    }
    if again {
        shell.counters().reconcile_errors.increment();
    }
    again
}

/// A plan that was under way while its job went may have noted ports for nobody.
fn release_if_gone(shell: &Shell, seen: &Observed) {
    let there = shell.jobs().get(&seen.key).is_some_and(|job| job.uid == seen.job.uid);
    if !there {
        sinks::forget(shell, &seen.key, &seen.job.uid);
    }
}

#[cfg(test)]
mod tests;
