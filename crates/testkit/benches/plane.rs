//! How fast jobs become pods: a figure of `docs/performance.md`.
//!
//! The real operator on the in-process API server with the memory backend, on the real clock. Nothing runs the pods: what is
//! measured is the way from a job's creation to all of its pods and services being there.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::Value;
use trainyard_host::{Host, Options};
use trainyard_testkit::rest::Rest;
use trainyard_testkit::{Job, pytorch};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const JOBS: &str = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";

#[tokio::main]
async fn main() -> Outcome<()> {
    say("| what | figure |");
    say("|---|---|");
    for round in 1..=3 {
        creation(round, 1_000, 4).await?;
    }
    Ok(())
}

/// From the first create of a job to the last pod and service.
async fn creation(round: u32, jobs: u32, replicas: u32) -> Outcome<()> {
    let host = Host::start(Options::local()).await?;
    host.ready().await;
    let rest = Rest::new(host.client());
    let start = Instant::now();
    create(&rest, jobs, |name| pytorch(name).master().workers(replicas - 1)).await?;
    let created = start.elapsed();
    let wanted = u64::from(jobs * replicas);
    while count(&rest, PODS).await? < wanted || count(&rest, SERVICES).await? < wanted {
        pause(5).await;
    }
    let all = start.elapsed();
    let rate = f64::from(jobs * replicas) / all.as_secs_f64();
    let (created, all) = (created.as_millis(), all.as_millis());
    say(&format!(
        "| round {round}: {jobs} jobs × {replicas} replicas, all created / all pods and services there | \
         {created} ms / {all} ms = {rate:.0} pods/s |"
    ));
    host.stop().await?;
    Ok(())
}

async fn create(rest: &Rest, jobs: u32, job: impl Fn(&str) -> Job) -> Outcome<()> {
    let bodies: Vec<Value> = (0..jobs).map(|n| job(&format!("job-{n}")).into()).collect();
    let posts = futures::stream::iter(bodies.iter().map(|body| rest.post(JOBS, body)));
    posts.buffer_unordered(32).try_for_each(|_| async { Ok(()) }).await?;
    Ok(())
}

/// How many objects a collection has, without reading them.
async fn count(rest: &Rest, collection: &str) -> Outcome<u64> {
    let list = rest.get(&format!("{collection}?limit=1")).await?;
    let here = list.pointer("/items").and_then(Value::as_array).map_or(0, Vec::len);
    let more = list.pointer("/metadata/remainingItemCount").and_then(Value::as_u64).unwrap_or(0);
    Ok(more + u64::try_from(here)?)
}

async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

#[expect(clippy::print_stdout, reason = "it is here to be read")]
fn say(line: &str) {
    println!("{line}");
}
