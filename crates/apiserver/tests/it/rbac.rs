//! Who may do what: roles and bindings, and the answers of a real server to the same requests.

use axum::body::Body;
use http::Request;
use serde_json::{Value, json};

use crate::harness::{Api, Reply};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Sends a request as `name+group+group`.
pub(crate) async fn send_as(api: &Api, user: &str, method: &str, path: &str, body: Value) -> Reply {
    let mut names = user.split('+');
    let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let mut request = Request::builder().method(method).uri(path).header("content-type", media);
    request = request.header("impersonate-user", names.next().unwrap());
    for group in names {
        request = request.header("impersonate-group", group);
    }
    api.send(request.body(Body::from(body.to_string())).unwrap()).await
}

fn collection(object: &Value) -> String {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let plural = format!("{}s", text("/kind").to_lowercase());
    let base = match text("/apiVersion").as_str() {
        "v1" => "/api/v1".to_owned(),
        group => format!("/apis/{group}"),
    };
    match text("/metadata/namespace").as_str() {
        "" => format!("{base}/{plural}"),
        namespace => format!("{base}/namespaces/{namespace}/{plural}"),
    }
}

async fn api(fixture: &Value) -> Api {
    let api = Api::new();
    for object in fixture["objects"].as_array().unwrap() {
        api.ok("POST", &collection(object), object.clone()).await;
    }
    api
}

#[tokio::test(start_paused = true)]
async fn the_same_requests_pass_and_fail_as_on_a_real_server() {
    let fixture: Value = serde_json::from_str(include_str!("fixtures/rbac.json")).unwrap();
    let api = api(&fixture).await;
    for row in fixture["requests"].as_array().unwrap() {
        let [user, method, path, message] = [0, 1, 2, 3].map(|i| row[i].as_str().unwrap());
        let reply = send_as(&api, user, method, path, json!({})).await;
        let found = if reply.code == 403 {
            reply.json()["message"].as_str().unwrap().to_owned()
        } else {
            String::new()
        };
        assert_eq!(found, message, "{row} answered {} {}", reply.code, reply.text);
        assert_eq!(reply.code == 403, !message.is_empty(), "{row}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_the_status_clients_know() {
    let api = Api::new();
    let refusal = send_as(&api, "joe", "GET", "/api/v1/namespaces/x/pods/y/log", json!({})).await;
    assert_eq!(
        refusal.json(),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Forbidden", "code": 403,
            "message": "pods \"y\" is forbidden: User \"joe\" cannot get resource \"pods/log\" in API group \"\" in the namespace \"x\"",
            "details": {"name": "y", "kind": "pods"},
        })
    );
    let refusal = send_as(&api, "<joe>", "GET", "/nothing", json!({})).await.json();
    assert_eq!(refusal["details"], json!({}));
    assert_eq!(refusal["message"], "forbidden: User \"&lt;joe&gt;\" cannot get path \"/nothing\"");
}

#[tokio::test(start_paused = true)]
async fn what_was_granted_and_taken_counts_at_once() {
    let api = Api::new();
    let pods = "/api/v1/namespaces/default/pods";
    let role = json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]});
    let binding = json!({
        "metadata": {"name": "b"}, "subjects": [{"kind": "ServiceAccount", "name": "sa"}],
        "roleRef": {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"},
    });
    let user = "system:serviceaccount:default:sa";
    let (roles, bindings) =
        (format!("{RBAC}/namespaces/default/roles"), format!("{RBAC}/namespaces/default/rolebindings"));
    assert_eq!(send_as(&api, user, "GET", pods, json!({})).await.code, 403);
    api.ok("POST", &roles, role).await;
    api.ok("POST", &bindings, binding).await;
    assert_eq!(send_as(&api, user, "GET", pods, json!({})).await.code, 200);
    api.ok("MERGE", &format!("{roles}/r"), json!({"rules": []})).await;
    assert_eq!(send_as(&api, user, "GET", pods, json!({})).await.code, 403);
    let rules = json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    api.ok("MERGE", &format!("{roles}/r"), rules).await;
    assert_eq!(send_as(&api, user, "GET", pods, json!({})).await.code, 200);
    api.ok("DELETE", &format!("{bindings}/b"), Value::Null).await;
    assert_eq!(send_as(&api, user, "GET", pods, json!({})).await.code, 403);
}

/// What somebody writes who may write roles, but has little themselves: the messages are a real server's.
#[tokio::test(start_paused = true)]
async fn nobody_grants_what_they_do_not_have() {
    let api = Api::new();
    let home = format!("{RBAC}/namespaces/default");
    let write = json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings", "clusterroles",
        "clusterrolebindings"], "verbs": ["get", "create", "update", "patch"]});
    let maps = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]});
    let bind = |name: &str, kind: &str, role: &str| {
        json!({"metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            "subjects": [{"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}]})
    };
    api.ok(
        "POST",
        &format!("{RBAC}/clusterroles"),
        json!({"metadata": {"name": "rw"}, "rules": [write, maps]}),
    )
    .await;
    api.ok("POST", &format!("{RBAC}/clusterrolebindings"), bind("rw", "ClusterRole", "rw")).await;
    let fixture: Value = serde_json::from_str(include_str!("fixtures/grants.json")).unwrap();
    for row in fixture["requests"].as_array().unwrap() {
        let reply = send_as(&api, "bob", "POST", row[0].as_str().unwrap(), row[1].clone()).await;
        assert_eq!(json!(reply.code), row[2], "{row} answered {}", reply.text);
        assert_eq!(reply.json()["message"].as_str().unwrap_or_default(), row[3], "{row}");
    }
    // What they have they may give away, also by a change; more they may not.
    let role = format!("{home}/roles/n2");
    let patch = json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    assert_eq!(send_as(&api, "bob", "PATCH", &role, patch.clone()).await.code, 403);
    assert_eq!(
        send_as(&api, "bob", "PATCH", &role, json!({"metadata": {"finalizers": ["x/y"]}})).await.code,
        200
    );
    // Those who may escalate or bind may do just that.
    let verbs =
        json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["escalate"]});
    let binds = json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"],
        "resourceNames": ["cluster-admin"], "verbs": ["bind"]});
    api.ok("JSON", &format!("{RBAC}/clusterroles/rw"), json!([
        {"op": "add", "path": "/rules/-", "value": verbs}, {"op": "add", "path": "/rules/-", "value": binds}])).await;
    assert_eq!(send_as(&api, "bob", "PATCH", &role, patch).await.code, 200);
    let reply = send_as(
        &api,
        "bob",
        "POST",
        &format!("{home}/rolebindings"),
        bind("n6", "ClusterRole", "cluster-admin"),
    )
    .await;
    assert_eq!(reply.code, 201, "{}", reply.text);
}

#[tokio::test(start_paused = true)]
async fn roles_that_are_sums_follow_what_they_select() {
    let api = Api::new();
    let roles = format!("{RBAC}/clusterroles");
    let view = api.ok("GET", &format!("{roles}/view"), Value::Null).await;
    let part = api.ok("GET", &format!("{roles}/system:aggregate-to-view"), Value::Null).await;
    assert_eq!(view["rules"], part["rules"]);
    assert_eq!(view["metadata"]["annotations"]["rbac.authorization.kubernetes.io/autoupdate"], "true");
    let rule = json!({"apiGroups": ["kubeflow.org"], "resources": ["pytorchjobs"], "verbs": ["get"]});
    let mine = json!({"metadata": {"name": "jobs", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [rule]});
    api.ok("POST", &roles, mine).await;
    api.settle().await;
    for name in ["view", "edit", "admin"] {
        let rules = api.ok("GET", &format!("{roles}/{name}"), Value::Null).await["rules"].clone();
        assert!(rules.as_array().unwrap().contains(&rule), "{name}: {rules}");
    }
    api.ok("DELETE", &format!("{roles}/jobs"), Value::Null).await;
    api.settle().await;
    let rules = api.ok("GET", &format!("{roles}/admin"), Value::Null).await["rules"].clone();
    assert!(!rules.as_array().unwrap().contains(&rule));
}

#[tokio::test(start_paused = true)]
async fn acting_as_somebody_else_needs_a_rule() {
    let api = Api::new();
    let ask = |headers: &[(&str, &str)]| {
        let mut request =
            Request::builder().method("POST").uri("/apis/authentication.k8s.io/v1/selfsubjectreviews");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.header("content-type", "application/json").body(Body::from("{}")).unwrap()
    };
    let reply = api.send(ask(&[("impersonate-group", "joe")])).await;
    assert_eq!(reply.code, 400);
    assert_eq!(
        reply.json()["message"],
        "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"joe\"}, Extra:map[string][]string(nil)} without impersonating a user name"
    );
    for (headers, info) in [
        (
            vec![
                ("impersonate-user", "a"),
                ("impersonate-uid", "7"),
                ("impersonate-extra-x%2fy", "1"),
                ("impersonate-extra-x%2fy", "2"),
            ],
            json!({"username": "a", "uid": "7", "groups": ["system:authenticated"], "extra": {"x/y": ["1", "2"]}}),
        ),
        (
            vec![("impersonate-user", "system:serviceaccount:n:s")],
            json!({"username": "system:serviceaccount:n:s",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated"]}),
        ),
        (
            vec![("impersonate-user", "a"), ("impersonate-group", "g")],
            json!({"username": "a", "groups": ["g", "system:authenticated"]}),
        ),
    ] {
        let reply = api.send(ask(&headers)).await;
        assert_eq!(reply.code, 201, "{}", reply.text);
        assert_eq!(reply.json()["status"]["userInfo"], info);
    }
}
