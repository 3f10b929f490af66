//! From the watches into the caches, and from there into the queue.

use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard};

use trainyard_core::{ExtraView, Kind, PodView, Resource, ServiceView};

use crate::children::{Children, View};
use crate::counts::Fate;
use crate::jobs::Job;
use crate::observe;
use crate::pod_wire;
use crate::queue::Key;
use crate::shell::Shell;
use crate::watch::{Shown, Sink};
use crate::wire::{self, Meta};

/// Takes in the jobs of one kind.
#[derive(Debug)]
pub(crate) struct JobSink {
    pub(crate) shell: Arc<Shell>,
    pub(crate) kind: &'static Kind,
}

impl Sink for JobSink {
    fn begin_list(&self, version: u64) {
        self.shell.jobs().begin_list(self.kind, version);
    }

    fn show(&self, raw: &str) -> Result<Shown, serde_json::Error> {
        let (key, job) = Job::read(self.kind, raw)?;
        let shown = Shown { uid: (&*job.uid).into(), version: (&*job.version).into() };
        let (uid, claims_ports) = (Arc::clone(&job.uid), job.claims_ports);
        let (news, replaced) = self.shell.jobs().show(key.clone(), job);
        if let Some(uid) = replaced {
            gone(&self.shell, &key, &uid);
        }
        if news {
            if claims_ports {
                let held = observe::ports_of(&self.shell, self.kind, raw);
                self.shell.ports().found(&uid, held);
            }
            self.shell.touch([&key]);
        }
        Ok(shown)
    }

    fn remove(&self, raw: &str) -> Result<Shown, serde_json::Error> {
        let (key, job) = Job::read(self.kind, raw)?;
        let known = {
            let mut jobs = self.shell.jobs();
            jobs.advance(self.kind, job.number);
            jobs.remove(&key, &job.uid)
        };
        if known {
            gone(&self.shell, &key, &job.uid);
            self.shell.touch([&key]);
        }
        Ok(Shown { uid: (&*job.uid).into(), version: (&*job.version).into() })
    }

    fn end_list(&self, uids: &BTreeSet<Box<str>>, version: u64) {
        let missing = self.shell.jobs().keep_only(self.kind, uids, version);
        for (key, job) in &missing {
            gone(&self.shell, key, &job.uid);
        }
        self.shell.touch(missing.iter().map(|(key, _)| key));
    }

    fn advance(&self, version: u64) {
        self.shell.jobs().advance(self.kind, version);
    }
}

/// A job that was known is gone.
pub(crate) fn gone(shell: &Shell, key: &Key, uid: &str) {
    shell.health.count(key, Fate::Deleted);
    forget(shell, key, uid);
}

/// Nothing that was remembered for it is about anything any more.
pub(crate) fn forget(shell: &Shell, key: &Key, uid: &str) {
    shell.memory().forget(key);
    shell.ports().release(uid);
}

/// Takes in the children of one resource.
pub(crate) struct ChildSink<V: 'static> {
    pub(crate) shell: Arc<Shell>,
    pub(crate) resource: &'static ChildResource<V>,
}

/// An object that was read, or why not.
type Read<V> = Result<(Meta, V), serde_json::Error>;

/// What differs between pods and services.
pub(crate) struct ChildResource<V: 'static> {
    pub(crate) what: &'static Resource,
    pub(crate) read: fn(&str, &[&'static Kind]) -> Read<V>,
    pub(crate) cache: fn(&Shell) -> MutexGuard<'_, Children<V>>,
}

/// Pods.
pub(crate) static PODS: ChildResource<PodView> =
    ChildResource { what: &Resource::POD, read: pod_wire::pod, cache: Shell::pods };

/// Services.
pub(crate) static SERVICES: ChildResource<ServiceView> =
    ChildResource { what: &Resource::SERVICE, read: |raw, _| wire::service(raw), cache: Shell::services };

/// Everything else that a job may control.
pub(crate) static EXTRAS: [ChildResource<ExtraView>; 7] = [
    ChildResource {
        what: &Resource::CONFIG_MAP,
        read: |raw, kinds| wire::extra(&Resource::CONFIG_MAP, raw, kinds),
        cache: |shell| shell.extras(|extras| &extras.config_maps),
    },
    ChildResource {
        what: &Resource::SERVICE_ACCOUNT,
        read: |raw, kinds| wire::extra(&Resource::SERVICE_ACCOUNT, raw, kinds),
        cache: |shell| shell.extras(|extras| &extras.accounts),
    },
    ChildResource {
        what: &Resource::ROLE,
        read: |raw, kinds| wire::extra(&Resource::ROLE, raw, kinds),
        cache: |shell| shell.extras(|extras| &extras.roles),
    },
    ChildResource {
        what: &Resource::ROLE_BINDING,
        read: |raw, kinds| wire::extra(&Resource::ROLE_BINDING, raw, kinds),
        cache: |shell| shell.extras(|extras| &extras.bindings),
    },
    ChildResource {
        what: &Resource::AUTOSCALER,
        read: |raw, kinds| wire::extra(&Resource::AUTOSCALER, raw, kinds),
        cache: |shell| shell.extras(|extras| &extras.autoscalers),
    },
    ChildResource {
        what: &Resource::VOLCANO_GANG,
        read: |raw, kinds| wire::extra(&Resource::VOLCANO_GANG, raw, kinds),
        cache: |shell| shell.extras(|extras| &extras.volcano_gangs),
    },
    ChildResource {
        what: &Resource::PLUGINS_GANG,
        read: |raw, kinds| wire::extra(&Resource::PLUGINS_GANG, raw, kinds),
        cache: |shell| shell.extras(|extras| &extras.plugins_gangs),
    },
];

impl<V: View + Send> Sink for ChildSink<V> {
    fn begin_list(&self, version: u64) {
        self.cache().begin_list(version);
    }

    fn show(&self, raw: &str) -> Result<Shown, serde_json::Error> {
        let (meta, mut view) = self.read(raw)?;
        view.seen_at(self.shell.now());
        let kinds = &self.shell.kinds;
        let owner = meta.owner(kinds).or_else(|| meta.last_owner(kinds));
        let concerned = self.cache().show(owner, view, wire::number(&meta.resource_version));
        self.shell.touch(&concerned);
        Ok(Shown { uid: meta.uid, version: meta.resource_version })
    }

    fn remove(&self, raw: &str) -> Result<Shown, serde_json::Error> {
        let meta = wire::meta(raw)?;
        let owner = meta.owner(&self.shell.kinds).map(|owner| owner.key);
        let concerned = {
            // In one go: the answer to a delete may show the object once more, and must not be taken for news.
            let mut cache = self.cache();
            cache.advance(wire::number(&meta.resource_version));
            cache.remove(&meta.uid)
        };
        // Whatever stood in the way of a create of this name does no longer.
        for key in owner.iter().chain(&concerned) {
            self.shell.memory().cleared(key, self.resource.what, &meta.name);
        }
        self.shell.touch(owner.iter().chain(&concerned));
        Ok(Shown { uid: meta.uid, version: meta.resource_version })
    }

    fn end_list(&self, uids: &BTreeSet<Box<str>>, version: u64) {
        let concerned = self.cache().keep_only(uids, version);
        self.shell.touch(&concerned);
    }

    fn advance(&self, version: u64) {
        self.cache().advance(version);
    }
}

impl<V: View> ChildSink<V> {
    fn cache(&self) -> MutexGuard<'_, Children<V>> {
        (self.resource.cache)(&self.shell)
    }

    fn read(&self, raw: &str) -> Read<V> {
        (self.resource.read)(raw, &self.shell.kinds)
    }
}

/// An answer to a request of ours shows a child; see [`Children::learn`].
pub(crate) fn learn<V: View>(
    resource: &ChildResource<V>,
    shell: &Shell,
    raw: &str,
) -> Result<Learnt, serde_json::Error> {
    let (meta, mut view) = (resource.read)(raw, &shell.kinds)?;
    view.seen_at(shell.now());
    let watched = meta.is_labelled(&shell.kinds);
    let Some(owner) = meta.owner(&shell.kinds) else {
        // It may have been one that was kept for its end, and was let go.
        (resource.cache)(shell).remove(&meta.uid);
        return Ok(Learnt { owner: None, controller: meta.controller_text(), known: false });
    };
    let (uid, controller) = (owner.uid.clone(), meta.controller_text());
    let mut cache = (resource.cache)(shell);
    cache.learn(owner, view, wire::number(&meta.resource_version), watched);
    let known = cache.has(&meta.uid);
    Ok(Learnt { owner: Some(uid), controller, known })
}

/// What an answer told about a child.
#[derive(Debug)]
pub(crate) struct Learnt {
    /// The identity of the job that controls it, if a job does.
    pub(crate) owner: Option<Box<str>>,
    /// Who controls it, in words.
    pub(crate) controller: String,
    /// It is known now.
    pub(crate) known: bool,
}
