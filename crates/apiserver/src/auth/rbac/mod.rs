//! Role-based access control: who may do what is written in roles and bindings.

pub(crate) mod aggregate;
pub(crate) mod defaults;
pub(crate) mod escalation;
mod index;
pub(crate) mod rule;

use serde_json::Value;
use std::sync::{PoisonError, RwLock};

use self::index::{Found, Index, RoleRef, together};
pub(crate) use self::rule::{Ask, Rule};
use super::Identity;
use crate::store::Store;

pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";
pub(crate) const ROLES: &str = "rbac.authorization.k8s.io/roles";
pub(crate) const ROLE_BINDINGS: &str = "rbac.authorization.k8s.io/rolebindings";
pub(crate) const CLUSTER_ROLES: &str = "rbac.authorization.k8s.io/clusterroles";
pub(crate) const CLUSTER_BINDINGS: &str = "rbac.authorization.k8s.io/clusterrolebindings";

/// What the rules say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) allowed: bool,
    /// Which rule allowed it, or what could not be looked up.
    pub(crate) reason: String,
}

/// The rules, and whoever asks them.
#[derive(Debug)]
pub(crate) struct Rbac {
    store: Store,
    index: RwLock<Index>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl Rbac {
    pub(crate) fn new(store: Store) -> Self {
        let index = RwLock::new(Index::new(&store));
        Self { store, index }
    }

    /// Runs something on an index that knows every write that was answered.
    fn with<T>(&self, run: impl FnOnce(&Index) -> T) -> T {
        {
            let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
            if !index.is_behind() {
                return run(&index);
            }
        }
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        index.catch_up(&self.store);
        run(&index)
    }

    /// Whether somebody may do something.
    pub(crate) fn decide(&self, identity: &Identity, ask: &Ask) -> Decision {
        if identity.is_master() {
            return Decision { allowed: true, reason: String::new() };
        }
        self.with(|index| {
            let mut errors = Vec::new();
            let mut allowed = None;
            index.visit(identity, &ask.namespace, |found| {
                match found {
                    Found::Rule(rule, source) if rule.allows(ask) => allowed = Some(source.describe()),
                    Found::Rule(..) => {}
                    Found::Error(why) => errors.push(why),
                }
                allowed.is_none()
            });
            match (allowed, errors.as_slice()) {
                (Some(by), _) => Decision { allowed: true, reason: format!("RBAC: allowed by {by}") },
                (None, []) => Decision { allowed: false, reason: String::new() },
                (None, errors) => Decision { allowed: false, reason: format!("RBAC: {}", together(errors)) },
            }
        })
    }

    /// Every rule that applies to somebody in a namespace, and what could not be looked up.
    pub(crate) fn rules_for(&self, identity: &Identity, namespace: &str) -> (Vec<Rule>, Option<String>) {
        self.with(|index| {
            let (mut rules, mut errors) = (Vec::new(), Vec::new());
            index.visit(identity, namespace, |found| {
                match found {
                    Found::Rule(rule, _) => rules.push(rule.clone()),
                    Found::Error(why) => errors.push(why),
                }
                true
            });
            (rules, (!errors.is_empty()).then(|| together(&errors)))
        })
    }

    /// The rules of the role a binding names.
    fn referenced(&self, role: &RoleRef, namespace: &str) -> Result<Vec<Rule>, String> {
        self.with(|index| index.resolve(role, namespace).map(|rules| rules.to_vec()))
    }
}

/// The rules in an object.
fn rules_of(role: &Value) -> Vec<Rule> {
    let rules = role.get("rules").and_then(Value::as_array).into_iter().flatten();
    rules.filter_map(|rule| serde_json::from_value(rule.clone()).ok()).collect()
}
