//! kill -9 of `up` in the middle of everything: nothing that was answered is lost, nothing runs twice.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, PostParams};

use crate::kit::{Up, eventually, job, jobs, log, pods, until};

const JOBS: usize = 20;
const REPLICAS: usize = JOBS + JOBS / 2;
const LINES: usize = 12;

fn rounds() -> usize {
    std::env::var("TRAINYARD_KILL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5)
}

/// Every third job fails with its own code.
fn code(number: usize) -> i32 {
    if number.is_multiple_of(3) { 3 + i32::try_from(number).unwrap() } else { 0 }
}

fn script(diary: &std::path::Path, number: usize) -> String {
    format!(
        "echo $HOSTNAME >> {diary}; i=0; while [ $i -lt {LINES} ]; do echo line $i; i=$((i+1)); sleep 0.2; done; exit {code}",
        diary = diary.display(),
        code = code(number),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_control_plane_comes_back_to_everything() {
    let mut report = Vec::new();
    for round in 0..rounds() {
        report.push(one_round(round).await);
    }
    println!(
        "rounds: {report:?} (replicas that had started when it was killed, writes acknowledged by then)"
    );
}

async fn one_round(round: usize) -> (usize, usize) {
    let home = tempfile::tempdir().unwrap();
    let diary = home.path().join("diary");
    fs::write(&diary, "").unwrap();
    // Ports of its own: where another test's program has one, a job moves on, and its replicas do run twice.
    let mut up = Up::start(&home.path().join("data"), &["--ports", "30000-32767"]).await;
    let client = up.client().await;
    let writer = Writer::start(client.clone());
    let creating = tokio::spawn(create_all(client.clone(), diary.clone()));
    // In the middle, each round at another moment: while jobs are created, pods placed, started, running, ending.
    if round.is_multiple_of(2) {
        let begun = round * 7 % REPLICAS + 1;
        eventually("some replicas started", async || lines(&diary) >= begun).await;
    } else {
        tokio::time::sleep(Duration::from_millis(u64::try_from(round * 37 % 400).unwrap())).await;
    }
    up.kill();
    let acknowledged = writer.stop().await;
    let running_without = lines(&diary);
    let answered = creating.await.unwrap();
    up.again().await;
    let client = up.client().await;
    check_writes(&client, &acknowledged).await;
    for name in &answered {
        assert!(jobs(&client).get_opt(name).await.unwrap().is_some(), "{name} was acknowledged and is lost");
    }
    // What was not acknowledged may be there all the same; then it is not made twice.
    create_all(client.clone(), diary.clone()).await;
    for number in 0..JOBS {
        check_job(&client, number).await;
    }
    let mut started: Vec<String> = fs::read_to_string(&diary).unwrap().lines().map(str::to_owned).collect();
    started.sort();
    let mut once = started.clone();
    once.dedup();
    assert_eq!(started, once, "a replica ran more than once");
    assert_eq!(started.len(), REPLICAS, "each replica ran");
    (running_without, acknowledged.len())
}

/// Creates the jobs that are not there; the names of those that were acknowledged.
async fn create_all(client: Client, diary: std::path::PathBuf) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for number in 0..JOBS {
        let name = format!("job-{number}");
        let job = job(&name, u32::from(number.is_multiple_of(2)), &script(&diary, number));
        let object = serde_json::from_value(job).unwrap();
        if jobs(&client).create(&PostParams::default(), &object).await.is_ok() {
            acknowledged.push(name);
        }
    }
    acknowledged
}

fn lines(diary: &std::path::Path) -> usize {
    fs::read_to_string(diary).unwrap().lines().count()
}

async fn check_job(client: &Client, number: usize) {
    let name = format!("job-{number}");
    let expected = if code(number) == 0 { "Succeeded" } else { "Failed" };
    until(client, &name, &[expected]).await;
    let whole: String = (0..LINES).map(|line| format!("line {line}\n")).collect();
    // The job may end with its master; its worker's end is its own.
    eventually("all replicas have ended", async || {
        let ended = |phase: Option<&str>| matches!(phase, Some("Succeeded" | "Failed"));
        pods(client, &name).await.iter().all(|pod| ended(pod.status.as_ref().unwrap().phase.as_deref()))
    })
    .await;
    let all = pods(client, &name).await;
    assert_eq!(all.len(), 1 + usize::from(number.is_multiple_of(2)));
    for pod in all {
        let pod_name = pod.metadata.name.unwrap();
        let statuses = pod.status.unwrap().container_statuses.unwrap();
        let end = statuses[0].state.as_ref().unwrap().terminated.as_ref().unwrap();
        assert_eq!((end.exit_code, statuses[0].restart_count), (code(number), 0), "{pod_name}");
        assert_eq!(log(client, &pod_name).await, whole, "{pod_name}");
    }
}

/// Writes ConfigMaps one after the other, and remembers those that were acknowledged.
struct Writer {
    stop: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<BTreeMap<String, String>>,
}

impl Writer {
    fn start(client: Client) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let api: Api<ConfigMap> = Api::namespaced(client, "default");
            let mut acknowledged = BTreeMap::new();
            for number in 0.. {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let name = format!("written-{number}");
                let map = ConfigMap {
                    metadata: kube::api::ObjectMeta { name: Some(name.clone()), ..Default::default() },
                    data: Some([("n".to_owned(), number.to_string())].into()),
                    ..ConfigMap::default()
                };
                if api.create(&PostParams::default(), &map).await.is_ok() {
                    acknowledged.insert(name, number.to_string());
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            acknowledged
        });
        Self { stop, task }
    }

    async fn stop(self) -> BTreeMap<String, String> {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap()
    }
}

async fn check_writes(client: &Client, acknowledged: &BTreeMap<String, String>) {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    for (name, number) in acknowledged {
        let found = api.get_opt(name).await.unwrap();
        let found = found.unwrap_or_else(|| panic!("{name} was acknowledged and is lost"));
        assert_eq!(found.data.unwrap().get("n"), Some(number));
    }
}
