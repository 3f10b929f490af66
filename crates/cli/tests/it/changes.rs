//! `suspend`, `resume`, `scale` and `wait`.

use serde_json::json;
use trainyard_testkit::{PodInfo, PodScript, pytorch, tf};

use crate::bed::{bed, said};

/// Pods of `good` succeed after a second, of `bad` fail; all others run.
fn by_name(pod: &PodInfo) -> PodScript {
    match pod.job.as_str() {
        "good" => PodScript::exits(0, 1),
        "bad" => PodScript::exits(3, 1),
        _ => PodScript::runs(),
    }
}

#[tokio::test]
async fn a_job_is_suspended_and_resumed() {
    let bed = bed(by_name).await;
    bed.plane.create(pytorch("a").workers(1)).await;
    assert_eq!(bed.ok(&["resume", "a"]).await, "pytorchjob.kubeflow.org/a is not suspended\n");
    assert_eq!(bed.ok(&["suspend", "a"]).await, "pytorchjob.kubeflow.org/a suspended\n");
    assert_eq!(bed.ok(&["suspend", "a"]).await, "pytorchjob.kubeflow.org/a is suspended already\n");
    assert_eq!(
        bed.ok(&["wait", "a", "--for=condition=Suspended"]).await,
        "pytorchjob.kubeflow.org/a Suspended\n"
    );
    assert_eq!(bed.ok(&["resume", "pytorchjob", "a"]).await, "pytorchjob.kubeflow.org/a resumed\n");
    assert_eq!(
        bed.ok(&["wait", "a", "--for=condition=Running", "--timeout=30s"]).await,
        "pytorchjob.kubeflow.org/a Running\n"
    );
    bed.plane.create(pytorch("good").workers(1)).await;
    bed.plane.finished("good").await;
    assert!(bed.fails(&["suspend", "good"]).await.contains("has ended (Succeeded)"));
}

#[tokio::test]
async fn replicas_are_scaled_by_the_subresource_and_by_patch() {
    let bed = bed(by_name).await;
    bed.plane.create(pytorch("a").master().workers(1)).await;
    assert_eq!(
        bed.ok(&["scale", "a", "--replicas", "3"]).await,
        "pytorchjob.kubeflow.org/a scaled: Worker 3\n"
    );
    bed.plane.until("there are more", |world| world.pods("a").len() == 4).await;
    bed.plane.create(tf("t").chief().ps(1).workers(1)).await;
    assert_eq!(
        bed.ok(&["scale", "tfjob/t", "--replicas=2", "--replica-type", "ps"]).await,
        "tfjob.kubeflow.org/t scaled: PS 2\n"
    );
    let stored = bed.plane.job("TFJob", "t").await.unwrap();
    assert_eq!(stored.pointer("/spec/tfReplicaSpecs/PS/replicas"), Some(&json!(2)));
}

#[tokio::test]
async fn what_cannot_be_scaled_is_refused() {
    let bed = bed(by_name).await;
    bed.plane.create(pytorch("a").master().workers(1)).await;
    for (args, part) in [
        (vec!["--replicas=-1"], "--replicas: Invalid value: -1: must be from 0 to 2147483647"),
        (vec!["--replicas", "99999999999"], "--replicas: Invalid value: 99999999999"),
        (
            vec!["--replicas=2", "--replica-type=ps"],
            "has no replicas of type \"ps\", it has [\"Master\", \"Worker\"]",
        ),
        (vec!["--replicas=2", "--replica-type=master"], "spec.pytorchReplicaSpecs[Master].replicas"),
    ] {
        let error = bed.fails(&[&["scale", "a"], args.as_slice()].concat()).await;
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[tokio::test]
async fn wait_returns_at_the_end_whatever_it_is() {
    let bed = bed(by_name).await;
    bed.plane.create(pytorch("good").workers(1)).await;
    bed.plane.create(tf("bad").workers(1).restart("Never")).await;
    assert_eq!(
        bed.ok(&["wait", "good", "--timeout", "1m"]).await,
        "pytorchjob.kubeflow.org/good Succeeded\n"
    );
    let error = bed.fails(&["wait", "bad"]).await;
    assert!(error.contains("tfjob.kubeflow.org/bad will never be Succeeded: it has ended: Failed: TFJob default/bad has failed"), "{error}");
    bed.ok(&["wait", "bad", "--for", "condition=failed"]).await;
    let error = bed.fails(&["wait", "good", "--for=condition=Failed"]).await;
    assert!(error.contains("will never be Failed: it has ended: Succeeded"), "{error}");
    let both = bed.run(&["wait", "good", "bad"]).await;
    assert_eq!(both.code, Some(1), "one of two is not enough");
    assert!(both.out.contains("good Succeeded"), "{}", both.out);
    assert!(bed.fails(&["wait", "nobody"]).await.contains("no job nobody"));
}

#[tokio::test]
async fn a_wait_that_is_too_long_says_what_for() {
    let bed = bed(|_| PodScript::never_scheduled()).await;
    bed.plane.create(pytorch("a").workers(1)).await;
    bed.plane.until("its pod is there", |world| world.pods("a").len() == 1).await;
    let error = bed.fails(&["wait", "a", "--timeout=1s"]).await;
    assert!(
        error.contains(
            "pytorchjob.kubeflow.org/a is not Succeeded after 1s: it is Created; a-worker-0 is pending"
        ),
        "{error}"
    );
}

#[tokio::test]
async fn wait_for_a_deletion() {
    let bed = bed(by_name).await;
    bed.plane.create(pytorch("a").workers(1)).await;
    let waiting = bed.spawn(&["wait", "a", "--for=delete"]);
    let lost = bed.spawn(&["wait", "a", "--for=condition=Succeeded"]);
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    bed.plane.delete("PyTorchJob", "a").await;
    let done = said(waiting).await;
    assert_eq!(
        (done.code, done.out.as_str()),
        (Some(0), "pytorchjob.kubeflow.org/a deleted\n"),
        "{}",
        done.err
    );
    let lost = said(lost).await;
    assert!(lost.code == Some(1) && lost.err.contains("it was deleted"), "{}", lost.err);
    assert_eq!(bed.ok(&["wait", "a", "--for=delete"]).await, "a is not there\n");
}

#[tokio::test]
async fn what_an_operator_left_on_pods_is_taken_away() {
    let bed = bed(by_name).await;
    bed.plane.stop_operator().await;
    let pod = |name: &str, finalizers: &[&str]| {
        json!({ "apiVersion": "v1", "kind": "Pod",
                "metadata": { "name": name, "namespace": "default", "finalizers": finalizers },
                "spec": { "containers": [{ "name": "c", "image": "i" }] } })
    };
    let ours = "trainyard.dev/tracking";
    bed.plane.create(pod("both", &["example.com/other", ours])).await;
    bed.plane.create(pod("ours", &[ours])).await;
    bed.plane.create(pod("none", &["example.com/other"])).await;
    let said = |n: u32, place: &str| format!("finalizer {ours} removed from {n} pod(s) in {place}\n");
    assert_eq!(bed.ok(&["uninstall", "-n", "kube-system"]).await, said(0, "namespace kube-system"));
    assert_eq!(bed.ok(&["uninstall"]).await, said(2, "all namespaces"));
    assert_eq!(bed.ok(&["uninstall"]).await, said(0, "all namespaces"), "it may be run again");
    let left: Vec<serde_json::Value> =
        bed.plane.pods().await.iter().map(|pod| pod["metadata"]["finalizers"].clone()).collect();
    let other = json!(["example.com/other"]);
    assert_eq!(left, [other.clone(), other, json!(null)], "both, none, ours: in the order of their names");
}

#[tokio::test]
async fn many_jobs_take_few_requests() {
    const MANY: usize = 40;
    let bed = bed(|_| PodScript::exits(0, 0)).await;
    let names: Vec<String> = (0..MANY).map(|n| format!("job-{n}")).collect();
    for name in &names {
        bed.plane.create(pytorch(name).workers(1)).await;
    }
    let words = |first: &[&'static str]| -> Vec<&str> {
        first.iter().copied().chain(names.iter().map(String::as_str)).collect()
    };
    bed.requests();
    let said = bed.ok(&words(&["wait", "--timeout", "50s"])).await;
    assert_eq!(said.lines().filter(|line| line.ends_with(" Succeeded")).count(), MANY, "{said}");
    // Discovery, a list of each kind, and a list and a watch of those that are there.
    let requests = bed.requests();
    assert!(requests <= 20, "{requests} requests to wait for {MANY} jobs");
    let error = bed.fails(&words(&["wait", "--for=condition=Suspended"])).await;
    assert_eq!(
        error.lines().filter(|line| line.contains("it has ended: Succeeded")).count(),
        MANY,
        "{error}"
    );
    bed.requests();
    bed.ok(&words(&["delete"])).await;
    let requests = bed.requests();
    assert!(requests <= 2 * MANY + 40, "{requests} requests to delete {MANY} jobs");
}
