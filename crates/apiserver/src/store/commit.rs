//! Group commit: one backend transaction for all writes that were decided while the last one ran.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Shared;
use super::backend::{BackendError, Write};
use super::state::Decided;

/// Commits until nothing is queued. Runs on a blocking thread, one at a time (`State::committing`).
pub(super) fn run(shared: &Shared) {
    loop {
        let batch = {
            let mut state = shared.write();
            if state.queue.is_empty() {
                state.committing = false;
                return;
            }
            std::mem::take(&mut state.queue)
        };
        let writes: Vec<Write> = batch.iter().map(Decided::write).collect();
        match commit(shared, &writes) {
            Ok(()) => publish(shared, batch),
            Err(error @ BackendError::Full { .. }) => make_room(shared, batch, &error),
            Err(error) => fail(shared, batch, &error),
        }
    }
}

fn commit(shared: &Shared, writes: &[Write]) -> Result<(), BackendError> {
    caught(|| shared.backend.commit(writes))
}

/// A backend that panics is a backend that failed: its callers must not wait for ever.
fn caught(work: impl FnOnce() -> Result<(), BackendError>) -> Result<(), BackendError> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(BackendError::Storage("the backend panicked".into())))
}

/// The disk is full: refuses what asks for more, and lets go what is to go. Otherwise a delete would fail because it
/// shared a batch with a create.
fn make_room(shared: &Shared, batch: Vec<Decided>, error: &BackendError) {
    let (going, refused) = shared.write().keep_deletions(batch);
    if !refused.is_empty() {
        tracing::error!(%error, writes = refused.len(), "commit failed; its writes are rolled back");
        shared.read().ended();
    }
    for decided in refused {
        let _ = decided.answer.send(Err(error.clone()));
    }
    if going.is_empty() {
        return;
    }
    let writes: Vec<Write> = going.iter().map(Decided::write).collect();
    match caught(|| shared.backend.commit_from_reserve(&writes)) {
        Ok(()) => publish(shared, going),
        Err(error) => fail(shared, going, &error),
    }
}

fn publish(shared: &Shared, batch: Vec<Decided>) {
    {
        let mut state = shared.write();
        for decided in &batch {
            state.publish(&decided.event);
        }
        state.ended();
    }
    for decided in batch {
        // A caller that went away does not undo its write.
        let _ = decided.answer.send(Ok(()));
    }
}

fn fail(shared: &Shared, batch: Vec<Decided>, error: &BackendError) {
    tracing::error!(%error, writes = batch.len(), "commit failed; its writes are rolled back");
    let later = {
        let mut state = shared.write();
        let later = state.roll_back();
        state.ended();
        later
    };
    for decided in batch.into_iter().chain(later) {
        let _ = decided.answer.send(Err(error.clone()));
    }
}
