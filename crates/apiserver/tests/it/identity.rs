//! Who a request is from: tokens of service accounts, client certificates, and everything that pretends to be one.

use axum::Router;
use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::{Request, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::time::Duration;
use tower::ServiceExt;
use trainyard_apiserver::auth::{self, Accounts, Authenticator, Identity, SigningKey, Tokens};
use trainyard_apiserver::{Options, Server};

use crate::harness::{Api, clock, pod};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// A server, and its API as others reach it.
struct Guarded {
    api: Api,
    outside: Router,
}

fn options() -> Options {
    let authenticator = Authenticator::new(Tokens::new(["owners-token"]), Identity::internal("owner"));
    let accounts = Accounts::new(SigningKey::generate().unwrap(), "https://issuer", "ROOT CA");
    Server::options().clock(clock()).authenticator(authenticator).accounts(accounts)
}

impl Guarded {
    fn new() -> Self {
        let api = Api::with(options());
        let outside = auth::require(api.server.router(), api.server.guard());
        Self { api, outside }
    }

    /// Sends with a token, as from outside.
    async fn send(&self, token: &str, method: &str, path: &str, body: Value) -> (u16, Value) {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        let request = request.body(Body::from(body.to_string())).unwrap();
        let response = self.outside.clone().oneshot(request).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    async fn who(&self, token: &str) -> Option<Value> {
        let (code, answer) = self.send(token, "POST", WHO, json!({})).await;
        if code == 401 {
            assert_eq!(answer["message"], "Unauthorized");
            return None;
        }
        assert_eq!(code, 201, "{answer}");
        Some(answer["status"]["userInfo"].clone())
    }

    async fn token(&self, account: &str, spec: Value) -> String {
        let path = format!("{ACCOUNTS}/{account}/token");
        let answer = self.api.ok("POST", &path, json!({"spec": spec})).await;
        answer["status"]["token"].as_str().unwrap().to_owned()
    }

    async fn review(&self, spec: Value) -> Value {
        self.api.ok("POST", REVIEWS, json!({"spec": spec})).await["status"].clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_stands_for_its_account_until_it_ends() {
    let guarded = Guarded::new();
    assert_eq!(guarded.who("owners-token").await.unwrap()["username"], "owner");
    let request = guarded.api.ok("POST", &format!("{ACCOUNTS}/default/token"), json!({})).await;
    let account = guarded.api.ok("GET", &format!("{ACCOUNTS}/default"), Value::Null).await;
    let uid = &account["metadata"]["uid"];
    assert_eq!(request["kind"], "TokenRequest");
    assert_eq!(request["metadata"]["uid"], *uid);
    assert_eq!(
        request["spec"],
        json!({"audiences": ["https://issuer"], "expirationSeconds": 3600, "boundObjectRef": null})
    );
    assert_eq!(request["status"]["expirationTimestamp"], "2026-01-01T01:00:00Z");
    let token = request["status"]["token"].as_str().unwrap();
    let me = guarded.who(token).await.unwrap();
    assert_eq!(me["username"], "system:serviceaccount:default:default");
    assert_eq!(me["uid"], *uid);
    assert_eq!(
        me["groups"],
        json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"])
    );
    assert!(
        me["extra"]["authentication.kubernetes.io/credential-id"][0].as_str().unwrap().starts_with("JTI=")
    );
    let (code, refusal) = guarded.send(token, "GET", "/api/v1/namespaces/default/pods", Value::Null).await;
    assert_eq!(code, 403);
    assert!(
        refusal["message"]
            .as_str()
            .unwrap()
            .contains("User \"system:serviceaccount:default:default\" cannot list")
    );
    tokio::time::sleep(Duration::from_secs(3600 + 59)).await;
    assert!(guarded.who(token).await.is_some(), "clocks may differ by a minute");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(guarded.who(token).await, None);
    let review = guarded.review(json!({"token": token})).await;
    assert_eq!(
        review,
        json!({"user": {}, "error": "[invalid bearer token, service account token has expired]"})
    );
}

#[tokio::test(start_paused = true)]
async fn a_token_ends_with_what_it_is_bound_to() {
    let guarded = Guarded::new();
    let api = &guarded.api;
    api.ok("POST", ACCOUNTS, json!({"metadata": {"name": "robot"}})).await;
    let mut mine = pod("mine");
    mine["spec"]["serviceAccountName"] = json!("robot");
    let mine = api.ok("POST", crate::harness::PODS, mine).await;
    let bound = json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "mine", "uid": mine["metadata"]["uid"]}});
    let (of_pod, plain) = (guarded.token("robot", bound).await, guarded.token("robot", json!({})).await);
    let me = guarded.who(&of_pod).await.unwrap();
    assert_eq!(me["extra"]["authentication.kubernetes.io/pod-name"], json!(["mine"]));
    assert_eq!(me["extra"]["authentication.kubernetes.io/pod-uid"], json!([mine["metadata"]["uid"]]));
    api.ok("DELETE", &format!("{}/mine", crate::harness::PODS), Value::Null).await;
    assert_eq!(guarded.who(&of_pod).await, None);
    assert!(guarded.who(&plain).await.is_some());
    api.ok("DELETE", &format!("{ACCOUNTS}/robot"), Value::Null).await;
    assert_eq!(guarded.who(&plain).await, None);
    api.ok("POST", ACCOUNTS, json!({"metadata": {"name": "robot"}})).await;
    assert_eq!(guarded.who(&plain).await, None, "another account of the same name");
}

#[tokio::test(start_paused = true)]
async fn requests_for_tokens_fail_as_on_a_real_server() {
    let guarded = Guarded::new();
    guarded.api.ok("POST", crate::harness::PODS, pod("other")).await;
    guarded.api.ok("POST", ACCOUNTS, json!({"metadata": {"name": "robot"}})).await;
    let short = "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 60: may not specify a duration less than 10 minutes";
    let long = "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds";
    let name = "TokenRequest.authentication.k8s.io \"default\" is invalid: metadata.name: Invalid value: \"x\": must match the service account name if specified";
    for (account, body, code, message) in [
        ("default", json!({"spec": {"expirationSeconds": 60}}), 422, short),
        ("default", json!({"spec": {"expirationSeconds": 4_294_967_297_i64}}), 422, long),
        ("default", json!({"metadata": {"name": "x"}}), 422, name),
        ("nope", json!({}), 404, "serviceaccounts \"nope\" not found"),
        (
            "default",
            json!({"spec": {"boundObjectRef": {"kind": "Pod", "name": "nope"}}}),
            404,
            "pods \"nope\" not found",
        ),
        (
            "default",
            json!({"spec": {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "x"}}}),
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap",
        ),
        (
            "robot",
            json!({"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "other"}}}),
            400,
            "cannot bind token for serviceaccount \"robot\" to pod running with different serviceaccount name.",
        ),
    ] {
        let reply = guarded.api.call("POST", &format!("{ACCOUNTS}/{account}/token"), body.clone()).await;
        assert_eq!(
            (reply.code, reply.json()["message"].as_str().unwrap()),
            (code, message),
            "{account} {body}"
        );
    }
    assert_eq!(guarded.api.code("GET", &format!("{ACCOUNTS}/default/token")).await, 405);
}

#[tokio::test(start_paused = true)]
async fn nothing_that_pretends_to_be_a_token_is_taken_for_one() {
    let guarded = Guarded::new();
    let token = guarded.token("default", json!({})).await;
    let elsewhere = guarded.token("default", json!({"audiences": ["vault"]})).await;
    let stranger = Guarded::new().token("default", json!({})).await;
    let [head, body, signature] = token.split('.').collect::<Vec<_>>().try_into().unwrap();
    let encode = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let mut admin: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(body).unwrap()).unwrap();
    admin["kubernetes.io"]["serviceaccount"]["name"] = json!("admin");
    let admin = encode(admin);
    for hostile in [
        format!("{}.{body}.", encode(json!({"alg": "none"}))),
        format!("{}.{admin}.{signature}", encode(json!({"alg": "none", "typ": "JWT"}))),
        format!("{}.{body}.{signature}", encode(json!({"alg": "HS256"}))),
        format!("{head}.{admin}.{signature}"),
        format!("{head}.{body}."),
        format!("{head}.{body}.{}", &signature[2..]),
        format!("{head}.{body}.{signature}{signature}"),
        format!("{head}.{body}.{signature}."),
        format!("{head}..{signature}"),
        stranger,
        elsewhere.clone(),
        "a.b.c".into(),
        "....".into(),
        "x".repeat(20_000),
        format!("{head}.{}.{signature}", "A".repeat(15_000)),
        format!("{}.{body}.{signature}", encode(json!([[[[[[[[]]]]]]]]))),
    ] {
        assert_eq!(guarded.who(&hostile).await, None, "{}", hostile.chars().take(200).collect::<String>());
        assert_eq!(guarded.send(&hostile, "GET", "/livez", Value::Null).await.0, 401);
    }
    assert!(guarded.who(&token).await.is_some());
    let review = guarded.review(json!({"token": elsewhere, "audiences": ["vault", "x"]})).await;
    assert_eq!(review["authenticated"], true);
    assert_eq!(review["audiences"], json!(["vault"]));
    let error = "[invalid bearer token, token audiences [\"vault\"] is invalid for the target audiences [\"https://issuer\"]]";
    assert_eq!(guarded.review(json!({"token": elsewhere})).await, json!({"user": {}, "error": error}));
    assert_eq!(
        guarded.review(json!({"token": "abc"})).await,
        json!({"user": {}, "error": "invalid bearer token"})
    );
    let owner = guarded.review(json!({"token": "owners-token"})).await;
    assert_eq!(
        owner["user"],
        json!({"username": "owner", "groups": ["system:masters", "system:authenticated"]})
    );
}

#[tokio::test(start_paused = true)]
async fn others_can_check_tokens_with_what_is_published() {
    let guarded = Guarded::new();
    let token = guarded.token("default", json!({})).await;
    let (code, about) = guarded.send(&token, "GET", "/.well-known/openid-configuration", Value::Null).await;
    assert_eq!(code, 200);
    assert_eq!(about["issuer"], "https://issuer");
    assert_eq!(about["id_token_signing_alg_values_supported"], json!(["ES256"]));
    let (_, keys) = guarded.send(&token, "GET", "/openid/v1/jwks", Value::Null).await;
    let head = token.split('.').next().unwrap();
    let head: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(head).unwrap()).unwrap();
    assert_eq!(keys["keys"][0]["kid"], head["kid"]);
}

#[tokio::test(start_paused = true)]
async fn every_namespace_has_an_account_and_the_root_certificate() {
    let guarded = Guarded::new();
    let api = &guarded.api;
    api.ok("POST", "/api/v1/namespaces", json!({"metadata": {"name": "new"}})).await;
    api.settle().await;
    let account = "/api/v1/namespaces/new/serviceaccounts/default";
    let map = "/api/v1/namespaces/new/configmaps/kube-root-ca.crt";
    for _ in 0..2 {
        for path in [account, map, "/api/v1/namespaces/default/serviceaccounts/default"] {
            api.ok("GET", path, Value::Null).await;
        }
        assert_eq!(api.ok("GET", map, Value::Null).await["data"], json!({"ca.crt": "ROOT CA"}));
        // Whoever deletes or changes them gets them back.
        api.ok("DELETE", account, Value::Null).await;
        api.ok("MERGE", map, json!({"data": {"ca.crt": "another", "x": "y"}})).await;
        api.settle().await;
    }
    api.ok("DELETE", "/api/v1/namespaces/new", Value::Null).await;
    api.settle().await;
    assert_eq!(api.code("GET", "/api/v1/namespaces/new").await, 404, "they do not keep it");
}

#[tokio::test(start_paused = true)]
async fn a_secret_for_an_account_gets_a_token() {
    let guarded = Guarded::new();
    let api = &guarded.api;
    let secret = json!({
        "metadata": {"name": "s", "annotations": {"kubernetes.io/service-account.name": "robot"}},
        "type": "kubernetes.io/service-account-token",
    });
    api.ok("POST", "/api/v1/namespaces/default/secrets", secret).await;
    api.ok("POST", ACCOUNTS, json!({"metadata": {"name": "robot"}})).await;
    api.settle().await;
    let path = "/api/v1/namespaces/default/secrets/s";
    let secret = api.ok("GET", path, Value::Null).await;
    let text = |field: &str| {
        let bytes = STANDARD.decode(secret["data"][field].as_str().unwrap()).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    assert_eq!((text("namespace").as_str(), text("ca.crt").as_str()), ("default", "ROOT CA"));
    assert_eq!(guarded.who(&text("token")).await.unwrap()["username"], "system:serviceaccount:default:robot");
    api.ok("DELETE", path, Value::Null).await;
    assert_eq!(guarded.who(&text("token")).await, None);
}
