//! A server for the client commands: a whole plane with scripted pods, over HTTP, in real time, and a kubeconfig.
//!
//! The API in process has no logs and no metrics; both are answered here, before it, as each test wants it.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, RawQuery, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use trainyard_testkit::{Crds, Plane, PodInfo, PodScript};

use crate::{Said, root};

/// One answer to a request for a log.
#[derive(Clone, Default)]
pub(crate) struct Log {
    /// What is sent, each after a pause.
    pub(crate) parts: Vec<(Duration, String)>,
    /// Whether the connection breaks at the end.
    pub(crate) breaks: bool,
    /// Whether the stream stays open at the end.
    pub(crate) hangs: bool,
    /// A refusal instead.
    pub(crate) refused: Option<&'static str>,
}

impl Log {
    pub(crate) fn of(lines: &[&str]) -> Self {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        Self { parts: vec![(Duration::ZERO, text)], ..Self::default() }
    }

    pub(crate) fn refused(message: &'static str) -> Self {
        Self { refused: Some(message), ..Self::default() }
    }

    pub(crate) fn breaks(self) -> Self {
        Self { breaks: true, ..self }
    }

    pub(crate) fn hangs(self) -> Self {
        Self { hangs: true, ..self }
    }

    fn response(self) -> Response {
        if let Some(message) = self.refused {
            let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "BadRequest",
                                 "message": message, "code": 400 });
            return (axum::http::StatusCode::BAD_REQUEST, status.to_string()).into_response();
        }
        let (breaks, hangs) = (self.breaks, self.hangs);
        let stream = futures::stream::unfold(self.parts.into_iter(), move |mut parts| async move {
            let Some((pause, text)) = parts.next() else {
                if hangs {
                    std::future::pending::<()>().await;
                }
                // Long enough for what was sent to have arrived.
                tokio::time::sleep(Duration::from_millis(100)).await;
                return breaks.then(|| (Err(std::io::Error::other("broken")), parts));
            };
            tokio::time::sleep(pause).await;
            Some((Ok(Bytes::from(text)), parts))
        });
        Body::from_stream(stream).into_response()
    }
}

/// Answers for logs: by pod, query, and how many times this pod was asked before.
type Logs = Arc<dyn Fn(&str, &str, usize) -> Log + Send + Sync>;

#[derive(Clone)]
struct Extras {
    logs: Logs,
    asked: Arc<Mutex<BTreeMap<String, Vec<String>>>>,
}

/// A server, and where its kubeconfig is.
pub(crate) struct Bed {
    pub(crate) plane: Plane,
    dir: TempDir,
    asked: Arc<Mutex<BTreeMap<String, Vec<String>>>>,
    requests: Arc<AtomicUsize>,
}

/// Starts a server without logs and metrics whose pods follow the scripts.
pub(crate) async fn bed(scripts: impl Fn(&PodInfo) -> PodScript + Send + Sync + 'static) -> Bed {
    Bed::start(scripts, None).await
}

impl Bed {
    /// Starts a server that answers for logs, and for metrics, too.
    pub(crate) async fn with_logs(
        scripts: impl Fn(&PodInfo) -> PodScript + Send + Sync + 'static,
        logs: impl Fn(&str, &str, usize) -> Log + Send + Sync + 'static,
    ) -> Self {
        Self::start(scripts, Some(Arc::new(logs))).await
    }

    async fn start(
        scripts: impl Fn(&PodInfo) -> PodScript + Send + Sync + 'static,
        logs: Option<Logs>,
    ) -> Self {
        let now = trainyard_operator::system_clock()();
        let plane = Plane::builder().crds(Crds::Ours).begins(now).scripts(scripts).start().await;
        let asked: Arc<Mutex<BTreeMap<String, Vec<String>>>> = Arc::default();
        let router = match logs {
            Some(logs) => extras(logs, Arc::clone(&asked)).fallback_service(plane.router()),
            None => plane.router(),
        };
        let requests: Arc<AtomicUsize> = Arc::default();
        let count = Arc::clone(&requests);
        let router = router.layer(axum::middleware::from_fn(move |request: Request, next: Next| {
            count.fetch_add(1, Ordering::Relaxed);
            next.run(request)
        }));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        let dir = tempfile::tempdir().unwrap();
        let bed = Self { plane, dir, asked, requests };
        bed.write("kubeconfig", &kubeconfig(&format!("http://{address}")).to_string());
        bed
    }

    /// Writes a file beside the kubeconfig and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn kubeconfig(&self) -> String {
        self.dir.path().join("kubeconfig").to_str().unwrap().to_owned()
    }

    /// The queries with which the log of a pod was asked for.
    pub(crate) fn asked(&self, pod: &str) -> Vec<String> {
        self.asked.lock().unwrap().get(pod).cloned().unwrap_or_default()
    }

    /// How many requests came since this was last asked.
    pub(crate) fn requests(&self) -> usize {
        self.requests.swap(0, Ordering::Relaxed)
    }

    /// A command that knows the server and nothing else.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
        command
            .args(args)
            .current_dir(root())
            .env("KUBECONFIG", self.kubeconfig())
            .env("HOME", self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        self.command(args).spawn().unwrap()
    }

    /// Runs a command to its end.
    pub(crate) async fn run(&self, args: &[&str]) -> Said {
        said(self.spawn(args)).await
    }

    /// Runs a command that has to succeed, and returns what it wrote.
    pub(crate) async fn ok(&self, args: &[&str]) -> String {
        let said = self.run(args).await;
        assert_eq!(said.code, Some(0), "{args:?}: {}{}", said.out, said.err);
        said.out
    }

    /// Runs a command that has to fail, and returns what it complained of.
    pub(crate) async fn fails(&self, args: &[&str]) -> String {
        let said = self.run(args).await;
        assert_eq!(said.code, Some(1), "{args:?}: {}{}", said.out, said.err);
        said.err
    }
}

/// Waits for the end of a command.
pub(crate) async fn said(child: Child) -> Said {
    let limit = Duration::from_secs(60);
    let output = tokio::time::timeout(limit, child.wait_with_output()).await.unwrap().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// A kubeconfig with one context, `x`.
pub(crate) fn kubeconfig(server: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "c", "cluster": { "server": server } }],
        "users": [{ "name": "u", "user": {} }],
        "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u" } }],
        "current-context": "x",
    })
}

fn extras(logs: Logs, asked: Arc<Mutex<BTreeMap<String, Vec<String>>>>) -> Router {
    let resources = json!({ "kind": "APIResourceList", "groupVersion": "metrics.k8s.io/v1beta1", "resources": [
        { "name": "pods", "singularName": "", "kind": "PodMetrics", "namespaced": true, "verbs": ["get", "list"] },
    ] });
    let labels = |job: &str| {
        json!({ "training.kubeflow.org/job-name": job, "training.kubeflow.org/replica-type": "worker",
                "training.kubeflow.org/replica-index": "0" })
    };
    let usage = |cpu: &str, memory: &str| json!({ "name": "c", "usage": { "cpu": cpu, "memory": memory } });
    let metrics = json!({ "kind": "PodMetricsList", "metadata": {}, "items": [{
        "metadata": { "name": "a-worker-0", "namespace": "default", "labels": labels("a") },
        "containers": [usage("250m", "2048Ki"), usage("123456789n", "1Mi")],
    }] });
    let fixed = |value: Value| get(move || async move { value.to_string() });
    Router::new()
        .route("/apis/metrics.k8s.io/v1beta1", fixed(resources))
        .route("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods", fixed(metrics))
        .route("/api/v1/namespaces/{namespace}/pods/{pod}/log", get(log))
        .with_state(Extras { logs, asked })
}

async fn log(
    State(extras): State<Extras>,
    Path((_, pod)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Response {
    let query = query.unwrap_or_default();
    let before = {
        let mut asked = extras.asked.lock().unwrap();
        let list = asked.entry(pod.clone()).or_default();
        list.push(query.clone());
        list.len() - 1
    };
    (extras.logs)(&pod, &query, before).response()
}
