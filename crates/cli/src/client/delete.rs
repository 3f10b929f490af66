//! `trainyard delete`: objects of any kind, by name or by manifest.

use std::collections::VecDeque;
use std::process::ExitCode;

use anyhow::bail;
use clap::ValueEnum;
use serde_json::{Value, json};

use super::cluster::{Cluster, Reach, code};
use super::fields::{name, text, uid};
use super::resource::Resource;
use super::target::{Named, absent, leading_kind, lookup, parse};
use super::until::{Followed, until};
use super::{apply, fields};
use crate::check::Errors;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to delete: KIND/NAME…, KIND NAME…, or the NAME of a job.
    #[arg(value_name = "KIND/NAME", required_unless_present = "filename", conflicts_with = "filename")]
    what: Vec<String>,
    /// Delete what these manifests name; `-` is standard input.
    #[arg(short, long, value_name = "FILE")]
    filename: Vec<String>,
    /// Return only when it is gone.
    #[arg(long, default_value_t = true, num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    wait: bool,
    /// Seconds that pods are given to end; 0 kills them.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32))]
    grace_period: Option<u32>,
    /// What becomes of the pods and services of a job.
    #[arg(long, value_enum, default_value = "background", num_args = 0..=1, default_missing_value = "background")]
    cascade: Cascade,
    /// What is not there is no error.
    #[arg(long)]
    ignore_not_found: bool,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Clone, Copy, ValueEnum)]
enum Cascade {
    /// They are deleted after it.
    Background,
    /// They are deleted before it.
    Foreground,
    /// They stay.
    Orphan,
}

/// One object to be deleted.
struct Doomed {
    resource: Resource,
    namespace: String,
    name: String,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let cluster = args.reach.open().await?;
    let doomed =
        if args.filename.is_empty() { named(&cluster, args).await? } else { written(&cluster, args).await? };
    let (mut going, mut missing) = (Vec::new(), false);
    for object in doomed {
        match delete(&cluster, args, &object).await? {
            Some(uid) => going.push((object, uid)),
            None if args.ignore_not_found => {}
            None => {
                missing = true;
                let Doomed { resource, namespace, name } = &object;
                crate::complain(&format!("no {} {name} in namespace {namespace}", resource.qualified()));
            }
        }
    }
    for (Doomed { resource, namespace, name }, doomed) in going.iter().filter(|_| args.wait) {
        // One with the same name may already have taken its place.
        let other = |object: &Value| !doomed.is_empty() && uid(object) != doomed;
        let gone = |object: Option<&Value>| object.is_none_or(other).then_some(());
        until(&cluster, Followed { resource, namespace, name }, gone).await?;
    }
    Ok(if missing { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn named(cluster: &Cluster, args: &Args) -> anyhow::Result<Vec<Doomed>> {
    let kind_first = match leading_kind(&args.what) {
        Some(word) => cluster.resource(word).await.is_ok(),
        None => false,
    };
    let named = parse(&args.what, kind_first)?;
    let bare: Vec<Named<'_>> = named.iter().copied().filter(|named| named.kind.is_none()).collect();
    let mut jobs = VecDeque::new();
    let kinds = if bare.is_empty() { Vec::new() } else { cluster.job_kinds().await? };
    if !bare.is_empty() {
        jobs.extend(lookup(cluster, &kinds, &bare).await?);
    }
    let mut doomed = Vec::new();
    for named in named {
        let resource = match named.kind {
            Some(word) => cluster.resource(word).await?,
            None => match jobs.pop_front().flatten() {
                Some(job) => job.resource,
                None if args.ignore_not_found => continue,
                None => bail!(absent(cluster, &kinds, named).await?),
            },
        };
        doomed.push(Doomed { resource, namespace: cluster.namespace.clone(), name: named.name.to_owned() });
    }
    Ok(doomed)
}

/// What manifests name. The last document first: what others rely on stands at the beginning.
async fn written(cluster: &Cluster, args: &Args) -> anyhow::Result<Vec<Doomed>> {
    let (mut doomed, mut errors) = (Vec::new(), Vec::new());
    for manifest in apply::read(args.filename.iter())? {
        let object = &manifest.object;
        if name(object).is_empty() {
            errors.push(format!("{}: metadata.name: Required value: what is it called?", manifest.subject()));
            continue;
        }
        let said = fields::namespace(object);
        let namespace = if said.is_empty() { cluster.namespace.clone() } else { said.to_owned() };
        match apply::resource(cluster, object).await? {
            Ok(resource) => doomed.push(Doomed { resource, namespace, name: name(object).to_owned() }),
            Err(error) => errors.push(format!("{}: {error}", manifest.subject())),
        }
    }
    if !errors.is_empty() {
        Errors(errors).complain();
        bail!("nothing was deleted");
    }
    doomed.reverse();
    Ok(doomed)
}

/// Deletes one object; its identity if there was one.
async fn delete(cluster: &Cluster, args: &Args, doomed: &Doomed) -> anyhow::Result<Option<String>> {
    let Doomed { resource, namespace, name } = doomed;
    let path = resource.object(namespace, name);
    let policy = match args.cascade {
        Cascade::Background => "Background",
        Cascade::Foreground => "Foreground",
        Cascade::Orphan => "Orphan",
    };
    let mut options = json!({ "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy });
    if let (Some(seconds), Some(map)) = (args.grace_period, options.as_object_mut()) {
        map.insert("gracePeriodSeconds".into(), seconds.into());
    }
    let answer = match cluster.delete(&path, &options).await {
        Ok(answer) => answer,
        Err(error) if code(&error) == 404 => return Ok(None),
        Err(error) => return Err(cluster.explain(error)),
    };
    crate::print(&format!("{} {name:?} deleted\n", resource.qualified()))?;
    // The answer is the object if it is still there, or says what it was.
    let uids = [text(&answer, "/details/uid"), text(&answer, "/metadata/uid")];
    Ok(Some(uids.into_iter().find(|uid| !uid.is_empty()).unwrap_or_default().to_owned()))
}
