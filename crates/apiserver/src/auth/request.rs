//! What a request asks for, in the words of rules: a verb and a resource, or a path.

use http::Method;

use super::rbac::Ask;
use crate::failure::Failure;

/// The subresources a namespace has; anything else below it is a resource in it.
const OF_NAMESPACES: [&str; 2] = ["status", "finalize"];
/// Verbs in front of a path, an old way to ask for a watch.
const LEADING_VERBS: [&str; 2] = ["watch", "proxy"];

/// A request as the rules see it. `segments` are the decoded parts of the path, without empty ones, so that rules and
/// routing never disagree about what is meant.
pub(crate) fn ask(method: &Method, path: &str, segments: &[String], query: &Query<'_>) -> Ask {
    let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["api", _, rest @ ..] if !rest.is_empty() => resource(method, "", rest, query),
        ["apis", group, _, rest @ ..] if !rest.is_empty() => resource(method, group, rest, query),
        _ => Ask { verb: method.as_str().to_lowercase(), path: Some(path.to_owned()), ..Ask::default() },
    }
}

/// What of a query decides about the verb.
pub(crate) struct Query<'a> {
    pub(crate) watch: bool,
    pub(crate) field_selector: &'a str,
}

fn resource(method: &Method, group: &str, rest: &[&str], query: &Query<'_>) -> Ask {
    let (verb, rest) = match rest {
        [verb, rest @ ..] if LEADING_VERBS.contains(verb) && !rest.is_empty() => (*verb, rest),
        rest => (verb(method), rest),
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, sub, ..] if OF_NAMESPACES.contains(sub) => (*namespace, rest),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        ["namespaces", namespace] => (*namespace, rest),
        rest => ("", rest),
    };
    let part = |index: usize| rest.get(index).copied().unwrap_or_default();
    let mut ask = Ask {
        verb: verb.into(),
        group: group.into(),
        resource: part(0).into(),
        subresource: if verb == "proxy" { "" } else { part(2) }.into(),
        namespace: namespace.into(),
        name: part(1).into(),
        path: None,
    };
    if ask.name.is_empty() {
        match verb {
            "get" => {
                ask.verb = if query.watch { "watch" } else { "list" }.into();
                ask.name = selected_name(query.field_selector).unwrap_or_default().to_owned();
            }
            "delete" => ask.verb = "deletecollection".into(),
            _ => {}
        }
    }
    ask
}

fn verb(method: &Method) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::GET | Method::HEAD => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    }
}

/// The one name a field selector leaves.
fn selected_name(selector: &str) -> Option<&str> {
    let name = selector.split(',').find_map(|part| {
        let (field, value) = part.split_once('=')?;
        (field.trim() == "metadata.name").then(|| value.strip_prefix('=').unwrap_or(value).trim())
    })?;
    let plain = !name.is_empty() && !name.contains(['/', '%', '\\']) && name != "." && name != "..";
    plain.then_some(name)
}

/// The answer to somebody who may not.
pub(crate) fn forbidden(user: &str, ask: &Ask, reason: &str) -> Failure {
    let verb = &ask.verb;
    let mut why = match &ask.path {
        Some(path) => format!("User {user:?} cannot {verb} path {path:?}"),
        None => {
            let place = match ask.namespace.as_str() {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {namespace:?}"),
            };
            let (what, group) = (ask.combined(), &ask.group);
            format!("User {user:?} cannot {verb} resource {what:?} in API group {group:?} {place}")
        }
    };
    // Nothing a client sends may come back as markup.
    why = why.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    if !reason.is_empty() {
        why = format!("{why}: {reason}");
    }
    Failure::denied(&ask.group, &ask.resource, &ask.name, &why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brief(method: Method, target: &str) -> String {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let segments: Vec<String> = path.split('/').filter(|s| !s.is_empty()).map(str::to_owned).collect();
        let query = Query {
            watch: query.contains("watch=true"),
            field_selector: query
                .split('&')
                .find_map(|q| q.strip_prefix("fieldSelector="))
                .unwrap_or_default(),
        };
        let ask = ask(&method, path, &segments, &query);
        match &ask.path {
            Some(path) => format!("{} {path}", ask.verb),
            None => format!("{} {}|{}|{}|{}", ask.verb, ask.group, ask.combined(), ask.namespace, ask.name),
        }
    }

    #[test]
    fn requests_are_what_a_real_server_takes_them_for() {
        let (get, post, delete) = (Method::GET, Method::POST, Method::DELETE);
        for (method, target, expected) in [
            (&get, "/api/v1/pods", "list |pods||"),
            (&get, "/api/v1/pods?watch=true", "watch |pods||"),
            (&get, "/api/v1/namespaces/a/pods?fieldSelector=metadata.name=b", "list |pods|a|b"),
            (&get, "/api/v1/namespaces/a/pods?fieldSelector=metadata.name!=b", "list |pods|a|"),
            (&get, "/api/v1/namespaces/a/pods/b", "get |pods|a|b"),
            (&get, "/api/v1/namespaces/a/pods/b/log", "get |pods/log|a|b"),
            (&post, "/api/v1/namespaces/a/pods/b/exec", "create |pods/exec|a|b"),
            (&delete, "/api/v1/namespaces/a/pods", "deletecollection |pods|a|"),
            (&delete, "/api/v1/namespaces/a", "delete |namespaces|a|a"),
            (&Method::PUT, "/api/v1/namespaces/a/finalize", "update |namespaces/finalize|a|a"),
            (&get, "/api/v1/namespaces", "list |namespaces||"),
            (&get, "/api/v1/watch/namespaces/a/pods", "watch |pods|a|"),
            (&get, "/apis/x.io/v1/namespaces/a/ws/b/status", "get x.io|ws/status|a|b"),
            (&get, "/apis/x.io/v1", "get /apis/x.io/v1"),
            (&get, "/apis/x.io", "get /apis/x.io"),
            (&post, "/api/v1", "post /api/v1"),
            (&get, "/", "get /"),
        ] {
            assert_eq!(brief(method.clone(), target), expected, "{method} {target}");
        }
    }
}
