//! `trainyard suspend` and `trainyard resume`.

use std::process::ExitCode;

use anyhow::bail;
use serde_json::Value;

use super::cluster::Reach;
use super::fields::{is_over, state};
use super::target::jobs;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Jobs: NAME…, KIND/NAME… or KIND NAME…
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<String>,
    #[command(flatten)]
    reach: Reach,
}

pub(crate) async fn run(args: &Args, suspend: bool) -> anyhow::Result<ExitCode> {
    let cluster = args.reach.open().await?;
    for job in jobs(&cluster, &args.jobs).await? {
        let title = job.title();
        if is_over(&job.object) {
            bail!("{title} has ended ({}): there is nothing to suspend or resume", state(&job.object));
        }
        let patch = job.kind.suspension(suspend);
        let (verb, already) =
            if suspend { ("suspended", "is suspended already") } else { ("resumed", "is not suspended") };
        if is_so(&job.object, &patch, suspend) {
            crate::print(&format!("{title} {already}\n"))?;
            continue;
        }
        cluster.patch(&job.path(), &patch).await.map_err(|error| cluster.explain(error))?;
        crate::print(&format!("{title} {verb}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// True when everything in the patch is so already. A job that says nothing is not suspended.
fn is_so(object: &Value, patch: &Value, suspend: bool) -> bool {
    match (patch, object) {
        (Value::Object(patch), Value::Object(object)) => patch
            .iter()
            .all(|(key, value)| object.get(key).map_or(!suspend, |now| is_so(now, value, suspend))),
        (patch, object) => patch == object,
    }
}
