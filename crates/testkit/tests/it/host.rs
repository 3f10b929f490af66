//! The host: what it starts, in which order, and how it ends.

use std::time::Duration;

use trainyard_host::crds::Definition;
use trainyard_host::{Host, Options, operator_on};
use trainyard_testkit::clock::virtual_clock;
use trainyard_testkit::rest::{Rest, code};
use trainyard_testkit::{Crds, Plane, PodScript, pytorch, tf};

use crate::support::{in_virtual_time, plane};

async fn local() -> Options {
    Options { clock: virtual_clock(), ..Options::local() }
}

#[tokio::test(start_paused = true)]
async fn a_local_host_serves_the_kinds_and_runs_their_jobs() {
    let host = Host::start(local().await).await.unwrap();
    host.ready().await;
    let rest = Rest::new(host.client());
    let jobs = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs";
    rest.post(jobs, &pytorch("a").master().workers(1).build()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let pods = rest.get("/api/v1/namespaces/default/pods").await.unwrap();
    assert_eq!(pods["items"].as_array().unwrap().len(), 2);
    assert!(host.health().unwrap().stats().reconciles > 0);
    host.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_host_without_an_operator_serves_only() {
    let host = Host::start(Options { operator: None, ..local().await }).await.unwrap();
    host.ready().await;
    assert!(host.health().is_none());
    let shutdown = host.shutdown();
    let waiting = tokio::spawn(host.wait());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!waiting.is_finished(), "nobody asked it to end");
    shutdown.cancel();
    waiting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_cannot_start_is_the_hosts_error() {
    let mut options = local().await;
    if let Some(operator) = &mut options.operator {
        operator.kinds = Some(["NoSuchJob".to_owned()].into());
    }
    assert!(matches!(Host::start(options).await, Err(trainyard_host::Error::Operator(_))));
}

#[tokio::test(start_paused = true)]
async fn definitions_are_updated_in_place() {
    let host = Host::start(Options { operator: None, ..local().await }).await.unwrap();
    let rest = Rest::new(host.client());
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/tfjobs.kubeflow.org";
    let label = serde_json::json!({ "metadata": { "labels": { "team": "a" } } });
    rest.merge(path, &label).await.unwrap();
    let others = Crds::Open.objects(trainyard_core::Catalog::default().kinds);
    let others: Vec<Definition> = others.into_iter().map(Definition::Given).collect();
    trainyard_host::crds::install(&host.client(), &others).await.unwrap();
    let stored = rest.get(path).await.unwrap();
    assert_eq!(stored["metadata"]["labels"]["team"], "a");
    let bad = tf("a").set("/spec/anything", 1).build();
    let created = rest.post("/apis/kubeflow.org/v1/namespaces/default/tfjobs", &bad).await.unwrap();
    assert_eq!(created["spec"]["anything"], 1, "the new definition is served");
    let missing = rest.get("/apis/kubeflow.org/v1/namespaces/default/xjobs").await.unwrap_err();
    assert_eq!(code(&missing), 404);
}

#[tokio::test(start_paused = true)]
async fn two_operators_on_one_cluster_do_no_harm() {
    let plane = plane(Crds::Upstream, |_| PodScript::exits(137, 20)).await;
    let mut options = trainyard_operator::Options::default();
    let clock = virtual_clock();
    options.clock = clock;
    let second = operator_on(plane.client(), trainyard_core::Catalog::default(), options).unwrap();
    let shutdown = tokio_util::sync::CancellationToken::new();
    let running = tokio::spawn(second.run(shutdown.clone()));
    plane.create(tf("a").workers(3).restart("ExitCode").backoff_limit(4)).await;
    let world = plane.finished("a").await;
    assert_eq!(world.shape("a"), "Created=T Running=F Failed=T");
    let runs = plane.history().replica_runs().len();
    assert!((5..=7).contains(&runs), "three at first, and four restarts at most: {runs}");
    assert!(plane.history().overlaps().is_empty());
    shutdown.cancel();
    running.await.unwrap().unwrap();
}

#[test]
fn a_durable_plane_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let build = || {
        let builder = Plane::builder().crds(Crds::Ours).data_dir(dir.path());
        builder.scripts(|pod| match pod.role.as_str() {
            "master" => PodScript::exits(0, 600),
            _ => PodScript::runs(),
        })
    };
    let later = in_virtual_time(async {
        let plane = build().start().await;
        plane.create(pytorch("running").master().workers(1)).await;
        plane.create(tf("waiting").workers(1).suspended()).await;
        plane
            .until("all is as it should be", |w| w.is("running", "Running") && w.is("waiting", "Suspended"))
            .await;
        plane.now()
    });
    in_virtual_time(async {
        let plane = build().begins(later).start().await;
        let world =
            plane.until("they are there", |w| w.jobs().count() == 2 && w.pods("running").len() == 2).await;
        assert!(world.is("running", "Running") && world.is("waiting", "Suspended"));
        plane.suspend("TFJob", "waiting", false).await;
        plane.until("it runs", |w| w.is("waiting", "Running")).await;
        assert_eq!(plane.operator_failure(), None);
    });
}

#[tokio::test(start_paused = true)]
async fn what_became_of_children_is_counted_once() {
    let plane = plane(Crds::Ours, |_| PodScript::exits(1, 5)).await;
    let job = pytorch("a").workers(1).policy("cleanPodPolicy", "All");
    plane.create(job.set("/spec/pytorchReplicaSpecs/Worker/restartPolicy", "Never")).await;
    plane.finished("a").await;
    plane.until("its pod is gone", |world| world.pods("a").is_empty()).await;
    let counted = || {
        let stats = plane.health().unwrap().stats();
        (stats.pods_created, stats.pods_failed, stats.pods_deleted, stats.services_created)
    };
    plane.settle().await;
    assert_eq!(counted(), (1, 1, 1, 1));
    plane.pass(Duration::from_secs(600)).await;
    assert_eq!(counted(), (1, 1, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_gets_no_answers_stops_in_the_time_it_is_given() {
    let host = Host::start(Options { operator: None, ..local().await }).await.unwrap();
    // Reads are answered, and nothing that is written ever is.
    let hangs =
        axum::middleware::from_fn(async |request: axum::extract::Request, next: axum::middleware::Next| {
            if request.method() != http::Method::GET {
                std::future::pending::<()>().await;
            }
            next.run(request).await
        });
    let client = kube::Client::new(host.router().layer(hangs), "default");
    let mut options = trainyard_operator::Options { clock: virtual_clock(), ..Default::default() };
    options.effort.farewell = Duration::from_millis(500);
    let role = operator_on(client, trainyard_core::Catalog::default(), options).unwrap();
    let shutdown = tokio_util::sync::CancellationToken::new();
    let running = tokio::spawn(role.run(shutdown.clone()));
    let jobs = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs";
    Rest::new(host.client()).post(jobs, &pytorch("a").workers(4).build()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let asked = tokio::time::Instant::now();
    shutdown.cancel();
    running.await.unwrap().unwrap();
    assert!(asked.elapsed() <= Duration::from_millis(1500), "{:?}", asked.elapsed());
    host.stop().await.unwrap();
}
