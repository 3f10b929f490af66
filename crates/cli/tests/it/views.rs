//! `get`, `list`, `describe`, `top`, and how jobs are named.

use std::time::Duration;

use serde_json::{Value, json};
use trainyard_testkit::{PodInfo, PodScript, pytorch, tf};

use crate::bed::{Bed, Log, bed};

/// Pods of `good` succeed, of `bad` fail, of `stuck` are never taken by a node; all others run.
fn by_name(pod: &PodInfo) -> PodScript {
    match pod.job.as_str() {
        "good" => PodScript::exits(0, 0),
        "bad" => PodScript::exits(3, 0),
        "stuck" => PodScript::never_scheduled(),
        _ => PodScript::runs(),
    }
}

#[tokio::test]
async fn jobs_are_found_by_every_name_they_have() {
    let bed = bed(by_name).await;
    bed.plane.create(pytorch("a").workers(1)).await;
    bed.plane.create(pytorch("same").workers(1)).await;
    bed.plane.create(tf("same").workers(1)).await;
    let ways: [&[&str]; 5] = [
        &["a"],
        &["pytorchjob/a"],
        &["PyTorchJobs/a"],
        &["pytorchjob", "a"],
        &["pytorchjobs.kubeflow.org/a"],
    ];
    for way in ways {
        let page = bed.ok(&[&["describe"], way].concat()).await;
        assert!(page.contains("Kind:        PyTorchJob (kubeflow.org/v1)"), "{page}");
    }
    let error = bed.fails(&["describe", "same"]).await;
    assert!(
        error.contains("same is ambiguous: say which of pytorchjob/same, tfjob/same is meant"),
        "{error}"
    );
    assert!(bed.ok(&["describe", "tfjob/same"]).await.contains("TFJob"));
    let error = bed.fails(&["describe", "nobody"]).await;
    assert!(
        error.contains(
            "no job nobody in namespace default: there is pytorchjob/a, pytorchjob/same, tfjob/same"
        ),
        "{error}"
    );
    let error = bed.fails(&["describe", "nobody", "-n", "empty"]).await;
    assert!(
        error.contains("in namespace empty, nor any other: create one with `trainyard apply`"),
        "{error}"
    );
    let error = bed.fails(&["describe", "caffejob/a"]).await;
    assert!(error.contains("no such job kind: the server has jaxjob, "), "{error}");
    let error = bed.fails(&["describe", "a", "same"]).await;
    assert!(error.contains("ambiguous") || error.contains("this command takes one"), "{error}");
}

#[tokio::test]
async fn get_shows_any_kind_in_every_form() {
    let bed = bed(by_name).await;
    bed.plane.create(pytorch("a").master().workers(1)).await;
    bed.plane.until("it runs", |world| world.in_phase("a", "Running") == 2 && world.is("a", "Running")).await;
    let pods = bed.ok(&["get", "po"]).await;
    let lines: Vec<&str> = pods.lines().collect();
    assert_eq!(
        lines[0].split_whitespace().collect::<Vec<_>>(),
        ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    );
    assert!(lines[1].starts_with("a-master-0") && lines[1].contains("1/1     Running   0"), "{pods}");
    let jobs = bed.ok(&["get", "pytorchjobs", "-A"]).await;
    assert!(jobs.starts_with("NAMESPACE   NAME   STATE     REPLICAS     AGE\n"), "{jobs}");
    assert!(jobs.contains("default     a      Running   2/0/0 of 2"), "{jobs}");
    assert!(bed.ok(&["get", "pytorchjob", "a", "-o", "wide"]).await.contains("is running"));
    assert_eq!(bed.ok(&["get", "PyTorchJob/a", "-o", "name"]).await, "pytorchjob.kubeflow.org/a\n");
    let one: Value = serde_json::from_str(&bed.ok(&["get", "pod/a-worker-0", "-o", "json"]).await).unwrap();
    assert_eq!((&one["kind"], &one["metadata"]["name"]), (&json!("Pod"), &json!("a-worker-0")));
    let all: Value = serde_saphyr::from_str(&bed.ok(&["get", "svc", "-o", "yaml"]).await).unwrap();
    assert_eq!((&all["kind"], &all["items"][0]["kind"]), (&json!("List"), &json!("Service")));
    let two: Value =
        serde_json::from_str(&bed.ok(&["get", "pods", "a-master-0", "a-worker-0", "-o", "json"]).await)
            .unwrap();
    assert_eq!(two["items"].as_array().unwrap().len(), 2);
    let worker = bed.ok(&["get", "pods", "-l", "training.kubeflow.org/replica-type=worker"]).await;
    assert_eq!(worker.lines().count(), 2, "{worker}");
    assert!(bed.ok(&["get", "namespaces"]).await.contains("default"));
    let none = bed.run(&["get", "secrets"]).await;
    assert_eq!((none.code, none.out.as_str()), (Some(0), ""));
    assert!(none.err.contains("no secrets in namespace default"), "{}", none.err);
    assert!(bed.fails(&["get", "pod/x"]).await.contains("no pod x in namespace default"));
    assert!(bed.fails(&["get", "sheep"]).await.contains("the server knows no kind \"sheep\": it knows"));
}

#[tokio::test]
async fn list_says_why_a_job_is_not_fine() {
    let bed = bed(by_name).await;
    let empty = bed.run(&["list"]).await;
    assert!(empty.code == Some(0) && empty.err.contains("no jobs in namespace default"), "{}", empty.err);
    bed.plane.create(pytorch("good").workers(1)).await;
    bed.plane.create(tf("bad").workers(1).restart("Never")).await;
    bed.plane.create(pytorch("stuck").workers(1)).await;
    bed.plane.create(pytorch("held").workers(1).suspended()).await;
    bed.plane
        .until("they are where they go", |world| {
            world.is("good", "Succeeded")
                && world.is("bad", "Failed")
                && world.is("held", "Suspended")
                && world.pods("stuck").len() == 1
        })
        .await;
    let table = bed.ok(&["list"]).await;
    let row =
        |name: &str| table.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{table}"));
    assert!(table.starts_with("KIND         NAME    STATE       REPLICAS     RESTARTS   AGE"), "{table}");
    assert!(row(" good ").contains("Succeeded   0/1/0 of 1   0"), "{table}");
    assert!(
        row(" bad ").contains("Failed")
            && row(" bad ").contains("has failed because 1 Worker replica(s) failed"),
        "{table}"
    );
    assert!(row(" stuck ").contains("stuck-worker-0 is pending"), "{table}");
    assert!(row(" held ").contains("Suspended"), "{table}");
    let some = bed.ok(&["list", "tfjobs"]).await;
    assert!(some.contains("bad") && !some.contains("good"), "{some}");
    assert!(bed.fails(&["list", "caffejobs"]).await.contains("no job kind \"caffejobs\": the server has"));
}

#[tokio::test]
async fn describe_shows_everything_about_a_job() {
    let bed = bed(by_name).await;
    bed.plane.create(tf("bad").chief().workers(1).restart("Never")).await;
    bed.plane.finished("bad").await;
    // Events come after the status.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let page = bed.ok(&["describe", "bad"]).await;
    for part in [
        "Name:        bad\n",
        "State:       Failed\n",
        "Conditions:\n  TYPE",
        "chief-0",
        "bad-worker-0   node-0",
        "Why:\n  TFJob default/bad has failed",
        "Events:\n",
        "SuccessfulCreatePod",
    ] {
        assert!(page.contains(part), "{part:?} is not in\n{page}");
    }
    let row = page.lines().find(|line| line.contains("chief-0 ")).unwrap();
    assert!(row.contains("Error") && row.contains("   3   "), "{row}");
}

#[tokio::test]
async fn describe_says_what_is_waited_for() {
    let bed = bed(by_name).await;
    bed.plane.create(pytorch("stuck").workers(1)).await;
    bed.plane.until("its pod is there", |world| world.pods("stuck").len() == 1).await;
    let unschedulable = json!({ "status": { "conditions": [{ "type": "PodScheduled", "status": "False",
        "reason": "Unschedulable", "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu." }] } });
    bed.plane
        .rest()
        .merge("/api/v1/namespaces/default/pods/stuck-worker-0/status", &unschedulable)
        .await
        .unwrap();
    let page = bed.ok(&["describe", "stuck"]).await;
    let why =
        "stuck-worker-0 is pending: Unschedulable: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu.";
    assert!(page.contains(why), "{page}");
    bed.plane.stop_operator().await;
    bed.plane.create(pytorch("orphan").workers(1)).await;
    let page = bed.ok(&["describe", "orphan"]).await;
    let due = "waiting for an operator (does one run?) to create Service orphan-worker-0, create Pod orphan-worker-0";
    assert!(page.contains(due), "{page}");
}

/// The operator is there and says why; whether one runs is no question then.
#[tokio::test]
async fn a_job_whose_pods_cannot_be_made_says_what_the_operator_says() {
    let bed = bed(by_name).await;
    let theirs = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a-worker-0", "namespace": "default" },
        "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    bed.plane.create(theirs).await;
    bed.plane.create(pytorch("a").workers(1)).await;
    let why = "Pod a-worker-0 cannot be created: ";
    assert_eq!(
        bed.ok(&["wait", "a", "--for", "condition=Waiting"]).await,
        "pytorchjob.kubeflow.org/a Waiting\n"
    );
    let table = bed.ok(&["list"]).await;
    assert!(table.contains(why) && !table.contains("does one run?"), "{table}");
    let page = bed.ok(&["describe", "a"]).await;
    let told = page.split("Why:\n").nth(1).unwrap();
    assert!(told.trim_start().starts_with(why) && !page.contains("does one run?"), "{page}");
    let late = bed.fails(&["wait", "a", "--timeout", "10ms"]).await;
    assert!(late.contains(why) && !late.contains("does one run?"), "{late}");
}

#[tokio::test]
async fn top_adds_up_what_containers_use() {
    let served = Bed::with_logs(by_name, |_, _, _| Log::default()).await;
    let table = served.ok(&["top"]).await;
    assert_eq!(
        table,
        "JOB   REPLICA    POD          CPU    MEMORY\na     worker-0   a-worker-0   374m   3Mi\n"
    );
    served.plane.create(pytorch("a").workers(1)).await;
    assert_eq!(served.ok(&["top", "a"]).await, table);
    let without = bed(by_name).await;
    let error = without.fails(&["top"]).await;
    assert!(error.contains("the server has no metrics (metrics.k8s.io)"), "{error}");
}
