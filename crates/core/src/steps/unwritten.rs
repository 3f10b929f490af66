//! The server refuses to store the record: what relies on it waits, and what ends things goes on.
//!
//! A replica that is replaced without a record could be replaced for ever, and one that has succeeded could run again. The
//! end of a job needs no record: terminal states absorb. Nor do the deletions of a suspended job: pods carry their attempt.

use jiff::Timestamp;

use crate::action::{Action, Resource};
use crate::conditions::is_finished;
use crate::job::add_seconds;
use crate::plan::Draft;
use crate::seen::WriteFailure;

/// Why the record that this plan needs cannot be stored now, and when to try again. Nothing if the plan needs none, or if
/// it is time to try.
pub(crate) fn refusal<'a>(draft: &Draft<'a>) -> Option<(&'a WriteFailure, Timestamp)> {
    if draft.record == draft.job().record {
        return None;
    }
    let failure = draft.seen.failures.iter().find(|failure| failure.what == &Resource::RECORD)?;
    let due = failure.again()?;
    (failure.is_lasting() && due > draft.now()).then_some((failure, due))
}

/// Comes last: what the other steps have decided is cut down to what may be done without a record.
pub(crate) fn apply(draft: &mut Draft<'_>) {
    let Some((failure, due)) = refusal(draft) else { return };
    draft.wake_at(due);
    draft.say("unwritten", format!("the record is refused ({}): {}", failure.code, failure.message));
    draft.record = draft.job().record.clone();
    if is_finished(&draft.status) || draft.job().policy.suspend {
        return;
    }
    draft.keep_only(|action| matches!(action, Action::Release { .. }));
}

impl WriteFailure {
    /// When the write is tried again: after a second, which doubles with each refusal.
    pub(crate) fn again(&self) -> Option<Timestamp> {
        add_seconds(self.at, 1_i64 << self.count.saturating_sub(1).min(8))
    }
}
