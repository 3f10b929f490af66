//! What a node is told at its start.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::entrypoints::Entrypoints;
use crate::env::expand;
use crate::inventory::Inventory;
use crate::leftovers::Keep;
use crate::pod::BackOff;
use crate::runtime::LogRules;
use crate::users::UidRange;

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// How a node runs.
#[derive(Clone)]
pub struct Options {
    /// Its name. Pods stay bound to it across restarts, so it must not change with the host's name.
    pub name: String,
    /// The data directory.
    pub root: PathBuf,
    /// What the machine has to give.
    pub inventory: Inventory,
    /// The program that knows the shim modes: normally this one.
    pub shim: PathBuf,
    /// The file the control plane holds a lock on while it lives.
    pub lock: PathBuf,
    /// Containers end when the control plane has been away for this long; never if absent.
    pub orphans_after: Option<Duration>,
    /// What containers find around them.
    pub surroundings: Surroundings,
    /// What containers without a command run.
    pub entrypoints: Entrypoints,
    /// How often and how late a container that ended is started again.
    pub back_off: BackOff,
    /// How many files a container may open, before it asks for more; as many as this process if absent.
    pub open_files: Option<u64>,
    /// How much of each log is kept.
    pub log: LogRules,
    /// How much is kept of what pods leave that are gone.
    pub keep: Keep,
    /// While this file is there, containers of pods that the API does not know are set aside and not ended: objects were
    /// lost, not deleted. The node removes the file when it has done so.
    pub lost_objects: PathBuf,
    /// Each namespace runs as a user of its own out of these; as this process if absent.
    pub isolate: Option<UidRange>,
    /// Where programs on this machine reach the API; without it no pod has a token for it.
    pub api: Option<SocketAddr>,
    /// What the time is.
    pub clock: Clock,
}

/// What containers find around them, before their own `env` and `workingDir`.
#[derive(Clone, Debug)]
pub enum Surroundings {
    /// The working directory and the environment of whoever called: for `run`.
    Caller {
        /// Where containers start.
        directory: PathBuf,
        /// What they inherit.
        env: BTreeMap<String, String>,
    },
    /// A directory per pod and a few variables: for a long-running control plane, whose own environment is nobody's
    /// business.
    Clean {
        /// Variables beside the few, or instead of them, in this order. `$(NAME)` in a value is what was there before.
        env: Vec<(String, String)>,
    },
}

impl Options {
    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }
}

/// What a container gets in [`Surroundings::Clean`].
pub(crate) fn clean_env(home: &str, more: &[(String, String)]) -> BTreeMap<String, String> {
    let fixed = [
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("LANG", "C.UTF-8"),
        ("HOME", home),
    ];
    let mut env: BTreeMap<String, String> =
        fixed.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    for (name, value) in more {
        let value = expand(value, &env);
        env.insert(name.clone(), value);
    }
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_build_on_those_before_them() {
        let more = [
            ("PATH", "/opt/bin:$(PATH)"),
            ("TARGET", "$(HOME)/here"),
            ("BOTH", "$(TARGET) $(NONE) $$(HOME)"),
        ];
        let more = more.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let env = clean_env("/home", &more);
        assert!(env["PATH"].starts_with("/opt/bin:/usr/local/sbin:"), "{env:?}");
        assert_eq!(env["BOTH"], "/home/here $(NONE) $(HOME)");
        assert_eq!(env["LANG"], "C.UTF-8");
    }
}
