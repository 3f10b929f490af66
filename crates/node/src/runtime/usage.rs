//! What containers use of the machine.

use std::path::PathBuf;
use std::time::Duration;

use nix::unistd::{SysconfVar, sysconf};

use super::Runtime;
use super::peer::Peer;
use crate::proc;

/// What the living processes of a container use; its shim does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time so far.
    pub cpu: Duration,
    /// Bytes of memory now.
    pub memory: u64,
}

impl Runtime {
    /// What each of these runs uses; nothing for one that does not run. One look at the machine serves all of them.
    pub fn usage(&self, dirs: &[PathBuf]) -> Vec<Option<Usage>> {
        let all = proc::all();
        let constant =
            |which, usual| sysconf(which).ok().flatten().and_then(|n| u64::try_from(n).ok()).unwrap_or(usual);
        let (tick, page) = (constant(SysconfVar::CLK_TCK, 100).max(1), constant(SysconfVar::PAGE_SIZE, 4096));
        let of = |dir: &PathBuf| {
            let shim = Peer::find(dir)?;
            let mut sum = Usage::default();
            for process in proc::descendants(&all, &[shim.pid]) {
                let millis = process.ticks.saturating_mul(1000) / tick;
                sum.cpu += Duration::from_millis(millis);
                sum.memory += process.pages.saturating_mul(page);
            }
            Some(sum)
        };
        dirs.iter().map(of).collect()
    }
}
