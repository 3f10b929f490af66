//! `trainyard top`: what replicas use, by the metrics of the server.

use std::process::ExitCode;

use anyhow::bail;
use serde_json::Value;
use trainyard_api::labels;
use trainyard_node::quantity::{parse_millis, units};

use super::cluster::Reach;
use super::fields::{items, label, name, namespace, text};
use super::table::Table;
use super::target::job;
use super::why::replica;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this job: NAME, KIND/NAME or KIND NAME.
    #[arg(num_args = 0..=2, value_name = "JOB")]
    job: Vec<String>,
    /// In all namespaces.
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    #[command(flatten)]
    reach: Reach,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let cluster = args.reach.open().await?;
    let selector = match args.job.as_slice() {
        [] => labels::JOB_NAME.to_owned(),
        _ if args.all_namespaces => bail!("a job is in one namespace: -A goes without JOB"),
        words => format!("{}={}", labels::JOB_NAME, job(&cluster, words).await?.name()),
    };
    let space = (!args.all_namespaces).then_some(cluster.namespace.as_str());
    let served = cluster.served("metrics.k8s.io", "v1beta1").await?;
    let Some(metrics) = served.into_iter().find(|resource| resource.plural == "pods") else {
        bail!(
            "the server has no metrics (metrics.k8s.io): on a cluster, its administrator can install metrics-server"
        );
    };
    let pods = cluster.list(&metrics, space, &selector).await?;
    if pods.is_empty() {
        crate::complain("no metrics of any replica: a pod has to run for a moment before there are any");
        return Ok(ExitCode::SUCCESS);
    }
    let mut heads = vec!["JOB", "REPLICA", "POD", "CPU", "MEMORY"];
    if args.all_namespaces {
        heads.insert(0, "NAMESPACE");
    }
    let mut table = Table::new(&heads);
    for pod in &pods {
        let mut cells = vec![
            label(pod, labels::JOB_NAME).to_owned(),
            replica(pod),
            name(pod).to_owned(),
            cores(sum(pod, "/usage/cpu")),
            memory(sum(pod, "/usage/memory")),
        ];
        if args.all_namespaces {
            cells.insert(0, namespace(pod).to_owned());
        }
        table.row(cells);
    }
    crate::print(&table.text(""))?;
    Ok(ExitCode::SUCCESS)
}

/// In thousandths; what is no quantity is left out.
fn sum(pod: &Value, pointer: &str) -> i128 {
    let containers = items(pod, "/containers").iter();
    containers.filter_map(|container| parse_millis(text(container, pointer)).ok()).sum()
}

/// `250m`: cores in thousandths.
fn cores(millis: i128) -> String {
    format!("{millis}m")
}

/// `512Mi`.
fn memory(millis: i128) -> String {
    format!("{}Mi", units(millis) >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_of_metrics() {
        let shown = |text: &str| parse_millis(text).map(|millis| (cores(millis), memory(millis))).unwrap();
        assert_eq!(shown("250m").0, "250m");
        assert_eq!(shown("123456789n").0, "124m");
        assert_eq!(shown("2").0, "2000m");
        assert_eq!(shown("2048Ki").1, "2Mi");
        assert_eq!(shown("1Gi").1, "1024Mi");
    }
}
