//! What a server serves: from a word of the user, or a manifest, to a path.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::fields::{items, text};

/// What may stand in a path segment or a query value as it is.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// One resource of a server's discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    short: Vec<String>,
    pub(crate) namespaced: bool,
    /// Whether it has the scale subresource.
    pub(crate) scales: bool,
}

/// Text, safe in a path or a query.
pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// `/api/v1` or `/apis/<group>/<version>`.
pub(crate) fn root(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("/api/{}", encode(version))
    } else {
        format!("/apis/{}/{}", encode(group), encode(version))
    }
}

impl Resource {
    /// Reads an `APIResourceList`; subresources are facts about their resource here.
    pub(crate) fn read(group: &str, version: &str, list: &Value) -> Vec<Self> {
        let entries = items(list, "/resources");
        let scales = |plural: &str| {
            let scale = format!("{plural}/scale");
            entries.iter().any(|entry| text(entry, "/name") == scale)
        };
        let main = entries.iter().filter(|entry| !text(entry, "/name").contains('/'));
        main.map(|entry| {
            let (plural, kind) = (text(entry, "/name").to_owned(), text(entry, "/kind").to_owned());
            let singular = text(entry, "/singularName");
            let short = items(entry, "/shortNames").iter().filter_map(|name| name.as_str());
            Self {
                group: group.to_owned(),
                version: version.to_owned(),
                // Some servers leave it out.
                singular: if singular.is_empty() { kind.to_lowercase() } else { singular.to_owned() },
                short: short.map(str::to_owned).collect(),
                namespaced: entry.get("namespaced") == Some(&Value::Bool(true)),
                scales: scales(&plural),
                plural,
                kind,
            }
        })
        .collect()
    }

    /// Pods, which every server serves.
    pub(crate) fn pods() -> Self {
        Self::core("pods", "Pod")
    }

    /// A namespaced resource that every server serves.
    pub(crate) fn core(plural: &str, kind: &str) -> Self {
        Self {
            group: String::new(),
            version: "v1".into(),
            plural: plural.into(),
            singular: kind.to_lowercase(),
            kind: kind.into(),
            short: Vec::new(),
            namespaced: true,
            scales: false,
        }
    }

    /// True when a user who writes `word` may mean this: kind, singular, plural or short name, with the group after a
    /// dot or without.
    pub(crate) fn is_called(&self, word: &str) -> bool {
        let word = word.to_lowercase();
        let (name, group) =
            word.split_once('.').map_or((word.as_str(), None), |(name, group)| (name, Some(group)));
        let names = [self.plural.as_str(), self.singular.as_str()];
        let named = names.iter().any(|known| known.eq_ignore_ascii_case(name))
            || self.kind.eq_ignore_ascii_case(name)
            || self.short.iter().any(|known| known == name);
        named
            && group.is_none_or(|group| {
                group == self.group || group == format!("{}.{}", self.version, self.group)
            })
    }

    /// `pytorchjob.kubeflow.org`, `configmap`: how kubectl names one in its messages.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.singular.clone()
        } else {
            format!("{}.{}", self.singular, self.group)
        }
    }

    /// The path of all objects, in one namespace or in all of them.
    pub(crate) fn collection(&self, namespace: Option<&str>) -> String {
        let root = root(&self.group, &self.version);
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => format!("{root}/namespaces/{}/{}", encode(namespace), self.plural),
            None => format!("{root}/{}", self.plural),
        }
    }

    /// The path of one object.
    pub(crate) fn object(&self, namespace: &str, name: &str) -> String {
        format!("{}/{}", self.collection(Some(namespace)), encode(name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn jobs() -> Resource {
        let list = json!({ "resources": [
            { "name": "pytorchjobs", "singularName": "pytorchjob", "kind": "PyTorchJob", "namespaced": true,
              "shortNames": ["ptj"] },
            { "name": "pytorchjobs/scale", "kind": "Scale", "namespaced": true },
        ] });
        let mut read = Resource::read("kubeflow.org", "v1", &list);
        assert_eq!(read.len(), 1);
        read.remove(0)
    }

    #[test]
    fn a_kind_has_many_names() {
        let jobs = jobs();
        assert!(jobs.scales);
        for word in
            ["pytorchjob", "PyTorchJobs", "PTJ", "pytorchjobs.kubeflow.org", "pytorchjob.v1.kubeflow.org"]
        {
            assert!(jobs.is_called(word), "{word}");
        }
        for word in ["pytorch", "pytorchjobs.example.com", ""] {
            assert!(!jobs.is_called(word), "{word}");
        }
        assert_eq!(jobs.qualified(), "pytorchjob.kubeflow.org");
    }

    #[test]
    fn names_cannot_leave_their_place_in_a_path() {
        let path = Resource::pods().object("a/b", "../x?y");
        assert_eq!(path, "/api/v1/namespaces/a%2Fb/pods/..%2Fx%3Fy");
        assert_eq!(jobs().collection(None), "/apis/kubeflow.org/v1/pytorchjobs");
    }
}
