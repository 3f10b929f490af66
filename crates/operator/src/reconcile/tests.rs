//! One look at a job, on a server that follows a script.

use std::sync::Arc;

use serde_json::{Value, json};
use trainyard_core::{Catalog, kinds};

use super::*;
use crate::api::Api;
use crate::events::Events;
use crate::health::Health;
use crate::options::Options;
use crate::sinks::JobSink;
use crate::tests::script::{Reply, Script, status};
use crate::watch::Sink;

const STATUS: &str = "PATCH /apis/kubeflow.org/v1/namespaces/ns/pytorchjobs/j/status";
const JOB: &str = "GET /apis/kubeflow.org/v1/namespaces/ns/pytorchjobs/j";

fn job(version: u32, status: Value) -> Value {
    let template = json!({ "spec": { "containers": [{ "name": "pytorch", "image": "i" }] } });
    json!({
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob",
        "metadata": { "name": "j", "namespace": "ns", "uid": "u", "resourceVersion": version.to_string() },
        "spec": { "pytorchReplicaSpecs": { "Master": { "replicas": 1, "template": template } } },
        "status": status,
    })
}

/// The status that a first plan writes.
fn created() -> Value {
    json!({
        "conditions": [{ "type": "Created", "status": "True", "reason": "PyTorchJobCreated", "message": "m" }],
        "startTime": "2026-01-01T00:00:00Z",
        "replicaStatuses": { "Master": { "selector": "training.kubeflow.org/job-name=j,\
            training.kubeflow.org/operator-name=pytorchjob-controller,training.kubeflow.org/replica-type=master" } },
    })
}

/// One look at a job that the cache knows as `seen`, on a server that answers with `replies`.
async fn look(seen: &Value, replies: Vec<Reply>) -> (Next, Vec<String>, Arc<Shell>) {
    let script = Script::new(replies);
    let options =
        Options { clock: Arc::new(|| "2026-01-01T00:00:00Z".parse().unwrap()), ..Options::default() };
    let health = Health::new(Duration::from_secs(300));
    let (events, _) = Events::new(10, health.clone());
    let api = Arc::new(Api::new(script.client(), options.effort));
    let shell = Arc::new(Shell::new(api, Catalog::default(), kinds::ALL.to_vec(), options, events, health));
    let kind = Catalog::default().kind("PyTorchJob").unwrap();
    JobSink { shell: Arc::clone(&shell), kind }.show(&seen.to_string()).unwrap();
    let next = reconcile(&shell, &Key::new(kind, "ns", "j")).await;
    (next, script.asked(), shell)
}

fn ok() -> Reply {
    Reply::Json(201, json!({}))
}

#[tokio::test(start_paused = true)]
async fn the_status_is_written_before_the_first_action_and_known_at_once() {
    let replies = vec![Reply::Json(200, job(6, created())), ok(), ok()];
    let (next, asked, shell) = look(&job(5, json!({})), replies).await;
    assert_eq!(next, Next::Again);
    assert_eq!(asked[0], STATUS);
    assert_eq!(asked.len(), 3, "and then a service and a pod: {asked:?}");
    let key = Key::new(Catalog::default().kind("PyTorchJob").unwrap(), "ns", "j");
    assert_eq!(&*shell.jobs().get(&key).unwrap().version, "6");
}

#[tokio::test(start_paused = true)]
async fn a_plan_from_an_older_job_is_dropped_before_the_first_action() {
    let replies = vec![status(409, "Conflict", "changed"), Reply::Json(200, job(9, json!({})))];
    let (next, asked, shell) = look(&job(5, json!({})), replies).await;
    assert_eq!((next, asked), (Next::Again, vec![STATUS.to_owned(), JOB.to_owned()]));
    assert_eq!(shell.health.stats().stale_plans, 1);
}

#[tokio::test(start_paused = true)]
async fn actions_without_a_write_are_guarded_by_a_look() {
    let (next, asked, _) =
        look(&job(5, created()), vec![Reply::Json(200, job(5, created())), ok(), ok()]).await;
    assert_eq!((next, &*asked[0], asked.len()), (Next::Again, JOB, 3));
    let newer = || Reply::Json(200, job(7, created()));
    let (next, asked, _) = look(&job(5, created()), vec![newer(), newer()]).await;
    assert_eq!((next, asked), (Next::Again, vec![JOB.to_owned(), JOB.to_owned()]), "nothing was created");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_gone_is_dropped() {
    let gone = || status(404, "NotFound", "gone");
    let (next, asked, shell) = look(&job(5, json!({})), vec![gone(), gone()]).await;
    assert_eq!((next, asked.len()), (Next::Again, 2));
    assert_eq!(
        reconcile(&shell, &Key::new(Catalog::default().kind("PyTorchJob").unwrap(), "ns", "j")).await,
        Next::Forget
    );
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_tried_again() {
    let (next, asked, shell) = look(&job(5, json!({})), vec![status(500, "InternalError", "oops")]).await;
    assert_eq!((next, asked.len()), (Next::Retry(None), 1));
    assert_eq!(shell.health.stats().reconcile_errors, 1);
    let oops = || status(500, "InternalError", "oops");
    let replies = vec![Reply::Json(200, job(6, created())), oops(), oops()];
    assert_eq!(look(&job(5, json!({})), replies).await.0, Next::Retry(None));
    let replies = vec![Reply::Json(200, job(6, created())), ok(), oops()];
    assert_eq!(look(&job(5, json!({})), replies).await.0, Next::Again, "what was done is progress");
}

#[tokio::test(start_paused = true)]
async fn what_the_server_drops_is_no_change() {
    let mut suspended = job(5, json!({}));
    suspended["spec"]["runPolicy"] = json!({ "suspend": true });
    let (next, asked, _) = look(&suspended, vec![Reply::Json(200, suspended.clone())]).await;
    assert_eq!((next, &*asked[0]), (Next::Rest(None), STATUS), "the same version: it did not store anything");
}

/// A job with a limit whose only replica has failed: it is replaced, which has to be written down first.
fn failed_job() -> (Value, Value) {
    let mut job = job(5, created());
    job["spec"]["pytorchReplicaSpecs"]["Master"]["restartPolicy"] = json!("ExitCode");
    let owner = json!({ "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "j", "uid": "u", "controller": true });
    let labels = json!({ "training.kubeflow.org/operator-name": "pytorchjob-controller",
        "training.kubeflow.org/job-name": "j", "training.kubeflow.org/replica-type": "master",
        "training.kubeflow.org/replica-index": "0" });
    let ended =
        json!({ "exitCode": 130, "finishedAt": "2025-12-31T23:59:00Z", "startedAt": "2025-12-31T23:58:00Z" });
    let pod = json!({ "metadata": { "name": "j-master-0", "namespace": "ns", "uid": "p", "resourceVersion": "4",
            "labels": labels, "ownerReferences": [owner] },
        "status": { "phase": "Failed",
            "containerStatuses": [{ "name": "pytorch", "restartCount": 0, "state": { "terminated": ended } }] } });
    (job, pod)
}

const RECORD: &str = "PATCH /apis/kubeflow.org/v1/namespaces/ns/pytorchjobs/j";

/// An operator that knows that job and its pod, on a server that answers with `replies`.
fn shell_of_failed(script: &Script) -> (Shell, Key) {
    let clock: crate::options::Clock = Arc::new(|| "2026-01-01T00:00:00Z".parse().unwrap());
    let options = Options { clock, ..Options::default() };
    let health = Health::new(Duration::from_secs(300));
    let (events, _) = Events::new(10, health.clone());
    let api = Arc::new(Api::new(script.client(), options.effort));
    let shell = Shell::new(api, Catalog::default(), kinds::ALL.to_vec(), options, events, health);
    let kind = Catalog::default().kind("PyTorchJob").unwrap();
    let (job, pod) = failed_job();
    let (key, job) = crate::jobs::Job::read(kind, &job.to_string()).unwrap();
    shell.jobs().learn(key.clone(), job);
    sinks::learn(&sinks::PODS, &shell, &pod.to_string()).unwrap();
    (shell, key)
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_refused_is_told_and_nothing_that_needs_it_is_done() {
    let too_large =
        status(422, "Invalid", "metadata.annotations: Too long: may not be more than 262144 bytes");
    let mut told = failed_job().0;
    told["metadata"]["resourceVersion"] = "6".into();
    // The log of the pod is asked for, and is not to be had.
    let no_log = || status(404, "NotFound", "no log");
    let script = Script::new([no_log(), too_large, no_log(), Reply::Json(200, told)]);
    let (shell, key) = shell_of_failed(&script);
    assert_eq!(reconcile(&shell, &key).await, Next::Again);
    assert_eq!(script.asked()[1], RECORD);
    assert_eq!(shell.health.stats().refused_writes, 1);
    reconcile(&shell, &key).await;
    let asked = script.asked();
    assert_eq!(asked.last().unwrap(), STATUS, "{asked:?}");
    assert!(!asked.iter().any(|line| line.starts_with("DELETE")), "{asked:?}");
    let status = script.bodies().last().unwrap()["status"].clone();
    let conditions = status["conditions"].as_array().unwrap();
    let waiting = conditions.iter().find(|condition| condition["type"] == "Waiting").unwrap();
    assert_eq!(waiting["reason"], "PyTorchJobRecordRefused");
    let message = waiting["message"].as_str().unwrap();
    assert!(message.contains("trainyard.dev/record") && message.contains("262144"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_whole_kind_that_is_not_served_says_nothing_about_its_jobs() {
    let (_, mut pod) = failed_job();
    pod["metadata"]["finalizers"] = json!(["trainyard.dev/tracking"]);
    let gone = json!({ "kind": "Status", "code": 404, "reason": "NotFound", "details": { "name": "j" } });
    for (answer, releases) in
        [(Reply::Json(404, json!("404 page not found")), false), (Reply::Json(404, gone), true)]
    {
        let script = Script::new([answer, ok()]);
        let health = Health::new(Duration::from_secs(300));
        let (events, _) = Events::new(10, health.clone());
        let api = Arc::new(Api::new(script.client(), Options::default().effort));
        let options = Options::default();
        let shell = Shell::new(api, Catalog::default(), kinds::ALL.to_vec(), options, events, health);
        sinks::learn(&sinks::PODS, &shell, &pod.to_string()).unwrap();
        let key = Key::new(Catalog::default().kind("PyTorchJob").unwrap(), "ns", "j");
        reconcile(&shell, &key).await;
        let released =
            script.asked().iter().any(|line| line == "PATCH /api/v1/namespaces/ns/pods/j-master-0");
        assert_eq!(released, releases, "{:?}", script.asked());
    }
}
