//! `trainyard operator`: what it says when it cannot run, and that it runs over a real connection.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use trainyard_cluster::free_port;
use trainyard_host::{Host, Options};
use trainyard_testkit::pytorch;
use trainyard_testkit::rest::Rest;

use crate::trainyard;

#[test]
fn says_what_it_lacks() {
    let said = trainyard(&["operator", "--enable-scheme", "CaffeJob"], "");
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("scheme CaffeJob is not supported yet"), "{}", said.err);
    let said = trainyard(&["operator", "--kubeconfig", "no/such/kubeconfig"], "");
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("cannot read no/such/kubeconfig"), "{}", said.err);
}

/// Serves an API without an operator on a port of this machine, and writes a kubeconfig for it.
async fn serve(dir: &Path) -> Host {
    let host = Host::start(Options { operator: None, ..Options::local() }).await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = host.router();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "c", "cluster": { "server": format!("http://{address}") } }],
        "users": [{ "name": "u", "user": {} }],
        "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u" } }],
        "current-context": "x",
    });
    std::fs::write(dir.join("kubeconfig"), kubeconfig.to_string()).unwrap();
    host
}

fn operator(dir: &Path) -> Child {
    operator_in(dir, &[])
}

/// The same with these variables in its environment, and none that name a pod otherwise.
fn operator_in(dir: &Path, variables: &[(&str, &str)]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_trainyard"))
        .env_remove("POD_NAME")
        .env_remove("MY_POD_NAME")
        .envs(variables.iter().copied())
        .args(["operator", "--enable-scheme", "pytorchjob", "--kubeconfig"])
        .arg(dir.join("kubeconfig"))
        .env_remove("KUBEFLOW_NAMESPACE")
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn runs_jobs_over_a_connection_and_stops_when_told() {
    let dir = tempfile::tempdir().unwrap();
    let host = serve(dir.path()).await;
    let rest = Rest::new(host.client());
    let mut child = operator(dir.path());
    let job: Value = pytorch("a").master().workers(2).into();
    rest.post("/apis/kubeflow.org/v1/namespaces/default/pytorchjobs", &job).await.unwrap();
    let count = || async {
        let list = rest.get("/api/v1/namespaces/default/pods").await.unwrap();
        list.get("items").and_then(Value::as_array).map_or(0, Vec::len)
    };
    while count().await < 3 {
        assert!(child.try_wait().unwrap().is_none(), "the operator ended");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let killed = Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(killed.success());
    let code = tokio::task::spawn_blocking(move || child.wait()).await.unwrap().unwrap();
    assert_eq!(code.code(), Some(0), "it stops in order when it is told to");
    host.stop().await.unwrap();
}

/// Jobs whose pods need helpers get images that exist: those of the training-operator outside of a pod, in a pod the one
/// that the operator itself runs from, with the program where it is there.
#[tokio::test]
async fn helpers_are_of_an_image_that_exists() {
    let dir = tempfile::tempdir().unwrap();
    let host = serve(dir.path()).await;
    let rest = Rest::new(host.client());
    let pod = json!({ "metadata": { "name": "op-7" }, "spec": { "automountServiceAccountToken": false,
        "containers": [{ "name": "training-operator", "image": "example.com/own:3" }] } });
    rest.post("/api/v1/namespaces/default/pods", &pod).await.unwrap();
    let in_pod = |name: &'static str| vec![("POD_NAME", name), ("POD_NAMESPACE", "default")];
    let cases = [
        ("a", Vec::new(), "alpine:3.10"),
        ("b", in_pod("op-7"), "example.com/own:3"),
        ("c", in_pod("op-8"), "alpine:3.10"),
    ];
    for (name, variables, image) in cases {
        let mut child = operator_in(dir.path(), &variables);
        let job: Value = pytorch(name).master().workers(1).into();
        rest.post("/apis/kubeflow.org/v1/namespaces/default/pytorchjobs", &job).await.unwrap();
        let path = format!("/api/v1/namespaces/default/pods/{name}-worker-0");
        let worker = loop {
            assert!(child.try_wait().unwrap().is_none(), "the operator ended");
            if let Ok(worker) = rest.get(&path).await {
                break worker;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        child.kill().unwrap();
        child.wait().unwrap();
        let helper = &worker["spec"]["initContainers"][0];
        assert_eq!(helper["image"], image);
        let program = helper["command"][0].as_str().unwrap();
        let expected = if name == "b" { env!("CARGO_BIN_EXE_trainyard") } else { "sh" };
        assert_eq!(
            Path::new(program).canonicalize().unwrap_or_else(|_| program.into()),
            Path::new(expected).canonicalize().unwrap_or_else(|_| expected.into())
        );
    }
    host.stop().await.unwrap();
}

#[test]
fn the_page_about_it_has_every_flag() {
    let page = include_str!("../../../../docs/operator.md");
    let help = trainyard(&["operator", "--help"], "").out;
    let flags = |text: &str| -> BTreeSet<String> {
        let words = text.split(|c: char| !(c.is_ascii_lowercase() || c == '-'));
        words.filter(|word| word.starts_with("--") && word.len() > 3).map(str::to_owned).collect()
    };
    let mut known = flags(&help);
    assert!(known.remove("--help"));
    // Hidden: they do nothing.
    known.extend(["--zap-stacktrace-level".to_owned(), "--zap-time-encoding".to_owned()]);
    assert_eq!(flags(page), known);
}

/// What a page says; nothing if there is none, or it is not as it should be.
async fn page(port: u16, path: &str) -> Option<String> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    answer.starts_with("HTTP/1.1 200 ").then_some(answer)
}

/// One of several operators, with its pages on ports of its own.
struct Replica {
    child: Child,
    metrics: u16,
    probes: u16,
}

impl Replica {
    fn start(dir: &Path) -> Self {
        let (metrics, probes) = (free_port().unwrap(), free_port().unwrap());
        let child = Command::new(env!("CARGO_BIN_EXE_trainyard"))
            .args(["operator", "--leader-elect", "--leader-election-namespace=default", "--zap-encoder=json"])
            .args([
                "--zap-log-level=info",
                "--kube-api-qps=500",
                "--kube-api-burst=100",
                "--controller-threads=2",
            ])
            .arg(format!("--metrics-bind-address=127.0.0.1:{metrics}"))
            .arg(format!("--health-probe-bind-address=127.0.0.1:{probes}"))
            .arg("--kubeconfig")
            .arg(dir.join("kubeconfig"))
            .env_remove("KUBEFLOW_NAMESPACE")
            .stderr(std::fs::File::create(dir.join(format!("log-{metrics}"))).unwrap())
            .spawn()
            .unwrap();
        Self { child, metrics, probes }
    }

    async fn says(&self, line: &str) -> bool {
        page(self.metrics, "/metrics").await.is_some_and(|page| page.lines().any(|found| found == line))
    }

    async fn leads(&self) -> bool {
        self.says("leader_election_master_status{name=\"1ca428e5.training-operator.kubeflow.org\"} 1").await
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < Duration::from_secs(300), "never: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_replicas_one_works_and_the_other_takes_over() {
    let dir = tempfile::tempdir().unwrap();
    let host = serve(dir.path()).await;
    let rest = Rest::new(host.client());
    let jobs = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs";
    let pods = async || {
        let list = rest.get("/api/v1/namespaces/default/pods").await.unwrap();
        list.get("items").and_then(Value::as_array).map_or(0, Vec::len)
    };
    let mut first = Replica::start(dir.path());
    eventually("the first one leads", async || first.leads().await).await;
    let second = Replica::start(dir.path());
    for replica in [&first, &second] {
        eventually("it is alive", async || page(replica.probes, "/healthz").await.is_some()).await;
        eventually("it is ready", async || page(replica.probes, "/readyz").await.is_some()).await;
    }
    assert!(first.leads().await && !second.leads().await);
    rest.post(jobs, &pytorch("a").master().workers(2).into()).await.unwrap();
    eventually("its pods", async || pods().await == 3).await;
    let created = "training_operator_jobs_created_total{job_namespace=\"default\",framework=\"pytorch\"} 1";
    assert!(first.says(created).await && !second.says(created).await);
    assert!(first.says("created_pods_total 3").await && second.says("created_pods_total 0").await);
    let told = page(first.metrics, "/metrics").await.unwrap();
    let documented = include_str!("../../../../docs/operator.md");
    for name in told.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()) {
        let short = name.replace("training_operator_jobs_", "…_");
        assert!(
            documented.contains(name) || documented.contains(&short),
            "{name} is not in docs/operator.md"
        );
    }
    assert!(told.contains("\nprocess_resident_memory_bytes "), "{told}");
    assert!(page(first.metrics, "/nothing").await.is_none());
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    rest.post(jobs, &pytorch("b").master().workers(2).into()).await.unwrap();
    eventually("the other one leads", async || second.leads().await).await;
    eventually("the pods of both", async || pods().await == 6).await;
    assert!(second.says(created).await, "the second job, and it alone");
    let killed = Command::new("kill").arg(second.child.id().to_string()).status().unwrap();
    assert!(killed.success());
    let lease =
        "/apis/coordination.k8s.io/v1/namespaces/default/leases/1ca428e5.training-operator.kubeflow.org";
    let given_back = async || rest.get(lease).await.unwrap()["spec"]["holderIdentity"] == "";
    eventually("the Lease is given back", given_back).await;
    drop(second);
    let log = std::fs::read_to_string(dir.path().join(format!("log-{}", first.metrics))).unwrap();
    let said = |line: &str| serde_json::from_str::<Value>(line).is_ok_and(|line| line["level"] == "INFO");
    assert!(log.lines().next().is_some_and(said), "{log}");
    host.stop().await.unwrap();
}

#[test]
fn addresses_that_cannot_be_had_are_said_by_their_flags() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let host = runtime.block_on(serve(dir.path()));
    let kubeconfig = dir.path().join("kubeconfig").display().to_string();
    for (flag, address) in [
        ("--metrics-bind-address", taken.local_addr().unwrap().to_string()),
        ("--health-probe-bind-address", ":eighty".to_owned()),
    ] {
        let said = trainyard(&["operator", "--kubeconfig", &kubeconfig, &format!("{flag}={address}")], "");
        assert_eq!(said.code, Some(1));
        assert!(said.err.contains(&format!("{flag}: cannot listen on {address}")), "{}", said.err);
    }
    runtime.block_on(host.stop()).unwrap();
}
