//! Jobs that cannot start say why, and give up when they are told to.

use std::time::Duration;

use serde_json::{Value, json};
use trainyard_core::GangScheduler;
use trainyard_testkit::{Crds, Job, Plane, PodScript, World, pytorch};

use crate::support::{plane, seconds};

crate::under_both!(
    a_pod_without_a_node_is_explained,
    an_image_that_cannot_be_had_is_explained,
    a_name_that_is_taken_is_explained,
    what_is_said_of_a_refusal_outlives_the_operator,
    a_gang_that_waits_is_explained,
    a_job_that_starts_at_once_says_nothing_of_it,
    a_job_that_does_not_start_in_time_fails_and_says_why,
    a_job_that_has_started_has_time,
    a_deadline_that_is_no_number_is_told_and_ignored,
);

const DEADLINE: &str = "trainyard.dev/start-deadline-seconds";

fn stuck() -> PodScript {
    PodScript { unscheduled: Duration::from_hours(9), ..PodScript::runs() }
}

fn job() -> Job {
    pytorch("a").master().workers(2)
}

/// What a scheduler or a node says of a pod.
async fn tell(plane: &Plane, pod: &str, status: Value) {
    let path = format!("/api/v1/namespaces/default/pods/{pod}/status");
    plane.rest().merge(&path, &json!({ "status": status })).await.unwrap();
}

async fn refuse_a_node(plane: &Plane, pod: &str, message: &str) {
    let unschedulable = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
    });
    tell(plane, pod, json!({ "conditions": [unschedulable] })).await;
}

fn said(world: &World) -> Option<(String, String)> {
    let condition = world.condition("a", "Waiting")?;
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    Some((text("reason"), text("message")))
}

async fn a_pod_without_a_node_is_explained(crds: Crds) {
    let plane = plane(crds, |pod| match pod.slot().as_str() {
        "worker-1" => PodScript { unscheduled: Duration::from_secs(60), ..PodScript::runs() },
        _ => PodScript::runs(),
    })
    .await;
    plane.create(job()).await;
    plane.until("its pods are there", |w| w.pods("a").len() == 3).await;
    let text = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.";
    refuse_a_node(&plane, "a-worker-1", text).await;
    let before = plane.now();
    let world = plane.until("it says so", |w| said(w).is_some()).await;
    assert!(plane.now().duration_since(before).as_secs() <= 5);
    let (reason, message) = said(&world).unwrap();
    assert_eq!(reason, "PyTorchJobUnschedulable");
    assert_eq!(message, format!("a-worker-1 does not start: {text}"));
    plane.until("the master runs", |w| w.shape("a") == "Created=T Waiting=T Running=T").await;
    plane.until("all run", |w| w.in_phase("a", "Running") == 3).await;
    plane.until("it is over", |w| w.shape("a") == "Created=T Running=T").await;
}

async fn an_image_that_cannot_be_had_is_explained(crds: Crds) {
    let plane = plane(crds, |_| stuck()).await;
    plane.create(job()).await;
    plane.until("its pods are there", |w| w.pods("a").len() == 3).await;
    for pod in ["a-worker-0", "a-worker-1"] {
        let waiting = json!({ "reason": "ImagePullBackOff", "message": "Back-off pulling image \"nope\"" });
        let container = json!({
            "name": "pytorch", "image": "nope", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "waiting": waiting },
        });
        tell(&plane, pod, json!({ "containerStatuses": [container] })).await;
    }
    let both = |w: &World| said(w).is_some_and(|(_, message)| message.contains("(and 1 more)"));
    let world = plane.until("it says so of both", both).await;
    let (reason, message) = said(&world).unwrap();
    assert_eq!(reason, "PyTorchJobImageUnavailable");
    assert_eq!(message, "a-worker-0 (and 1 more) does not start: Back-off pulling image \"nope\"");
}

async fn a_name_that_is_taken_is_explained(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    let theirs = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a-worker-0", "namespace": "default" },
        "spec": { "containers": [{ "name": "c", "image": "i" }] },
    });
    plane.create(theirs).await;
    plane.create(job()).await;
    let world = plane.until("it says so", |w| said(w).is_some()).await;
    let (reason, message) = said(&world).unwrap();
    assert_eq!(reason, "PyTorchJobChildRefused");
    assert!(message.contains("a-worker-0") && message.contains("already exists"), "{message}");
    plane.delete_pod("a-worker-0").await;
    plane.until("all run", |w| w.in_phase("a", "Running") == 3 && said(w).is_none()).await;
}

/// An operator that has just started does not know what was refused: it says nothing until it does.
async fn what_is_said_of_a_refusal_outlives_the_operator(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    let theirs = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a-worker-0", "namespace": "default" },
        "spec": { "containers": [{ "name": "c", "image": "i" }] },
    });
    plane.create(theirs).await;
    plane.create(job()).await;
    plane.until("it says so", |w| said(w).is_some()).await;
    plane.pass(Duration::from_secs(30)).await;
    for _ in 0..3 {
        plane.restart_operator().await;
        plane.pass(Duration::from_secs(30)).await;
    }
    let world = plane.world();
    let shapes = world.shapes("a");
    let told = shapes.iter().position(|shape| shape.contains("Waiting")).unwrap();
    assert!(shapes[told..].iter().all(|shape| shape.contains("Waiting")), "{shapes:?}");
    plane.delete_pod("a-worker-0").await;
    plane.until("all run", |w| w.in_phase("a", "Running") == 3 && said(w).is_none()).await;
}

async fn a_gang_that_waits_is_explained(crds: Crds) {
    let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let names = json!({ "kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups", "singular": "podgroup" });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "podgroups.scheduling.volcano.sh" },
        "spec": { "group": "scheduling.volcano.sh", "scope": "Namespaced", "names": names, "versions": [{
            "name": "v1beta1", "served": true, "storage": true,
            "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": anything, "status": anything } } },
        }] },
    });
    let builder = Plane::builder().crds(crds).no_operator();
    let plane = builder.options(|options| options.plan.gang = GangScheduler::named("volcano")).start().await;
    plane.create(definition).await;
    plane.settle().await;
    plane.start_operator().await;
    plane.create(job()).await;
    let world = plane.until("it says so", |w| said(w).is_some()).await;
    let expected =
        ("PyTorchJobGangWaiting".into(), "no pod is created: PodGroup a waits in queue default".into());
    assert_eq!(said(&world), Some(expected));
}

async fn a_job_that_starts_at_once_says_nothing_of_it(crds: Crds) {
    let plane = plane(crds, |_| PodScript::exits(0, 30)).await;
    plane.create(job()).await;
    let world = plane.finished("a").await;
    assert!(!world.shapes("a").iter().any(|shape| shape.contains("Waiting")), "{:?}", world.shapes("a"));
}

async fn a_job_that_does_not_start_in_time_fails_and_says_why(crds: Crds) {
    let plane = plane(crds, |pod| match pod.role.as_str() {
        "master" => PodScript::runs(),
        _ => stuck(),
    })
    .await;
    plane.create(job().annotation(DEADLINE, "30").clean("All")).await;
    plane.until("its pods are there", |w| w.pods("a").len() == 3).await;
    refuse_a_node(&plane, "a-worker-0", "no room").await;
    let world = plane.finished("a").await;
    let status = &world.job("a").unwrap()["status"];
    assert_eq!(seconds(&status["startTime"], &status["completionTime"]), 30);
    let failed = world.condition("a", "Failed").unwrap()["message"].as_str().unwrap();
    let expected = "Job a has failed because its replicas did not all start within 30 s: a-worker-0 does not start: no room";
    assert_eq!(failed, expected);
    assert!(said(&world).is_none(), "a job that has ended waits for nothing");
    plane.until("its place is free", |w| w.pods("a").is_empty()).await;
}

async fn a_job_that_has_started_has_time(crds: Crds) {
    let plane = plane(crds, |pod| if pod.earlier == 0 { PodScript::runs() } else { stuck() }).await;
    plane.create(job().annotation(DEADLINE, "30")).await;
    plane.until("all run", |w| w.in_phase("a", "Running") == 3).await;
    plane.delete_pod("a-worker-0").await;
    plane.pass(Duration::from_secs(600)).await;
    assert!(!plane.world().is_finished("a"), "a replica that is replaced may take its time");
    plane.suspend("PyTorchJob", "a", true).await;
    plane.until("nothing is left", |w| w.pods("a").is_empty()).await;
    plane.suspend("PyTorchJob", "a", false).await;
    let world = plane.finished("a").await;
    assert!(world.is("a", "Failed"), "after a resume it counts anew");
}

async fn a_deadline_that_is_no_number_is_told_and_ignored(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    plane.create(job().annotation(DEADLINE, "soon")).await;
    let told = |world: &trainyard_testkit::World| {
        let condition = world.condition("a", "InvalidAnnotation")?;
        condition["message"].as_str().map(|message| message.contains(DEADLINE))
    };
    plane
        .until("it runs and tells", |w| w.condition("a", "Running").is_some() && told(w) == Some(true))
        .await;
}
