//! API groups that somebody else in this process serves: what an aggregated API server is to a cluster.

use axum::Router;

/// A version of an API group with its own router.
///
/// Requests under `/apis/{group}/{version}/` go to the router with their whole path; discovery of the group stays with
/// the server, so that clients find it beside the others. It comes before a definition of the same group and version.
#[derive(Clone, Debug)]
pub struct Extension {
    /// `metrics.k8s.io`
    pub group: String,
    /// `v1beta1`
    pub version: String,
    /// What discovery lists.
    pub resources: Vec<ExtensionResource>,
    /// Answers everything below the version.
    pub router: Router,
}

/// One line of discovery.
#[derive(Clone, Debug)]
pub struct ExtensionResource {
    /// The plural, as in paths.
    pub name: String,
    /// The singular.
    pub singular: String,
    /// The kind of its objects.
    pub kind: String,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// What can be done with it: `get`, `list`, …
    pub verbs: Vec<String>,
}

impl Extension {
    /// Whether a path is the router's to answer.
    pub(crate) fn serves(&self, path: &str) -> bool {
        let mut rest = path.strip_prefix("/apis/").unwrap_or_default().splitn(3, '/');
        rest.next() == Some(self.group.as_str())
            && rest.next() == Some(self.version.as_str())
            && rest.next().is_some_and(|below| !below.is_empty())
    }
}
