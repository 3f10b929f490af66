//! Roles and bindings, read once and kept up to date from the store's events.
//!
//! It is brought up to date when it is asked: a role counts from the moment its write was answered, and whoever needs
//! no rules pays for none of this.

use serde::Deserialize;
use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use tokio::sync::watch;

use super::rule::{Rule, or_null};
use super::{CLUSTER_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES};
use crate::auth::Identity;
use crate::auth::identity::split_account;
use crate::store::{EventKind, Range, Store, Stored};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RoleRef {
    pub(super) api_group: String,
    pub(super) kind: String,
    pub(super) name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Binding {
    #[serde(deserialize_with = "or_null")]
    subjects: Vec<Subject>,
    pub(super) role_ref: RoleRef,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Role {
    #[serde(deserialize_with = "or_null")]
    rules: Vec<Rule>,
}

impl Subject {
    fn is(&self, identity: &Identity, namespace: &str) -> bool {
        match self.kind.as_str() {
            "User" => identity.name == self.name,
            "Group" => identity.is_in(&self.name),
            "ServiceAccount" => {
                let home = if self.namespace.is_empty() { namespace } else { &self.namespace };
                split_account(&identity.name) == Some((home, &self.name))
            }
            _ => false,
        }
    }

    /// As messages name it.
    fn describe(&self, namespace: &str) -> String {
        let home = if self.namespace.is_empty() { namespace } else { &self.namespace };
        match self.kind.as_str() {
            "ServiceAccount" => format!("{} \"{}/{home}\"", self.kind, self.name),
            kind => format!("{kind} {:?}", self.name),
        }
    }
}

/// What one table contributes: keyed by `namespace/name`.
#[derive(Debug)]
pub(super) struct Part<T> {
    wake: watch::Receiver<u64>,
    reached: u64,
    entries: BTreeMap<Box<str>, T>,
}

impl<T> Part<T> {
    fn new(store: &Store, table: &'static str, read: impl Fn(&Stored) -> Option<T>) -> Self {
        // Subscribed first: what is written meanwhile is read twice rather than never.
        let wake = store.subscribe(&table.into());
        let mut part = Self { wake, reached: 0, entries: BTreeMap::new() };
        part.reload(store, table, &read);
        part
    }

    fn reload(&mut self, store: &Store, table: &str, read: &impl Fn(&Stored) -> Option<T>) {
        let page = store.page(table, Range { prefix: "", after: None, limit: usize::MAX });
        self.entries =
            page.items.iter().filter_map(|stored| Some((stored.key.path().into(), read(stored)?))).collect();
        self.reached = page.revision;
    }

    fn is_behind(&self) -> bool {
        *self.wake.borrow() > self.reached
    }

    fn catch_up(&mut self, store: &Store, table: &str, read: impl Fn(&Stored) -> Option<T>) {
        if !self.is_behind() {
            return;
        }
        let Ok((events, reached)) = store.since(table, self.reached, usize::MAX) else {
            return self.reload(store, table, &read);
        };
        for event in events {
            let path = event.object.key.path();
            match read(&event.object).filter(|_| event.kind != EventKind::Deleted) {
                Some(entry) => self.entries.insert(path.into(), entry),
                None => self.entries.remove(path),
            };
        }
        self.reached = reached;
    }
}

/// Everything rules are looked up in.
#[derive(Debug)]
pub(super) struct Index {
    roles: Part<Arc<[Rule]>>,
    cluster_roles: Part<Arc<[Rule]>>,
    bindings: Part<Binding>,
    cluster_bindings: Part<Binding>,
}

fn role(stored: &Stored) -> Option<Arc<[Rule]>> {
    serde_json::from_slice::<Role>(&stored.bytes).ok().map(|role| role.rules.into())
}

fn binding(stored: &Stored) -> Option<Binding> {
    serde_json::from_slice(&stored.bytes).ok()
}

/// A rule that applies to somebody, or why one could not be found.
pub(super) enum Found<'a> {
    Rule(&'a Rule, Source<'a>),
    Error(String),
}

/// Where a rule comes from.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    path: &'a str,
    binding: &'a Binding,
    subject: &'a Subject,
}

impl Source<'_> {
    pub(super) fn describe(&self) -> String {
        let (namespace, name) = self.path.split_once('/').unwrap_or(("", self.path));
        let role = &self.binding.role_ref;
        let subject = self.subject.describe(namespace);
        match namespace {
            "" => format!("ClusterRoleBinding {name:?} of {} {:?} to {subject}", role.kind, role.name),
            _ => format!("RoleBinding \"{name}/{namespace}\" of {} {:?} to {subject}", role.kind, role.name),
        }
    }
}

impl Index {
    pub(super) fn new(store: &Store) -> Self {
        Self {
            roles: Part::new(store, ROLES, role),
            cluster_roles: Part::new(store, CLUSTER_ROLES, role),
            bindings: Part::new(store, ROLE_BINDINGS, binding),
            cluster_bindings: Part::new(store, CLUSTER_BINDINGS, binding),
        }
    }

    pub(super) fn is_behind(&self) -> bool {
        self.roles.is_behind()
            || self.cluster_roles.is_behind()
            || self.bindings.is_behind()
            || self.cluster_bindings.is_behind()
    }

    pub(super) fn catch_up(&mut self, store: &Store) {
        self.roles.catch_up(store, ROLES, role);
        self.cluster_roles.catch_up(store, CLUSTER_ROLES, role);
        self.bindings.catch_up(store, ROLE_BINDINGS, binding);
        self.cluster_bindings.catch_up(store, CLUSTER_BINDINGS, binding);
    }

    /// The rules a reference stands for, or why there are none.
    pub(super) fn resolve(&self, role: &RoleRef, namespace: &str) -> Result<&Arc<[Rule]>, String> {
        let missing = |kind: &str| format!("{kind}.rbac.authorization.k8s.io {:?} not found", role.name);
        match role.kind.as_str() {
            "Role" => {
                let path = format!("{namespace}/{}", role.name);
                self.roles.entries.get(path.as_str()).ok_or_else(|| missing("role"))
            }
            "ClusterRole" => {
                let path = format!("/{}", role.name);
                self.cluster_roles.entries.get(path.as_str()).ok_or_else(|| missing("clusterrole"))
            }
            other => Err(format!("unsupported role reference kind: {other:?}")),
        }
    }

    /// Shows every rule that applies to somebody in a namespace, those of the whole cluster first. Ends when `visit`
    /// says so.
    pub(super) fn visit<'a>(
        &'a self,
        identity: &Identity,
        namespace: &str,
        mut visit: impl FnMut(Found<'a>) -> bool,
    ) {
        let cluster = self.cluster_bindings.entries.iter().map(|entry| ("", entry));
        let prefix = format!("{namespace}/");
        let local = (!namespace.is_empty())
            .then(|| {
                self.bindings.entries.range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded))
            })
            .into_iter()
            .flatten()
            .take_while(|(path, _)| path.starts_with(&prefix))
            .map(|entry| (namespace, entry));
        for (home, (path, binding)) in cluster.chain(local) {
            let Some(subject) = binding.subjects.iter().find(|subject| subject.is(identity, home)) else {
                continue;
            };
            let rules = match self.resolve(&binding.role_ref, home) {
                Ok(rules) => rules,
                Err(why) => {
                    if visit(Found::Error(why)) {
                        continue;
                    }
                    return;
                }
            };
            for rule in rules.iter() {
                if !visit(Found::Rule(rule, Source { path, binding, subject })) {
                    return;
                }
            }
        }
    }
}

/// Errors as one text, each once.
pub(super) fn together(errors: &[String]) -> String {
    let mut seen = HashSet::new();
    let texts: Vec<&str> = errors.iter().map(String::as_str).filter(|text| seen.insert(*text)).collect();
    match texts.as_slice() {
        [one] => (*one).to_owned(),
        many => format!("[{}]", many.join(", ")),
    }
}
