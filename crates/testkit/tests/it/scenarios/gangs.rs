//! Scenarios 37 and 38, and what is around them: gangs.

use std::time::Duration;

use serde_json::{Value, json};
use trainyard_core::GangScheduler;
use trainyard_testkit::{Crds, Plane, PodScript, pytorch};

crate::under_both!(
    scenario_37_volcano,
    scenario_37_volcano_and_scale,
    scenario_37_without_the_definition,
    scenario_38_scheduler_plugins,
    scenario_38_a_partial_gang_by_priority,
    a_gang_that_another_operator_made_is_watched,
    a_resumed_job_does_not_use_its_deadline_while_it_is_queued,
    a_gang_asks_for_no_more_than_its_members,
);

const VOLCANO: &str = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups";
const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
const PLUGINS: &str = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups";

fn definition(group: &str, version: &str) -> Value {
    let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let root = json!({ "type": "object", "properties": { "spec": anything, "status": anything } });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("podgroups.{group}") },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": { "kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups", "singular": "podgroup" },
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": { "openAPIV3Schema": root }, "subresources": { "status": {} },
            }],
        },
    })
}

async fn plane(crds: Crds, scheduler: &str, definitions: &[Value]) -> Plane {
    let gang = GangScheduler::named(scheduler);
    let builder = Plane::builder().crds(crds).scripts(|_| PodScript::runs());
    let plane = builder.no_operator().options(|options| options.plan.gang = gang).start().await;
    for definition in definitions {
        plane.create(definition.clone()).await;
    }
    plane.settle().await;
    plane.start_operator().await;
    plane
}

async fn volcano(crds: Crds) -> Plane {
    plane(crds, "volcano", &[definition("scheduling.volcano.sh", "v1beta1")]).await
}

/// Waits for the gang of job `a`.
async fn gang(plane: &Plane, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
    plane.until_stored(&format!("{path}/a"), holds).await
}

async fn admit(plane: &Plane) {
    let status = json!({ "status": { "phase": "Inqueue" } });
    plane.rest().merge(&format!("{VOLCANO}/a/status"), &status).await.unwrap();
}

async fn scenario_37_volcano(crds: Crds) {
    let plane = volcano(crds).await;
    plane.create(pytorch("a").workers(2).annotation("team", "x")).await;
    let group = gang(&plane, VOLCANO, |group| group["spec"]["minMember"] == 2).await;
    assert_eq!(group["spec"]["queue"], "default");
    assert_eq!(group["metadata"]["annotations"]["team"], "x");
    plane.pass(Duration::from_secs(30)).await;
    assert!(plane.pods().await.is_empty(), "the queue has not let it in");
    admit(&plane).await;
    plane.until("both run", |w| w.in_phase("a", "Running") == 2).await;
    for pod in plane.pods().await {
        assert_eq!(pod["spec"]["schedulerName"], "volcano");
        let annotations = &pod["metadata"]["annotations"];
        assert_eq!(annotations["scheduling.k8s.io/group-name"], "a");
        assert_eq!(annotations["volcano.sh/task-spec"], "worker");
    }
    plane.suspend("PyTorchJob", "a", true).await;
    gang(&plane, VOLCANO, Value::is_null).await;
    plane.suspend("PyTorchJob", "a", false).await;
    gang(&plane, VOLCANO, |group| group["spec"]["minMember"] == 2).await;
    admit(&plane).await;
    plane.until("both run", |w| w.in_phase("a", "Running") == 2).await;
    plane.patch("PyTorchJob", "a", json!({ "spec": { "runPolicy": { "activeDeadlineSeconds": 1 } } })).await;
    plane.finished("a").await;
    gang(&plane, VOLCANO, Value::is_null).await;
    let stats = plane.health().unwrap().stats();
    assert_eq!((stats.groups_created, stats.groups_deleted), (2, 2));
}

async fn scenario_37_volcano_and_scale(crds: Crds) {
    let plane = volcano(crds).await;
    plane.create(pytorch("a").workers(2)).await;
    gang(&plane, VOLCANO, |group| group["spec"]["minMember"] == 2).await;
    admit(&plane).await;
    plane.until("both run", |w| w.in_phase("a", "Running") == 2).await;
    let scale = |n: u32| json!({ "spec": { "pytorchReplicaSpecs": { "Worker": { "replicas": n } } } });
    plane.patch("PyTorchJob", "a", scale(5)).await;
    plane.until("five run", |w| w.in_phase("a", "Running") == 5).await;
    gang(&plane, VOLCANO, |group| group["spec"]["minMember"] == 5).await;
    plane.patch("PyTorchJob", "a", scale(1)).await;
    gang(&plane, VOLCANO, |group| group["spec"]["minMember"] == 1).await;
}

async fn scenario_37_without_the_definition(crds: Crds) {
    let plane = plane(crds, "volcano", &[]).await;
    plane.create(pytorch("a").workers(2)).await;
    plane.pass(Duration::from_secs(10)).await;
    assert!(plane.pods().await.is_empty());
    let reasons = plane.event_reasons("a").await;
    assert!(reasons.iter().any(|reason| reason.starts_with("Failed")), "{reasons:?}");
    // Somebody installs it: the job goes on by itself.
    plane.create(definition("scheduling.volcano.sh", "v1beta1")).await;
    gang(&plane, VOLCANO, |group| group["spec"]["minMember"] == 2).await;
    admit(&plane).await;
    plane.until("both run", |w| w.in_phase("a", "Running") == 2).await;
}

async fn scenario_38_scheduler_plugins(crds: Crds) {
    let definitions = [definition("scheduling.x-k8s.io", "v1alpha1")];
    let plane = plane(crds, "my-scheduler", &definitions).await;
    let policy = json!({ "minAvailable": 1, "scheduleTimeoutSeconds": 30 });
    plane.create(pytorch("a").workers(2).policy("schedulingPolicy", policy)).await;
    plane.until("both run", |w| w.in_phase("a", "Running") == 2).await;
    let group = gang(&plane, PLUGINS, Value::is_object).await;
    assert_eq!(group["spec"]["minMember"], 1);
    assert_eq!(group["spec"]["scheduleTimeoutSeconds"], 30);
    for pod in plane.pods().await {
        assert_eq!(pod["spec"]["schedulerName"], "my-scheduler");
        assert_eq!(pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"], "a");
    }
}

/// Those that are scheduled first make up a gang that is smaller than the job: that depends on PriorityClasses, which
/// come and go.
async fn scenario_38_a_partial_gang_by_priority(crds: Crds) {
    let definitions = [definition("scheduling.x-k8s.io", "v1alpha1")];
    let plane = plane(crds, "my-scheduler", &definitions).await;
    let asks = |class: &str, cpu: &str| {
        let resources = json!({ "requests": { "cpu": cpu } });
        json!({ "spec": { "priorityClassName": class,
            "containers": [{ "name": "pytorch", "image": "i", "resources": resources }] } })
    };
    let job = pytorch("a")
        .master()
        .workers(2)
        .policy("schedulingPolicy", json!({ "minAvailable": 2 }))
        .set("/spec/pytorchReplicaSpecs/Master/template", asks("", "1"))
        .set("/spec/pytorchReplicaSpecs/Worker/template", asks("eager", "10"));
    plane.create(job).await;
    let cpu = |group: &Value| group["spec"]["minResources"]["cpu"].clone();
    gang(&plane, PLUGINS, |group| cpu(group) == "11").await;
    let class = |name: &str, value: i32| json!({ "metadata": { "name": name }, "value": value });
    plane.rest().post(CLASSES, &class("eager", 100)).await.unwrap();
    gang(&plane, PLUGINS, |group| cpu(group) == "20").await;
    let mut default = class("everybody", 500);
    default["globalDefault"] = json!(true);
    plane.rest().post(CLASSES, &default).await.unwrap();
    gang(&plane, PLUGINS, |group| cpu(group) == "11").await;
    plane.rest().delete(&format!("{CLASSES}/everybody"), &json!({})).await.unwrap();
    gang(&plane, PLUGINS, |group| cpu(group) == "20").await;
}

/// It lacks the label that ours are watched by: whether its scheduler lets it in would never be told.
async fn a_gang_that_another_operator_made_is_watched(crds: Crds) {
    let plane = volcano(crds).await;
    plane.create(pytorch("a").workers(2)).await;
    gang(&plane, VOLCANO, |group| group["spec"]["minMember"] == 2).await;
    plane.stop_operator().await;
    let label = "training.kubeflow.org/operator-name";
    let none = json!({ "metadata": { "labels": { label: null } }, "spec": { "queue": "kept" } });
    plane.rest().merge(&format!("{VOLCANO}/a"), &none).await.unwrap();
    plane.start_operator().await;
    let group = gang(&plane, VOLCANO, |group| group["metadata"]["labels"][label].is_string()).await;
    assert_eq!(group["spec"]["queue"], "kept");
    admit(&plane).await;
    plane.until("both run", |w| w.in_phase("a", "Running") == 2).await;
}

/// Nor the time in which it has to start, which counts from the resume.
async fn a_resumed_job_does_not_use_its_deadline_while_it_is_queued(crds: Crds) {
    let plane = volcano(crds).await;
    plane.create(pytorch("a").workers(1).policy("activeDeadlineSeconds", json!(60))).await;
    gang(&plane, VOLCANO, Value::is_object).await;
    admit(&plane).await;
    plane.until("it runs", |w| w.in_phase("a", "Running") == 1).await;
    plane.suspend("PyTorchJob", "a", true).await;
    gang(&plane, VOLCANO, Value::is_null).await;
    plane.suspend("PyTorchJob", "a", false).await;
    gang(&plane, VOLCANO, Value::is_object).await;
    plane.pass(Duration::from_secs(600)).await;
    assert!(!plane.world().is_finished("a"), "it has not been let in");
    assert!(plane.world().job("a").unwrap()["status"]["startTime"].is_null());
    admit(&plane).await;
    plane.until("it runs again", |w| w.in_phase("a", "Running") == 1).await;
    let world = plane.finished("a").await;
    assert!(world.is("a", "Failed"), "now its time counts");
}

async fn a_gang_asks_for_no_more_than_its_members(crds: Crds) {
    for (scheduler, group, version, path) in [
        ("volcano", "scheduling.volcano.sh", "v1beta1", VOLCANO),
        ("my-scheduler", "scheduling.x-k8s.io", "v1alpha1", PLUGINS),
    ] {
        let plane = plane(crds.clone(), scheduler, &[definition(group, version)]).await;
        let asks = |requests: Value| json!([{ "name": "pytorch", "image": "i", "resources": { "requests": requests } }]);
        let containers = "/spec/pytorchReplicaSpecs/Worker/template/spec/containers";
        let all = json!({ "cpu": "2", "example.com/gpu": "4" });
        plane.create(pytorch("a").workers(1).set(containers, asks(all))).await;
        gang(&plane, path, |group| group["spec"]["minResources"]["example.com/gpu"] == "4").await;
        let change = |requests: Value| {
            json!({ "spec": { "pytorchReplicaSpecs": { "Worker": { "template": { "spec": {
                "containers": asks(requests) } } } } } })
        };
        plane.patch("PyTorchJob", "a", change(json!({ "cpu": "1" }))).await;
        gang(&plane, path, |group| group["spec"]["minResources"] == json!({ "cpu": "1" })).await;
        plane.patch("PyTorchJob", "a", change(json!({}))).await;
        let none = |group: &Value| group["spec"]["minResources"].as_object().is_none_or(|all| all.is_empty());
        gang(&plane, path, none).await;
    }
}
