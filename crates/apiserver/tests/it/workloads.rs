//! Deployments, replica sets, jobs and endpoints at work, with a kubelet that does as the test says.

use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use trainyard_apiserver::Server;
use trainyard_apiserver::store::backend::{Backend, BackendError, Loaded, Write};

use crate::harness::{Api, PODS, clock};

const NULL: Value = Value::Null;
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

fn deployment(name: &str, replicas: i64, image: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": image}]}},
    }})
}

fn job(name: &str, spec: Value) -> Value {
    let mut job = json!({"metadata": {"name": name}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1"}]}}}});
    for (field, value) in spec.as_object().unwrap() {
        job["spec"][field] = value.clone();
    }
    job
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

fn conditions(object: &Value) -> Vec<String> {
    let list = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    list.iter()
        .map(|c| format!("{}={} {}", text(&c["type"]), text(&c["status"]), text(&c["reason"])))
        .collect()
}

/// What a kubelet would do to pods.
struct Bed {
    api: Api,
}

impl Bed {
    fn new() -> Self {
        Self { api: Api::new() }
    }

    async fn list(&self, path: &str) -> Value {
        self.api.ok("GET", path, NULL).await
    }

    async fn pods(&self) -> Vec<String> {
        names(&self.list(PODS).await)
    }

    async fn report(&self, pod: &str, status: Value) {
        self.api.ok("MERGE", &format!("{PODS}/{pod}/status"), json!({"status": status})).await;
        self.api.settle().await;
    }

    async fn ready(&self, pod: &str, ip: &str) {
        let conditions =
            json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        self.report(pod, json!({"phase": "Running", "podIP": ip, "conditions": conditions})).await;
    }

    async fn end(&self, pod: &str, code: i64) {
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        let now = self.list(&format!("{PODS}/{pod}")).await["metadata"]["creationTimestamp"].clone();
        let state = json!({"terminated": {"exitCode": code, "finishedAt": now}});
        self.report(pod, json!({"phase": phase, "containerStatuses": [{"name": "main", "state": state}]}))
            .await;
    }

    /// Makes every pod ready until nothing changes any more.
    async fn run_everything(&self) {
        for _ in 0..50 {
            let list = self.list(PODS).await;
            let waiting =
                list["items"].as_array().unwrap().iter().find(|pod| pod["status"]["phase"] == "Pending");
            let Some(pod) = waiting else { return };
            self.ready(pod["metadata"]["name"].as_str().unwrap(), "10.0.0.1").await;
        }
        panic!("pods never stopped coming");
    }

    async fn reasons(&self) -> Vec<String> {
        let list = self.list(EVENTS).await;
        let text = |v: &Value| v.as_str().unwrap().to_owned();
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| format!("{}: {}", text(&e["reason"]), text(&e["message"])))
            .collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_deployment_makes_pods_and_says_when_they_are_there() {
    let bed = Bed::new();
    let made = bed.api.ok("POST", DEPLOYMENTS, deployment("web", 2, "nginx:1")).await;
    assert_eq!(
        made["spec"]["strategy"]["rollingUpdate"],
        json!({"maxSurge": "25%", "maxUnavailable": "25%"})
    );
    bed.api.settle().await;
    let sets = bed.list(SETS).await;
    let set = &sets["items"][0];
    assert_eq!(
        set["metadata"]["annotations"],
        json!({
        "deployment.kubernetes.io/desired-replicas": "2", "deployment.kubernetes.io/max-replicas": "3",
        "deployment.kubernetes.io/revision": "1"})
    );
    let hash = &set["metadata"]["labels"]["pod-template-hash"];
    assert_eq!(set["spec"]["selector"]["matchLabels"], json!({"app": "web", "pod-template-hash": hash}));
    assert_eq!(set["metadata"]["name"], json!(format!("web-{}", hash.as_str().unwrap())));
    assert_eq!(bed.pods().await.len(), 2);
    let web = bed.list(&format!("{DEPLOYMENTS}/web")).await;
    assert_eq!(
        conditions(&web),
        ["Available=False MinimumReplicasUnavailable", "Progressing=True ReplicaSetUpdated"]
    );
    assert_eq!(web["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    assert_eq!(web["metadata"]["generation"], 1);
    bed.run_everything().await;
    let web = bed.list(&format!("{DEPLOYMENTS}/web")).await;
    assert_eq!(
        conditions(&web),
        ["Available=True MinimumReplicasAvailable", "Progressing=True NewReplicaSetAvailable"]
    );
    let status = &web["status"];
    assert_eq!((&status["readyReplicas"], &status["updatedReplicas"]), (&json!(2), &json!(2)));
    let set = set["metadata"]["name"].as_str().unwrap();
    let events = bed.reasons().await;
    assert!(
        events.contains(&format!("ScalingReplicaSet: Scaled up replica set {set} from 0 to 2")),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_template_is_rolled_out_and_back() {
    let bed = Bed::new();
    bed.api.ok("POST", DEPLOYMENTS, deployment("web", 3, "nginx:1")).await;
    bed.api.settle().await;
    bed.run_everything().await;
    let image = |image: &str| json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}});
    let path = format!("{DEPLOYMENTS}/web");
    bed.api.ok("STRATEGIC", &path, image("nginx:2")).await;
    bed.api.settle().await;
    // One more than wanted, and none less until the new one is ready.
    assert_eq!(bed.pods().await.len(), 4);
    bed.run_everything().await;
    let pods = bed.list(PODS).await;
    let images: Vec<&Value> =
        pods["items"].as_array().unwrap().iter().map(|p| &p["spec"]["containers"][0]["image"]).collect();
    assert_eq!(images, ["nginx:2", "nginx:2", "nginx:2"]);
    let web = bed.list(&path).await;
    assert_eq!(web["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
    assert!(conditions(&web).contains(&"Progressing=True NewReplicaSetAvailable".to_owned()));
    bed.api.ok("STRATEGIC", &path, image("nginx:1")).await;
    bed.api.settle().await;
    bed.run_everything().await;
    let sets = bed.list(SETS).await;
    assert_eq!(sets["items"].as_array().unwrap().len(), 2, "the old set is used again");
    let web = bed.list(&path).await;
    assert_eq!(web["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");
}

#[tokio::test(start_paused = true)]
async fn a_deployment_is_scaled_and_paused() {
    let bed = Bed::new();
    let path = format!("{DEPLOYMENTS}/web");
    bed.api.ok("POST", DEPLOYMENTS, deployment("web", 1, "nginx:1")).await;
    bed.api.settle().await;
    let scale = bed.api.ok("MERGE", &format!("{path}/scale"), json!({"spec": {"replicas": 3}})).await;
    assert_eq!(scale["status"]["selector"], "app=web");
    bed.api.settle().await;
    assert_eq!(bed.pods().await.len(), 3);
    bed.api.ok("MERGE", &path, json!({"spec": {"replicas": 0}})).await;
    bed.api.settle().await;
    assert!(bed.pods().await.is_empty());
    bed.api.ok("MERGE", &path, json!({"spec": {"paused": true, "replicas": 1, "template": {"metadata": {"labels": {"v": "2"}}}}})).await;
    bed.api.settle().await;
    let web = bed.list(&path).await;
    assert!(
        conditions(&web).contains(&"Progressing=Unknown DeploymentPaused".to_owned()),
        "{:?}",
        conditions(&web)
    );
    assert_eq!(bed.list(SETS).await["items"].as_array().unwrap().len(), 1, "nothing new while paused");
    bed.api.ok("MERGE", &path, json!({"spec": {"paused": false}})).await;
    bed.api.settle().await;
    assert_eq!(bed.list(SETS).await["items"].as_array().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn recreate_lets_the_old_pods_go_first() {
    let bed = Bed::new();
    let mut web = deployment("web", 1, "nginx:1");
    web["spec"]["strategy"] = json!({"type": "Recreate"});
    bed.api.ok("POST", DEPLOYMENTS, web).await;
    bed.api.settle().await;
    let old = bed.pods().await.remove(0);
    let target = json!({"metadata": {"name": old}, "target": {"kind": "Node", "name": "n"}});
    bed.api.ok("POST", &format!("{PODS}/{old}/binding"), target).await;
    bed.ready(&old, "10.0.0.1").await;
    let image =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}}});
    bed.api.ok("STRATEGIC", &format!("{DEPLOYMENTS}/web"), image).await;
    bed.api.settle().await;
    assert_eq!(bed.pods().await.join(" "), old, "it is still ending");
    bed.api.ok("DELETE", &format!("{PODS}/{old}"), json!({"gracePeriodSeconds": 0})).await;
    bed.api.settle().await;
    let pods = bed.list(PODS).await;
    assert_eq!(pods["items"][0]["spec"]["containers"][0]["image"], "nginx:2");
}

#[tokio::test(start_paused = true)]
async fn a_stuck_rollout_is_told() {
    let bed = Bed::new();
    let mut web = deployment("web", 1, "nginx:1");
    web["spec"]["progressDeadlineSeconds"] = json!(60);
    bed.api.ok("POST", DEPLOYMENTS, web).await;
    bed.api.settle().await;
    tokio::time::sleep(Duration::from_secs(70)).await;
    let web = bed.list(&format!("{DEPLOYMENTS}/web")).await;
    assert!(
        conditions(&web).contains(&"Progressing=False ProgressDeadlineExceeded".to_owned()),
        "{:?}",
        conditions(&web)
    );
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_replaces_adopts_and_lets_go() {
    let bed = Bed::new();
    let lone = json!({"metadata": {"name": "lone", "labels": {"app": "a"}},
        "spec": {"containers": [{"name": "main", "image": "busybox:1"}]}});
    bed.api.ok("POST", PODS, lone).await;
    let mut set = deployment("a", 2, "nginx:1");
    set["metadata"]["name"] = json!("set");
    bed.api.ok("POST", SETS, set).await;
    bed.api.settle().await;
    let pods = bed.pods().await;
    assert_eq!(pods.len(), 2);
    assert!(pods.contains(&"lone".to_owned()), "{pods:?}");
    let owner = &bed.list(&format!("{PODS}/lone")).await["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["controller"]), (&json!("ReplicaSet"), &json!(true)));
    bed.api.ok("MERGE", &format!("{PODS}/lone"), json!({"metadata": {"labels": {"app": "b"}}})).await;
    bed.api.settle().await;
    assert_eq!(bed.pods().await.len(), 3);
    assert!(bed.list(&format!("{PODS}/lone")).await["metadata"].get("ownerReferences").is_none());
    let other = bed.pods().await.into_iter().find(|name| name != "lone").unwrap();
    bed.end(&other, 1).await;
    assert_eq!(bed.list(&format!("{SETS}/set")).await["status"]["replicas"], 2, "the failed one is replaced");
}

#[tokio::test(start_paused = true)]
async fn a_refused_template_is_told_and_tried_again() {
    let bed = Bed::new();
    let mut set = deployment("a", 1, "nginx:1");
    set["spec"]["template"]["spec"]["priorityClassName"] = json!("missing");
    bed.api.ok("POST", SETS, set).await;
    bed.api.settle().await;
    let status = bed.list(&format!("{SETS}/a")).await;
    assert_eq!(conditions(&status), ["ReplicaFailure=True FailedCreate"]);
    let class = json!({"metadata": {"name": "missing"}, "value": 5});
    bed.api.ok("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", class).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(bed.pods().await.len(), 1);
    assert!(conditions(&bed.list(&format!("{SETS}/a")).await).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_job_completes() {
    let bed = Bed::new();
    let made = bed.api.ok("POST", JOBS, job("j", json!({"completions": 2, "parallelism": 1}))).await;
    let uid = made["metadata"]["uid"].as_str().unwrap();
    assert_eq!(made["spec"]["selector"]["matchLabels"], json!({"batch.kubernetes.io/controller-uid": uid}));
    bed.api.settle().await;
    let first = bed.pods().await.remove(0);
    let pod = bed.list(&format!("{PODS}/{first}")).await;
    assert_eq!(pod["metadata"]["finalizers"], json!(["batch.kubernetes.io/job-tracking"]));
    assert_eq!(pod["metadata"]["labels"]["job-name"], "j");
    bed.end(&first, 0).await;
    let status = bed.list(&format!("{JOBS}/j")).await["status"].clone();
    assert_eq!((&status["succeeded"], &status["active"]), (&json!(1), &json!(1)), "{status}");
    let second = bed.pods().await.into_iter().find(|name| *name != first).unwrap();
    bed.end(&second, 0).await;
    let done = bed.list(&format!("{JOBS}/j")).await;
    assert_eq!(
        conditions(&done),
        ["SuccessCriteriaMet=True CompletionsReached", "Complete=True CompletionsReached"]
    );
    let status = &done["status"];
    assert_eq!((&status["succeeded"], &status["uncountedTerminatedPods"]), (&json!(2), &json!({})));
    assert!(status["completionTime"].is_string() && status.get("active").is_none());
    assert!(bed.list(&format!("{PODS}/{first}")).await["metadata"].get("finalizers").is_none());
    assert!(bed.reasons().await.contains(&"Completed: Job completed".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_job_fails_at_its_limit_after_growing_pauses() {
    let bed = Bed::new();
    bed.api.ok("POST", JOBS, job("j", json!({"backoffLimit": 1}))).await;
    bed.api.settle().await;
    let first = bed.pods().await.remove(0);
    bed.end(&first, 1).await;
    assert_eq!(bed.pods().await.len(), 1, "the next one waits");
    tokio::time::sleep(Duration::from_secs(11)).await;
    let second = bed.pods().await.into_iter().find(|name| *name != first).unwrap();
    bed.end(&second, 1).await;
    let failed = bed.list(&format!("{JOBS}/j")).await;
    assert_eq!(
        conditions(&failed),
        ["FailureTarget=True BackoffLimitExceeded", "Failed=True BackoffLimitExceeded"]
    );
    assert_eq!(failed["status"]["failed"], 2);
    let message = "BackoffLimitExceeded: Job has reached the specified backoff limit".to_owned();
    assert!(bed.reasons().await.contains(&message));
}

#[tokio::test(start_paused = true)]
async fn an_indexed_job_counts_its_indexes() {
    let bed = Bed::new();
    bed.api
        .ok("POST", JOBS, job("j", json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3})))
        .await;
    bed.api.settle().await;
    let pods = bed.pods().await;
    assert_eq!(pods.len(), 3);
    for (index, pod) in pods.iter().enumerate() {
        assert!(pod.starts_with(&format!("j-{index}-")), "{pod}");
        bed.end(pod, 0).await;
    }
    let done = bed.list(&format!("{JOBS}/j")).await;
    assert_eq!(
        (&done["status"]["completedIndexes"], &done["status"]["succeeded"]),
        (&json!("0-2"), &json!(3))
    );
}

#[tokio::test(start_paused = true)]
async fn a_job_is_suspended_and_resumed() {
    let bed = Bed::new();
    let path = format!("{JOBS}/j");
    bed.api.ok("POST", JOBS, job("j", json!({"suspend": true}))).await;
    bed.api.settle().await;
    assert!(bed.pods().await.is_empty());
    assert_eq!(conditions(&bed.list(&path).await), ["Suspended=True JobSuspended"]);
    bed.api.ok("MERGE", &path, json!({"spec": {"suspend": false}})).await;
    bed.api.settle().await;
    assert_eq!(bed.pods().await.len(), 1);
    assert_eq!(conditions(&bed.list(&path).await), ["Suspended=False JobResumed"]);
    bed.api.ok("MERGE", &path, json!({"spec": {"suspend": true}})).await;
    bed.api.settle().await;
    assert!(bed.pods().await.is_empty());
    assert!(bed.list(&path).await["status"].get("failed").is_none(), "suspension is no failure");
}

#[tokio::test(start_paused = true)]
async fn time_ends_jobs() {
    let bed = Bed::new();
    bed.api
        .ok("POST", JOBS, job("late", json!({"activeDeadlineSeconds": 5, "ttlSecondsAfterFinished": 60})))
        .await;
    bed.api.settle().await;
    tokio::time::sleep(Duration::from_secs(8)).await;
    let late = bed.list(&format!("{JOBS}/late")).await;
    assert_eq!(conditions(&late), ["FailureTarget=True DeadlineExceeded", "Failed=True DeadlineExceeded"]);
    assert!(bed.pods().await.is_empty());
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert_eq!(bed.api.code("GET", &format!("{JOBS}/late")).await, 404);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_job_takes_its_pods_along_only_if_asked() {
    let bed = Bed::new();
    for (name, policy, left) in [("a", NULL, 1), ("b", json!({"propagationPolicy": "Background"}), 1)] {
        bed.api.ok("POST", JOBS, job(name, json!({}))).await;
        bed.api.settle().await;
        bed.api.ok("DELETE", &format!("{JOBS}/{name}"), policy).await;
        bed.api.settle().await;
        assert_eq!(bed.api.code("GET", &format!("{JOBS}/{name}")).await, 404, "{name}");
        assert_eq!(bed.pods().await.len(), left, "{name}");
    }
    let pods = bed.list(PODS).await;
    assert!(pods["items"][0]["metadata"].get("finalizers").is_none(), "nobody is left to wait for");
}

#[tokio::test(start_paused = true)]
async fn a_service_leads_to_its_ready_pods() {
    let bed = Bed::new();
    let service = json!({"metadata": {"name": "s", "labels": {"x": "y"}},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}});
    bed.api.ok("POST", SERVICES, service).await;
    bed.api.ok("POST", DEPLOYMENTS, deployment("web", 2, "nginx:1")).await;
    bed.api.settle().await;
    let slices = bed.list(SLICES).await;
    let mine = |list: &Value| {
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|s| s["metadata"]["name"] != "kubernetes")
            .unwrap()
            .clone()
    };
    assert_eq!(
        mine(&slices)["metadata"]["labels"],
        json!({"x": "y", "kubernetes.io/service-name": "s",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"})
    );
    let pods = bed.pods().await;
    bed.ready(&pods[0], "10.0.0.1").await;
    bed.report(&pods[1], json!({"phase": "Running", "podIP": "10.0.0.2"})).await;
    let subset = &bed.list(&format!("{ENDPOINTS}/s")).await["subsets"][0];
    assert_eq!(subset["addresses"][0]["ip"], "10.0.0.1");
    assert_eq!(subset["notReadyAddresses"][0]["ip"], "10.0.0.2");
    assert_eq!(subset["ports"], json!([{"port": 8080, "protocol": "TCP"}]));
    let slice = mine(&bed.list(SLICES).await);
    let ready: Vec<&Value> =
        slice["endpoints"].as_array().unwrap().iter().map(|e| &e["conditions"]["ready"]).collect();
    assert_eq!(ready, [&json!(true), &json!(false)]);
    bed.api.ok("DELETE", &format!("{SERVICES}/s"), NULL).await;
    bed.api.settle().await;
    assert_eq!(bed.api.code("GET", &format!("{ENDPOINTS}/s")).await, 404);
    assert_eq!(
        bed.api.code("GET", &format!("{SLICES}/{}", slice["metadata"]["name"].as_str().unwrap())).await,
        404
    );
}

#[tokio::test(start_paused = true)]
async fn pods_of_this_machine_are_endpoints_too() {
    let bed = Bed::new();
    let service =
        json!({"metadata": {"name": "s"}, "spec": {"selector": {"app": "web"}, "clusterIP": "None"}});
    bed.api.ok("POST", SERVICES, service).await;
    bed.api.ok("POST", DEPLOYMENTS, deployment("web", 2, "nginx:1")).await;
    bed.api.settle().await;
    for pod in bed.pods().await {
        bed.ready(&pod, "127.0.0.1").await;
    }
    let addresses = &bed.list(&format!("{ENDPOINTS}/s")).await["subsets"][0]["addresses"];
    assert_eq!(addresses.as_array().map(Vec::len), Some(2), "{addresses}");
    assert_eq!(addresses[0]["ip"], "127.0.0.1");
}

#[tokio::test(start_paused = true)]
async fn nobody_works_when_somebody_else_shall() {
    let api =
        Api::with(trainyard_apiserver::Server::options().clock(crate::harness::clock()).without_workloads());
    api.ok("POST", DEPLOYMENTS, deployment("web", 2, "nginx:1")).await;
    api.settle().await;
    assert!(names(&api.ok("GET", SETS, NULL).await).is_empty());
}

/// Objects by key, with the revision of their last write.
type Objects = BTreeMap<String, (u64, Bytes)>;

/// Objects that outlive a server, and how many writes there were.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<(u64, Objects)>>);

impl Kept {
    fn revision(&self) -> u64 {
        self.0.lock().unwrap().0
    }
}

impl Backend for Kept {
    fn load(&self) -> Result<Loaded, BackendError> {
        let (revision, objects) = &*self.0.lock().unwrap();
        let objects = objects.iter().map(|(key, (at, bytes))| (key.clone(), *at, bytes.clone()));
        Ok(Loaded { revision: *revision, objects: objects.collect() })
    }

    fn commit(&self, batch: &[Write]) -> Result<(), BackendError> {
        let (revision, objects) = &mut *self.0.lock().unwrap();
        for Write { revision: at, key, value } in batch {
            *revision = *at;
            match value {
                Some(bytes) => objects.insert(key.clone(), (*at, bytes.clone())),
                None => objects.remove(key),
            };
        }
        Ok(())
    }

    fn blocks(&self) -> bool {
        false
    }
}

#[tokio::test(start_paused = true)]
async fn controllers_that_have_much_to_do_stop_at_once() {
    const MANY: usize = 3000;
    let kept = Kept::default();
    let options = || Server::options().clock(clock()).backend(kept.clone());
    let api = Api::with(options().without_workloads());
    for n in 0..MANY {
        let service = json!({"metadata": {"name": format!("s-{n}")}, "spec": {
            "clusterIP": "None", "selector": {"app": format!("a-{n}")}, "ports": [{"port": 80}]}});
        api.ok("POST", SERVICES, service).await;
    }
    api.server.shutdown().await;
    let before = kept.revision();
    let server = Server::open(options()).unwrap();
    // The controllers begin their work: two objects for each service.
    for _ in 0..4 {
        tokio::task::yield_now().await;
    }
    server.shutdown().await;
    let written = kept.revision() - before;
    assert!(written < 500, "{written} writes after the server was told to stop");
    let api = Api::with(options());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let slices = api.ok("GET", &format!("{SLICES}?limit=1"), NULL).await;
    assert_eq!(slices["metadata"]["remainingItemCount"], MANY - 1, "the next server does the rest");
}
