//! Logs of pods: what is asked of their source, and what is refused before.

use axum::body::Body;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use http::Request;
use serde_json::{Value, json};
use std::io;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;
use tower::ServiceExt;
use trainyard_apiserver::Server;
use trainyard_apiserver::logs::{LogError, LogRequest, LogStream, PodLogs};

use crate::harness::{Api, PODS, Row, clock, pod};

const NULL: Value = Value::Null;

/// A source that remembers what it was asked and answers with what it is given.
#[derive(Default)]
struct Source {
    asked: Mutex<Vec<LogRequest>>,
    /// Chunks of the next log.
    next: Mutex<Option<Result<LogStream, LogError>>>,
}

impl Source {
    fn give(&self, log: Result<LogStream, LogError>) {
        *self.next.lock().unwrap() = Some(log);
    }

    fn last(&self) -> LogRequest {
        self.asked.lock().unwrap().last().cloned().expect("nothing was asked")
    }
}

impl PodLogs for Source {
    fn read(&self, request: LogRequest) -> BoxFuture<'static, Result<LogStream, LogError>> {
        self.asked.lock().unwrap().push(request);
        let log = self.next.lock().unwrap().take();
        async move { log.unwrap_or_else(|| Ok(text(["one\n", "two\n"]))) }.boxed()
    }
}

fn text<const N: usize>(chunks: [&'static str; N]) -> LogStream {
    stream::iter(chunks.map(|chunk| Ok(Bytes::from_static(chunk.as_bytes())))).boxed()
}

async fn api() -> (Api, Arc<Source>) {
    let source = Arc::new(Source::default());
    let logs: Arc<dyn PodLogs> = source.clone();
    let api = Api::with(Server::options().clock(clock()).pod_logs(logs));
    api.ok("POST", PODS, pod("one")).await;
    let mut two = pod("two");
    let container = |name: &str| json!({"name": name, "image": "i"});
    two["spec"]["containers"] = json!([container("a"), container("b")]);
    two["spec"]["initContainers"] = json!([container("prepare")]);
    api.ok("POST", PODS, two).await;
    (api, source)
}

/// Places a pod and reports on its containers, first to last init container, then the others.
async fn report(api: &Api, name: &str, states: Value, init: Value) {
    let path = format!("{PODS}/{name}");
    let binding = json!({"metadata": {"name": name}, "target": {"name": "n"}});
    api.call("POST", &format!("{path}/binding"), binding).await;
    let status = json!({"status": {"containerStatuses": states, "initContainerStatuses": init}});
    api.ok("MERGE", &format!("{path}/status"), status).await;
}

#[tokio::test(start_paused = true)]
async fn the_options_reach_the_source() {
    let (api, source) = api().await;
    report(&api, "one", json!([{"name": "main", "state": {"running": {}}}]), NULL).await;
    let reply = api.call("GET", &format!("{PODS}/one/log"), NULL).await;
    assert_eq!((reply.code, reply.text.as_str()), (200, "one\ntwo\n"));
    assert_eq!(reply.headers["content-type"], "text/plain");
    let asked = source.last();
    assert_eq!((asked.namespace.as_str(), asked.container.as_str()), ("default", "main"));
    assert_eq!(asked.pod["metadata"]["name"], "one");
    assert!(!asked.follow && !asked.previous && !asked.timestamps);
    assert_eq!((asked.tail_lines, asked.since, asked.limit_bytes), (None, None, None));

    let query = "container=main&follow=true&tailLines=0&sinceSeconds=60&limitBytes=5&timestamps=1";
    let reply = api.call("GET", &format!("{PODS}/one/log?{query}"), NULL).await;
    assert_eq!(reply.text, "one\nt", "the limit holds whatever the source does");
    let asked = source.last();
    assert!(asked.follow && asked.timestamps);
    assert_eq!((asked.tail_lines, asked.limit_bytes), (Some(0), Some(5)));
    assert_eq!(asked.since.unwrap().to_string(), "2025-12-31T23:59:00Z");
    api.call("GET", &format!("{PODS}/one/log?sinceTime=2026-01-01T01:00:00%2B01:00"), NULL).await;
    assert_eq!(source.last().since.unwrap().to_string(), "2026-01-01T00:00:00Z");

    // A log is text, also to a client that wants nothing but text.
    let request = Request::builder().uri(format!("{PODS}/one/log")).header("accept", "text/plain");
    assert_eq!(api.send(request.body(Body::empty()).unwrap()).await.code, 200);
    let list = api.ok("GET", "/api/v1", NULL).await;
    let listed = list["resources"].as_array().unwrap().iter().find(|r| r["name"] == "pods/log").unwrap();
    assert_eq!(listed["verbs"], json!(["get"]));
}

#[tokio::test(start_paused = true)]
async fn options_that_are_no_numbers_or_times_are_refused() {
    let (api, _source) = api().await;
    for (query, message) in [
        ("tailLines=x", "strconv.ParseInt: parsing \"x\": invalid syntax"),
        ("sinceSeconds=", "strconv.ParseInt: parsing \"\": invalid syntax"),
        (
            "limitBytes=9999999999999999999",
            "strconv.ParseInt: parsing \"9999999999999999999\": value out of range",
        ),
        (
            "sinceTime=x",
            "parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"",
        ),
    ] {
        let reply = api.call("GET", &format!("{PODS}/one/log?{query}"), NULL).await;
        assert_eq!((reply.code, &reply.json()["message"]), (400, &json!(message)));
    }
}

#[tokio::test(start_paused = true)]
async fn wrong_requests_get_a_real_servers_words() {
    let (api, _source) = api().await;
    let bad =
        |path: &'static str, message: &str| -> Row { ("GET", path, NULL, 400, json!({"message": message})) };
    let invalid = |path: &'static str, field: &str, message: &str| -> Row {
        let message = format!("PodLogOptions \"one\" is invalid: {field}: {message}");
        ("GET", path, NULL, 422, json!({"reason": "Invalid", "message": message}))
    };
    api.rows(&[
        bad(
            "/api/v1/namespaces/default/pods/two/log",
            "a container name must be specified for pod two, choose one of: [prepare a b]",
        ),
        bad("/api/v1/namespaces/default/pods/two/log?container=c", "container c is not valid for pod two"),
        invalid(
            "/api/v1/namespaces/default/pods/one/log?stream=Stdout",
            "stream",
            "Forbidden: may not be specified",
        ),
        invalid(
            "/api/v1/namespaces/default/pods/one/log?tailLines=-1",
            "tailLines",
            "Invalid value: -1: must be greater than or equal to 0",
        ),
        invalid(
            "/api/v1/namespaces/default/pods/one/log?limitBytes=0",
            "limitBytes",
            "Invalid value: 0: must be greater than 0",
        ),
        invalid(
            "/api/v1/namespaces/default/pods/one/log?sinceSeconds=0",
            "sinceSeconds",
            "Invalid value: 0: must be greater than 0",
        ),
        (
            "GET",
            "/api/v1/namespaces/default/pods/one/log?sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z",
            NULL,
            422,
            json!({"message": "~at most one of `sinceTime` or `sinceSeconds` may be specified"}),
        ),
        (
            "GET",
            "/api/v1/namespaces/default/pods/none/log",
            NULL,
            404,
            json!({"message": "pods \"none\" not found"}),
        ),
        ("POST", "/api/v1/namespaces/default/pods/one/log", json!({}), 405, NULL),
        ("GET", "/api/v1/namespaces/default/configmaps/one/log", NULL, 404, NULL),
        // Nobody runs it yet: there is nothing, and that is no error.
        ("GET", "/api/v1/namespaces/default/pods/one/log", NULL, 204, NULL),
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_container_that_never_ran_has_no_log() {
    let (api, source) = api().await;
    let log = "/api/v1/namespaces/default/pods/two/log";
    let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
    let states = json!([
        {"name": "a", "state": waiting("CrashLoopBackOff"), "lastState": {"terminated": {"exitCode": 1}}},
        {"name": "b", "state": waiting("PodInitializing")},
    ]);
    report(&api, "two", states, json!([{"name": "prepare", "state": waiting("ImagePullBackOff")}])).await;
    for (query, message) in [
        ("container=b", "container \"b\" in pod \"two\" is waiting to start: PodInitializing"),
        (
            "container=prepare",
            "container \"prepare\" in pod \"two\" is waiting to start: trying and failing to pull image",
        ),
        ("container=b&previous=true", "previous terminated container \"b\" in pod \"two\" not found"),
    ] {
        let reply = api.call("GET", &format!("{log}?{query}"), NULL).await;
        assert_eq!((reply.code, &reply.json()["message"]), (400, &json!(message)));
    }
    // What ran before can be read while the next run waits.
    for query in ["container=a", "container=a&previous=true"] {
        assert_eq!(api.code("GET", &format!("{log}?{query}")).await, 200, "{query}");
    }
    assert!(source.last().previous);
    let states = json!([{"name": "a", "state": {}}]);
    report(&api, "two", states, json!([{"name": "prepare", "state": {"terminated": {}}}])).await;
    for (query, message) in [
        ("container=a", "container \"a\" in pod \"two\" is waiting to start - no logs yet"),
        ("container=b", "container \"b\" in pod \"two\" is not available"),
    ] {
        let reply = api.call("GET", &format!("{log}?{query}"), NULL).await;
        assert_eq!((reply.code, &reply.json()["message"]), (400, &json!(message)));
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_source_says_becomes_the_status() {
    let (api, source) = api().await;
    report(&api, "one", json!([{"name": "main", "state": {"terminated": {}}}]), NULL).await;
    for (error, code, reason) in [
        (LogError::BadRequest("no".into()), 400, "BadRequest"),
        (LogError::NotFound("no".into()), 404, "NotFound"),
        (LogError::Internal("no".into()), 500, "InternalError"),
    ] {
        source.give(Err(error));
        let reply = api.call("GET", &format!("{PODS}/one/log"), NULL).await;
        assert_eq!((reply.code, &reply.json()["reason"]), (code, &json!(reason)));
    }
    let without = Api::new();
    without.ok("POST", PODS, pod("one")).await;
    report(&without, "one", json!([{"name": "main", "state": {"running": {}}}]), NULL).await;
    let reply = without.call("GET", &format!("{PODS}/one/log"), NULL).await;
    assert_eq!(reply.code, 501);
    assert!(reply.text.contains("runs without a node"), "{}", reply.text);
}

#[tokio::test(start_paused = true)]
async fn a_followed_log_comes_as_it_is_written_and_ends_with_the_server() {
    let (api, source) = api().await;
    report(&api, "one", json!([{"name": "main", "state": {"running": {}}}]), NULL).await;
    let (write, read) = mpsc::unbounded_channel::<io::Result<Bytes>>();
    let lines = stream::unfold(read, |mut read| async move { Some((read.recv().await?, read)) });
    source.give(Ok(lines.boxed()));
    let request = Request::builder().uri(format!("{PODS}/one/log?follow=true")).body(Body::empty()).unwrap();
    let response = api.router.clone().oneshot(request).await.unwrap();
    let mut body = response.into_body().into_data_stream();
    for line in ["first\n", "second\n"] {
        write.send(Ok(Bytes::from_static(line.as_bytes()))).unwrap();
        assert_eq!(body.next().await.unwrap().unwrap(), line);
    }
    drop(api.router);
    api.server.shutdown().await;
    assert!(body.next().await.is_none(), "ended");
    drop(write);
}
