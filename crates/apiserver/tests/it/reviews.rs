//! Access reviews and who am I: what `kubectl auth can-i` and `whoami` ask.

use serde_json::{Value, json};

use crate::harness::{Api, covers};
use crate::rbac::send_as;

const AUTHORIZATION: &str = "/apis/authorization.k8s.io/v1";

#[tokio::test(start_paused = true)]
async fn reviews_are_answered_as_a_real_server_answers_them() {
    let api = Api::new();
    let fixture: Value = serde_json::from_str(include_str!("fixtures/reviews.json")).unwrap();
    for row in fixture["requests"].as_array().unwrap() {
        let reply = api.call(row[0].as_str().unwrap(), row[1].as_str().unwrap(), row[2].clone()).await;
        assert_eq!(json!(reply.code), row[3], "{row} answered {}", reply.text);
        assert!(covers(&reply.json(), &row[4]), "{row} answered {}", reply.text);
    }
    let me = api.ok("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({})).await;
    let expected = json!({
        "kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
        "status": {"userInfo": {"username": "system:apiserver", "groups": ["system:masters", "system:authenticated"]}},
    });
    assert_eq!(me, expected);
}

#[tokio::test(start_paused = true)]
async fn rules_are_listed_with_what_could_not_be_looked_up() {
    let api = Api::new();
    let binding = json!({
        "metadata": {"name": "dangling"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "nothere"},
        "subjects": [{"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}],
    });
    api.ok("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", binding).await;
    let path = format!("{AUTHORIZATION}/selfsubjectrulesreviews");
    let review = send_as(&api, "ann", "POST", &path, json!({"spec": {"namespace": "default"}})).await.json();
    let basic = json!({"verbs": ["create"], "apiGroups": ["authorization.k8s.io"],
        "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]});
    assert!(review["status"]["resourceRules"].as_array().unwrap().contains(&basic), "{review}");
    assert_eq!(review["spec"], json!({}));
    assert_eq!(review["status"]["nonResourceRules"].as_array().unwrap().len(), 2);
    assert_eq!(
        review["status"]["evaluationError"],
        "clusterrole.rbac.authorization.k8s.io \"nothere\" not found"
    );
    let path = format!("{AUTHORIZATION}/selfsubjectaccessreviews");
    let body =
        json!({"spec": {"resourceAttributes": {"namespace": "default", "verb": "get", "resource": "pods"}}});
    let review = send_as(&api, "ann", "POST", &path, body).await.json();
    let status = json!({"allowed": false, "reason": "RBAC: clusterrole.rbac.authorization.k8s.io \"nothere\" not found"});
    assert_eq!(review["status"], status);
}

#[tokio::test(start_paused = true)]
async fn discovery_lists_them_with_their_one_verb() {
    let api = Api::new();
    let list = api.ok("GET", AUTHORIZATION, Value::Null).await;
    let names: Vec<&str> =
        list["resources"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "localsubjectaccessreviews",
            "selfsubjectaccessreviews",
            "selfsubjectrulesreviews",
            "subjectaccessreviews"
        ]
    );
    assert!(list["resources"].as_array().unwrap().iter().all(|r| r["verbs"] == json!(["create"])));
}
