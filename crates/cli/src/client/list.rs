//! `trainyard list`: all jobs of all kinds, and why those that are not fine are not.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::Value;
use trainyard_core::Kind;

use super::cluster::{Cluster, Reach};
use super::fields::{moment, number, state};
use super::gather;
use super::resource::Resource;
use super::table::Table;
use super::target::Job;
use super::time::{age, now};
use super::why::Family;

/// Letters of a reason in a table; `describe` has all of them.
const SHORT: usize = 100;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only jobs of this kind.
    kind: Option<String>,
    /// In all namespaces.
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    #[command(flatten)]
    reach: Reach,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let cluster = args.reach.open().await?;
    let space = (!args.all_namespaces).then_some(cluster.namespace.as_str());
    let kinds = kinds(&cluster, args.kind.as_deref()).await?;
    let mut heads = vec!["KIND", "NAME", "STATE", "REPLICAS", "RESTARTS", "AGE", "WHY"];
    if args.all_namespaces {
        heads.insert(0, "NAMESPACE");
    }
    let mut rows = BTreeMap::new();
    gather::each(&cluster, &kinds, space, |job, family| {
        let place = (job.namespace().to_owned(), job.kind.name, job.name().to_owned());
        rows.insert(place, cells(args, job, family));
    })
    .await?;
    let mut table = Table::new(&heads);
    rows.into_values().for_each(|cells| table.row(cells));
    if table.is_empty() {
        let place = space.map_or_else(|| "any namespace".to_owned(), |space| format!("namespace {space}"));
        crate::complain(&format!("no jobs in {place}: create one with `trainyard apply -f FILE`"));
    } else {
        crate::print(&table.text(""))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn cells(args: &Args, job: &Job, family: &Family) -> Vec<String> {
    let mut cells = vec![
        job.kind.name.to_owned(),
        job.name().to_owned(),
        state(&job.object).to_owned(),
        replicas(job.kind, &job.object),
        family.restarts().to_string(),
        age(moment(&job.object, "/metadata/creationTimestamp"), now()),
        short(family.why().first().map(String::as_str).unwrap_or_default()),
    ];
    if args.all_namespaces {
        cells.insert(0, job.namespace().to_owned());
    }
    cells
}

/// The kinds that are meant: all of them, if none was said.
async fn kinds(cluster: &Cluster, kind: Option<&str>) -> anyhow::Result<Vec<(&'static Kind, Resource)>> {
    let mut kinds = cluster.job_kinds().await?;
    let known: Vec<&str> = kinds.iter().map(|(kind, _)| kind.name).collect();
    if let Some(word) = kind
        && !kinds.iter().any(|(_, resource)| resource.is_called(word))
    {
        anyhow::bail!("no job kind {word:?}: the server has {}", known.join(", "));
    }
    kinds.retain(|(_, resource)| kind.is_none_or(|word| resource.is_called(word)));
    Ok(kinds)
}

fn short(why: &str) -> String {
    match why.char_indices().nth(SHORT) {
        Some((end, _)) => format!("{}…", why.get(..end).unwrap_or_default()),
        None => why.to_owned(),
    }
}

/// `2/1/0 of 3`: replicas that run, ended well and failed, of those the spec asks for.
pub(crate) fn replicas(kind: &Kind, job: &Value) -> String {
    let statuses = job.pointer("/status/replicaStatuses").and_then(Value::as_object);
    let sum = |field: &str| {
        let pointer = format!("/{field}");
        statuses.into_iter().flat_map(|map| map.values()).map(|status| number(status, &pointer)).sum::<i64>()
    };
    let specs = job.pointer(&format!("/spec/{}", kind.replica_specs)).and_then(Value::as_object);
    let wanted = |spec: &Value| spec.get("replicas").and_then(Value::as_i64).unwrap_or(1);
    let wanted: i64 = specs.into_iter().flat_map(|map| map.values()).map(wanted).sum();
    format!("{}/{}/{} of {wanted}", sum("active"), sum("succeeded"), sum("failed"))
}
