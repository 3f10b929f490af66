//! How much an operator remembers of each job: a figure of `docs/performance.md`.
//!
//! An own program, because it counts allocations and counting has a price that the other figures should not pay.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use peak_alloc::PeakAlloc;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use trainyard_core::Catalog;
use trainyard_host::{Host, Options, operator_on};
use trainyard_testkit::pytorch;
use trainyard_testkit::rest::Rest;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const JOBS: &str = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs";
const COUNT: u32 = 10_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let host = Host::start(Options { operator: None, ..Options::local() }).await?;
    let rest = Rest::new(host.client());
    // Jobs that have ended: an operator keeps them and writes nothing about them.
    let posts = futures::stream::iter((0..COUNT).map(|n| finished_job(&rest, n)));
    posts.buffer_unordered(32).try_for_each(|()| async { Ok(()) }).await?;
    let json = rest.get(&format!("{JOBS}/job-0")).await?.to_string().len();
    let before = HEAP.current_usage();
    let role = operator_on(host.client(), Catalog::default(), trainyard_operator::Options::default())?;
    let (health, shutdown) = (role.health(), CancellationToken::new());
    let task = tokio::spawn(role.run(shutdown.clone()));
    health.until_ready().await;
    while health.stats().reconciles < u64::from(COUNT) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let each = HEAP.current_usage().saturating_sub(before) / usize::try_from(COUNT)?;
    say("| what | figure |");
    say("|---|---|");
    say(&format!("| heap per job in the operator's cache, {COUNT} jobs | {each} B |"));
    say(&format!("| of which the job's own JSON | {json} B |"));
    say(&format!("| the rest | {} B |", each.saturating_sub(json)));
    shutdown.cancel();
    task.await??;
    Ok(host.stop().await?)
}

async fn finished_job(rest: &Rest, n: u32) -> Result<(), kube::Error> {
    let job: Value = pytorch(&format!("job-{n}")).master().workers(3).into();
    rest.post(JOBS, &job).await?;
    let condition =
        |type_: &str| json!({ "type": type_, "status": "True", "reason": format!("PyTorchJob{type_}") });
    let status = json!({
        "conditions": [condition("Created"), condition("Succeeded")],
        "startTime": "2026-01-01T00:00:00Z",
        "completionTime": "2026-01-01T01:00:00Z",
    });
    rest.merge(&format!("{JOBS}/job-{n}/status"), &json!({ "status": status })).await?;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "it is here to be read")]
fn say(line: &str) {
    println!("{line}");
}
