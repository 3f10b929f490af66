//! What a job costs `trainyard up` among few and among many, role by role; how long it takes to stop; and `list` beside
//! kubectl.
//!
//! `cargo bench --package trainyard-cli --bench scale` prints the tables of docs/performance.md; with `-- 100 400` it takes
//! other numbers of jobs.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark that meets the unexpected has to stop, and its figures are its output"
)]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use trainyard_testkit::kubelet::Kubelet;
use trainyard_testkit::rest::Rest;
use trainyard_testkit::{PodScript, pytorch};

const JOBS: &str = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const SIZES: [usize; 3] = [500, 2_000, 8_000];
const REPLICAS: usize = 4;
/// Ticks of a processor's clock in a second.
const TICKS: f64 = 100.0;

/// Which roles work, and which are left out for it.
struct Roles {
    name: &'static str,
    without: &'static str,
    kubelet: bool,
}

const ROLES: [Roles; 4] = [
    Roles { name: "API server", without: "operator,node,controllers", kubelet: false },
    Roles { name: "and operator", without: "node,controllers", kubelet: false },
    Roles { name: "and controllers", without: "node", kubelet: false },
    Roles { name: "and a scripted kubelet", without: "node", kubelet: true },
];

struct Up {
    child: Child,
    kubeconfig: PathBuf,
}

impl Up {
    fn start(dir: &Path, without: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
        command.arg("up").arg("--data-dir").arg(dir).args(["--port", "0", "--without", without]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, kubeconfig: dir.join("kubeconfig") }
    }

    async fn client(&self) -> Client {
        let config = Kubeconfig::read_from(&self.kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
        Client::try_from(config).unwrap()
    }

    /// Seconds of processor time so far.
    fn processor(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields = stat.rsplit(')').next().unwrap().split_whitespace();
        fields.skip(11).take(2).map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / TICKS
    }

    /// Waits until nothing is left to do; says how much processor time that took.
    async fn quiet(&self) -> f64 {
        loop {
            let before = self.processor();
            tokio::time::sleep(Duration::from_millis(1500)).await;
            if self.processor() - before <= 0.04 {
                return before;
            }
        }
    }

    /// Seconds from the polite signal to the end.
    fn stop(mut self) -> f64 {
        let begun = Instant::now();
        Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        self.child.wait().unwrap();
        begun.elapsed().as_secs_f64()
    }
}

async fn number(rest: &Rest, collection: &str) -> usize {
    let list = rest.get(&format!("{collection}?limit=1")).await.unwrap();
    let here = list.pointer("/items").and_then(Value::as_array).map_or(0, Vec::len);
    let more = list.pointer("/metadata/remainingItemCount").and_then(Value::as_u64).unwrap_or(0);
    here + usize::try_from(more).unwrap()
}

async fn post(rest: &Rest, collection: &str, bodies: impl Iterator<Item = Value>) {
    let posts = bodies.map(|body| async move { rest.post(collection, &body).await });
    let posts = futures::stream::iter(posts).buffer_unordered(32);
    posts.try_for_each(|_| async { Ok(()) }).await.unwrap();
}

fn bare_pod(n: usize) -> Value {
    json!({"metadata": {"name": format!("pod-{n}"), "labels": {"n": n.to_string()}},
        "spec": {"containers": [{"name": "main", "image": "example.com/train:1"}]}})
}

/// Processor time for so many jobs, with the server that has them.
async fn load(roles: &Roles, dir: &Path, jobs: usize) -> (f64, Up) {
    let up = Up::start(dir, roles.without);
    let client = up.client().await;
    let rest = Rest::new(client.clone());
    let shutdown = CancellationToken::new();
    if roles.kubelet {
        let kubelet =
            Kubelet::new(client, trainyard_operator::system_clock(), Arc::new(|_| PodScript::runs()));
        tokio::spawn(kubelet.run(shutdown.clone()));
    }
    let before = up.quiet().await;
    post(&rest, JOBS, (0..jobs).map(|n| pytorch(&format!("job-{n}")).master().workers(3).into())).await;
    if roles.without.contains("operator") {
        post(&rest, PODS, (0..jobs * REPLICAS).map(bare_pod)).await;
    }
    while number(&rest, PODS).await < jobs * REPLICAS {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    while !roles.without.contains("controllers") && number(&rest, SLICES).await < jobs * REPLICAS {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let spent = up.quiet().await - before;
    shutdown.cancel();
    (spent, up)
}

/// Seconds that a command takes, and the most memory it had, in MiB.
fn timed(command: &mut Command) -> (f64, f64) {
    let begun = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let status = PathBuf::from(format!("/proc/{}/status", child.id()));
    let mut most = 0.0;
    while child.try_wait().unwrap().is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
        most = kib.map_or(most, |kib| kib / 1024.0);
        std::thread::sleep(Duration::from_millis(10));
    }
    (begun.elapsed().as_secs_f64(), most)
}

/// `list` beside kubectl for the same objects, if there is one.
fn lists(up: &Up, jobs: usize) {
    let command = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        command.args(args).env("KUBECONFIG", &up.kubeconfig);
        command
    };
    let ours = timed(&mut command(env!("CARGO_BIN_EXE_trainyard"), &["list"]));
    let found = Command::new("kubectl").arg("version").arg("--client").stdout(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        println!("{jobs} jobs: `list` takes {:.1} s and {:.0} MiB; there is no kubectl", ours.0, ours.1);
        return;
    }
    let what = "pytorchjobs,tfjobs,mpijobs,xgboostjobs,paddlejobs,jaxjobs,pods,services";
    let theirs = timed(&mut command("kubectl", &["get", what]));
    println!("| {jobs} | {:.1} s | {:.0} MiB | {:.1} s | {:.0} MiB |", ours.0, ours.1, theirs.0, theirs.1);
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let given: Vec<usize> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let sizes = if given.is_empty() { SIZES.to_vec() } else { given };
    let home = tempfile::tempdir().unwrap();
    println!(
        "| jobs of {REPLICAS} | roles | processor time | per job | of the first | from SIGTERM to the end |"
    );
    println!("|---|---|---|---|---|---|");
    let mut firsts = [None; ROLES.len()];
    let mut last = None;
    for jobs in sizes {
        for (roles, first) in ROLES.iter().zip(&mut firsts) {
            let dir = home.path().join(format!("{jobs}-{}", roles.name.replace(' ', "-")));
            let (spent, up) = load(roles, &dir, jobs).await;
            let each = spent * 1000.0 / f64::from(u32::try_from(jobs).unwrap());
            let ratio = each / *first.get_or_insert(each);
            if roles.kubelet {
                last = Some((jobs, dir.clone()));
            }
            let stop = up.stop();
            println!("| {jobs} | {} | {spent:.1} s | {each:.2} ms | {ratio:.2} | {stop:.1} s |", roles.name);
        }
        if let Some((jobs, dir)) = last.take() {
            // Everything that was there is there again, and nobody changes it.
            let up = Up::start(&dir, "operator,node,controllers");
            println!("| jobs | `list` takes | and | `kubectl get` | and |\n|---|---|---|---|---|");
            lists(&up, jobs);
            up.stop();
        }
    }
}
