//! The logs of this node's containers, by pod and container.

use std::path::PathBuf;
use std::sync::Arc;

use crate::runtime::{Instance, logs};
use crate::shared::Shared;

pub use crate::runtime::logs::LogQuery;

/// Finds and reads logs. What is not asynchronous reads files: for threads that may block.
#[derive(Clone)]
pub struct NodeLogs {
    shared: Arc<Shared>,
}

impl NodeLogs {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The directory of the newest run of a container, or of the one before it.
    ///
    /// The one before may belong to an earlier pod of the same name: a replica that failed is replaced by a new pod, and
    /// what its predecessor wrote is what people look for then.
    pub fn find(
        &self,
        namespace: &str,
        pod: &str,
        uid: &str,
        container: &str,
        previous: bool,
    ) -> Option<PathBuf> {
        let disk = &self.shared.disk;
        let runs = self.begun(uid, container);
        let here = if previous { runs.iter().rev().nth(1) } else { runs.last() };
        if let Some(number) = here {
            return Some(disk.run(uid, container, *number));
        }
        if !previous {
            return None;
        }
        let since = disk.owner(uid).map(|owner| owner.since);
        let others = disk.uids().into_iter().filter(|other| other != uid).filter_map(|other| {
            let owner = disk.owner(&other)?;
            let same = owner.namespace == namespace && owner.name == pod;
            (same && since.is_none_or(|since| owner.since <= since)).then_some((owner.since, other))
        });
        let (_, before) = others.max()?;
        let number = self.begun(&before, container).last().copied()?;
        Some(disk.run(&before, container, number))
    }

    /// Runs that have begun. The newest may be one that could not be started yet: it has no log.
    fn begun(&self, uid: &str, container: &str) -> Vec<u32> {
        let mut runs = self.shared.disk.runs(uid, container).unwrap_or_default();
        let absent = |number: u32| {
            let dir = self.shared.disk.run(uid, container, number);
            matches!(self.shared.runtime.look(&dir), Ok(Instance::Absent))
        };
        if runs.last().is_some_and(|number| absent(*number)) {
            runs.pop();
        }
        runs
    }

    /// The directory of one run, if it is there.
    pub fn run(&self, uid: &str, container: &str, number: u32) -> Option<PathBuf> {
        Some(self.shared.disk.run(uid, container, number)).filter(|dir| dir.is_dir())
    }

    /// Reads the log of a run.
    pub fn read(
        &self,
        dir: PathBuf,
        query: LogQuery,
    ) -> impl futures::Stream<Item = std::io::Result<bytes::Bytes>> + Send + 'static {
        logs::read(dir, query)
    }

    /// The last line of a container's newest run.
    pub fn last_line(&self, uid: &str, container: &str) -> Option<String> {
        let number = self.shared.disk.runs(uid, container).ok()?.last().copied()?;
        logs::last_line(&self.shared.disk.run(uid, container, number))
    }
}
