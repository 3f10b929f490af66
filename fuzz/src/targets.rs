//! Everything of the server that reads what a client sent, as functions of bytes. None may panic, hang or take memory
//! without bound, whatever the bytes are.
//!
//! Most go in where a client's bytes do, through the router, so that nothing between the decoder and the store is left
//! out. They write nothing (`dryRun`), so that each run is a function of its bytes.

use axum::Router;
use axum::body::Body;
use bytes::BytesMut;
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;
use trainyard_apiserver::Server;
use trainyard_apiserver::schema::Structural;
use trainyard_apiserver::streams::spdy::frame::{Decoder, Frame};
use trainyard_apiserver::streams::spdy::headers::Unpacker;

/// A request that carries the bytes in its body: method, path, type of the content.
type Sent = (&'static str, &'static str, &'static str, &'static str);

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const PODS: &str = "/api/v1/namespaces/default/pods?dryRun=All";
const POD: &str = "/api/v1/namespaces/default/pods/there?dryRun=All";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/there?dryRun=All";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets?dryRun=All&fieldValidation=Strict";
const WIDGET: &str = "/apis/example.com/v1/namespaces/default/widgets/there?dryRun=All";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All";
const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations?dryRun=All";

const BODIES: &[Sent] = &[
    ("json-pod", "POST", PODS, "application/json"),
    ("json-custom", "POST", WIDGETS, "application/json"),
    ("json-definition", "POST", CRDS, "application/json"),
    ("json-hook", "POST", HOOKS, "application/json"),
    ("json-status", "PUT", "/api/v1/namespaces/default/pods/there/status?dryRun=All", "application/json"),
    ("yaml-pod", "POST", PODS, "application/yaml"),
    ("protobuf-pod", "POST", PODS, PROTOBUF),
    ("protobuf-deployment", "PUT", DEPLOYMENT, PROTOBUF),
    ("protobuf-definition", "POST", CRDS, PROTOBUF),
    ("protobuf-delete-options", "DELETE", POD, PROTOBUF),
    ("json-delete-options", "DELETE", POD, "application/json"),
    ("json-patch", "PATCH", POD, "application/json-patch+json"),
    ("merge-patch", "PATCH", WIDGET, "application/merge-patch+json"),
    ("strategic-patch", "PATCH", DEPLOYMENT, "application/strategic-merge-patch+json"),
    (
        "apply",
        "PATCH",
        "/apis/apps/v1/namespaces/default/deployments/there?dryRun=All&fieldManager=f&force=true",
        "application/apply-patch+yaml",
    ),
    (
        "apply-custom",
        "PATCH",
        "/apis/example.com/v1/namespaces/default/widgets/there?dryRun=All&fieldManager=f&force=true",
        "application/apply-patch+yaml",
    ),
    ("review", "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", "application/json"),
    ("protobuf-review", "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", PROTOBUF),
    ("token-review", "POST", "/apis/authentication.k8s.io/v1/tokenreviews", "application/json"),
];

/// Targets whose bytes are not a body.
const OTHERS: &[&str] = &[
    "label-selector",
    "field-selector",
    "query",
    "path",
    "accept",
    "managed-fields",
    "cel-rule",
    "spdy-frames",
    "spdy-headers",
];

/// The names of all targets.
pub(super) fn names() -> Vec<&'static str> {
    BODIES.iter().map(|(name, ..)| *name).chain(OTHERS.iter().copied()).collect()
}

/// A server with something in it to be changed.
pub(super) struct World {
    _server: Server,
    router: Router,
}

impl World {
    /// Needs a tokio runtime.
    pub(super) async fn new() -> Self {
        let server = Server::open(Server::options()).expect("a server in memory");
        let router = server.router();
        let world = Self { _server: server, router };
        for (path, body) in [
            ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition()),
            ("/apis/example.com/v1/namespaces/default/widgets", widget()),
            ("/api/v1/namespaces/default/pods", pod()),
            ("/apis/apps/v1/namespaces/default/deployments", deployment()),
        ] {
            let request = Request::post(path).header("content-type", "application/json");
            let (code, text) =
                world.send(request.body(Body::from(body.to_string())).expect("a request")).await;
            assert!(code < 300, "{path}: {code} {text}");
        }
        world
    }

    async fn send(&self, request: Request<Body>) -> (u16, String) {
        let response = self.router.clone().oneshot(request).await.expect("infallible");
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        (code, String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Gives the bytes to a target.
    pub(super) async fn feed(&self, target: &str, bytes: &[u8]) {
        if let Some((_, method, path, media)) = BODIES.iter().find(|(name, ..)| *name == target) {
            let request = Request::builder().method(*method).uri(*path).header("content-type", *media);
            // The answer is encoded in the form of the question.
            let request = request.header("accept", format!("{media},application/json"));
            self.told(request.body(Body::from(bytes.to_vec()))).await;
            return;
        }
        let text = String::from_utf8_lossy(bytes);
        let get = |path: String| Request::get(path).body(Body::empty());
        match target {
            "label-selector" => {
                self.told(get(format!("/api/v1/pods?labelSelector={}", percent(bytes)))).await;
            }
            "field-selector" => {
                self.told(get(format!("/api/v1/pods?fieldSelector={}", percent(bytes)))).await;
            }
            "query" => {
                self.told(get(format!("/api/v1/namespaces/default/pods?{text}&timeoutSeconds=1"))).await
            }
            "path" => self.told(get(format!("/{text}"))).await,
            "accept" => {
                self.told(
                    Request::get("/api/v1/namespaces/default/pods")
                        .header("accept", bytes)
                        .body(Body::empty()),
                )
                .await;
            }
            "managed-fields" => {
                self.told(Request::put(POD).header("content-type", "application/json").body(owned(bytes)))
                    .await
            }
            "cel-rule" => rule(&text),
            "spdy-frames" => frames(bytes),
            "spdy-headers" => {
                let mut unpacker = Unpacker::default();
                for block in bytes.chunks(64) {
                    if unpacker.unpack(block).is_err() {
                        break;
                    }
                }
            }
            other => panic!("there is no target {other}; there are {:?}", names()),
        }
    }

    /// Sends what is a request at all. A server may refuse anything, but it must not break.
    async fn told(&self, request: Result<Request<Body>, http::Error>) {
        let Ok(request) = request else { return };
        // A watch goes on until its time is over; nobody here has so much time.
        if request.uri().query().is_some_and(|query| query.contains("watch") || query.contains("ollow")) {
            return;
        }
        let what = format!("{} {}", request.method(), request.uri());
        let (code, text) = self.send(request).await;
        // A configuration with fields that nobody declared is answered with 500, as by a real server; it is no mishap.
        assert!(code != 500 || !text.contains("InternalError"), "{what}: {text}");
    }
}

/// A pod whose fields have an owner that is described by the bytes.
fn owned(bytes: &[u8]) -> Body {
    let mut pod = pod();
    let fields: Value =
        serde_json::from_slice(bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(bytes)));
    pod["metadata"]["managedFields"] = json!([{
        "manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields,
    }]);
    Body::from(pod.to_string())
}

/// Compiles a rule and, if it is one, asks it about an object.
fn rule(text: &str) {
    let mut definition = definition();
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let Some(spec) = definition.pointer_mut(spec) else { return };
    spec["x-kubernetes-validations"] = json!([{"rule": text, "messageExpression": text}]);
    if let Ok(schema) = Structural::parse(&json!({"type": "object", "properties": {"spec": spec}})) {
        let _told = schema.validate(&widget(), Some(&widget()));
    }
}

/// Cuts the bytes into frames, as they would arrive.
fn frames(bytes: &[u8]) {
    let (mut decoder, mut unpacker) = (Decoder::default(), Unpacker::default());
    let mut buffer = BytesMut::new();
    for piece in bytes.chunks(7) {
        buffer.extend_from_slice(piece);
        loop {
            match decoder.decode(&mut buffer) {
                Ok(Some(Frame::SynStream { block, .. } | Frame::Headers { block, .. })) => {
                    if unpacker.unpack(&block).is_err() {
                        return;
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

fn percent(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("%{byte:02X}")).collect()
}

fn template() -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": {
        "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}], "env": [{"name": "A", "value": "1"}]}],
        "volumes": [{"name": "v", "emptyDir": {}}], "tolerations": [{"key": "k", "operator": "Exists"}]}})
}

fn pod() -> Value {
    let template = template();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "there", "labels": {"a": "b"}}, "spec": template["spec"]})
}

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "there"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template()}})
}

fn widget() -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "there"},
        "spec": {"size": 3, "parts": [{"name": "x", "n": 1}], "tags": ["a"], "any": {"deep": [1, {"er": null}]}}})
}

fn definition() -> Value {
    let part = json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}});
    let spec = json!({"type": "object", "properties": {
        "size": {"type": "integer", "minimum": 0, "default": 1},
        "when": {"type": "string", "format": "date-time"},
        "either": {"x-kubernetes-int-or-string": true},
        "parts": {"type": "array", "maxItems": 10, "items": part, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        "tags": {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 20}, "x-kubernetes-list-type": "set"},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }, "x-kubernetes-validations": [{"rule": "!has(self.size) || self.size < 100", "message": "too large"}]});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}]}})
}

/// Something sensible to begin with, for each target.
pub(super) fn seeds(target: &str) -> Vec<Vec<u8>> {
    let text = |value: Value| vec![value.to_string().into_bytes()];
    match target {
        "json-pod" | "yaml-pod" | "json-status" => text(pod()),
        "json-custom" | "apply-custom" => text(widget()),
        "json-definition" => text(definition()),
        "json-hook" => text(json!({"metadata": {"name": "h"}, "webhooks": [{"name": "a.b.c", "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/x"}, "matchConditions": [{"name": "m", "expression": "object.metadata.name == 'x'"}],
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}]}]})),
        "apply" => text(deployment()),
        "protobuf-pod" | "protobuf-deployment" | "protobuf-definition" | "protobuf-delete-options" | "protobuf-review" => envelopes(),
        "json-delete-options" => text(json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 3, "preconditions": {"uid": "x"}})),
        "json-patch" => text(json!([{"op": "add", "path": "/metadata/labels/x", "value": "y"}, {"op": "test", "path": "/spec/containers/0/name", "value": "c"},
            {"op": "move", "from": "/spec/volumes/0", "path": "/spec/volumes/-"}])),
        "merge-patch" => text(json!({"spec": {"size": null, "any": {"deep": 1}}})),
        "strategic-patch" => text(json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "j", "env": [{"name": "A", "$patch": "delete"}]}],
            "$setElementOrder/containers": [{"name": "c"}], "$retainKeys": ["containers"]}}}})),
        "review" => text(json!({"spec": {"user": "u", "groups": ["g"], "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "n"}}})),
        "token-review" => text(json!({"spec": {"token": "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJ4In0.AAAA"}})),
        "label-selector" => vec![b"a in (b,c),!d,e!=f,g>3".to_vec()],
        "field-selector" => vec![b"metadata.name!=a,status.phase=Running\\,x".to_vec()],
        "query" => vec![b"limit=3&resourceVersion=0&resourceVersionMatch=NotOlderThan&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ".to_vec()],
        "path" => vec![b"apis/apps/v1/namespaces/default/deployments/there/scale".to_vec(), b"openapi/v3/api/v1".to_vec()],
        "accept" => vec![
            b"application/json;as=Table;v=v1;g=meta.k8s.io,application/json;q=0.5".to_vec(),
            b"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1".to_vec(),
        ],
        "managed-fields" => text(json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}}}}})),
        "cel-rule" => [
            "self.parts.all(p, p.name.startsWith('x') && has(p.n) && p.n > 0) || self.tags.exists_one(t, t == 'a')",
            "self.?size.orValue(1) in [1, 2, 3] ? string(self.size).matches('^[0-9]+$') : self.when < timestamp('2026-01-01T00:00:00Z')",
            "{'a': 1}.map(k, k + 'b').size() == 1 && quantity('1Ki').isGreaterThan(quantity('1')) && oldSelf == self",
        ]
        .map(|rule| rule.as_bytes().to_vec())
        .to_vec(),
        "spdy-frames" => vec![vec![0x80, 3, 0, 1, 1, 0, 0, 10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 65]],
        "spdy-headers" => vec![vec![0x78, 0xbb, 0xe3, 0xc6, 0xa7, 0xc2, 0x62, 0x60, 0x80, 0, 0, 0, 0, 0xff, 0xff]],
        _ => vec![Vec::new()],
    }
}

/// The length of a few bytes, as protobuf writes it.
fn short(bytes: &[u8]) -> u8 {
    u8::try_from(bytes.len()).expect("fewer than 128 bytes")
}

/// Requests in protobuf as a client made them: a ConfigMap, a Pod and options of a deletion.
fn envelopes() -> Vec<Vec<u8>> {
    let unknown = |kind: &[u8], raw: &[u8]| {
        let type_meta = [&[0x0a, 2], b"v1".as_slice(), &[0x12, short(kind)], kind].concat();
        [
            b"k8s\0".as_slice(),
            &[0x0a, short(&type_meta)],
            &type_meta,
            &[0x12, short(raw)],
            raw,
            &[0x1a, 0, 0x22, 0],
        ]
        .concat()
    };
    let pod = [0x0a, 3, 0x0a, 1, b'a', 0x12, 8, 0x12, 6, 0x0a, 1, b'c', 0x12, 1, b'i'];
    vec![
        unknown(b"Pod", &pod),
        unknown(b"DeleteOptions", &[0x08, 5]),
        unknown(b"SelfSubjectAccessReview", &[0x12, 0]),
    ]
}
