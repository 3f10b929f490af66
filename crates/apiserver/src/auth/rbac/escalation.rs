//! Nobody gives away more than they have: checks on writing roles and bindings.

use serde_json::Value;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::index::{Binding, RoleRef};
use super::rule::missing;
use super::{Ask, GROUP, Rbac, Rule, rules_of};
use crate::auth::Identity;
use crate::failure::Failure;
use crate::object::{at, meta};
use crate::registry::Served;

/// A role or binding about to be written.
pub(crate) struct Grant<'a> {
    pub(crate) served: &'a Served,
    pub(crate) namespace: &'a str,
    pub(crate) object: &'a Value,
    /// What it replaces.
    pub(crate) old: Option<&'a Value>,
}

impl Rbac {
    /// Refuses to let somebody grant what they do not have, unless they may do just that.
    pub(crate) fn check_grant(&self, identity: &Identity, grant: &Grant<'_>) -> Result<(), Failure> {
        if grant.served.group != GROUP || identity.is_master() || only_collected(grant) {
            return Ok(());
        }
        if grant.served.plural.ends_with("roles") {
            self.check_role(identity, grant)
        } else {
            self.check_binding(identity, grant)
        }
    }

    fn check_role(&self, identity: &Identity, grant: &Grant<'_>) -> Result<(), Failure> {
        // The name of the request: there is none when something is created.
        let name = grant.old.map(|old| meta(old, "name")).unwrap_or_default();
        let ask = Ask {
            verb: "escalate".into(),
            group: GROUP.into(),
            resource: grant.served.plural.clone(),
            name: name.into(),
            namespace: grant.namespace.into(),
            ..Ask::default()
        };
        if self.decide(identity, &ask).allowed {
            return Ok(());
        }
        self.check_held(identity, grant, &rules_of(grant.object))?;
        if (aggregates(grant.object) || grant.old.is_some_and(aggregates))
            && self.check_held(identity, grant, &everything()).is_err()
        {
            return Err(forbidden(grant, "must have cluster-admin privileges to use the aggregationRule"));
        }
        Ok(())
    }

    fn check_binding(&self, identity: &Identity, grant: &Grant<'_>) -> Result<(), Failure> {
        let Binding { role_ref, .. } = serde_json::from_value(grant.object.clone()).unwrap_or_default();
        if let Some(resource) = resource_of(&role_ref) {
            let ask = Ask {
                verb: "bind".into(),
                group: role_ref.api_group.clone(),
                resource: resource.into(),
                name: role_ref.name.clone(),
                namespace: grant.namespace.into(),
                ..Ask::default()
            };
            if self.decide(identity, &ask).allowed {
                return Ok(());
            }
        } else {
            let kind = &role_ref.kind;
            return Err(Failure::plain(500, format!("unsupported role reference kind: {kind:?}")));
        }
        let rules = self
            .referenced(&role_ref, grant.namespace)
            .map_err(|_| Failure::not_found(grant.served, &role_ref.name))?;
        self.check_held(identity, grant, &rules)
    }

    fn check_held(&self, identity: &Identity, grant: &Grant<'_>, rules: &[Rule]) -> Result<(), Failure> {
        let (owned, errors) = self.rules_for(identity, grant.namespace);
        let lacking = missing(&owned, rules);
        if lacking.is_empty() {
            return Ok(());
        }
        let lines: BTreeSet<String> = compact(lacking).iter().map(describe).collect();
        let lines: Vec<String> = lines.into_iter().collect();
        let mut why = format!(
            "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            identity.name,
            quoted(&identity.groups),
            lines.join("\n")
        );
        if let Some(errors) = errors {
            why.push_str(&format!("; resolution errors: [{errors}]"));
        }
        Err(forbidden(grant, &why))
    }
}

fn forbidden(grant: &Grant<'_>, why: &str) -> Failure {
    Failure::forbidden(grant.served, meta(grant.object, "name"), why, None)
}

fn resource_of(role: &RoleRef) -> Option<&'static str> {
    match role.kind.as_str() {
        "ClusterRole" => Some("clusterroles"),
        "Role" => Some("roles"),
        _ => None,
    }
}

fn aggregates(role: &Value) -> bool {
    at(role, "aggregationRule.clusterRoleSelectors").and_then(Value::as_array).is_some_and(|s| !s.is_empty())
}

/// The rules of somebody who may do everything.
fn everything() -> [Rule; 2] {
    let all = || vec!["*".to_owned()];
    [
        Rule { api_groups: all(), resources: all(), verbs: all(), ..Rule::default() },
        Rule { urls: all(), verbs: all(), ..Rule::default() },
    ]
}

/// Whether nothing changes but what garbage collection needs to change.
fn only_collected(grant: &Grant<'_>) -> bool {
    let bare = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = crate::object::meta_mut(&mut object) {
            for field in ["ownerReferences", "finalizers", "managedFields", "resourceVersion"] {
                metadata.remove(field);
            }
        }
        object
    };
    grant.old.is_some_and(|old| bare(old) == bare(grant.object))
}

/// Puts verbs about the same thing together.
fn compact(rules: Vec<Rule>) -> Vec<Rule> {
    let (paths, resources): (Vec<Rule>, Vec<Rule>) =
        rules.into_iter().partition(|rule| !rule.urls.is_empty());
    let mut together: BTreeMap<[Vec<String>; 3], Rule> = BTreeMap::new();
    for rule in resources {
        let about = [rule.api_groups.clone(), rule.resources.clone(), rule.resource_names.clone()];
        match together.entry(about) {
            Entry::Occupied(mut known) => known.get_mut().verbs.extend(rule.verbs),
            Entry::Vacant(place) => {
                place.insert(rule);
            }
        }
    }
    paths.into_iter().chain(together.into_values()).collect()
}

fn quoted(list: &[String]) -> String {
    let texts: Vec<String> = list.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", texts.join(" "))
}

fn describe(rule: &Rule) -> String {
    let parts: Vec<String> = [
        ("APIGroups", &rule.api_groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.urls),
        ("ResourceNames", &rule.resource_names),
        ("Verbs", &rule.verbs),
    ]
    .into_iter()
    .filter(|(_, list)| !list.is_empty())
    .map(|(name, list)| format!("{name}:{}", quoted(list)))
    .collect();
    format!("{{{}}}", parts.join(", "))
}
