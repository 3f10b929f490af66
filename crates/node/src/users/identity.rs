//! Whom a container runs as, or why it must not start.

use k8s_openapi::api::core::v1::{Container, Pod, PodSecurityContext, SecurityContext};

use crate::env::ConfigError;
use crate::sources::containers_by_field;
use crate::users::Tenant;

/// Whom a container runs as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The user; as the node if absent.
    pub(crate) user: Option<u32>,
    /// The group; the user's number if absent.
    pub(crate) group: Option<u32>,
    /// No program that the container starts may gain rights.
    pub(crate) no_new_privs: bool,
    /// It is the user of its namespace, and nobody of another namespace may get at what it has.
    pub(crate) isolated: bool,
}

/// What the security contexts ask for; those of the container come first.
#[derive(Clone, Copy, Debug)]
struct Asked {
    user: Option<i64>,
    group: Option<i64>,
    non_root: bool,
    may_escalate: bool,
}

impl Asked {
    fn of(pod: &Pod, container: &Container) -> Self {
        let own: Option<&SecurityContext> = container.security_context.as_ref();
        let shared: Option<&PodSecurityContext> =
            pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
        let first = |own: Option<i64>, shared: Option<i64>| own.or(shared);
        let own_non_root = own.and_then(|c| c.run_as_non_root);
        Self {
            user: first(own.and_then(|c| c.run_as_user), shared.and_then(|c| c.run_as_user)),
            group: first(own.and_then(|c| c.run_as_group), shared.and_then(|c| c.run_as_group)),
            non_root: own_non_root.or(shared.and_then(|c| c.run_as_non_root)) == Some(true),
            may_escalate: own.and_then(|c| c.allow_privilege_escalation) != Some(false),
        }
    }
}

/// Whom a container runs as. `node_is_root` says whom it runs as when nobody names a user; with a `tenant` it runs as
/// that and as nobody else.
pub(crate) fn identity(
    pod: &Pod,
    container: &Container,
    node_is_root: bool,
    tenant: Option<&Tenant>,
) -> Result<Identity, ConfigError> {
    let asked = Asked::of(pod, container);
    if let Some(tenant) = tenant {
        return of_tenant(&asked, container, tenant);
    }
    if let Some(why) = breaks_non_root(&asked, node_is_root) {
        return Err(ConfigError::new(format!(
            "{why} (pod: {:?}, container: {})",
            full_name(pod),
            container.name
        )));
    }
    let id = |id: Option<i64>| id.and_then(|id| u32::try_from(id).ok());
    let no_new_privs = !asked.may_escalate;
    Ok(Identity { user: id(asked.user), group: id(asked.group), no_new_privs, isolated: false })
}

/// A namespace has one user, who never becomes another, root least of all.
fn of_tenant(asked: &Asked, container: &Container, tenant: &Tenant) -> Result<Identity, ConfigError> {
    let Tenant { namespace, user, .. } = tenant;
    let is_other = |id: &i64| *id != i64::from(*user);
    for (field, other) in [("runAsUser", asked.user), ("runAsGroup", asked.group)] {
        if let Some(other) = other.filter(is_other) {
            return Err(ConfigError::new(format!(
                "container {:?}: {field} {other} is refused: with --isolate-namespaces all of namespace {namespace:?} runs as \
                 user and group {user}; leave {field} out",
                container.name
            )));
        }
    }
    Ok(Identity { user: Some(*user), group: Some(*user), no_new_privs: true, isolated: true })
}

/// Fields of containers that `runAsNonRoot` keeps from starting, and why.
pub(crate) fn root_refusals(pod: &Pod, node_is_root: bool) -> Vec<(String, String)> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let refused = containers_by_field(spec).filter_map(|(field, container)| {
        let why = breaks_non_root(&Asked::of(pod, container), node_is_root)?;
        Some((format!("{field}.securityContext"), why))
    });
    refused.collect()
}

/// In the words of a kubelet, with what helps here.
fn breaks_non_root(asked: &Asked, node_is_root: bool) -> Option<String> {
    if !asked.non_root {
        return None;
    }
    match asked.user {
        Some(0) => Some("container's runAsUser breaks non-root policy".to_owned()),
        None if node_is_root => Some(
            "container has runAsNonRoot and image will run as root: set runAsUser, or start the node as another user"
                .to_owned(),
        ),
        Some(_) | None => None,
    }
}

/// As kubelets name pods in messages.
fn full_name(pod: &Pod) -> String {
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    let meta = &pod.metadata;
    format!("{}_{}({})", part(&meta.name), part(&meta.namespace), part(&meta.uid))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(pod: &Value, container: &Value, node_is_root: bool) -> Result<Identity, String> {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "p", "namespace": "ns", "uid": "u" },
            "spec": { "securityContext": pod, "containers": [{ "name": "c", "securityContext": container }] },
        }))
        .unwrap();
        let container = &pod.spec.as_ref().unwrap().containers[0];
        identity(&pod, container, node_is_root, None).map_err(|error| error.message)
    }

    #[test]
    fn the_container_comes_before_its_pod() {
        let pod = json!({ "runAsUser": 5, "runAsGroup": 6, "runAsNonRoot": true });
        let inherited = Identity { user: Some(5), group: Some(6), ..Identity::default() };
        assert_eq!(of(&pod, &json!({}), true), Ok(inherited));
        let own = json!({ "runAsUser": 7, "allowPrivilegeEscalation": false });
        assert_eq!(of(&pod, &own, true), Ok(Identity { user: Some(7), no_new_privs: true, ..inherited }));
        let root = json!({ "runAsUser": 0, "runAsNonRoot": false });
        assert_eq!(of(&pod, &root, true), Ok(Identity { user: Some(0), ..inherited }));
        assert_eq!(
            of(&json!({}), &json!({ "allowPrivilegeEscalation": true }), true),
            Ok(Identity::default())
        );
    }

    #[test]
    fn run_as_non_root_refuses_root_in_a_kubelets_words() {
        let strict = json!({ "runAsNonRoot": true });
        let zero = of(&strict, &json!({ "runAsUser": 0 }), false).unwrap_err();
        let place = "(pod: \"p_ns(u)\", container: c)";
        assert_eq!(zero, format!("container's runAsUser breaks non-root policy {place}"));
        let none = of(&json!({}), &strict, true).unwrap_err();
        assert!(none.starts_with("container has runAsNonRoot and image will run as root: "), "{none}");
        assert!(none.ends_with(place), "{none}");
        assert_eq!(of(&strict, &json!({}), false), Ok(Identity::default()));
        assert_eq!(of(&strict, &json!({ "runAsUser": 3 }), true).map(|id| id.user), Ok(Some(3)));
    }

    #[test]
    fn a_namespace_has_one_user() {
        let tenant = Tenant { namespace: "ns".into(), user: 700, login: "ty-ns".into(), dir: "/d".into() };
        let of = |context: Value| {
            let pod = json!({ "metadata": {}, "spec": { "containers": [{ "name": "c", "securityContext": context }] } });
            let pod: Pod = serde_json::from_value(pod).unwrap();
            let container = &pod.spec.as_ref().unwrap().containers[0];
            identity(&pod, container, true, Some(&tenant)).map_err(|error| error.message)
        };
        let own = Identity { user: Some(700), group: Some(700), no_new_privs: true, isolated: true };
        assert_eq!(of(json!({ "runAsNonRoot": true, "allowPrivilegeEscalation": true })), Ok(own));
        assert_eq!(of(json!({ "runAsUser": 700, "runAsGroup": 700 })), Ok(own));
        for (field, value) in [("runAsUser", 0), ("runAsUser", 701), ("runAsGroup", 0)] {
            let why = of(json!({ field: value })).unwrap_err();
            assert!(why.contains(&format!("{field} {value} is refused")) && why.contains("700"), "{why}");
        }
    }

    #[test]
    fn every_container_that_is_refused_is_named_by_its_field() {
        let pod: Pod = serde_json::from_value(json!({ "metadata": {}, "spec": {
            "securityContext": { "runAsNonRoot": true },
            "initContainers": [{ "name": "a" }],
            "containers": [{ "name": "b", "securityContext": { "runAsUser": 4 } }, { "name": "c" }],
        } }))
        .unwrap();
        let fields: Vec<String> = root_refusals(&pod, true).into_iter().map(|(field, _)| field).collect();
        assert_eq!(fields, ["spec.initContainers[0].securityContext", "spec.containers[1].securityContext"]);
        assert!(root_refusals(&pod, false).is_empty());
    }
}
