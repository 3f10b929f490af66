//! What one machine costs: the binary, an idle `up`, and what `run` adds to a command.
//!
//! `cargo bench --package trainyard-cli` prints the figures of docs/performance.md. Each is the median of several runs.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark that meets the unexpected has to stop, and its figures are its output"
)]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

const BIN: &str = env!("CARGO_BIN_EXE_trainyard");
const RUNS: usize = 15;
const STARTS: usize = 7;

fn main() {
    let home = tempfile::tempdir().unwrap();
    let size = fs::metadata(BIN).unwrap().len();
    println!("binary: {:.1} MB", size as f64 / 1e6);
    idle_up(home.path());
    run_against_bare(home.path());
    many_small_jobs(home.path());
}

fn trainyard(home: &Path) -> Command {
    let mut command = Command::new(BIN);
    command.env("HOME", home).env_remove("XDG_DATA_HOME").env_remove("XDG_STATE_HOME").current_dir(home);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn median(mut values: Vec<Duration>) -> Duration {
    values.sort();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// From nothing, and from a directory that was used before.
fn idle_up(home: &Path) {
    let dir = home.join("idle");
    let (mut first, mut again, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let _ = trainyard_node::remove_tree(&dir);
        let (child, took) = up(home, &dir);
        first.push(took);
        stop(child);
        let (child, took) = up(home, &dir);
        again.push(took);
        // Let everything that start-up left behind settle, as in an `up` that has been idle for a while.
        std::thread::sleep(Duration::from_secs(2));
        memory.push(resident(child.id()));
        stop(child);
    }
    memory.sort_unstable();
    println!("up, new directory, until ready: {:.0} ms", millis(median(first)));
    println!("up, old directory, until ready: {:.0} ms", millis(median(again)));
    println!(
        "up, idle: {:.1} MiB resident",
        memory.get(STARTS / 2).copied().unwrap_or_default() as f64 / 1024.0
    );
}

/// Starts `up` and waits until it says that it is ready, which it does after `/readyz` would.
fn up(home: &Path, dir: &Path) -> (Child, Duration) {
    use std::io::{BufRead as _, BufReader};
    let begun = Instant::now();
    let mut command = trainyard(home);
    command.arg("up").arg("--data-dir").arg(dir).args(["--port", "0"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("is up"), "{line}");
    (child, begun.elapsed())
}

fn stop(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// KiB.
fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a process has memory");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap()
}

fn job(name: &str, workers: u32, command: &str) -> serde_json::Value {
    let replica = |replicas: u32| {
        json!({ "replicas": replicas, "restartPolicy": "Never", "template": { "spec": { "containers": [{
            "name": "pytorch", "image": "none", "command": [command] }] } } })
    };
    let mut replicas = json!({ "Master": replica(1) });
    if let Some(map) = replicas.as_object_mut().filter(|_| workers > 0) {
        map.insert("Worker".into(), replica(workers));
    }
    json!({ "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": { "name": name },
        "spec": { "pytorchReplicaSpecs": replicas } })
}

/// Turn and turn about, so that whatever else the machine does hits both.
fn run_against_bare(home: &Path) {
    fs::write(home.join("one.yaml"), job("one", 0, "true").to_string()).unwrap();
    let (mut bare, mut run) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let begun = Instant::now();
        assert!(Command::new("true").status().unwrap().success());
        bare.push(begun.elapsed());
        let begun = Instant::now();
        assert!(trainyard(home).args(["run", "one.yaml"]).status().unwrap().success());
        run.push(begun.elapsed());
    }
    let (bare, run) = (median(bare), median(run));
    println!(
        "run of one replica of `true`: {:.0} ms, bare: {:.1} ms, so {:.0} ms longer",
        millis(run),
        millis(bare),
        millis(run.saturating_sub(bare))
    );
}

fn many_small_jobs(home: &Path) {
    let jobs: Vec<String> =
        (0..200).map(|number| job(&format!("job-{number}"), 1, "true").to_string()).collect();
    fs::write(home.join("many.yaml"), jobs.join("\n---\n")).unwrap();
    let begun = Instant::now();
    assert!(trainyard(home).args(["run", "many.yaml"]).status().unwrap().success());
    println!("run of 200 jobs of 2 replicas of `true`: {:.1} s", begun.elapsed().as_secs_f64());
}
