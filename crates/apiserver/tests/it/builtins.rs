//! What differs between the built-in kinds: who may be created by PUT, scaled, selected by which fields.

use serde_json::{Value, json};

use crate::harness::Api;

const NULL: Value = Value::Null;
const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/r";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";

#[tokio::test(start_paused = true)]
async fn put_creates_some_kinds() {
    let api = Api::new();
    let role = json!({"metadata": {"name": "r", "resourceVersion": "12"}, "rules": []});
    let lease = json!({"metadata": {"name": "l"}});
    api.rows(&[
        ("PUT", ROLE, role.clone(), 201, json!({"kind": "Role", "metadata": {"name": "r", "uid": "*"}})),
        ("PUT", ROLE, json!({"metadata": {"name": "r"}, "rules": []}), 200, NULL),
        ("DELETE", ROLE, NULL, 200, NULL),
        (
            "PUT",
            ROLE,
            json!({"metadata": {"name": "s"}}),
            400,
            json!({
            "message": "the name of the object (s) does not match the name on the URL (r)"}),
        ),
        (
            "PUT",
            ROLE,
            json!({"metadata": {}}),
            400,
            json!({
            "message": "the name of the object (r based on URL) was undeterminable: name must be provided"}),
        ),
        ("PUT", ROLE, json!({"metadata": {"name": "r", "uid": "a"}}), 409, json!({"reason": "Conflict"})),
        ("MERGE", ROLE, json!({"rules": []}), 404, NULL),
        ("PUT", LEASE, lease.clone(), 201, NULL),
        ("PUT", LEASE, lease, 422, json!({"message": "~metadata.resourceVersion: Invalid value: 0"})),
        ("PUT", "/api/v1/namespaces/default/configmaps/c", json!({"metadata": {"name": "c"}}), 404, NULL),
        ("DELETE", "/api/v1/namespaces", NULL, 405, NULL),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn fields_that_cannot_be_selected_are_named() {
    let api = Api::new();
    for (path, message) in [
        (
            "/api/v1/configmaps?fieldSelector=data.x=1",
            "\"data.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
        ("/apis/batch/v1/jobs?fieldSelector=a=1", "field label \"a\" not supported for Job"),
        ("/api/v1/pods?fieldSelector=a=1", "field label not supported: a"),
    ] {
        let reply = api.call("GET", path, NULL).await;
        assert_eq!((reply.code, reply.json()["message"].as_str()), (400, Some(message)), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_priorities_of_the_system_are_there() {
    let api = Api::new();
    let path = "/apis/scheduling.k8s.io/v1/priorityclasses/system-cluster-critical";
    let class = api.ok("GET", path, NULL).await;
    assert_eq!(class["value"], 2_000_000_000);
    assert_eq!(class["metadata"]["generation"], 1);
}

#[tokio::test(start_paused = true)]
async fn services_get_addresses_of_their_own() {
    let api = Api::with(
        trainyard_apiserver::Server::options()
            .clock(crate::harness::clock())
            .address("127.0.0.1:7443".parse().unwrap()),
    );
    const SERVICES: &str = "/api/v1/namespaces/default/services";
    let service = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
    let port = json!([{"port": 80}]);
    let kubernetes = api.ok("GET", &format!("{SERVICES}/kubernetes"), NULL).await;
    assert_eq!(kubernetes["spec"]["clusterIP"], "10.96.0.1");
    assert_eq!(kubernetes["spec"]["ports"][0]["targetPort"], 7443);
    let first = api.ok("POST", SERVICES, service("a", json!({"ports": port, "type": "NodePort"}))).await;
    let (ip, node) = (&first["spec"]["clusterIP"], &first["spec"]["ports"][0]["nodePort"]);
    assert!(ip.as_str().unwrap().starts_with("10.96.") && node.is_i64(), "{first}");
    for (spec, message) in [
        (json!({"ports": port, "clusterIP": ip}), "provided IP is already allocated"),
        (
            json!({"ports": port, "clusterIP": "10.97.0.1"}),
            "the provided network does not match the current range",
        ),
        (
            json!({"ports": [{"port": 80, "nodePort": node}], "type": "NodePort"}),
            "provided port is already allocated",
        ),
        (
            json!({"ports": [{"port": 80, "nodePort": 80}], "type": "NodePort"}),
            "The range of valid ports is 30000-32767",
        ),
    ] {
        let reply = api.call("POST", SERVICES, service("b", spec)).await;
        assert_eq!(reply.code, 422);
        assert!(reply.json()["message"].as_str().unwrap().contains(message), "{}", reply.text);
    }
    // Who names none keeps what it has.
    let path = format!("{SERVICES}/a");
    let kept = api.ok("PUT", &path, service("a", json!({"ports": port, "type": "NodePort"}))).await;
    assert_eq!((&kept["spec"]["clusterIP"], &kept["spec"]["ports"][0]["nodePort"]), (ip, node));
    api.ok("DELETE", &path, NULL).await;
    let again = api.ok("POST", SERVICES, service("b", json!({"ports": port, "clusterIP": ip}))).await;
    assert_eq!(again["spec"]["clusterIP"], *ip);
}
