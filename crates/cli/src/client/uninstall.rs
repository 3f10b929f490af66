//! `trainyard uninstall`: takes away what an operator left on the objects of others, so that they live on without it.

use std::process::ExitCode;

use serde_json::{Value, json};
use trainyard_api::labels;

use super::cluster::{Reach, code};
use super::fields::{items, name, text, uid};
use super::resource::encode;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    reach: Reach,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let cluster = args.reach.open().await?;
    let space = cluster.chosen.then_some(cluster.namespace.as_str());
    let pods = cluster.resource("pods").await?;
    // All of them: labels may have been changed, and a pod that is missed stays for ever once it is deleted.
    let all = cluster.list(&pods, space, "").await?;
    let mut released = 0_usize;
    for pod in all.iter().filter(|pod| is_tracked(pod)) {
        let path =
            format!("{}/{}", pods.collection(Some(text(pod, "/metadata/namespace"))), encode(name(pod)));
        let taken = json!({ "uid": uid(pod), "$deleteFromPrimitiveList/finalizers": [labels::TRACKING] });
        match cluster.strategic_patch(&path, &json!({ "metadata": taken })).await {
            Ok(_) => released += 1,
            // It is gone, or another has its name by now.
            Err(error) if [404, 409].contains(&code(&error)) => {}
            Err(error) => return Err(cluster.explain(error)),
        }
    }
    let place = space.map_or_else(|| "all namespaces".to_owned(), |space| format!("namespace {space}"));
    crate::print(&format!("finalizer {} removed from {released} pod(s) in {place}\n", labels::TRACKING))?;
    Ok(ExitCode::SUCCESS)
}

fn is_tracked(pod: &Value) -> bool {
    items(pod, "/metadata/finalizers").iter().any(|finalizer| finalizer == labels::TRACKING)
}
