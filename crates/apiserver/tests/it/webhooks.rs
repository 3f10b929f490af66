//! Admission webhooks: a real TLS server on loopback that is asked, answers, refuses, hangs and lies.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use http_body_util::BodyExt;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use trainyard_apiserver::serve::serve;

use crate::harness::{Api, MAPS, PODS, Reply, WIDGETS, map, pod, widget};

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";

type Handler = Box<dyn Fn(&str, &Value) -> Say + Send + Sync>;

/// What a webhook does with a question.
enum Say {
    /// This response, with the uid of the question.
    Response(Value),
    /// This body, whatever it is.
    Code(u16, &'static str),
    /// Nothing, ever.
    Nothing,
}

fn yes() -> Say {
    Say::Response(json!({"allowed": true}))
}

fn no(message: &str) -> Say {
    Say::Response(
        json!({"allowed": false, "status": {"message": message, "code": 403, "reason": "Forbidden"}}),
    )
}

fn change(operations: &Value) -> Say {
    let patch = STANDARD.encode(operations.to_string());
    Say::Response(json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
}

/// What a server here is called.
fn certificate() -> CertificateParams {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned(), "hooks.default.svc".to_owned()];
    CertificateParams::new(names).unwrap()
}

fn changed(mut params: CertificateParams, change: impl FnOnce(&mut CertificateParams)) -> CertificateParams {
    change(&mut params);
    params
}

/// As `openssl req -x509` makes it: an authority.
fn authority() -> CertificateParams {
    changed(certificate(), |params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained))
}

/// A server that answers as a test says, and remembers what it was asked.
struct Hooks {
    port: u16,
    bundle: String,
    seen: Arc<Mutex<Vec<(String, Value)>>>,
    _shutdown: tokio_util::sync::DropGuard,
}

impl Hooks {
    async fn new(handler: impl Fn(&str, &Value) -> Say + Send + Sync + 'static) -> Self {
        let key = KeyPair::generate().unwrap();
        let made = certificate().self_signed(&key).unwrap();
        Self::with(&made, &key, handler).await
    }

    /// Shows a certificate, which is also its bundle, and signs with a key.
    async fn with(
        made: &Certificate,
        key: &KeyPair,
        handler: impl Fn(&str, &Value) -> Say + Send + Sync + 'static,
    ) -> Self {
        let bundle = STANDARD.encode(made.pem());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let key = provider.key_provider.load_private_key(key).unwrap();
        // Unlike a single certificate, this may have another key than its own.
        let shown = CertifiedKey::new(vec![made.der().clone()], key);
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(shown)));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (remember, handler): (_, Arc<Handler>) = (Arc::clone(&seen), Arc::new(Box::new(handler)));
        let router = Router::new().fallback(move |request: Request| {
            let (remember, handler) = (Arc::clone(&remember), Arc::clone(&handler));
            async move { answer(request, &remember, &handler).await }
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shutdown = CancellationToken::new();
        tokio::spawn(serve(router, listener, Arc::new(tls), shutdown.clone()));
        Self { port, bundle, seen, _shutdown: shutdown.drop_guard() }
    }

    /// A webhook at a path of this server, for everything, with what `with` says instead.
    fn hook(&self, name: &str, with: Value) -> Value {
        let mut hook = json!({
            "name": format!("{name}.example.com"), "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"url": format!("https://127.0.0.1:{}/{name}", self.port), "caBundle": self.bundle},
            "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["configmaps", "pods", "widgets"]}],
        });
        for (field, value) in with.as_object().unwrap() {
            hook[field] = value.clone();
        }
        hook
    }

    fn requests(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }

    /// Who was asked what about which object.
    fn brief(&self) -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let line = |(path, request): (String, Value)| {
            let sub = request["subResource"].as_str().map(|sub| format!("/{sub}")).unwrap_or_default();
            let resource = text(&request["resource"]["resource"]);
            format!("{path} {} {resource}{sub} {}", text(&request["operation"]), text(&request["name"]))
        };
        self.requests().into_iter().map(line).collect()
    }
}

async fn answer(request: Request, seen: &Mutex<Vec<(String, Value)>>, handler: &Handler) -> Response<Body> {
    let path = request.uri().path().trim_start_matches('/').to_owned();
    assert_eq!(request.uri().query(), Some("timeout=10s"));
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(review["kind"], "AdmissionReview");
    let question = &review["request"];
    seen.lock().unwrap().push((path.clone(), question.clone()));
    match handler(&path, question) {
        Say::Response(mut response) => {
            response["uid"] = question["uid"].clone();
            let review =
                json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response});
            review.to_string().into_response()
        }
        Say::Code(code, text) => (StatusCode::from_u16(code).unwrap(), text).into_response(),
        Say::Nothing => std::future::pending().await,
    }
}

async fn configure(api: &Api, kind: &str, name: &str, hooks: &[Value]) {
    let path = format!("{CONFIGURATIONS}/{kind}webhookconfigurations");
    api.ok("POST", &path, json!({"metadata": {"name": name}, "webhooks": hooks})).await;
}

fn message(reply: &Reply) -> String {
    reply.json()["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn the_object_is_changed_then_checked_then_shown_to_those_who_may_refuse() {
    let hooks = Hooks::new(|path, request| match path {
        "first" => change(&json!([{"op": "add", "path": "/data", "value": {"by": "first"}}])),
        "second" => change(&json!([{"op": "replace", "path": "/data/by", "value": "second"}])),
        _ if request["object"]["data"]["by"] == "second" => {
            Say::Response(json!({"allowed": true, "warnings": ["mind the gap"]}))
        }
        _ => no("not mutated"),
    })
    .await;
    let api = Api::new();
    configure(&api, "mutating", "b", &[hooks.hook("second", json!({}))]).await;
    configure(&api, "mutating", "a", &[hooks.hook("first", json!({}))]).await;
    configure(&api, "validating", "c", &[hooks.hook("last", json!({}))]).await;
    assert_eq!(hooks.brief(), [""; 0], "nobody is asked about configurations");
    let reply = api.call("POST", &format!("{MAPS}?fieldManager=me"), map("a")).await;
    assert_eq!(reply.code, 201, "{}", reply.text);
    assert_eq!(reply.headers["warning"], "299 - \"mind the gap\"");
    assert_eq!(reply.json()["data"], json!({"by": "second"}));
    let requests = hooks.requests();
    assert_eq!(
        requests.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(),
        ["first", "second", "last"]
    );
    let (_, first) = &requests[0];
    let expected = json!({
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "requestResource": {"group": "", "version": "v1", "resource": "configmaps"},
        "name": "a", "namespace": "default", "operation": "CREATE", "oldObject": null, "dryRun": false,
        "userInfo": {"username": "system:apiserver", "groups": ["system:masters", "system:authenticated"]},
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"},
    });
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(first[field], *value, "{field}");
    }
    assert_eq!(first["object"]["metadata"]["uid"], Value::Null, "it has no identity yet");
    assert_ne!(requests[2].1["object"]["metadata"]["uid"], Value::Null);
    // What was made of it is checked like anything else.
    let wrong = Hooks::new(|_, _| change(&json!([{"op": "remove", "path": "/spec/containers"}]))).await;
    configure(
        &api,
        "mutating",
        "z",
        &[wrong.hook(
            "wrong",
            json!({"rules": [
        {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]}),
        )],
    )
    .await;
    let reply = api.call("POST", PODS, pod("p")).await;
    assert_eq!(reply.code, 422, "{}", reply.text);
}

#[tokio::test]
async fn refusals_and_failures_are_told_in_the_words_of_a_real_server() {
    let hooks = Hooks::new(|path, _| match path {
        "no" => no("not today"),
        "silent" => Say::Response(json!({"allowed": false})),
        "broken" => Say::Code(500, "oops"),
        "missing" => Say::Code(404, ""),
        "status" => {
            Say::Code(403, "{\"kind\":\"Status\",\"status\":\"Failure\",\"message\":\"who are you\"}")
        }
        "garbage" => Say::Code(200, "not json"),
        "absent" => Say::Code(200, "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\"}"),
        _ => change(&json!([{"op": "test", "path": "/nothing", "value": 1}])),
    })
    .await;
    let api = Api::new();
    let unreachable = json!({"clientConfig": {"url": "https://127.0.0.1:1/x", "caBundle": hooks.bundle}});
    let stranger = json!({"clientConfig": {"url": format!("https://127.0.0.1:{}/x", hooks.port)}});
    let service = |name: &str, port: u16| json!({"clientConfig": {"service": {"name": name, "namespace": "default", "port": port}, "caBundle": hooks.bundle}});
    api.ok(
        "POST",
        "/api/v1/namespaces/default/services",
        json!({"metadata": {"name": "hooks"},
        "spec": {"selector": {"app": "hooks"}, "ports": [{"port": 443, "targetPort": 9443}]}}),
    )
    .await;
    let failed = |why: &str| {
        format!(
            "Internal error occurred: failed calling webhook \"x.example.com\": failed to call webhook: {why}"
        )
    };
    let post = |url: &str, why: &str| failed(&format!("Post \"https://{url}?timeout=10s\": {why}"));
    let local = format!("127.0.0.1:{}/x", hooks.port);
    for (hook, code, expected) in [
        (hooks.hook("no", json!({})), 403, "admission webhook \"no.example.com\" denied the request: not today".to_owned()),
        (hooks.hook("silent", json!({})), 400, "admission webhook \"silent.example.com\" denied the request without explanation".to_owned()),
        (hooks.hook("x", unreachable), 500, post("127.0.0.1:1/x", "dial tcp 127.0.0.1:1: connect: connection refused")),
        (hooks.hook("x", stranger), 500, post(&local, "tls: failed to verify certificate: x509: certificate signed by unknown authority")),
        (hooks.hook("x", service("none", 443)), 500, post("none.default.svc:443/", "service \"none\" not found")),
        (hooks.hook("x", service("hooks", 444)), 500, post("hooks.default.svc:444/", "no service port 444 found for service \"hooks\"")),
        (hooks.hook("x", service("hooks", 443)), 500, post("hooks.default.svc:443/", "no endpoints available for service \"hooks\"")),
        (hooks.hook("broken", json!({})), 500, "Internal error occurred: failed calling webhook \"broken.example.com\": failed to call webhook: an error on the server (\"oops\") has prevented the request from succeeding".to_owned()),
        (hooks.hook("missing", json!({})), 500, "Internal error occurred: failed calling webhook \"missing.example.com\": failed to call webhook: the server could not find the requested resource".to_owned()),
        (hooks.hook("status", json!({})), 500, "Internal error occurred: failed calling webhook \"status.example.com\": failed to call webhook: who are you".to_owned()),
        (hooks.hook("absent", json!({})), 500, "Internal error occurred: failed calling webhook \"absent.example.com\": received invalid webhook response: webhook response was absent".to_owned()),
        (hooks.hook("patch", json!({})), 500, "Internal error occurred: failed calling webhook \"patch.example.com\": received invalid webhook response: validating webhook may not return response.patch".to_owned()),
        (hooks.hook("x", json!({"admissionReviewVersions": ["v1beta1", "v7"], "clientConfig": {"url": format!("https://127.0.0.1:{}/no", hooks.port), "caBundle": hooks.bundle}})), 403, "admission webhook \"x.example.com\" denied the request: not today".to_owned()),
    ] {
        let path = format!("{CONFIGURATIONS}/validatingwebhookconfigurations");
        api.ok("POST", &path, json!({"metadata": {"name": "one"}, "webhooks": [hook]})).await;
        let reply = api.call("POST", MAPS, map("a")).await;
        assert_eq!((reply.code, message(&reply)), (code, expected), "{hook}");
        // Failures can be ignored, refusals cannot.
        let mut ignoring = hook.clone();
        ignoring["failurePolicy"] = json!("Ignore");
        api.ok("MERGE", &format!("{path}/one"), json!({"webhooks": [ignoring]})).await;
        let reply = api.call("POST", &format!("{MAPS}?dryRun=All"), map("a")).await;
        assert_eq!(reply.code, if code == 500 { 201 } else { code }, "{hook} {}", reply.text);
        api.ok("DELETE", &format!("{path}/one"), Value::Null).await;
    }
    assert_eq!(api.call("POST", MAPS, map("a")).await.code, 201, "nobody is asked any more");
}

/// What a write is answered if the webhook shows this certificate and is known by that bundle.
async fn shown(params: CertificateParams, bundle: Option<&str>) -> String {
    let key = KeyPair::generate().unwrap();
    let made = params.self_signed(&key).unwrap();
    said(&Hooks::with(&made, &key, |_, _| no("reached")).await, bundle).await
}

async fn said(hooks: &Hooks, bundle: Option<&str>) -> String {
    let api = Api::new();
    let url = format!("https://127.0.0.1:{}/x", hooks.port);
    let client = json!({"clientConfig": {"url": url, "caBundle": bundle.unwrap_or(&hooks.bundle)}});
    configure(&api, "validating", "one", &[hooks.hook("x", client)]).await;
    let said = message(&api.call("POST", MAPS, map("a")).await);
    said.rsplit(": ").next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_certificate_that_is_its_own_authority_is_believed_as_go_does() {
    let named = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let sans = CertificateParams::new(names).unwrap().subject_alt_names;
        changed(authority(), |params| params.subject_alt_names = sans)
    };
    let purposes = |purpose| changed(authority(), |params| params.extended_key_usages = vec![purpose]);
    let over = changed(authority(), |params| params.not_after = date_time_ymd(2001, 1, 1));
    let coming = changed(authority(), |params| params.not_before = date_time_ymd(4000, 1, 1));
    for (what, params, expected) in [
        ("an authority", authority(), "reached"),
        ("no authority", certificate(), "reached"),
        ("for servers", purposes(ExtendedKeyUsagePurpose::ServerAuth), "reached"),
        ("for anything", purposes(ExtendedKeyUsagePurpose::Any), "reached"),
        (
            "for clients",
            purposes(ExtendedKeyUsagePurpose::ClientAuth),
            "certificate specifies an incompatible key usage",
        ),
        (
            "another name",
            named(&["other.example.com"]),
            "certificate is not valid for any names, but wanted to match 127.0.0.1",
        ),
        ("no name", named(&[]), "certificate is not valid for any names, but wanted to match 127.0.0.1"),
        ("expired", over, "certificate has expired or is not yet valid"),
        ("not yet valid", coming, "certificate has expired or is not yet valid"),
    ] {
        assert_eq!(shown(params, None).await, expected, "{what}");
    }
}

#[tokio::test]
async fn an_authority_that_is_not_in_the_bundle_is_refused() {
    // It has the same name as the one in the bundle.
    let other = authority().self_signed(&KeyPair::generate().unwrap()).unwrap();
    let said = shown(authority(), Some(&STANDARD.encode(other.pem()))).await;
    assert!(said.starts_with("certificate signed by unknown authority"), "{said}");
}

#[tokio::test]
async fn the_certificate_of_the_bundle_is_not_enough_without_its_key() {
    let made = authority().self_signed(&KeyPair::generate().unwrap()).unwrap();
    let stolen = Hooks::with(&made, &KeyPair::generate().unwrap(), |_, _| no("reached")).await;
    let said = said(&stolen, None).await;
    assert!(said.contains("certificate signed by unknown authority"), "{said}");
}

#[tokio::test]
async fn a_service_leads_to_its_pod_on_this_machine() {
    let hooks = Hooks::new(|_, _| no("found")).await;
    let api = Api::new();
    api.ok(
        "POST",
        "/api/v1/namespaces/default/services",
        json!({"metadata": {"name": "hooks"},
        "spec": {"selector": {"app": "hooks"}, "ports": [{"port": 443, "targetPort": "https"}]}}),
    )
    .await;
    let mut server = pod("server");
    server["metadata"]["labels"] = json!({"app": "hooks"});
    server["spec"]["containers"][0]["ports"] = json!([{"name": "https", "containerPort": hooks.port}]);
    api.ok("POST", PODS, server).await;
    api.ok("MERGE", &format!("{PODS}/server/status"), json!({"status": {"phase": "Running"}})).await;
    let client = json!({"clientConfig": {"service": {"name": "hooks", "namespace": "default", "path": "/path"}, "caBundle": hooks.bundle}});
    configure(&api, "validating", "one", &[hooks.hook("x", client)]).await;
    let reply = api.call("POST", MAPS, map("a")).await;
    assert_eq!(message(&reply), "admission webhook \"x.example.com\" denied the request: found");
    assert_eq!(hooks.brief(), ["path CREATE configmaps a"]);
}

#[tokio::test]
async fn every_way_to_write_is_asked_about() {
    let hooks = Hooks::new(|_, _| yes()).await;
    let api = Api::new();
    api.define_widgets().await;
    let everything = json!({"rules": [{"operations": ["*"], "apiGroups": ["", "example.com"], "apiVersions": ["v1"], "resources": ["*/*"]}]});
    configure(&api, "validating", "one", &[hooks.hook("v", everything.clone())]).await;
    api.ok("POST", WIDGETS, widget("w")).await;
    let one = format!("{WIDGETS}/w");
    api.ok("MERGE", &one, json!({"spec": {"image": "b"}})).await;
    api.ok("MERGE", &format!("{one}/status"), json!({"status": {"phase": "x"}})).await;
    api.ok("MERGE", &format!("{one}/scale"), json!({"spec": {"replicas": 3}})).await;
    let stored = api.ok("GET", &one, Value::Null).await;
    api.ok("PUT", &one, stored).await;
    api.ok("DELETE", &one, Value::Null).await;
    let requests = hooks.requests();
    *hooks.seen.lock().unwrap() = requests.clone();
    assert_eq!(
        hooks.brief(),
        [
            "v CREATE widgets w",
            "v UPDATE widgets w",
            "v UPDATE widgets/status w",
            "v UPDATE widgets/scale w",
            "v UPDATE widgets w",
            "v DELETE widgets w"
        ]
    );
    assert_eq!(requests[1].1["oldObject"]["spec"]["image"], "a");
    assert_eq!(requests[1].1["object"]["spec"]["image"], "b");
    assert_eq!(requests[1].1["options"]["kind"], "PatchOptions");
    assert_eq!(requests[3].1["kind"], json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}));
    assert_eq!(requests[3].1["object"]["spec"]["replicas"], 3);
    assert_eq!(requests[5].1["object"], Value::Null);
    assert_eq!(requests[5].1["oldObject"]["spec"]["replicas"], 3);
    assert_eq!(requests[5].1["options"]["kind"], "DeleteOptions");
    api.ok("POST", PODS, pod("p")).await;
    let target = json!({"metadata": {"name": "p"}, "target": {"name": "n", "kind": "Node"}});
    api.ok("POST", &format!("{PODS}/p/binding"), target).await;
    api.ok("POST", &format!("{PODS}/p/eviction"), json!({"metadata": {"name": "p"}})).await;
    api.ok("POST", MAPS, map("a")).await;
    api.ok("POST", MAPS, map("b")).await;
    api.ok("DELETE", MAPS, Value::Null).await;
    let brief = hooks.brief();
    assert_eq!(brief[..3], ["v CREATE pods p", "v CREATE pods/binding p", "v CREATE pods/eviction p"]);
    assert!(
        brief.contains(&"v DELETE configmaps a".to_owned())
            && brief.contains(&"v DELETE configmaps b".to_owned()),
        "{brief:?}"
    );
}

#[tokio::test]
async fn what_is_refused_stays_as_it_was() {
    let hooks =
        Hooks::new(|_, request| if request["operation"] == "CREATE" { yes() } else { no("frozen") }).await;
    let api = Api::new();
    configure(&api, "validating", "one", &[hooks.hook("v", json!({}))]).await;
    let before = api.ok("POST", MAPS, map("a")).await;
    let one = format!("{MAPS}/a");
    for (method, path, body) in [
        ("MERGE", one.as_str(), json!({"data": {"x": "y"}})),
        ("PUT", &one, map("a")),
        ("DELETE", &one, Value::Null),
        ("DELETE", MAPS, Value::Null),
    ] {
        let reply = api.call(method, path, body).await;
        assert_eq!(
            (reply.code, message(&reply).as_str()),
            (403, "admission webhook \"v.example.com\" denied the request: frozen"),
            "{method} {path}"
        );
    }
    assert_eq!(api.ok("GET", &one, Value::Null).await, before);
}

#[tokio::test]
async fn selectors_and_conditions_decide_who_is_asked() {
    let hooks = Hooks::new(|_, _| no("asked")).await;
    let api = Api::new();
    api.ok(
        "POST",
        "/api/v1/namespaces",
        json!({"metadata": {"name": "strict", "labels": {"strict": "yes"}}}),
    )
    .await;
    let strict = "/api/v1/namespaces/strict/configmaps";
    let mut labelled = map("a");
    labelled["metadata"]["labels"] = json!({"check": "me"});
    for (with, path, body, asked) in [
        (json!({"namespaceSelector": {"matchLabels": {"strict": "yes"}}}), strict, map("a"), true),
        (json!({"namespaceSelector": {"matchLabels": {"strict": "yes"}}}), MAPS, map("a"), false),
        (json!({"objectSelector": {"matchLabels": {"check": "me"}}}), MAPS, labelled.clone(), true),
        (json!({"objectSelector": {"matchLabels": {"check": "me"}}}), MAPS, map("a"), false),
        (
            json!({"matchConditions": [{"name": "a", "expression": "object.metadata.name == 'a'"}]}),
            MAPS,
            map("a"),
            true,
        ),
        (
            json!({"matchConditions": [{"name": "a", "expression": "object.metadata.name != 'a'"}]}),
            MAPS,
            map("a"),
            false,
        ),
        (
            json!({"matchConditions": [{"name": "u", "expression": "!('system:masters' in request.userInfo.groups)"}]}),
            MAPS,
            map("a"),
            false,
        ),
        (
            json!({"rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v2"], "resources": ["*"]}]}),
            MAPS,
            map("a"),
            false,
        ),
        (
            json!({"rules": [{"operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["*"]}]}),
            MAPS,
            map("a"),
            false,
        ),
    ] {
        let path_of_one = format!("{CONFIGURATIONS}/validatingwebhookconfigurations");
        configure(&api, "validating", "one", &[hooks.hook("v", with.clone())]).await;
        let reply = api.call("POST", &format!("{path}?dryRun=All"), body).await;
        assert_eq!(reply.code, if asked { 403 } else { 201 }, "{with} {}", reply.text);
        api.ok("DELETE", &format!("{path_of_one}/one"), Value::Null).await;
    }
}

#[tokio::test]
async fn whoever_does_something_in_a_dry_run_is_not_taken() {
    let hooks = Hooks::new(|_, _| no("asked")).await;
    let api = Api::new();
    let webhooks = [hooks.hook("v", json!({"sideEffects": "Some"}))];
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let body = json!({"metadata": {"name": "one"}, "webhooks": webhooks});
    let reply = api.call("POST", path, body).await;
    assert_eq!(reply.code, 422);
    assert!(
        message(&reply).contains("webhooks[0].sideEffects: Unsupported value: \"Some\""),
        "{}",
        reply.text
    );
    assert_eq!(api.call("POST", &format!("{MAPS}?dryRun=All"), map("a")).await.code, 201);
    assert_eq!(hooks.brief(), [""; 0]);
}

#[tokio::test]
async fn whoever_asked_for_it_sees_later_changes_once_more() {
    let hooks = Hooks::new(|path, request| {
        let count = request["object"]["data"].as_object().map_or(0, serde_json::Map::len);
        let operation = if count == 0 {
            json!({"op": "add", "path": "/data", "value": {path: "x"}})
        } else {
            json!({"op": "add", "path": format!("/data/{path}{count}"), "value": "x"})
        };
        change(&json!([operation]))
    })
    .await;
    let api = Api::new();
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    let all = [hooks.hook("a", again.clone()), hooks.hook("b", json!({})), hooks.hook("c", again)];
    configure(&api, "mutating", "m", &all).await;
    let stored = api.ok("POST", MAPS, map("a")).await;
    let asked: Vec<String> = hooks.requests().into_iter().map(|(path, _)| path).collect();
    assert_eq!(asked, ["a", "b", "c", "a"]);
    assert_eq!(stored["data"], json!({"a": "x", "b1": "x", "c2": "x", "a3": "x"}));
}

/// The object changes while a webhook thinks: it is asked again about what would be written now.
#[tokio::test]
async fn an_answer_counts_only_for_what_it_was_about() {
    let api = Arc::new(Api::new());
    api.ok("POST", MAPS, map("a")).await;
    let (meddler, once) = (api.router.clone(), Arc::new(Mutex::new(true)));
    let hooks = Hooks::new(move |_, _| {
        if std::mem::take(&mut *once.lock().unwrap()) {
            let router = meddler.clone();
            let send = async move {
                let request = http::Request::patch(format!("{MAPS}/a"))
                    .header("content-type", "application/merge-patch+json")
                    .header("impersonate-user", "meddler")
                    .header("impersonate-group", "system:masters")
                    .body(Body::from(json!({"data": {"meddler": "was here"}}).to_string()))
                    .unwrap();
                assert_eq!(tower::ServiceExt::oneshot(router, request).await.unwrap().status(), 200);
            };
            std::thread::spawn(|| tokio::runtime::Runtime::new().unwrap().block_on(send)).join().unwrap();
        }
        yes()
    })
    .await;
    let others =
        json!({"matchConditions": [{"name": "o", "expression": "request.userInfo.username != 'meddler'"}]});
    configure(&api, "validating", "one", &[hooks.hook("v", others)]).await;
    let after = api.ok("MERGE", &format!("{MAPS}/a"), json!({"data": {"mine": "too"}})).await;
    assert_eq!(after["data"], json!({"meddler": "was here", "mine": "too"}));
    let mine: Vec<Value> =
        hooks.requests().into_iter().map(|(_, request)| request["oldObject"]["data"].clone()).collect();
    assert_eq!(mine, [Value::Null, json!({"meddler": "was here"})]);
}

#[tokio::test]
async fn a_webhook_that_hangs_holds_up_its_request_and_nobody_else() {
    let hooks = Hooks::new(|_, _| Say::Nothing).await;
    let api = Api::new();
    configure(
        &api,
        "validating",
        "one",
        &[hooks.hook(
            "v",
            json!({"rules": [
        {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]}),
        )],
    )
    .await;
    let waiting = api.call("POST", MAPS, map("a"));
    let others = async {
        for index in 0..20 {
            api.ok("POST", PODS, pod(&format!("p{index}"))).await;
        }
        while hooks.seen.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        // From here on whoever waits for a limit finds it reached.
        tokio::time::pause();
    };
    let (reply, ()) = tokio::join!(waiting, others);
    assert_eq!(reply.code, 500);
    let expected =
        format!("Post \"https://127.0.0.1:{}/v?timeout=10s\": context deadline exceeded", hooks.port);
    assert!(message(&reply).ends_with(&expected), "{}", message(&reply));
}
