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
