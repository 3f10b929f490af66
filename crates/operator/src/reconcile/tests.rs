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
