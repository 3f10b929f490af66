//! The PriorityClasses of a cluster, for gangs that may start with a part of their pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use trainyard_core::Priorities;

use crate::shell::Shell;
use crate::watch::{Shown, Sink};
use crate::wire::{self, Meta};

/// Their path, which knows no namespaces.
pub(crate) const PATH: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
/// How their watch is called.
pub(crate) const NAME: &str = "priorityclasses.scheduling.k8s.io";

/// All that are known.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    /// By identity.
    classes: BTreeMap<Box<str>, Class>,
    /// What plans are made from.
    priorities: Arc<Priorities>,
}

#[derive(Debug, PartialEq, Eq)]
struct Class {
    name: Box<str>,
    value: i32,
    global_default: bool,
}

impl Classes {
    pub(crate) fn priorities(&self) -> Arc<Priorities> {
        Arc::clone(&self.priorities)
    }

    /// Returns whether plans may change.
    fn change(&mut self, change: impl FnOnce(&mut BTreeMap<Box<str>, Class>)) -> bool {
        change(&mut self.classes);
        let mut now = Priorities::default();
        for class in self.classes.values() {
            now.add(&class.name, class.value, class.global_default);
        }
        let news = now != *self.priorities;
        self.priorities = Arc::new(now);
        news
    }
}

/// Takes them in.
#[derive(Debug)]
pub(crate) struct PrioritySink {
    pub(crate) shell: Arc<Shell>,
}

impl PrioritySink {
    fn change(&self, change: impl FnOnce(&mut BTreeMap<Box<str>, Class>)) {
        let news = self.shell.classes().change(change);
        if news {
            let keys = self.shell.jobs().keys();
            self.shell.touch(&keys);
        }
    }
}

impl Sink for PrioritySink {
    fn begin_list(&self, _version: u64) {}

    fn show(&self, raw: &str) -> Result<Shown, serde_json::Error> {
        let (meta, class) = read(raw)?;
        self.change(|classes| {
            classes.insert(meta.uid.clone(), class);
        });
        Ok(Shown { uid: meta.uid, version: meta.resource_version })
    }

    fn remove(&self, raw: &str) -> Result<Shown, serde_json::Error> {
        let Meta { uid, resource_version, .. } = wire::meta(raw)?;
        self.change(|classes| {
            classes.remove(&uid);
        });
        Ok(Shown { uid, version: resource_version })
    }

    fn end_list(&self, uids: &BTreeSet<Box<str>>, _version: u64) {
        self.change(|classes| classes.retain(|uid, _| uids.contains(uid)));
    }

    fn advance(&self, _version: u64) {}
}

fn read(raw: &str) -> Result<(Meta, Class), serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Wire {
        #[serde(default)]
        value: i32,
        #[serde(default)]
        global_default: bool,
    }
    let meta = wire::meta(raw)?;
    let Wire { value, global_default } = serde_json::from_str(raw)?;
    let class = Class { name: meta.name.clone(), value, global_default };
    Ok((meta, class))
}
