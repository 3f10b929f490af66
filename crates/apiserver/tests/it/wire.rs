//! Other forms than JSON: protobuf, YAML, indented, and what is not served at all.

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use serde_json::json;
use tower::ServiceExt;

use crate::harness::{Api, MAPS, PODS, WIDGETS, map, pod, widget};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A field of a message: a number and bytes shorter than 128.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

fn envelope(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let kind = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".as_slice(), &field(1, &kind), &field(2, message)].concat()
}

/// A message with a name in its metadata.
fn named(name: &str) -> Vec<u8> {
    field(1, &field(1, name.as_bytes()))
}

struct Answer {
    code: u16,
    content: String,
    bytes: Vec<u8>,
}

impl Answer {
    fn has(&self, part: &[u8]) -> bool {
        self.bytes.windows(part.len()).any(|window| window == part)
    }
}

async fn send(api: &Api, method: &str, path: &str, accept: &str, body: Option<(&str, Vec<u8>)>) -> Answer {
    let mut request = Request::builder().method(method).uri(path).header("accept", accept);
    let mut bytes = Vec::new();
    if let Some((media, content)) = body {
        request = request.header("content-type", media);
        bytes = content;
    }
    let response = api.router.clone().oneshot(request.body(Body::from(bytes)).unwrap()).await.unwrap();
    let content =
        response.headers().get("content-type").map_or("", |value| value.to_str().unwrap()).to_owned();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes().to_vec();
    Answer { code, content, bytes }
}

#[tokio::test(start_paused = true)]
async fn objects_come_and_go_as_protobuf() {
    let api = Api::new();
    let message = [named("a"), field(2, &[field(1, b"key"), field(2, b"value")].concat())].concat();
    let body = envelope("v1", "ConfigMap", &message);
    let answer = send(&api, "POST", MAPS, PROTOBUF, Some((PROTOBUF, body.clone()))).await;
    assert_eq!((answer.code, answer.content.as_str()), (201, PROTOBUF));
    assert!(answer.bytes.starts_with(b"k8s\0\n\x0f\n\x02v1\x12\tConfigMap\x12"));
    assert!(answer.has(b"\x12\x0c\n\x03key\x12\x05value"));
    let stored = api.ok("GET", &format!("{MAPS}/a"), json!(null)).await;
    assert_eq!(stored["data"], json!({"key": "value"}));

    let again = send(&api, "POST", MAPS, PROTOBUF, Some((PROTOBUF, body))).await;
    assert_eq!((again.code, again.content.as_str()), (409, PROTOBUF));
    assert!(again.has(b"Status") && again.has(b"configmaps \"a\" already exists"));

    // What was answered can be sent back.
    let same =
        send(&api, "PUT", &format!("{MAPS}/a"), "application/json", Some((PROTOBUF, answer.bytes))).await;
    assert_eq!((same.code, same.content.as_str()), (200, "application/json"));

    let list = send(&api, "GET", MAPS, PROTOBUF, None).await;
    assert!(list.has(b"ConfigMapList") && list.has(b"value"));
    let only = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let list = send(&api, "GET", MAPS, only, None).await;
    assert!(list.has(b"PartialObjectMetadataList") && !list.has(b"value"));

    let options = envelope("v1", "DeleteOptions", &field(2, &field(1, b"another")));
    let refused = send(&api, "DELETE", &format!("{MAPS}/a"), PROTOBUF, Some((PROTOBUF, options))).await;
    assert_eq!(refused.code, 409, "the UID in the options is another");
    let gone = send(&api, "DELETE", &format!("{MAPS}/a"), PROTOBUF, None).await;
    assert!(gone.code == 200 && gone.has(b"Success"));
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_framed() {
    let api = Api::new();
    api.ok("POST", MAPS, map("a")).await;
    let path = format!("{MAPS}?watch=1&timeoutSeconds=1&allowWatchBookmarks=true");
    let answer = send(&api, "GET", &path, PROTOBUF, None).await;
    assert_eq!(answer.content, "application/vnd.kubernetes.protobuf;stream=watch");
    let mut rest = answer.bytes.as_slice();
    let mut kinds = Vec::new();
    while let Some((length, tail)) = rest.split_first_chunk::<4>() {
        let (event, tail) = tail.split_at(u32::from_be_bytes(*length) as usize);
        let kind = &event[2..2 + event[1] as usize];
        kinds.push(String::from_utf8(kind.to_vec()).unwrap());
        assert!(event.windows(4).any(|window| window == b"k8s\0"));
        rest = tail;
    }
    assert_eq!(kinds, ["ADDED", "BOOKMARK"]);
    let wrong = format!("{MAPS}?watch=1&resourceVersionMatch=Exact");
    let wrong = send(&api, "GET", &wrong, PROTOBUF, None).await;
    assert_eq!((wrong.code, wrong.content.as_str()), (422, PROTOBUF));
}

#[tokio::test(start_paused = true)]
async fn custom_resources_have_no_messages() {
    let api = Api::new();
    api.define_widgets().await;
    api.ok("POST", WIDGETS, widget("w")).await;
    let path = format!("{WIDGETS}/w");
    let refused = send(&api, "GET", &path, PROTOBUF, None).await;
    assert_eq!((refused.code, refused.content.as_str()), (406, PROTOBUF));
    let both = format!("{PROTOBUF},application/json");
    assert_eq!(send(&api, "GET", &path, &both, None).await.content, "application/json");
    let only = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let metadata = send(&api, "GET", &path, only, None).await;
    assert!(metadata.code == 200 && metadata.has(b"PartialObjectMetadata"));
    let body = envelope("example.com/v1", "Widget", &named("x"));
    assert_eq!(send(&api, "POST", WIDGETS, &both, Some((PROTOBUF, body))).await.code, 415);
}

#[tokio::test(start_paused = true)]
async fn broken_protobuf_is_refused_in_the_words_of_a_real_server() {
    let api = Api::new();
    for (body, message) in [
        (
            b"hello".to_vec(),
            "the object provided is unrecognized (must be of type ConfigMap): provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] (68656c6c6f)",
        ),
        (Vec::new(), "the object provided is unrecognized (must be of type ConfigMap): empty data (<empty>)"),
        (
            b"k8s\0\xff".to_vec(),
            "the object provided is unrecognized (must be of type ConfigMap): unexpected EOF (6b387300ff)",
        ),
        (
            envelope("v1", "ConfigMap", b"\x12\x7f"),
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: unexpected EOF",
        ),
    ] {
        let answer = send(&api, "POST", MAPS, "application/json", Some((PROTOBUF, body))).await;
        let status: serde_json::Value = serde_json::from_slice(&answer.bytes).unwrap();
        assert_eq!((answer.code, &status["message"]), (400, &json!(message)));
    }
}

#[tokio::test(start_paused = true)]
async fn pages_and_actions_have_messages_too() {
    let api = Api::new();
    for path in ["/api", "/apis", "/apis/apps", "/apis/apps/v1", "/api/v1"] {
        let answer = send(&api, "GET", path, PROTOBUF, None).await;
        assert_eq!((answer.code, answer.content.as_str()), (200, PROTOBUF), "{path}");
    }
    assert_eq!(send(&api, "GET", "/version", PROTOBUF, None).await.code, 406);
    api.ok("POST", PODS, pod("p")).await;
    let binding = [named("p"), field(2, &field(3, b"node"))].concat();
    let path = format!("{PODS}/p/binding");
    let answer =
        send(&api, "POST", &path, PROTOBUF, Some((PROTOBUF, envelope("v1", "Binding", &binding)))).await;
    assert!(answer.code == 201 && answer.has(b"Success"));
    assert_eq!(api.ok("GET", &format!("{PODS}/p"), json!(null)).await["spec"]["nodeName"], "node");
    // A review: spec.resourceAttributes with a verb and a resource.
    let attributes = [field(2, b"get"), field(5, b"pods")].concat();
    let review = field(2, &field(1, &attributes));
    let body = envelope("authorization.k8s.io/v1", "SelfSubjectAccessReview", &review);
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let answer = send(&api, "POST", path, PROTOBUF, Some((PROTOBUF, body))).await;
    assert!(answer.code == 201 && answer.has(b"SelfSubjectAccessReview"), "{}", answer.code);
}

#[tokio::test(start_paused = true)]
async fn yaml_and_indented_json_are_for_people() {
    let api = Api::new();
    api.ok("POST", MAPS, json!({"metadata": {"name": "a"}, "data": {"k": "yes"}})).await;
    let path = format!("{MAPS}/a");
    let yaml = send(&api, "GET", &path, "application/yaml", None).await;
    assert_eq!(yaml.content, "application/yaml");
    let text = String::from_utf8(yaml.bytes).unwrap();
    assert!(text.contains("kind: ConfigMap\n"), "{text}");
    let body = text.replace("  name: a", "  name: b").into_bytes();
    let created = send(
        &api,
        "POST",
        &format!("{MAPS}?dryRun=All"),
        "application/json",
        Some(("application/yaml", body)),
    )
    .await;
    assert_eq!(created.code, 500, "a resourceVersion is not for new objects");
    let pretty = send(&api, "GET", &format!("{path}?pretty=true"), "application/json", None).await;
    assert!(String::from_utf8(pretty.bytes).unwrap().contains("\n  \"data\": {\n    \"k\": \"yes\"\n  }"));
    for (accept, code) in [("application/cbor", 406), ("text/html,*/*", 200), ("application/yaml;q=0.1", 200)]
    {
        assert_eq!(send(&api, "GET", &path, accept, None).await.code, code, "{accept}");
    }
    assert_eq!(send(&api, "POST", MAPS, "*/*", Some(("text/plain", b"x".to_vec()))).await.code, 415);
}
