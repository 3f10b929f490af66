//! The threads that a control plane runs on.

use std::future::Future;
use std::num::NonZero;
use std::time::Duration;

use anyhow::Context as _;

/// How long file work and large requests may go on when everything else has ended: a thread that hangs at a file system
/// that does not answer is not waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Threads that serve requests and run roles: as many as a small machine has cores, and on a larger one a part of them,
/// since the machine is there for training.
fn workers(cores: usize) -> usize {
    (cores / 2).clamp(2, 16)
}

/// Runs a control plane to its end.
pub(crate) fn run<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    crate::heap::give_back();
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(workers(cores))
        .build()
        .context("cannot start the runtime")?;
    let result = runtime.block_on(work);
    runtime.shutdown_timeout(PATIENCE);
    result
}

#[cfg(test)]
mod tests {
    use super::{run, workers};

    #[test]
    fn workers_grow_with_the_cores() {
        assert_eq!([1, 2, 4, 8, 64, 256].map(workers), [2, 2, 2, 4, 16, 16]);
    }

    /// What lets the work aside end is only there when everything else has ended.
    #[test]
    fn work_aside_does_not_hold_up_the_end() {
        let ended = run(async {
            let (sender, receiver) = std::sync::mpsc::channel::<()>();
            drop(tokio::task::spawn_blocking(move || receiver.recv()));
            Ok(sender)
        });
        drop(ended.unwrap());
    }
}
