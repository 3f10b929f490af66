//! `trainyard get`: objects of any kind.

use std::process::ExitCode;

use anyhow::bail;
use clap::ValueEnum;
use serde_json::{Value, json};

use super::cluster::{Cluster, Reach};
use super::fields::{items, moment, name, namespace, state, text};
use super::resource::Resource;
use super::table::Table;
use super::target::{Named, parse};
use super::time::{age, now};
use super::{list, pods};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// KIND, KIND NAME… or KIND/NAME…
    #[arg(required = true, value_name = "KIND[/NAME]")]
    what: Vec<String>,
    /// How to show it.
    #[arg(short, long, value_enum)]
    output: Option<Output>,
    /// Only objects with these labels.
    #[arg(short = 'l', long, default_value = "")]
    selector: String,
    /// In all namespaces.
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// More columns.
    Wide,
    /// The objects as JSON.
    Json,
    /// The objects as YAML.
    Yaml,
    /// `kind/name`, one per line.
    Name,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let cluster = args.reach.open().await?;
    let several = matches!(args.what.as_slice(), [kind] if !kind.contains('/'));
    let found = if several { listed(&cluster, args).await? } else { named(&cluster, args).await? };
    if found.iter().all(|(_, objects)| objects.is_empty()) && !is_data(args.output) {
        let place = if args.all_namespaces {
            "any namespace".into()
        } else {
            format!("namespace {}", cluster.namespace)
        };
        crate::complain(&format!("no {} in {place}", args.what.join(" ")));
        return Ok(ExitCode::SUCCESS);
    }
    match args.output {
        Some(Output::Json | Output::Yaml) => data(args.output, several, found),
        Some(Output::Name) => {
            for (resource, objects) in &found {
                let titles =
                    objects.iter().map(|object| format!("{}/{}\n", resource.qualified(), name(object)));
                crate::print(&titles.collect::<String>())?;
            }
            Ok(ExitCode::SUCCESS)
        }
        None | Some(Output::Wide) => {
            for (resource, objects) in &found {
                crate::print(&table(&cluster, args, resource, objects).text(""))?;
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn is_data(output: Option<Output>) -> bool {
    matches!(output, Some(Output::Json | Output::Yaml))
}

type Found = Vec<(Resource, Vec<Value>)>;

async fn listed(cluster: &Cluster, args: &Args) -> anyhow::Result<Found> {
    let word = args.what.first().map(String::as_str).unwrap_or_default();
    let resource = cluster.resource(word).await?;
    let space = (!args.all_namespaces).then_some(cluster.namespace.as_str());
    let objects = cluster.list(&resource, space, &args.selector).await?;
    Ok(vec![(resource, objects)])
}

async fn named(cluster: &Cluster, args: &Args) -> anyhow::Result<Found> {
    if args.all_namespaces || !args.selector.is_empty() {
        bail!("an object has a name in one namespace: -A and -l go with a kind alone");
    }
    let kind_first = args.what.first().is_some_and(|word| !word.contains('/'));
    let mut found: Found = Vec::new();
    for Named { kind, name } in parse(&args.what, kind_first)? {
        let Some(word) = kind else { bail!("{name}: of what kind? write KIND/{name}") };
        let resource = cluster.resource(word).await?;
        let Some(object) = cluster.get(&resource.object(&cluster.namespace, name)).await? else {
            bail!("no {} {name} in namespace {}", resource.qualified(), cluster.namespace);
        };
        match found.iter_mut().find(|(known, _)| *known == resource) {
            Some((_, objects)) => objects.push(object),
            None => found.push((resource, vec![object])),
        }
    }
    Ok(found)
}

fn data(output: Option<Output>, list: bool, found: Found) -> anyhow::Result<ExitCode> {
    let mut objects: Vec<Value> = found.into_iter().flat_map(|(_, objects)| objects).collect();
    for metadata in objects.iter_mut().filter_map(|object| object.get_mut("metadata")?.as_object_mut()) {
        // The server's own book-keeping: longer than the object, and nobody's business, as in kubectl.
        metadata.remove("managedFields");
    }
    let whole = match (objects.len(), objects.pop()) {
        (1, Some(only)) if !list => only,
        (_, last) => {
            objects.extend(last);
            json!({ "apiVersion": "v1", "kind": "List", "items": objects, "metadata": {} })
        }
    };
    let text = if output == Some(Output::Json) {
        serde_json::to_string_pretty(&whole)? + "\n"
    } else {
        serde_saphyr::to_string(&whole)?
    };
    crate::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn table(cluster: &Cluster, args: &Args, resource: &Resource, objects: &[Value]) -> Table {
    let wide = args.output == Some(Output::Wide);
    let job = cluster.job_kind(resource);
    let is_pod = resource.group.is_empty() && resource.plural == "pods";
    let (mut heads, wider): (Vec<&str>, &[&str]) = match (job, is_pod) {
        (Some(_), _) => (vec!["NAME", "STATE", "REPLICAS", "AGE"], &["MESSAGE"]),
        (None, true) => (vec!["NAME", "READY", "STATUS", "RESTARTS", "AGE"], &["IP", "NODE"]),
        (None, false) => (vec!["NAME", "AGE"], &[]),
    };
    heads.extend(wider.iter().filter(|_| wide));
    if args.all_namespaces {
        heads.insert(0, "NAMESPACE");
    }
    let mut table = Table::new(&heads);
    for object in objects {
        let aged = age(moment(object, "/metadata/creationTimestamp"), now());
        let mut cells = vec![name(object).to_owned()];
        match (job, is_pod) {
            (Some(kind), _) => {
                let latest = items(object, "/status/conditions").last();
                let message = latest.map(|condition| text(condition, "/message")).unwrap_or_default();
                cells.extend([state(object).into(), list::replicas(kind, object), aged, message.into()]);
            }
            (None, true) => cells.extend([
                pods::ready(object),
                pods::status(object),
                pods::restarts(object).to_string(),
                aged,
                text(object, "/status/podIP").into(),
                text(object, "/spec/nodeName").into(),
            ]),
            (None, false) => cells.push(aged),
        }
        if args.all_namespaces {
            cells.insert(0, namespace(object).to_owned());
        }
        cells.truncate(heads.len());
        table.row(cells);
    }
    table
}
