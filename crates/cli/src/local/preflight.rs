//! What would go wrong on this machine, found before anything is started.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::Value;
use trainyard_core::{Catalog, Kind, Options, Resource};
use trainyard_node::sources::{ReferenceKind, references};
use trainyard_node::{Inventory, Preflight, Surroundings};

use crate::check::explained;
use crate::manifests::Manifest;

/// Everything that keeps a job from running here, and everything it does without.
pub(crate) fn check(
    catalog: &Catalog,
    kind: &'static Kind,
    manifest: &Manifest,
    others: &[Manifest],
    inventory: &Inventory,
    around: &Surroundings,
) -> anyhow::Result<Preflight> {
    let subject = manifest.subject();
    let say = |problem: String| format!("{subject}: {problem}");
    if let Some(idle) = never_runs(manifest) {
        return Ok(Preflight { problems: vec![say(idle.into())], notes: Vec::new() });
    }
    let options = Options { gang_on_pods: true, ..Options::default() };
    let explained = explained(catalog, kind, &manifest.object, &options)?;
    let pods: Vec<Pod> = explained
        .children
        .into_iter()
        .filter(|child| child.what.kind == Resource::POD.kind)
        .map(|child| serde_json::from_value(child.body))
        .collect::<Result<_, _>>()?;
    let Preflight { mut problems, notes } = trainyard_node::preflight(&pods, inventory);
    for pod in &pods {
        let spec = pod.spec.as_ref();
        let containers =
            spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
        problems.extend(containers.filter_map(|container| no_program(container, around)));
    }
    problems.extend(pods.iter().flat_map(|pod| missing_objects(pod, others)));
    // Replicas of one kind have the same problem; once is enough.
    problems.sort();
    problems.dedup();
    let told = |lines: Vec<String>| lines.into_iter().map(say).collect();
    Ok(Preflight { problems: told(problems), notes: told(notes) })
}

/// What a pod refers to and the files do not hold: nobody else could make it.
fn missing_objects(pod: &Pod, others: &[Manifest]) -> Vec<String> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    let has = |kind: &str, name: &str| {
        let is = |object: &Value, pointer: &str, wanted: &str| {
            object.pointer(pointer).and_then(Value::as_str) == Some(wanted)
        };
        others.iter().any(|other| {
            let place = other.object.pointer("/metadata/namespace").and_then(Value::as_str);
            is(&other.object, "/kind", kind)
                && is(&other.object, "/metadata/name", name)
                && place.unwrap_or("default") == namespace
        })
    };
    let needed = references(pod).into_iter().filter(|reference| !reference.optional);
    let needed = needed.map(|reference| (kind_of(reference.kind), reference.name));
    let missing = needed.filter(|(kind, name)| !has(kind, name));
    missing
        .map(|(kind, name)| {
            format!("{kind} {name:?} is needed and is not in the files: add it, or remove what refers to it")
        })
        .collect()
}

fn kind_of(kind: ReferenceKind) -> &'static str {
    match kind {
        ReferenceKind::ConfigMap => "ConfigMap",
        ReferenceKind::Secret => "Secret",
        ReferenceKind::Claim => "PersistentVolumeClaim",
    }
}

fn never_runs(manifest: &Manifest) -> Option<&'static str> {
    let policy = manifest.object.pointer("/spec/runPolicy")?;
    if policy.get("suspend").and_then(Value::as_bool) == Some(true) {
        return Some("spec.runPolicy.suspend: it is true, so nothing would run: remove it");
    }
    let other = policy.get("managedBy").and_then(Value::as_str);
    (other.is_some_and(|who| who != "kubeflow.org/training-operator")).then_some(
        "spec.runPolicy.managedBy: another controller runs this job, so nothing would happen here: remove it",
    )
}

/// A program that is not there. What a volume may bring is not judged, nor what is put together from variables.
fn no_program(container: &Container, around: &Surroundings) -> Option<String> {
    let program = container.command.as_ref()?.first()?;
    let Surroundings::Caller { directory, env } = around else { return None };
    let mounted = container
        .volume_mounts
        .iter()
        .flatten()
        .any(|mount| Path::new(program).starts_with(&mount.mount_path));
    if program.contains("$(") || mounted {
        return None;
    }
    let own = own_env(container);
    let directory = container.working_dir.as_ref().map_or(directory.clone(), |dir| directory.join(dir));
    if program.contains('/') {
        let path = directory.join(program);
        return (!path.exists())
            .then(|| missing(container, program, &format!("there is no file {}", path.display())));
    }
    let path = own
        .get("PATH")
        .map(String::as_str)
        .or_else(|| env.get("PATH").map(String::as_str))
        .unwrap_or_default();
    let mut places = std::env::split_paths(path).map(|dir| directory.join(dir).join(program));
    let found = places.any(|file: PathBuf| file.is_file());
    let cannot_tell = container.env_from.is_some() || own.get("PATH").is_some_and(|path| path.contains("$("));
    (!found && !cannot_tell)
        .then(|| missing(container, program, &format!("there is no such program in PATH ({path})")))
}

fn missing(container: &Container, program: &str, why: &str) -> String {
    format!(
        "container {}: command[0]: {program:?} cannot be run: {why}: correct the command, or install the program",
        container.name
    )
}

fn own_env(container: &Container) -> BTreeMap<String, String> {
    let vars = container.env.iter().flatten();
    vars.filter_map(|var| Some((var.name.clone(), var.value.clone()?))).collect()
}
