//! One rule of a role: what it allows, and whether it covers another.

use serde::{Deserialize, Deserializer, Serialize};

const ALL: &str = "*";

/// A `PolicyRule`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Rule {
    #[serde(deserialize_with = "or_null", skip_serializing_if = "Vec::is_empty")]
    pub(crate) api_groups: Vec<String>,
    #[serde(deserialize_with = "or_null", skip_serializing_if = "Vec::is_empty")]
    pub(crate) resources: Vec<String>,
    #[serde(rename = "nonResourceURLs", deserialize_with = "or_null", skip_serializing_if = "Vec::is_empty")]
    pub(crate) urls: Vec<String>,
    #[serde(deserialize_with = "or_null", skip_serializing_if = "Vec::is_empty")]
    pub(crate) resource_names: Vec<String>,
    #[serde(deserialize_with = "or_null")]
    pub(crate) verbs: Vec<String>,
}

/// Lists may be null, which is the same as missing.
pub(super) fn or_null<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(d: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or_default())
}

/// What somebody wants to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) verb: String,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    /// Empty for what is in no namespace, and for all of them.
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Set when it is about a path and not about a resource.
    pub(crate) path: Option<String>,
}

impl Ask {
    /// `pods`, or `pods/log`.
    pub(crate) fn combined(&self) -> String {
        match self.subresource.as_str() {
            "" => self.resource.clone(),
            sub => format!("{}/{sub}", self.resource),
        }
    }
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|own| own == wanted)
}

fn has_or_all(list: &[String], wanted: &str) -> bool {
    list.iter().any(|own| own == wanted || own == ALL)
}

fn matches_url(pattern: &str, path: &str) -> bool {
    pattern == path || pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*'))
}

/// `*`, `pods`, `pods/log` or `*/log`.
fn matches_resource(list: &[String], resource: &str, subresource: &str) -> bool {
    list.iter().any(|own| {
        let sub = own.strip_prefix(resource).or_else(|| own.strip_prefix(ALL).filter(|sub| !sub.is_empty()));
        own == ALL
            || sub.is_some_and(|sub| match sub.strip_prefix('/') {
                None => sub.is_empty() && subresource.is_empty(),
                Some(sub) => !sub.is_empty() && sub == subresource,
            })
    })
}

impl Rule {
    pub(crate) fn allows(&self, ask: &Ask) -> bool {
        if !has_or_all(&self.verbs, &ask.verb) {
            return false;
        }
        if let Some(path) = &ask.path {
            return self.urls.iter().any(|url| matches_url(url, path));
        }
        has_or_all(&self.api_groups, &ask.group)
            && matches_resource(&self.resources, &ask.resource, &ask.subresource)
            && (self.resource_names.is_empty() || has(&self.resource_names, &ask.name))
    }

    /// The same as rules that each say one thing.
    fn parts(&self) -> Vec<Self> {
        let one = |text: &String| vec![text.clone()];
        let names: Vec<Vec<String>> = match self.resource_names.as_slice() {
            [] => vec![Vec::new()],
            names => names.iter().map(one).collect(),
        };
        let mut parts = Vec::new();
        for group in &self.api_groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    parts.extend(names.iter().map(|name| Self {
                        api_groups: one(group),
                        resources: one(resource),
                        resource_names: name.clone(),
                        verbs: one(verb),
                        urls: Vec::new(),
                    }));
                }
            }
        }
        for url in &self.urls {
            parts.extend(self.verbs.iter().map(|verb| Self {
                urls: one(url),
                verbs: one(verb),
                ..Self::default()
            }));
        }
        parts
    }

    /// Whether this rule allows everything another one does, which says one thing.
    fn covers(&self, part: &Self) -> bool {
        let all = |own: &[String], wanted: &[String]| wanted.iter().all(|one| has_or_all(own, one));
        let resource = |wanted: &String| {
            has_or_all(&self.resources, wanted)
                || wanted.split_once('/').is_some_and(|(_, sub)| has(&self.resources, &format!("*/{sub}")))
        };
        let named = match part.resource_names.as_slice() {
            [] => self.resource_names.is_empty(),
            names => {
                self.resource_names.is_empty() || names.iter().all(|name| has(&self.resource_names, name))
            }
        };
        all(&self.verbs, &part.verbs)
            && all(&self.api_groups, &part.api_groups)
            && part.resources.iter().all(resource)
            && part.urls.iter().all(|url| self.urls.iter().any(|own| matches_url(own, url)))
            && named
    }
}

/// What `wanted` allows and `owned` do not, in single things.
pub(crate) fn missing(owned: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    let parts = wanted.iter().flat_map(Rule::parts);
    parts.filter(|part| !owned.iter().any(|own| own.covers(part))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rule(value: serde_json::Value) -> Rule {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn stars_mean_what_they_mean_in_a_real_server() {
        let ask = |resource: &str, subresource: &str| Ask {
            verb: "get".into(),
            resource: resource.into(),
            subresource: subresource.into(),
            ..Ask::default()
        };
        for (pattern, resource, sub, allowed) in [
            ("*", "pods", "", true),
            ("*", "pods", "log", true),
            ("pods", "pods", "", true),
            ("pods", "pods", "log", false),
            ("pods/log", "pods", "log", true),
            ("pods/log", "pods", "", false),
            ("*/log", "pods", "log", true),
            ("*/log", "pods", "", false),
            ("pods/*", "pods", "log", false),
            ("*/", "pods", "", false),
        ] {
            let rule = rule(json!({"apiGroups": [""], "resources": [pattern], "verbs": ["get"]}));
            assert_eq!(rule.allows(&ask(resource, sub)), allowed, "{pattern} {resource}/{sub}");
        }
        let named =
            rule(json!({"apiGroups": ["*"], "resources": ["pods"], "verbs": ["*"], "resourceNames": ["a"]}));
        assert!(!named.allows(&ask("pods", "")));
        assert!(named.allows(&Ask { name: "a".into(), ..ask("pods", "") }));
        let urls = rule(json!({"nonResourceURLs": ["/api/*", "/x"], "verbs": ["get"], "resources": null}));
        for (path, allowed) in
            [("/api/", true), ("/api", false), ("/api/v1", true), ("/x", true), ("/x/y", false)]
        {
            let ask = Ask { verb: "get".into(), path: Some(path.into()), ..Ask::default() };
            assert_eq!(urls.allows(&ask), allowed, "{path}");
        }
    }

    #[test]
    fn nobody_has_more_than_their_rules_add_up_to() {
        let owned = [
            rule(json!({"apiGroups": [""], "resources": ["pods", "*/log"], "verbs": ["get", "list"]})),
            rule(json!({"apiGroups": ["*"], "resources": ["jobs"], "verbs": ["*"], "resourceNames": ["a"]})),
        ];
        let wanted = rule(json!({"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get"]}));
        assert!(missing(&owned, &[wanted]).is_empty());
        let wanted = rule(json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "delete"]}));
        assert_eq!(missing(&owned, &[wanted]).len(), 1);
        let one = rule(
            json!({"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["*"], "resourceNames": ["a"]}),
        );
        assert!(missing(&owned, &[one]).is_empty());
        let any = rule(json!({"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get"]}));
        assert_eq!(missing(&owned, &[any]).len(), 1);
    }
}
