//! Bodies that are large, slow, or wrong in many places.

use axum::body::Body;
use bytes::Bytes;
use futures::{StreamExt, stream};
use http::Request;
use serde_json::{Value, json};
use std::convert::Infallible;

use crate::harness::{Api, PODS, pod};

/// As many empty containers, each of which lacks a name and an image.
fn containers(count: usize) -> Value {
    json!({"metadata": {"name": "p"}, "spec": {"containers": vec![json!({}); count]}})
}

/// A real server lists every error, in an answer that is many times as long as the body.
#[tokio::test]
async fn an_answer_lists_no_more_errors_than_anybody_reads() {
    let api = Api::new();
    let reply = api.call("POST", PODS, containers(100_000)).await;
    assert_eq!(reply.code, 422);
    assert!(reply.text.len() < 1 << 20, "{} bytes", reply.text.len());
    let status = reply.json();
    let causes = status["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 1001);
    assert_eq!(causes[0]["field"], "spec.containers[0].name");
    let last = "the server lists the first 1000 errors: correct these to see the others";
    assert_eq!(causes[1000], json!({"reason": "FieldValueInvalid", "field": "<more>", "message": last}));
    let message = status["message"].as_str().unwrap();
    assert!(message.ends_with(&format!("<more>: {last}]")), "{}", &message[message.len() - 200..]);
    // What fits is told as ever.
    let reply = api.call("POST", PODS, containers(100)).await;
    // Without a name, without an image, and all but one with the name of another.
    assert_eq!(reply.json()["details"]["causes"].as_array().unwrap().len(), 299);
}

/// Each of these errors quotes all owners.
#[tokio::test]
async fn errors_that_quote_the_body_are_few() {
    let api = Api::new();
    let owner = json!({"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u", "controller": true});
    let mut object = pod("p");
    object["metadata"]["ownerReferences"] = vec![owner; 20_000].into();
    let reply = api.call("POST", PODS, object).await;
    assert_eq!(reply.code, 422);
    assert!(reply.text.len() < 8 << 20, "{} bytes", reply.text.len());
}

/// Before, the headers of the answer overflowed, which ended the connection.
#[tokio::test]
async fn warnings_are_no_more_than_headers_hold() {
    let api = Api::new();
    let mut object = pod("p");
    object["spec"]["containers"][0]["ports"] = vec![json!({"containerPort": 80}); 60_000].into();
    let reply = api.call("POST", PODS, object).await;
    assert_eq!(reply.code, 201, "{}", reply.text);
    let told: usize = reply.headers.get_all("warning").iter().map(|value| value.len()).sum();
    assert!((4096..8192).contains(&told), "{told} bytes");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_is_given_up() {
    let api = Api::new();
    let begun = Bytes::from_static(b"{\"metadata\": {");
    for (method, path, media) in [
        ("POST", PODS.to_owned(), "application/json"),
        ("PUT", format!("{PODS}/p"), "application/json"),
        ("PATCH", format!("{PODS}/p"), "application/merge-patch+json"),
        ("PATCH", format!("{PODS}/p?fieldManager=me"), "application/apply-patch+yaml"),
        ("DELETE", format!("{PODS}/p"), "application/json"),
    ] {
        let first = stream::iter([Ok::<_, Infallible>(begun.clone())]);
        let body = Body::from_stream(first.chain(stream::pending()));
        let request = Request::builder().method(method).uri(&path).header("content-type", media);
        let reply = api.send(request.body(body).unwrap()).await;
        assert_eq!(reply.code, 408, "{method} {path}: {}", reply.text);
        let status = reply.json();
        assert_eq!(status["reason"], "Timeout");
        assert_eq!(status["message"], "the body of the request was not sent within 60 seconds");
    }
}
