//! What a URL path addresses.

use percent_encoding::percent_decode_str;
use std::borrow::Cow;

use super::openapi::Document;

/// A parsed path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Path {
    Resource(Target),
    Discovery(Page),
    /// What others check our tokens with: the document about it, or the keys.
    OpenId {
        keys: bool,
    },
    OpenApi(Document),
    /// All objects, for a backup.
    Backup,
    Unknown,
}

/// A resource, a collection of it, or a subresource.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// The older way to ask for a watch: `/watch/` in front of the resource.
    pub(crate) watch: bool,
}

/// A page about the API itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Page {
    Root,
    Health { probe: String, check: Option<String> },
    Version,
    CoreVersions,
    Groups,
    Group(String),
    Resources { group: String, version: String },
}

/// The parts of a path, decoded; nothing when they are not text.
pub(crate) fn segments(path: &str) -> Option<Vec<String>> {
    let decode = |segment: &str| percent_decode_str(segment).decode_utf8().ok().map(Cow::into_owned);
    path.split('/').filter(|s| !s.is_empty()).map(decode).collect()
}

pub(crate) fn parse(path: &str) -> Path {
    let Some(segments) = segments(path) else {
        return Path::Unknown;
    };
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    match parts.as_slice() {
        [] => Path::Discovery(Page::Root),
        [probe @ ("livez" | "readyz" | "healthz"), check @ ..] => {
            let check = (!check.is_empty()).then(|| check.join("/"));
            Path::Discovery(Page::Health { probe: (*probe).into(), check })
        }
        [".well-known", "openid-configuration"] => Path::OpenId { keys: false },
        ["openid", "v1", "jwks"] => Path::OpenId { keys: true },
        ["openapi", "v2"] => Path::OpenApi(Document::V2),
        ["openapi", "v3"] => Path::OpenApi(Document::V3Root),
        ["openapi", "v3", "api", version] => document("", version),
        ["openapi", "v3", "apis", group, version] => document(group, version),
        ["trainyard", "backup"] => Path::Backup,
        ["version"] => Path::Discovery(Page::Version),
        ["api"] => Path::Discovery(Page::CoreVersions),
        ["apis"] => Path::Discovery(Page::Groups),
        ["apis", group] => Path::Discovery(Page::Group((*group).into())),
        ["api", version] => resources("", version),
        ["apis", group, version] => resources(group, version),
        ["api", version, rest @ ..] => target("", version, rest),
        ["apis", group, version, rest @ ..] => target(group, version, rest),
        _ => Path::Unknown,
    }
}

fn resources(group: &str, version: &str) -> Path {
    Path::Discovery(Page::Resources { group: group.into(), version: version.into() })
}

fn document(group: &str, version: &str) -> Path {
    Path::OpenApi(Document::V3 { group: group.into(), version: version.into() })
}

fn target(group: &str, version: &str, rest: &[&str]) -> Path {
    let (watch, rest) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
        _ => (false, rest),
    };
    let (namespace, rest) = match rest {
        // The namespace itself, or a subresource of it.
        ["namespaces", _] | ["namespaces", _, "status" | "finalize"] if group.is_empty() => (None, rest),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest),
        _ => (None, rest),
    };
    let (plural, name, subresource) = match rest {
        [plural] => (*plural, None, None),
        [plural, name] => (*plural, Some(*name), None),
        [plural, name, subresource] => (*plural, Some(*name), Some(*subresource)),
        _ => return Path::Unknown,
    };
    Path::Resource(Target {
        group: group.into(),
        version: version.into(),
        plural: plural.into(),
        namespace,
        name: name.map(str::to_owned),
        subresource: subresource.map(str::to_owned),
        watch,
    })
}

/// What is told to whoever uses a resource that has been replaced.
pub(crate) fn deprecation(path: &str) -> Option<&'static str> {
    let rest = path.strip_prefix("/api/v1/")?;
    let mut parts = rest.split('/');
    let plural = match parts.next() {
        Some("namespaces") => parts.nth(1),
        plural => plural,
    };
    (plural == Some("endpoints"))
        .then_some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(path: &str) -> (String, String, Option<String>, Option<String>, Option<String>) {
        match parse(path) {
            Path::Resource(t) => (t.group, t.plural, t.namespace, t.name, t.subresource),
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn endpoints_have_been_replaced() {
        for (path, old) in [
            ("/api/v1/endpoints", true),
            ("/api/v1/namespaces/endpoints/endpoints/a", true),
            ("/api/v1/namespaces/endpoints", false),
            ("/api/v1/namespaces/a/pods/endpoints", false),
            ("/apis/discovery.k8s.io/v1/endpointslices", false),
        ] {
            assert_eq!(deprecation(path).is_some(), old, "{path}");
        }
    }

    #[test]
    fn paths_address_what_they_say() {
        let some = |s: &str| Some(s.to_owned());
        for (path, group, plural, namespace, name, sub) in [
            ("/api/v1/pods", "", "pods", None, None, None),
            ("/api/v1/namespaces", "", "namespaces", None, None, None),
            ("/api/v1/namespaces/a", "", "namespaces", None, some("a"), None),
            ("/api/v1/namespaces/a/status", "", "namespaces", None, some("a"), some("status")),
            ("/api/v1/namespaces/a/pods", "", "pods", some("a"), None, None),
            ("/api/v1/namespaces/a/pods/b/status", "", "pods", some("a"), some("b"), some("status")),
            ("/api/v1/nodes/n%2Ex", "", "nodes", None, some("n.x"), None),
            ("/apis/x.io/v1/namespaces/a/ws/b", "x.io", "ws", some("a"), some("b"), None),
        ] {
            assert_eq!(parts(path), (group.into(), plural.into(), namespace, name, sub), "{path}");
        }
        assert_eq!(parse("/apis/x.io"), Path::Discovery(Page::Group("x.io".into())));
        assert_eq!(parse("/nothing"), Path::Unknown);
        assert_eq!(parse("/api/v1/pods/%ff"), Path::Unknown);
    }
}
