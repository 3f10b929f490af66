//! Whether a webhook is asked about a write.

use serde_json::{Map, Value};

use super::config::{Hook, Rule};
use super::review::Attributes;
use crate::app::App;
use crate::failure::Failure;
use crate::object::meta_map;
use crate::registry::{Catalog, Served};

/// What the write is about, before there is an object: enough to know whether anybody could want to be asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) served: &'a Served,
    pub(crate) subresource: &'a str,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub(crate) operation: &'static str,
}

impl Rule {
    fn matches(&self, place: &Place<'_>, version: &str) -> bool {
        let has = |list: &[String], wanted: &str| list.iter().any(|own| own == "*" || own == wanted);
        let resource = |own: &String| {
            let (plural, sub) = own.split_once('/').unwrap_or((own, ""));
            (plural == "*" || plural == place.served.plural) && (sub == "*" || sub == place.subresource)
        };
        let scope = match self.scope.as_deref() {
            None | Some("*") => true,
            Some("Namespaced") => place.served.namespaced,
            Some("Cluster") => !place.served.namespaced,
            Some(_) => false,
        };
        scope
            && has(&self.operations, place.operation)
            && has(&self.api_groups, &place.served.group)
            && has(&self.api_versions, version)
            && self.resources.iter().any(resource)
    }
}

impl Hook {
    /// The version of the resource it wants to see, if its rules name the resource at all: the one that was asked for,
    /// else one that means the same.
    pub(super) fn wants<'c>(&self, catalog: &'c Catalog, place: &Place<'c>) -> Option<&'c str> {
        let own = place.served.version.as_str();
        if self.rules.iter().any(|rule| rule.matches(place, own)) {
            return Some(own);
        }
        if !self.equivalent {
            return None;
        }
        let others: Vec<&str> = catalog
            .versions(&place.served.group)
            .into_iter()
            .filter(|version| *version != own)
            .filter(|version| catalog.get(&place.served.group, version, &place.served.plural).is_some())
            .collect();
        self.rules.iter().find_map(|rule| others.iter().copied().find(|version| rule.matches(place, version)))
    }

    /// Whether its selectors and conditions let it be asked.
    pub(super) fn selects(
        &self,
        app: &App,
        attributes: &Attributes<'_>,
        request: &Value,
    ) -> Result<bool, Failure> {
        if !self.selects_namespace(app, attributes)? {
            return Ok(false);
        }
        let labelled =
            |object: Option<&Value>| object.is_some_and(|object| self.objects.matches(labels(object)));
        if !self.objects.is_empty()
            && !labelled(attributes.object.as_ref())
            && !labelled(attributes.old.as_ref())
        {
            return Ok(false);
        }
        self.holds(attributes, request)
    }

    fn selects_namespace(&self, app: &App, attributes: &Attributes<'_>) -> Result<bool, Failure> {
        let place = &attributes.place;
        let is_namespace = place.served.is_core("namespaces");
        if self.namespaces.is_empty() || attributes.namespace.is_empty() && !is_namespace {
            return Ok(true);
        }
        let is_write = ["CREATE", "UPDATE"].contains(&place.operation) && place.subresource.is_empty();
        if let Some(object) = attributes.object.as_ref().filter(|_| is_namespace && is_write) {
            return Ok(self.namespaces.matches(labels(object)));
        }
        let namespace = app
            .store
            .latest(&app.namespace_key(&attributes.namespace))
            .ok_or_else(|| Failure::namespace_not_found(&attributes.namespace))?;
        Ok(self.namespaces.matches(namespace.labels().as_ref()))
    }

    /// Whether all conditions hold. One that is false is enough for no; one that fails is a failure of the webhook.
    fn holds(&self, attributes: &Attributes<'_>, request: &Value) -> Result<bool, Failure> {
        let mut errors = Vec::new();
        for condition in &self.conditions {
            let null = Value::Null;
            let variables = [
                ("object", attributes.object.as_ref().unwrap_or(&null)),
                ("oldObject", attributes.old.as_ref().unwrap_or(&null)),
                ("request", request),
            ];
            match condition.as_ref().map_err(Clone::clone).and_then(|condition| condition.holds(&variables)) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) => errors.push(error),
            }
        }
        match errors.as_slice() {
            [] => Ok(true),
            _ if self.ignores_failures => Ok(false),
            errors => {
                let why = if let [one] = errors { one.clone() } else { format!("[{}]", errors.join(", ")) };
                let served = attributes.place.served;
                Err(Failure::denied(&served.group, &served.plural, &attributes.name, &why))
            }
        }
    }
}

fn labels(object: &Value) -> Option<&Map<String, Value>> {
    meta_map(object)?.get("labels")?.as_object()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rules_name_resources_subresources_and_scopes() {
        let served = crate::builtin::table();
        let served: Vec<Served> =
            served.filter(|s| ["pods", "nodes", "namespaces"].contains(&&*s.plural)).collect();
        let find = |plural: &str| served.iter().find(|s| s.plural == plural).unwrap();
        let rule = |resources: &[&str], scope: &str| -> Rule {
            serde_json::from_value(json!({
                "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": resources, "scope": scope,
            }))
            .unwrap()
        };
        for (resources, scope, plural, subresource, expected) in [
            (["pods"], "*", "pods", "", true),
            (["pods"], "*", "pods", "status", false),
            (["pods/*"], "*", "pods", "status", true),
            (["pods/*"], "*", "pods", "", true),
            (["*/status"], "*", "pods", "status", true),
            (["*"], "*", "pods", "status", false),
            (["*/*"], "*", "nodes", "status", true),
            (["*"], "Namespaced", "pods", "", true),
            (["*"], "Namespaced", "nodes", "", false),
            (["*"], "Cluster", "namespaces", "", true),
            (["*"], "Namespaced", "namespaces", "", false),
        ] {
            let place = Place { served: find(plural), subresource, operation: "CREATE" };
            let found = rule(&resources, scope).matches(&place, "v1");
            assert_eq!(found, expected, "{resources:?} {scope} {plural}/{subresource}");
        }
        let place = Place { served: find("pods"), subresource: "", operation: "DELETE" };
        assert!(!rule(&["pods"], "*").matches(&place, "v1"));
    }
}
