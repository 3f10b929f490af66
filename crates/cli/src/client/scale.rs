//! `trainyard scale`: how many replicas of one type a job has.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use trainyard_core::{Kind, Options};

use super::cluster::{Cluster, Reach};
use super::fields::{is_over, items, state, text};
use super::target::{Job, job};
use crate::check::{Errors, explained};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The job: NAME, KIND/NAME or KIND NAME.
    #[arg(required = true, num_args = 1..=2, value_name = "JOB")]
    job: Vec<String>,
    /// How many.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    replicas: i64,
    /// Which replica type; workers if left out.
    #[arg(long, value_name = "TYPE")]
    replica_type: Option<String>,
    #[command(flatten)]
    reach: Reach,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(replicas) = i32::try_from(args.replicas).ok().filter(|replicas| *replicas >= 0) else {
        bail!("--replicas: Invalid value: {}: must be from 0 to {}", args.replicas, i32::MAX);
    };
    let cluster = args.reach.open().await?;
    let job = job(&cluster, &args.job).await?;
    if is_over(&job.object) {
        bail!("{} has ended ({}): create it again with more replicas", job.title(), state(&job.object));
    }
    let role = role(&cluster, &job, args.replica_type.as_deref())?;
    let patch = json!({ "spec": { job.kind.replica_specs: { role.as_str(): { "replicas": replicas } } } });
    if let Err(errors) = check(&cluster, &job, &role, replicas)? {
        errors.complain();
        return Ok(ExitCode::FAILURE);
    }
    let done = if job.resource.scales && scaled_role(job.kind)?.as_deref() == Some(role.as_str()) {
        let patch = json!({ "spec": { "replicas": replicas } });
        cluster.patch(&format!("{}/scale", job.path()), &patch).await
    } else {
        cluster.patch(&job.path(), &patch).await
    };
    done.map_err(|error| cluster.explain(error))
        .with_context(|| format!("{} was not scaled", job.title()))?;
    crate::print(&format!("{} scaled: {role} {replicas}\n", job.title()))?;
    Ok(ExitCode::SUCCESS)
}

/// The replica type that is meant, as the spec spells it.
fn role(cluster: &Cluster, job: &Job, wanted: Option<&str>) -> anyhow::Result<String> {
    let specs = job.object.pointer(&format!("/spec/{}", job.kind.replica_specs)).and_then(Value::as_object);
    let known: Vec<&String> = specs.into_iter().flat_map(|map| map.keys()).collect();
    let followers =
        cluster.catalog.framework(job.kind.framework).map(|framework| framework.facts().followers);
    let word = wanted.or(followers).unwrap_or_default();
    if let Some(found) = known.iter().find(|known| known.eq_ignore_ascii_case(word)) {
        return Ok((*found).clone());
    }
    match (known.as_slice(), wanted) {
        ([only], None) => Ok((*only).clone()),
        _ => bail!("--replica-type: {} has no replicas of type {word:?}, it has {known:?}", job.title()),
    }
}

/// What is wrong with the job as it would be: said here, because the server may take it and the operator would not.
fn check(cluster: &Cluster, job: &Job, role: &str, replicas: i32) -> anyhow::Result<Result<(), Errors>> {
    let mut object = job.object.clone();
    let place = object
        .get_mut("spec")
        .and_then(|spec| spec.get_mut(job.kind.replica_specs))
        .and_then(|specs| specs.get_mut(role))
        .and_then(Value::as_object_mut);
    if let Some(spec) = place {
        spec.insert("replicas".into(), replicas.into());
    }
    let before = explained(&cluster.catalog, job.kind, &job.object, &Options::default())?.errors;
    let mut errors = explained(&cluster.catalog, job.kind, &object, &Options::default())?.errors;
    // Only what this change would break: the rest is not its doing.
    errors.retain(|error| !before.contains(error));
    let errors: Vec<String> = errors.iter().map(|error| format!("{}: {error}", job.title())).collect();
    Ok(if errors.is_empty() { Ok(()) } else { Err(Errors(errors)) })
}

/// The replica type that the scale subresource of a kind is about, by the definition we ship.
fn scaled_role(kind: &Kind) -> anyhow::Result<Option<String>> {
    let definition = trainyard_host::crds::of_kind(kind);
    let definition = definition.as_ref().map(trainyard_host::crds::Definition::read).transpose()?;
    let versions = definition.as_deref().map(|one| items(one, "/spec/versions")).unwrap_or_default();
    let version = versions.iter().find(|version| text(version, "/name") == kind.version);
    let path =
        version.map(|version| text(version, "/subresources/scale/specReplicasPath")).unwrap_or_default();
    let role = path.strip_prefix(&format!(".spec.{}.", kind.replica_specs));
    Ok(role.and_then(|rest| rest.strip_suffix(".replicas")).map(str::to_owned))
}
