//! What a job costs among few and among many: whoever walks through all of something for each of it is found here.
//!
//! Cost is counted in bytes that were allocated, which is the same on every machine. A program of its own, because the count
//! is that of the whole process.
#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected has to stop")]

use std::alloc::System;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::Value;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio_util::sync::CancellationToken;
use trainyard_host::{Host, Options};
use trainyard_testkit::kubelet::Kubelet;
use trainyard_testkit::rest::Rest;
use trainyard_testkit::{PodScript, clock, pytorch};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const JOBS: &str = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

/// Allocations hardly vary from run to run: what is more than this share above the cost among few grows with the number.
const SLACK: usize = 10;

/// Who works.
#[derive(Clone, Copy, Debug, Default)]
struct Roles {
    operator: bool,
    controllers: bool,
    kubelet: bool,
}

const ALONE: Roles = Roles { operator: false, controllers: false, kubelet: false };
const SETS: [(&str, Roles); 4] = [
    ("API server", ALONE),
    ("and operator", Roles { operator: true, ..ALONE }),
    ("and controllers", Roles { operator: true, controllers: true, ..ALONE }),
    ("and kubelet", Roles { operator: true, controllers: true, kubelet: true }),
];

/// How many bytes are allocated for each of so many jobs of four replicas, from their creation until nothing moves.
async fn cost(roles: Roles, jobs: usize) -> usize {
    let clock = clock::virtual_clock();
    let host = Host::start(Options {
        clock: Arc::clone(&clock),
        operator: roles.operator.then(trainyard_operator::Options::default),
        controllers: roles.controllers,
        ..Options::local()
    })
    .await
    .unwrap();
    host.ready().await;
    let shutdown = CancellationToken::new();
    if roles.kubelet {
        let kubelet = Kubelet::new(host.client(), clock, Arc::new(|_| PodScript::exits(0, 60)));
        tokio::spawn(kubelet.run(shutdown.clone()));
    }
    let rest = Rest::new(host.client());
    let count = Region::new(HEAP);
    let bodies = (0..jobs).map(|n| Value::from(pytorch(&format!("job-{n}")).master().workers(3)));
    let posts = futures::stream::iter(bodies.map(|body| {
        let rest = &rest;
        async move { rest.post(JOBS, &body).await }
    }));
    posts.buffer_unordered(32).try_for_each(|_| async { Ok(()) }).await.unwrap();
    // In virtual time: it passes when nobody has anything to do.
    tokio::time::sleep(Duration::from_secs(20)).await;
    let bytes = count.change().bytes_allocated;
    let children = if roles.operator { jobs * 4 } else { 0 };
    assert_eq!(number(&rest, PODS).await, children, "{roles:?}");
    assert_eq!(number(&rest, SLICES).await, if roles.controllers { children } else { 0 }, "{roles:?}");
    shutdown.cancel();
    host.stop().await.unwrap();
    bytes / jobs
}

/// How many objects a collection has, without reading them.
async fn number(rest: &Rest, collection: &str) -> usize {
    let list = rest.get(&format!("{collection}?limit=1")).await.unwrap();
    let here = list.pointer("/items").and_then(Value::as_array).map_or(0, Vec::len);
    let more = list.pointer("/metadata/remainingItemCount").and_then(Value::as_u64).unwrap_or(0);
    here + usize::try_from(more).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_job_costs_the_same_among_few_and_among_many() {
    // Whatever is made once is made before it is counted.
    cost(Roles { operator: true, controllers: true, kubelet: true }, 4).await;
    for (name, roles) in SETS {
        // The kubelet of the tests is slow.
        let (few, many) = if roles.kubelet { (8, 40) } else { (16, 160) };
        let (least, most) = (cost(roles, few).await, cost(roles, many).await);
        let figures = format!("{name}: {least} bytes for each of {few} jobs, {most} for each of {many}");
        println!("{figures}");
        assert!(most <= least + least / SLACK, "{figures}");
    }
}
