//! Roles, bindings and webhooks.

use serde_json::Value;

use super::errors::{Errors, Path, get, list, number, text, texts};
use crate::object::names::NameRule;

const NULL: Value = Value::Null;
const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) fn role(object: &Value, namespaced: bool, errors: &mut Errors) {
    let path = Path::Root("rules");
    for (index, rule) in list(object, "rules").iter().enumerate() {
        let place = path.index(index);
        if list(rule, "verbs").is_empty() {
            errors.required(&place.field("verbs"), "verbs must contain at least one value");
        }
        let urls = list(rule, "nonResourceURLs");
        let resources = !list(rule, "apiGroups").is_empty()
            || !list(rule, "resources").is_empty()
            || !list(rule, "resourceNames").is_empty();
        if !urls.is_empty() {
            let quoted = Value::Array(urls.to_vec());
            if namespaced {
                let why = "namespaced rules cannot apply to non-resource URLs";
                errors.invalid(&place.field("nonResourceURLs"), quoted.clone(), why);
            }
            if resources {
                let why = "rules cannot apply to both regular resources and non-resource URLs";
                errors.invalid(&place.field("nonResourceURLs"), quoted, why);
            }
            continue;
        }
        if list(rule, "apiGroups").is_empty() {
            errors.required(&place.field("apiGroups"), "resource rules must supply at least one api group");
        }
        if list(rule, "resources").is_empty() {
            errors.required(&place.field("resources"), "resource rules must supply at least one resource");
        }
    }
}

pub(super) fn binding(object: &Value, old: Option<&Value>, namespaced: bool, errors: &mut Errors) {
    let (role, path) = (object.get("roleRef").unwrap_or(&NULL), Path::Root("roleRef"));
    if let Some(old) = old
        && old.get("roleRef") != object.get("roleRef")
    {
        let (group, kind, name) = (text(role, "apiGroup"), text(role, "kind"), text(role, "name"));
        let quoted = format!("{{\"APIGroup\":{group:?},\"Kind\":{kind:?},\"Name\":{name:?}}}");
        errors.invalid_text(&path, &quoted, "cannot change roleRef");
    }
    errors.one_of(&path.field("apiGroup"), text(role, "apiGroup"), &[RBAC]);
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    errors.one_of(&path.field("kind"), text(role, "kind"), kinds);
    if text(role, "name").is_empty() {
        errors.required(&path.field("name"), "");
    } else {
        errors.name(&path.field("name"), NameRule::Segment, text(role, "name"));
    }
    let subjects = Path::Root("subjects");
    for (index, subject) in list(object, "subjects").iter().enumerate() {
        self::subject(subject, namespaced, &subjects.index(index), errors);
    }
}

fn subject(subject: &Value, namespaced: bool, path: &Path<'_>, errors: &mut Errors) {
    let (kind, name, group) = (text(subject, "kind"), text(subject, "name"), text(subject, "apiGroup"));
    if name.is_empty() {
        errors.required(&path.field("name"), "");
    }
    match kind {
        "ServiceAccount" => {
            if !name.is_empty() {
                errors.name(&path.field("name"), NameRule::Subdomain, name);
            }
            if !group.is_empty() {
                errors.unsupported(&path.field("apiGroup"), group, &[""]);
            }
            if !namespaced && text(subject, "namespace").is_empty() {
                errors.required(&path.field("namespace"), "");
            }
        }
        "User" | "Group" => errors.one_of(&path.field("apiGroup"), group, &[RBAC]),
        other => errors.unsupported(&path.field("kind"), other, &["ServiceAccount", "User", "Group"]),
    }
}

pub(super) fn webhooks(object: &Value, mutating: bool, errors: &mut Errors) {
    let path = Path::Root("webhooks");
    let mut names = std::collections::HashSet::new();
    for (index, hook) in list(object, "webhooks").iter().enumerate() {
        let place = path.index(index);
        webhook(hook, mutating, &place, errors);
        if !names.insert(text(hook, "name")) {
            errors.duplicate(&place.field("name"), text(hook, "name"));
        }
        let versions = list(hook, "admissionReviewVersions");
        let field = place.field("admissionReviewVersions");
        if versions.is_empty() {
            errors.required(&field, "must specify one of v1, v1beta1");
        } else if !texts(hook, "admissionReviewVersions").any(|v| ["v1", "v1beta1"].contains(&v)) {
            let why = "must include at least one of v1, v1beta1";
            errors.invalid(&field, Value::Array(versions.to_vec()), why);
        }
    }
}

fn webhook(hook: &Value, mutating: bool, path: &Path<'_>, errors: &mut Errors) {
    let name = text(hook, "name");
    if name.is_empty() {
        errors.required(&path.field("name"), "");
    } else if name.split('.').count() < 3 {
        let why = "should be a domain with at least three segments separated by dots";
        errors.invalid(&path.field("name"), name, why);
    } else {
        errors.name(&path.field("name"), NameRule::Subdomain, name);
    }
    let rules = path.field("rules");
    for (index, rule) in list(hook, "rules").iter().enumerate() {
        self::rule(rule, &rules.index(index), errors);
    }
    for (field, known) in [
        ("failurePolicy", ["Fail", "Ignore"].as_slice()),
        ("matchPolicy", &["Equivalent", "Exact"]),
        ("sideEffects", &["None", "NoneOnDryRun"]),
    ] {
        match get(hook, field).and_then(Value::as_str) {
            Some(value) => errors.one_of(&path.field(field), value, known),
            None if field == "sideEffects" => {
                errors.required(&path.field(field), "must specify one of None, NoneOnDryRun");
            }
            None => {}
        }
    }
    if let Some(seconds) = number(hook, "timeoutSeconds").filter(|seconds| !(1..=30).contains(seconds)) {
        let why = "the timeout value must be between 1 and 30 seconds";
        errors.invalid(&path.field("timeoutSeconds"), seconds, why);
    }
    for field in ["namespaceSelector", "objectSelector"] {
        if let Some(selector) = get(hook, field) {
            super::schedule::label_selector(selector, &path.field(field), errors);
        }
    }
    client(hook.get("clientConfig").unwrap_or(&NULL), &path.field("clientConfig"), errors);
    let policy = text(hook, "reinvocationPolicy");
    if mutating && !policy.is_empty() {
        errors.one_of(&path.field("reinvocationPolicy"), policy, &["IfNeeded", "Never"]);
    }
}

fn client(config: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (url, service) = (get(config, "url").and_then(Value::as_str), get(config, "service"));
    match (url, service) {
        (Some(url), None) => address(url, &path.field("url"), errors),
        (None, Some(service)) => {
            let place = path.field("service");
            for field in ["name", "namespace"] {
                if text(service, field).is_empty() {
                    errors.required(&place.field(field), "");
                }
            }
            let port = number(service, "port").unwrap_or(443);
            if !(1..=65_535).contains(&port) {
                errors.invalid(
                    &place.field("port"),
                    port,
                    "port is not valid: must be between 1 and 65535, inclusive",
                );
            }
        }
        _ => errors.required(path, "exactly one of url or service is required"),
    }
}

/// Where a webhook is: a host and a path. Whatever else an address may have would be sent along with each question, and
/// names and passwords in it could be read by everybody who may read the configuration.
fn address(url: &str, path: &Path<'_>, errors: &mut Errors) {
    let mut wrong = |value: &str, why: &str| {
        errors.invalid(path, value, &format!("{why}; desired format: https://host[/path]"));
    };
    let (scheme, rest) = url.split_once("://").unwrap_or(("", ""));
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    if scheme != "https" {
        wrong(scheme, "'https' is the only allowed URL scheme");
    }
    if host.is_empty() {
        wrong(host, "host must be specified");
    }
    if let Some(user) = user {
        wrong(user, "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        wrong(fragment, "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        wrong(query, "query parameters are not permitted in the URL");
    }
}

fn rule(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    if list(rule, "operations").is_empty() {
        errors.required(&path.field("operations"), "");
    }
    for (index, operation) in texts(rule, "operations").enumerate() {
        errors.one_of(&path.field("operations").index(index), operation, &OPERATIONS);
    }
    for field in ["apiGroups", "apiVersions", "resources"] {
        if list(rule, field).is_empty() {
            errors.required(&path.field(field), "");
        }
    }
    let resources = list(rule, "resources");
    let has_star = texts(rule, "resources").any(|resource| resource == "*");
    if has_star && texts(rule, "resources").filter(|resource| !resource.contains('/')).count() > 1 {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(&path.field("resources"), Value::Array(resources.to_vec()), why);
    }
    let scope = text(rule, "scope");
    if !scope.is_empty() {
        errors.one_of(&path.field("scope"), scope, &["*", "Cluster", "Namespaced"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_is_a_host_and_a_path() {
        let wrong = |url: &str| {
            let mut errors = Errors::default();
            address(url, &Path::Root("url"), &mut errors);
            let messages = errors.into_causes().into_iter().map(|cause| cause.message);
            messages.map(|message| message.split(';').next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        for url in ["https://a", "https://a:8443/", "https://[::1]:1/b/c", "https://a/b@c"] {
            assert!(wrong(url).is_empty(), "{url}");
        }
        for (url, expected) in [
            (
                "https://me:secret@a/b",
                "Invalid value: \"me:secret\": user information is not permitted in the URL",
            ),
            ("https://@a", "Invalid value: \"\": user information is not permitted in the URL"),
            ("https://a/b?c=d", "Invalid value: \"c=d\": query parameters are not permitted in the URL"),
            ("https://a?b@c", "Invalid value: \"b@c\": query parameters are not permitted in the URL"),
            ("https://a/b#c?d", "Invalid value: \"c?d\": fragments are not permitted in the URL"),
            ("https:///b", "Invalid value: \"\": host must be specified"),
            ("http://a", "Invalid value: \"http\": 'https' is the only allowed URL scheme"),
        ] {
            assert_eq!(wrong(url), [expected], "{url}");
        }
        assert_eq!(wrong("a/b").len(), 2);
    }
}
