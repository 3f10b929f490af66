//! `trainyard apply`: objects from manifests, all checked before the first is sent.

use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use serde_json::{Map, Value};

use super::cluster::{Cluster, Reach, code};
use super::fields::{name, text};
use super::merge;
use super::refused;
use super::resource::Resource;
use crate::check::{Errors, check};
use crate::manifests::{self, Manifest};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Manifest files; `-` is standard input.
    #[arg(value_name = "FILE")]
    files: Vec<String>,
    /// Manifest files, the way kubectl takes them.
    #[arg(short, long, value_name = "FILE")]
    filename: Vec<String>,
    #[command(flatten)]
    reach: Reach,
}

/// An object that is ready to be sent.
struct Ready {
    /// Where it stands, for messages.
    origin: String,
    resource: Resource,
    namespace: String,
    object: Value,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let manifests = read(args.filename.iter().chain(&args.files))?;
    if let Err(errors) = check(&manifests) {
        errors.complain();
        return Ok(ExitCode::FAILURE);
    }
    let cluster = args.reach.open().await?;
    let ready = match prepare(&cluster, manifests).await? {
        Ok(ready) => ready,
        Err(errors) => {
            errors.complain();
            return Ok(ExitCode::FAILURE);
        }
    };
    for object in &ready {
        let title = format!("{}/{}", object.resource.qualified(), name(&object.object));
        let done = apply(&cluster, object).await.with_context(|| format!("{title} was not applied"))?;
        crate::print(&format!("{title} {done}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Every document of these files.
pub(crate) fn read<'a>(files: impl Iterator<Item = &'a String>) -> anyhow::Result<Vec<Manifest>> {
    let mut all = Vec::new();
    for file in files {
        all.extend(manifests::read(file)?);
    }
    if all.is_empty() {
        bail!("no manifest: name a file with -f FILE; `-f -` is standard input");
    }
    Ok(all)
}

/// Finds what each document is to the server, and where it belongs.
async fn prepare(cluster: &Cluster, manifests: Vec<Manifest>) -> anyhow::Result<Result<Vec<Ready>, Errors>> {
    let (mut ready, mut errors) = (Vec::new(), Vec::new());
    for manifest in manifests {
        match place(cluster, &manifest).await? {
            Ok(object) => ready.push(object),
            Err(error) => errors.push(format!("{}: {error}", manifest.subject())),
        }
    }
    Ok(if errors.is_empty() { Ok(ready) } else { Err(Errors(errors)) })
}

async fn place(cluster: &Cluster, manifest: &Manifest) -> anyhow::Result<Result<Ready, String>> {
    let (resource, said) = match resource(cluster, &manifest.object).await? {
        Ok(resource) => (resource, text(&manifest.object, "/metadata/namespace").to_owned()),
        Err(error) => return Ok(Err(error)),
    };
    let (origin, mut object) = (manifest.origin.clone(), manifest.object.clone());
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    let (Some(metadata), true) = (metadata, resource.namespaced) else {
        return Ok(if said.is_empty() {
            Ok(Ready { origin, resource, namespace: String::new(), object })
        } else {
            Err(format!("metadata.namespace: Forbidden: a {} is in no namespace: take it out", resource.kind))
        });
    };
    let wanted = &cluster.namespace;
    if !said.is_empty() && cluster.chosen && said != *wanted {
        let error =
            format!("metadata.namespace: Invalid value: {said:?}: -n says {wanted:?}: take one of them out");
        return Ok(Err(error));
    }
    let namespace = if said.is_empty() { wanted.clone() } else { said };
    metadata.insert("namespace".into(), namespace.as_str().into());
    Ok(Ok(Ready { origin, resource, namespace, object }))
}

/// The resource of a manifest, or what the server knows instead.
pub(crate) async fn resource(cluster: &Cluster, object: &Value) -> anyhow::Result<Result<Resource, String>> {
    let (api_version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let served = cluster.served(group, version).await?;
    if let Some(resource) = served.iter().find(|resource| resource.kind == kind) {
        return Ok(Ok(resource.clone()));
    }
    if let Ok(other) = cluster.resource(kind).await {
        let known =
            if other.group.is_empty() { other.version } else { format!("{}/{}", other.group, other.version) };
        return Ok(Err(format!(
            "apiVersion: Unsupported value: {api_version:?}: the server has {kind} in {known}"
        )));
    }
    let known: Vec<&str> = served.iter().map(|resource| resource.kind.as_str()).collect();
    Ok(Err(if known.is_empty() {
        format!("apiVersion: Unsupported value: {api_version:?}: the server does not serve it")
    } else {
        format!("kind: Unsupported value: {kind:?}: in {api_version} the server knows {}", known.join(", "))
    }))
}

fn refused(cluster: &Cluster, error: kube::Error, origin: &str) -> anyhow::Error {
    match refused::advice(&error, origin) {
        Some(advice) => anyhow!("{}: {advice}", cluster.explain(error)),
        None => cluster.explain(error),
    }
}

async fn apply(cluster: &Cluster, ready: &Ready) -> anyhow::Result<&'static str> {
    let Ready { origin, resource, namespace, object } = ready;
    let modified = merge::with_note(object);
    let path = resource.object(namespace, name(object));
    for _ in 0..3 {
        let Some(current) = cluster.get(&path).await? else {
            match cluster.create(&resource.collection(Some(namespace)), &modified).await {
                Ok(_) => return Ok("created"),
                // Somebody was quicker: then it is a change.
                Err(error) if code(&error) == 409 => continue,
                Err(error) => return Err(refused(cluster, error, origin)),
            }
        };
        let original = merge::last_applied(&current);
        if original.is_none() {
            crate::complain(&format!(
                "warning: {}/{} was not made by apply: fields that are not in the manifest stay as they are",
                resource.qualified(),
                name(object)
            ));
        }
        let original = original.unwrap_or(Value::Object(Map::new()));
        let Some(patch) = merge::patch(&original, &modified, &current) else { return Ok("unchanged") };
        match cluster.patch(&path, &patch).await {
            Ok(_) => return Ok("configured"),
            // It went between the look and the patch.
            Err(error) if code(&error) == 404 => {}
            Err(error) => return Err(refused(cluster, error, origin)),
        }
    }
    bail!("it comes and goes: somebody else creates and deletes it at the same time")
}
