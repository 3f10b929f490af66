//! Trainyard beside training-operator 1.9.4, in one run: the same jobs on a real kube-apiserver with etcd, without nodes.
//!
//! `cargo bench --package trainyard-cli --bench operators` prints the table of docs/performance.md. A number after `--` is
//! the number of jobs.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark that meets the unexpected has to stop, and its figures are its output"
)]

#[path = "../tests/oracle/webhook.rs"]
mod webhook;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use trainyard_cluster::{Cluster, Options, Process, Programs, free_port};
use trainyard_testkit::rest::Rest;
use trainyard_testkit::{Job, pytorch};

const JOBS: usize = 100;
const WORKERS: u32 = 3;
/// A master and its workers.
const REPLICAS: usize = 4;
/// Requests of this benchmark under way at once.
const AT_ONCE: usize = 16;
const PAUSE: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(1200);
const ALL: &str = "/apis/kubeflow.org/v1/namespaces/jobs/pytorchjobs";

/// What is measured.
#[derive(Clone, Copy)]
enum Operator<'a> {
    Peer { program: &'a Path, sources: &'a Path, raised: bool },
    Trainyard,
}

/// What came of it.
struct Figures {
    to_pods: Duration,
    to_success: Duration,
    most_memory: f64,
    processor: f64,
}

fn main() {
    let jobs = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(JOBS);
    let program = Programs::find(&["training-operator"]).expect("the training-operator can be built");
    let program = program.path("training-operator");
    let sources = Programs::peer_sources().expect("its sources can be had");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let run = |operator| runtime.block_on(measure(operator, jobs));
    let peer = |raised| Operator::Peer { program: &program, sources: &sources, raised };
    let (usual, raised, ours) = (run(peer(false)), run(peer(true)), run(Operator::Trainyard));
    println!("{jobs} PyTorchJobs of {REPLICAS} replicas\n");
    println!("| | training-operator | its limits raised | trainyard | ratio |");
    println!("|---|---|---|---|---|");
    let row = |what: &str, unit: &str, figure: fn(&Figures) -> f64| {
        let [a, b, c] = [&usual, &raised, &ours].map(figure);
        println!("| {what} | {a:.1} {unit} | {b:.1} {unit} | {c:.1} {unit} | {:.1}, {:.1} |", a / c, b / c);
    };
    row("from the first create to all pods and services", "s", |f| f.to_pods.as_secs_f64());
    row("from the first master's end to all jobs Succeeded", "s", |f| f.to_success.as_secs_f64());
    row("most memory", "MiB", |f| f.most_memory);
    row("processor time", "s", |f| f.processor);
}

async fn measure(operator: Operator<'_>, jobs: usize) -> Figures {
    let cluster = Cluster::start(&Options::default()).expect("a control plane can be started");
    let file = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
    let rest = Rest::new(kube::Client::try_from(config).unwrap());
    prepare(&rest).await;
    let (process, program) = start(&cluster, &rest, operator).await;
    let pid = pid_of(&program, cluster.kubeconfig());
    let to_pods = create(&rest, jobs).await;
    let to_success = finish(&rest, jobs).await;
    let figures =
        Figures { to_pods, to_success, most_memory: most_memory(pid), processor: processor_time(pid) };
    drop(process);
    figures
}

/// Definitions, and the account that pods need; a controller manager would make it.
async fn prepare(rest: &Rest) {
    let collection = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for crd in trainyard_api::crds::ALL {
        let definition: Value = serde_json::from_str(crd.json).unwrap();
        rest.post(collection, &definition).await.unwrap();
    }
    until("the definitions are served", async || rest.get(ALL).await.is_ok()).await;
    // Not the one in which the API server has a service of its own.
    rest.post("/api/v1/namespaces", &json!({ "metadata": { "name": "jobs" } })).await.unwrap();
    let account = json!({ "metadata": { "name": "default" }, "automountServiceAccountToken": false });
    rest.post("/api/v1/namespaces/jobs/serviceaccounts", &account).await.unwrap();
}

/// Starts it, and waits until it is at work.
async fn start(cluster: &Cluster, rest: &Rest, operator: Operator<'_>) -> (Process, PathBuf) {
    let kubeconfig = format!("--kubeconfig={}", cluster.kubeconfig().display());
    let silent = ["--metrics-bind-address=0".to_owned(), "--health-probe-bind-address=0".to_owned()];
    let folder = cluster.directory().join("log");
    let started = match operator {
        Operator::Trainyard => {
            let program = PathBuf::from(env!("CARGO_BIN_EXE_trainyard"));
            let arguments = [&["operator".to_owned(), kubeconfig], &silent[..]].concat();
            (Process::start(&program, &folder, &arguments).unwrap(), program)
        }
        Operator::Peer { program, sources, raised } => {
            let port = free_port().unwrap();
            webhook::prepare(rest, sources, port).await;
            let mut arguments =
                [&[kubeconfig, format!("--webhook-server-port={port}")], &silent[..]].concat();
            if raised {
                let flags = ["--kube-api-qps=2000", "--kube-api-burst=4000", "--controller-threads=16"];
                arguments.extend(flags.map(str::to_owned));
            }
            let environment = [("TMPDIR", cluster.directory().as_os_str())];
            let start = || Process::start_with(program, &folder, &arguments, &environment).unwrap();
            // One that reads its certificates before they are there ends; its successor finds them.
            let maker = start();
            until("it has made its certificates", async || webhook::deliver(rest, cluster.directory()).await)
                .await;
            drop(maker);
            (start(), program.to_owned())
        }
    };
    rest_of_start(rest).await;
    started
}

/// A job of its own shows that it works; what it cost is over before anything is measured.
async fn rest_of_start(rest: &Rest) {
    until("it takes a job", async || {
        rest.post(ALL, &job(pytorch("first").master())).await.is_ok()
            || rest.get(&format!("{ALL}/first")).await.is_ok()
    })
    .await;
    until("the job has a pod", async || count(rest, "pods").await == 1).await;
    rest.delete(&format!("{ALL}/first"), &json!({})).await.unwrap();
    for plural in ["pods", "services"] {
        let path = format!("/api/v1/namespaces/jobs/{plural}/first-master-0");
        until("it has a service, too", async || rest.get(&path).await.is_ok()).await;
        rest.delete(&path, &json!({ "gracePeriodSeconds": 0 })).await.unwrap();
    }
    until("nothing is left", async || count(rest, "pods").await + count(rest, "services").await == 0).await;
}

fn job(job: Job) -> Value {
    let mut job: Value = job.into();
    job["metadata"]["namespace"] = json!("jobs");
    job
}

async fn create(rest: &Rest, jobs: usize) -> Duration {
    let begun = Instant::now();
    let created = futures::stream::iter(0..jobs).map(|number| async move {
        let job = job(pytorch(&format!("job-{number}")).master().workers(WORKERS));
        rest.post(ALL, &job).await.unwrap();
    });
    created.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
    let wanted = jobs * REPLICAS;
    until("all pods are there", async || count(rest, "pods").await == wanted).await;
    until("all services are there", async || count(rest, "services").await == wanted).await;
    begun.elapsed()
}

async fn finish(rest: &Rest, jobs: usize) -> Duration {
    let begun = Instant::now();
    let ended = futures::stream::iter(0..jobs).map(|number| async move {
        let path = format!("/api/v1/namespaces/jobs/pods/job-{number}-master-0/status");
        let state = json!({ "terminated": { "exitCode": 0, "startedAt": "2026-01-01T00:00:00Z" } });
        let container = json!({ "name": "pytorch", "image": "i", "imageID": "i", "ready": false,
            "restartCount": 0, "state": state });
        let status = json!({ "phase": "Succeeded", "containerStatuses": [container] });
        rest.merge(&path, &json!({ "status": status })).await.unwrap();
    });
    ended.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
    until("all have succeeded", async || {
        let list = rest.get(ALL).await.unwrap();
        let all = list["items"].as_array().unwrap().iter();
        let conditions = |job: &Value| job["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let succeeded = |one: &Value| one["type"] == "Succeeded" && one["status"] == "True";
        all.filter(|job| conditions(job).iter().any(succeeded)).count() == jobs
    })
    .await;
    begun.elapsed()
}

/// How many there are, without reading them.
async fn count(rest: &Rest, plural: &str) -> usize {
    let page = rest.get(&format!("/api/v1/namespaces/jobs/{plural}?limit=1")).await.unwrap();
    let more = page["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
    page["items"].as_array().map_or(0, Vec::len) + usize::try_from(more).unwrap()
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < LONG, "never: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// The process itself; what was started is its guard.
fn pid_of(program: &Path, kubeconfig: &Path) -> u32 {
    let (program, kubeconfig) = (program.to_str().unwrap(), kubeconfig.to_str().unwrap());
    let is_it = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.starts_with(&format!("{program}\0")) && line.contains(kubeconfig)
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(is_it).expect("it runs")
}

/// In MiB.
fn most_memory(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<f64>().unwrap() / 1024.0
}

/// In seconds.
fn processor_time(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}
