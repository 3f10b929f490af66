//! The table of status codes, and what each action sends.

use std::time::Duration;

use serde_json::Value;
use trainyard_core::{Catalog, Why, kinds};

use super::*;
use crate::api::Api;
use crate::events::Events;
use crate::health::Health;
use crate::options::Options;
use crate::sinks::ChildSink;
use crate::tests::script::{Reply, Script, status};
use crate::watch::Sink as _;

const UID: &str = "job-uid";

fn shell(script: &Script) -> Shell {
    let options = Options::default();
    let health = Health::new(Duration::from_secs(300));
    let (events, _) = Events::new(10, health.clone());
    let api = Arc::new(Api::new(script.client(), options.effort));
    Shell::new(api, Catalog::default(), kinds::ALL.to_vec(), options, events, health)
}

fn target() -> Target {
    Target {
        key: Key::new(Catalog::default().kind("PyTorchJob").unwrap(), "ns", "j"),
        uid: UID.into(),
        spec: 1,
    }
}

/// A pod as the server shows it.
fn pod(owner: &str, labelled: bool, version: &str) -> Value {
    let operator = if labelled { "pytorchjob-controller" } else { "nobody" };
    json!({ "kind": "Pod", "metadata": {
        "name": "p", "namespace": "ns", "uid": "pod-uid", "resourceVersion": version,
        "labels": { "training.kubeflow.org/operator-name": operator },
        "ownerReferences": [{ "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "j", "uid": owner, "controller": true }],
    }})
}

fn create() -> Action {
    Action::Create(Child {
        what: &Resource::POD,
        name: "p".into(),
        body: json!({ "metadata": { "name": "p" } }),
    })
}

fn delete(force: bool) -> Action {
    Action::Delete { what: &Resource::POD, name: "p".into(), uid: "pod-uid".into(), force, why: Why::CleanUp }
}

async fn one(action: Action, replies: Vec<Reply>) -> (Result<Did, Trouble>, Shell, Script) {
    let script = Script::new(replies);
    let shell = shell(&script);
    let effects = execute(&shell, &target(), vec![action]).await;
    (effects[0].result.clone(), shell, script)
}

fn failures(shell: &Shell) -> Vec<(u16, u32)> {
    shell.memory().failures(&target().key, 1).iter().map(|f| (f.code, f.count)).collect()
}

#[test]
fn the_table() {
    use Meaning::{Done, Gone, Later, Refused, Taken};
    use Verb::{Amend, Create, Delete, DeleteJob};
    let table = [
        (Create, 201, "", Done),
        (Create, 409, "AlreadyExists", Taken),
        (Create, 409, "Conflict", Later),
        (Create, 403, "Forbidden", Refused),
        (Create, 404, "NotFound", Refused),
        (Create, 422, "Invalid", Refused),
        (Create, 401, "Unauthorized", Later),
        (Create, 429, "TooManyRequests", Later),
        (Create, 500, "InternalError", Later),
        (Create, 503, "ServiceUnavailable", Later),
        (Delete, 200, "", Done),
        (Delete, 202, "", Done),
        (Delete, 404, "NotFound", Gone),
        (Delete, 409, "Conflict", Gone),
        (Delete, 403, "Forbidden", Refused),
        (Delete, 504, "Timeout", Later),
        (Amend, 404, "NotFound", Gone),
        (Amend, 409, "Conflict", Later),
        (Amend, 422, "Invalid", Refused),
        (DeleteJob, 404, "NotFound", Gone),
        (DeleteJob, 409, "Conflict", Gone),
        (DeleteJob, 302, "", Later),
    ];
    for (verb, code, reason, expected) in table {
        assert_eq!(meaning(verb, code, reason), expected, "{verb:?} {code} {reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_created_is_known_at_once() {
    let (result, shell, script) = one(create(), vec![Reply::Json(201, pod(UID, true, "7"))]).await;
    assert_eq!(result, Ok(Did::Now));
    assert_eq!(shell.pods().of(UID).len(), 1);
    assert_eq!(script.asked(), ["POST /api/v1/namespaces/ns/pods"]);
    assert_eq!(script.bodies()[0], json!({ "metadata": { "name": "p" } }));
}

#[tokio::test(start_paused = true)]
async fn what_exists_and_is_ours_is_success() {
    let exists = || status(409, "AlreadyExists", "exists");
    let (result, shell, script) = one(create(), vec![exists(), Reply::Json(200, pod(UID, true, "7"))]).await;
    assert_eq!(result, Ok(Did::Before));
    assert_eq!(script.asked()[1], "GET /api/v1/namespaces/ns/pods/p");
    assert!(shell.pods().of(UID)[0].labelled);

    let (result, shell, _) = one(create(), vec![exists(), Reply::Json(200, pod(UID, false, "7"))]).await;
    assert_eq!(result, Ok(Did::Before));
    assert!(!shell.pods().of(UID)[0].labelled, "so that the plan gives it its labels back");
}

#[tokio::test(start_paused = true)]
async fn what_exists_and_is_not_ours_is_a_refusal_that_names_the_owner() {
    let replies = vec![status(409, "AlreadyExists", "exists"), Reply::Json(200, pod("other", true, "7"))];
    let (result, shell, _) = one(create(), replies).await;
    let Err(Trouble::Taken(message)) = result else { panic!("{result:?}") };
    assert_eq!(message, "pods \"p\" already exists and is controlled by PyTorchJob j (other)");
    assert_eq!(failures(&shell), [(409, 1)]);
}

#[tokio::test(start_paused = true)]
async fn what_vanishes_between_two_answers_is_tried_again() {
    let replies = vec![status(409, "AlreadyExists", "exists"), status(404, "NotFound", "gone")];
    let (result, shell, _) = one(create(), replies).await;
    assert_eq!(result, Err(Trouble::Passing("gone".into())));
    assert!(failures(&shell).is_empty());
}

#[tokio::test(start_paused = true)]
async fn refusals_count_up_and_a_grant_clears_them() {
    let quota = || status(403, "Forbidden", "exceeded quota");
    let script =
        Script::new(vec![quota(), quota(), status(500, "", "oops"), Reply::Json(201, pod(UID, true, "7"))]);
    let shell = shell(&script);
    for expected in [vec![(403, 1)], vec![(403, 2)], vec![(403, 2)], vec![]] {
        execute(&shell, &target(), vec![create()]).await;
        assert_eq!(failures(&shell), expected);
    }
    assert_eq!(shell.health.stats().refused_writes, 2);
}

#[tokio::test(start_paused = true)]
async fn no_answer_passes() {
    let (result, shell, _) = one(create(), vec![Reply::Silence]).await;
    assert_eq!(result, Err(Trouble::Passing("no answer from the API server in time".into())));
    assert!(failures(&shell).is_empty());
    assert_eq!(shell.api.limiter().limit(), 32, "and counts as overload");
}

#[tokio::test(start_paused = true)]
async fn overload_halves_and_pauses() {
    let (result, shell, _) = one(create(), vec![Reply::Header(429, "retry-after", "5")]).await;
    assert!(matches!(result, Err(Trouble::Passing(_))));
    assert_eq!(shell.api.limiter().limit(), 32);
    let before = tokio::time::Instant::now();
    let _permit = shell.api.limiter().acquire().await;
    assert_eq!(before.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn deletes_carry_the_uid_and_know_when_there_is_nothing_left() {
    let known = |shell: &Shell| {
        sinks::learn(&PODS, shell, &pod(UID, true, "7").to_string()).unwrap();
    };
    for (reply, did, left) in [
        (status(404, "NotFound", ""), Did::Before, 0),
        (status(409, "Conflict", ""), Did::Before, 0),
        (Reply::Json(200, json!({ "kind": "Status", "status": "Success" })), Did::Now, 0),
        (Reply::Json(200, pod(UID, true, "8")), Did::Now, 1),
    ] {
        let script = Script::new([reply]);
        let shell = shell(&script);
        known(&shell);
        let effects = execute(&shell, &target(), vec![delete(true)]).await;
        assert_eq!(effects[0].result, Ok(did));
        assert_eq!(shell.pods().of(UID).len(), left);
        assert_eq!(script.asked(), ["DELETE /api/v1/namespaces/ns/pods/p"]);
        let expected = json!({ "preconditions": { "uid": "pod-uid" }, "gracePeriodSeconds": 0 });
        assert_eq!(script.bodies()[0], expected);
    }
}

/// The watch may be first, and the answer carries the version of the deletion itself.
#[tokio::test(start_paused = true)]
async fn the_answer_to_a_delete_does_not_bring_back_what_the_watch_saw_go() {
    let shell = Arc::new(shell(&Script::new([])));
    let sink = ChildSink { shell: Arc::clone(&shell), resource: &PODS };
    sink.show(&pod(UID, true, "7").to_string()).unwrap();
    sink.remove(&pod(UID, true, "8").to_string()).unwrap();
    sinks::learn(&PODS, &shell, &pod(UID, true, "8").to_string()).unwrap();
    assert!(shell.pods().of(UID).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_job_is_deleted_in_the_background_and_a_pod_is_amended_by_merge_patch() {
    let (result, _, script) =
        one(Action::DeleteJob { uid: UID.into() }, vec![Reply::Json(200, json!({}))]).await;
    assert_eq!(result, Ok(Did::Now));
    assert_eq!(script.asked(), ["DELETE /apis/kubeflow.org/v1/namespaces/ns/pytorchjobs/j"]);
    assert_eq!(script.bodies()[0]["propagationPolicy"], "Background");
    let amend = Action::Amend {
        what: &Resource::POD,
        name: "p".into(),
        uid: "pod-uid".into(),
        patch: json!({ "a": 1 }),
    };
    let (result, shell, script) = one(amend, vec![Reply::Json(200, pod(UID, true, "9"))]).await;
    assert_eq!(result, Ok(Did::Now));
    assert_eq!(script.asked(), ["PATCH /api/v1/namespaces/ns/pods/p"]);
    assert_eq!(shell.pods().of(UID).len(), 1);
}

/// A server gives up after five writers in a row that were faster.
#[tokio::test(start_paused = true)]
async fn a_pod_that_others_write_to_is_not_taken_for_gone() {
    let patch = json!({ "metadata": { "uid": "pod-uid", "labels": {} } });
    let (name, uid) = ("p".to_owned(), "pod-uid".to_owned());
    let amend = Action::Amend { what: &Resource::POD, name: name.clone(), uid: uid.clone(), patch };
    for action in [amend, Action::Release { name, uid }] {
        let script = Script::new([status(409, "Conflict", "the object has been modified")]);
        let shell = shell(&script);
        sinks::learn(&PODS, &shell, &pod(UID, true, "7").to_string()).unwrap();
        let effects = execute(&shell, &target(), vec![action]).await;
        assert!(matches!(effects[0].result, Err(Trouble::Passing(_))), "{effects:?}");
        assert_eq!(shell.pods().of(UID).len(), 1, "it is still there");
    }
}

#[tokio::test(start_paused = true)]
async fn trouble_of_the_server_that_lasts_is_told() {
    let script = Script::new((0..4).map(|_| status(500, "InternalError", "failed calling webhook")));
    let shell = shell(&script);
    let mut told = Vec::new();
    for _ in 0..4 {
        let effects = execute(&shell, &target(), vec![create()]).await;
        told.push(
            crate::report::notices(&effects).into_iter().map(|notice| notice.message).collect::<Vec<_>>(),
        );
    }
    let message = || vec!["Error creating: failed calling webhook".to_owned()];
    assert_eq!(told, [vec![], vec![], message(), message()]);
    assert_eq!(failures(&shell), [(500, 4)]);
}

/// A service for replica 0 of the worker, as it is wanted and as it is there.
fn service(labels: &Value, owner: Option<&str>) -> (Action, Value) {
    let owners = |uid: &str| json!([{ "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "j", "uid": uid, "controller": true }]);
    let wanted = json!({ "metadata": { "name": "s", "ownerReferences": owners(UID), "labels": {
        "training.kubeflow.org/operator-name": "pytorchjob-controller", "training.kubeflow.org/job-name": "j" } } });
    let there = json!({ "kind": "Service", "metadata": { "name": "s", "namespace": "ns", "uid": "s-uid",
        "resourceVersion": "7", "labels": labels, "ownerReferences": owner.map_or(json!([]), owners) } });
    (Action::Create(Child { what: &Resource::SERVICE, name: "s".into(), body: wanted }), there)
}

#[tokio::test(start_paused = true)]
async fn an_orphaned_service_of_this_very_replica_is_adopted() {
    let labels = json!({ "training.kubeflow.org/operator-name": "pytorchjob-controller",
        "training.kubeflow.org/job-name": "j", "more": "labels" });
    let exists = || status(409, "AlreadyExists", "exists");
    let (action, orphan) = service(&labels, None);
    let (_, adopted) = service(&labels, Some(UID));
    let replies = vec![exists(), Reply::Json(200, orphan.clone()), Reply::Json(200, adopted)];
    let (result, shell, script) = one(action.clone(), replies).await;
    assert_eq!(result, Ok(Did::Before));
    assert_eq!(script.asked()[2], "PATCH /api/v1/namespaces/ns/services/s");
    let patch = &script.bodies()[2]["metadata"];
    assert_eq!((&patch["uid"], &patch["ownerReferences"][0]["uid"]), (&json!("s-uid"), &json!(UID)));
    assert_eq!(shell.services().of(UID).len(), 1);
    // The role of the training-operator allows to delete services, but not to change them.
    let forbidden = status(403, "Forbidden", "no");
    let replies = vec![exists(), Reply::Json(200, orphan), forbidden, Reply::Json(200, json!({}))];
    let (result, _, script) = one(action.clone(), replies).await;
    assert!(matches!(result, Err(Trouble::Passing(_))), "{result:?}");
    assert_eq!(script.asked()[3], "DELETE /api/v1/namespaces/ns/services/s");
    assert_eq!(script.bodies()[3]["preconditions"]["uid"], "s-uid");
    // What was made for another, or by somebody else, is left alone.
    let (_, stranger) = service(&json!({ "app": "x" }), None);
    let (_, taken) = service(&labels, Some("other"));
    for there in [stranger, taken] {
        let (result, _, script) = one(action.clone(), vec![exists(), Reply::Json(200, there)]).await;
        assert!(matches!(result, Err(Trouble::Taken(_))), "{result:?}");
        assert_eq!(script.asked().len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn effects_come_in_the_order_of_the_actions() {
    let script = Script::new([status(404, "", ""), Reply::Json(200, json!({})), status(403, "", "no")]);
    let effects = execute(&shell(&script), &target(), vec![delete(false), delete(false), create()]).await;
    let results: Vec<bool> = effects.iter().map(|effect| effect.result.is_ok()).collect();
    assert_eq!(results, [true, true, false]);
}
