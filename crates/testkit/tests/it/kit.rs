//! The kit itself: a test that cannot fail proves nothing.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};
use trainyard_testkit::kubelet::OnDelete;
use trainyard_testkit::plane::phases;
use trainyard_testkit::rest::{self, code};
use trainyard_testkit::watch::{Change, Watch};
use trainyard_testkit::{Crds, Faults, Plane, PodInfo, PodScript, Rates, pytorch};

use crate::support::seconds;

fn pod(name: &str, policy: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "namespace": "default" },
        "spec": {
            "restartPolicy": policy,
            "initContainers": [{ "name": "first", "image": "none" }],
            "containers": [{ "name": "main", "image": "none", "env": [{ "name": "A", "value": "b" }] }],
        },
    })
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_started_and_ends() {
    let plane = Plane::builder().no_operator().scripts(|_| PodScript::exits(0, 60)).start().await;
    plane.create(pod("a", "Never")).await;
    plane.until("it runs", |world| world.phase("a") == "Running").await;
    let world = plane.until("it ends", |world| world.phase("a") == "Succeeded").await;
    let status = &world.pod("a").unwrap()["status"];
    assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], 0);
    assert_eq!(status["initContainerStatuses"][0]["state"]["terminated"]["reason"], "Completed");
    assert_eq!(world.pod("a").unwrap()["spec"]["nodeName"], "node-0");
    let runs = plane.history().runs_of("a");
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].env["A"], "b");
    let (until, _) = runs[0].ended.unwrap();
    assert_eq!(until.duration_since(runs[0].started).as_secs(), 60, "in virtual time");
}

#[tokio::test(start_paused = true)]
async fn a_crashing_pod_is_restarted_in_place_with_growing_pauses() {
    let plane = Plane::builder().no_operator().scripts(|_| PodScript::crashes(1)).start().await;
    plane.create(pod("a", "OnFailure")).await;
    let restarts = |n: i64| {
        move |world: &trainyard_testkit::World| {
            let pod = world.pod("a").cloned().unwrap_or_default();
            pod["status"]["containerStatuses"][0]["restartCount"] == n && world.phase("a") == "Running"
        }
    };
    plane.until("it was restarted 3 times", restarts(3)).await;
    let starts: Vec<i64> = plane.history().runs_of("a").iter().map(|run| run.started.as_second()).collect();
    let gaps: Vec<i64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(gaps, [1, 10, 20]);
}

#[tokio::test(start_paused = true)]
async fn deletion_waits_for_the_pod_and_no_longer_than_its_grace() {
    let plane = Plane::builder().no_operator();
    let plane = plane
        .scripts(|pod| match pod.name.as_str() {
            "quick" => PodScript::runs().stops_after(5),
            "deaf" => PodScript::runs().stops_after(1000),
            _ => PodScript { on_delete: OnDelete::Stays, ..PodScript::runs() },
        })
        .start()
        .await;
    for name in ["quick", "deaf", "lost"] {
        plane.create(pod(name, "Always")).await;
        plane.until("it runs", |world| world.phase(name) == "Running").await;
        plane.delete_pod(name).await;
    }
    plane.until("two are gone", |w| w.pod("quick").is_none() && w.pod("deaf").is_none()).await;
    let codes: Vec<i32> =
        ["quick", "deaf"].iter().map(|name| plane.history().runs_of(name)[0].ended.unwrap().1).collect();
    assert_eq!(codes, [143, 137]);
    plane.pass(Duration::from_secs(3600)).await;
    assert_eq!(phases(&plane.pods().await), ["lost Running"]);
}

#[tokio::test(start_paused = true)]
async fn every_fault_reaches_its_client_and_heals() {
    for (rates, expected) in [
        (Rates { conflict: 1.0, ..Rates::NONE }, 409),
        (Rates { too_many: 1.0, ..Rates::NONE }, 429),
        (Rates { internal: 1.0, ..Rates::NONE }, 500),
        (Rates { lost_answer: 1.0, ..Rates::NONE }, 0),
    ] {
        let plane = Plane::builder().no_operator().start().await;
        plane.create(pod("a", "Never")).await;
        let faults = Faults::new(1, rates, 2);
        let client = kube::Client::new(faults.around(plane.router()), "default");
        let faulty = rest::Rest::new(client);
        let patch = json!({ "metadata": { "labels": { "x": "y" } } });
        let path = rest::pod("default", "a");
        let error = faulty.merge(&path, &patch).await.unwrap_err();
        assert_eq!(code(&error), expected, "{error}");
        let applied = plane.rest().get(&path).await.unwrap()["metadata"]["labels"]["x"] == "y";
        assert_eq!(applied, expected == 0, "a lost answer was applied, a refusal was not");
        assert!(faulty.merge(&path, &patch).await.is_err(), "the second of two");
        assert!(faulty.merge(&path, &patch).await.is_ok(), "no more than two");
        assert_eq!(faults.count(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_to_write_a_job_does_so_for_a_while() {
    let plane = Plane::builder().no_operator().start().await;
    plane.create(pytorch("a").master()).await;
    let rates = Rates { refused: 1.0, max_refusal: Duration::from_secs(60), ..Rates::NONE };
    let job = plane.path("PyTorchJob", "a");
    for path in [job.clone(), format!("{job}/status")] {
        let faults = Faults::new(1, rates, 1);
        let faulty = rest::Rest::new(kube::Client::new(faults.around(plane.router()), "default"));
        let patch = json!({ "metadata": { "annotations": { "x": "y" } } });
        for _ in 0..2 {
            let error = faulty.merge(&path, &patch).await.unwrap_err();
            assert!([422, 500].contains(&code(&error)), "{error}");
        }
        plane.pass(rates.max_refusal).await;
        assert!(faulty.merge(&path, &patch).await.is_ok(), "no longer than that");
        assert_eq!(faults.count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_half_open_watch_neither_speaks_nor_ends() {
    let plane = Plane::builder().no_operator().start().await;
    let faults = Faults::new(1, Rates { half_open: 1.0, ..Rates::NONE }, 1);
    let mut watch = Watch::new(kube::Client::new(faults.around(plane.router()), "default"), "/api/v1/pods");
    assert!(matches!(watch.next().await, Change::All(_)));
    plane.create(pod("a", "Never")).await;
    assert!(matches!(watch.next().await, Change::Put(_)));
    plane.create(pod("b", "Never")).await;
    assert!(tokio::time::timeout(Duration::from_hours(1), watch.next()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_drained_pod_is_marked_and_its_node_tells_the_time_by_its_own_clock() {
    let skew = SignedDuration::from_hours(-1);
    let scripts = move |_: &PodInfo| PodScript { skew, ..PodScript::runs().obeys(Duration::from_secs(5), 0) };
    let plane = Plane::builder().no_operator().scripts(scripts).start().await;
    plane.create(pod("a", "Never")).await;
    plane.until("it runs", |world| world.phase("a") == "Running").await;
    plane.drain_pod("a").await;
    let world = plane.until("it obeys", |world| world.phase("a") == "Succeeded").await;
    let pod = world.pod("a").unwrap();
    assert!(pod["metadata"]["deletionTimestamp"].is_string());
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    let mark = conditions.iter().find(|condition| condition["type"] == "DisruptionTarget").unwrap();
    let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(seconds(&mark["lastTransitionTime"], &ended["finishedAt"]), 5 - 3600);
    plane.until("it goes", |world| world.pod("a").is_none()).await;
    assert!(!plane.history().runs_of("a")[0].own, "somebody wanted it to end");
}

#[tokio::test(start_paused = true)]
async fn a_refused_pod_has_no_containers() {
    let plane = Plane::builder().no_operator().scripts(|_| PodScript::refused()).start().await;
    plane.create(pod("a", "Never")).await;
    let world = plane.until("it is refused", |world| world.phase("a") == "Failed").await;
    let status = &world.pod("a").unwrap()["status"];
    assert_eq!(status["reason"], "UnexpectedAdmissionError");
    assert!(status["containerStatuses"].is_null());
    assert_eq!((plane.history().count("a"), plane.history().refused()["a"]), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn definitions_are_served_in_every_flavour() {
    for crds in [Crds::Ours, Crds::Upstream, Crds::Open] {
        let plane = Plane::builder().no_operator().crds(crds.clone()).start().await;
        let created = plane.create(pytorch("a").master().workers(1)).await;
        let has_policy = created.pointer("/spec/runPolicy").is_some();
        assert_eq!(has_policy, matches!(crds, Crds::Ours), "{crds:?}");
        let path = plane.path("PyTorchJob", "a");
        let status = json!({ "status": { "startTime": "2027-01-15T08:00:00Z", "unknown": 1 } });
        let stored = plane.rest().merge(&format!("{path}/status"), &status).await.unwrap();
        assert_eq!(stored["status"].get("unknown").is_some(), matches!(crds, Crds::Open), "{crds:?}");
    }
}
