//! What would go wrong on this machine, found before anything is started.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::Value;
use trainyard_api::labels;
use trainyard_core::{Catalog, Child, Kind, Options, Resource};
use trainyard_node::sources::{ReferenceKind, containers_by_field, references};
use trainyard_node::{Entrypoints, Inventory, PodProblem, Surroundings};

use crate::check::explained;
use crate::manifests::Manifest;

/// What is to be said about a job before it is started: one line each, with its file and its name.
pub(crate) struct Found {
    /// Why it cannot run here.
    pub(crate) problems: Vec<String>,
    /// What it does without.
    pub(crate) notes: Vec<String>,
    /// What it becomes.
    pub(crate) children: Vec<Child>,
}

/// What this machine gives to jobs.
pub(crate) struct Here {
    pub(crate) inventory: Inventory,
    pub(crate) around: Surroundings,
    pub(crate) entrypoints: Entrypoints,
    /// How jobs are planned here.
    pub(crate) plan: Options,
}

/// Everything that keeps a job from running here, and everything it does without.
pub(crate) fn check(
    catalog: &Catalog,
    kind: &'static Kind,
    manifest: &Manifest,
    others: &[Manifest],
    here: &Here,
) -> anyhow::Result<Found> {
    let subject = manifest.subject();
    let say = |problem: String| format!("{subject}: {problem}");
    if let Some(idle) = never_runs(manifest).map(str::to_owned).or_else(|| no_replicas(kind, manifest)) {
        return Ok(Found { problems: vec![say(idle)], notes: Vec::new(), children: Vec::new() });
    }
    let explained = explained(catalog, kind, &manifest.object, &here.plan)?;
    let children = explained.children;
    let (pods, beside): (Vec<Child>, Vec<Child>) =
        children.iter().cloned().partition(|child| child.what.kind == Resource::POD.kind);
    let pods: Vec<Pod> =
        pods.into_iter().map(|child| serde_json::from_value(child.body)).collect::<Result<_, _>>()?;
    let files = others.iter().map(|other| &other.object);
    let known: Vec<&Value> = files.chain(beside.iter().map(|child| &child.body)).collect();
    let mut found = trainyard_node::preflight(&pods, &here.inventory, &here.entrypoints);
    // Our own image is nothing the user asked for.
    found.notes.retain(|note| !note.contains(&here.plan.helpers.image));
    let mut problems: Vec<String> =
        found.problems.into_iter().map(|problem| worded(kind, manifest, &pods, problem)).collect();
    for pod in &pods {
        let programs = no_programs(pod, &here.around).into_iter();
        let places = elsewhere(pod, &here.inventory).into_iter().chain(relative_mounts(pod));
        problems.extend(
            programs
                .chain(places)
                .map(|(field, why)| format!("{}: {why}", path(kind, manifest, pod, &field))),
        );
        problems.extend(missing_objects(pod, &known));
    }
    // Replicas of one kind have the same problem; once is enough.
    problems.sort();
    problems.dedup();
    let told = |lines: Vec<String>| lines.into_iter().map(say).collect();
    Ok(Found { problems: told(problems), notes: told(found.notes), children })
}

fn worded(kind: &Kind, manifest: &Manifest, pods: &[Pod], problem: PodProblem) -> String {
    let place =
        problem.place.and_then(|(number, field)| Some(path(kind, manifest, pods.get(number)?, &field)));
    let message = problem.message;
    match place {
        Some(place) => format!("{place}: {message}"),
        None => {
            let all = format!("spec.{}[*].template.spec.containers[*].resources", kind.replica_specs);
            format!("{all}: {message}: ask for less, or use a larger machine")
        }
    }
}

/// A field of a pod, by its place in the job.
fn path(kind: &Kind, manifest: &Manifest, pod: &Pod, field: &str) -> String {
    let role = pod.metadata.labels.as_ref().and_then(|labels| labels.get(labels::REPLICA_TYPE));
    let replicas =
        manifest.object.pointer(&format!("/spec/{}", kind.replica_specs)).and_then(Value::as_object);
    let same = |name: &&String| role.is_some_and(|role| role.eq_ignore_ascii_case(name));
    let name = replicas.and_then(|replicas| replicas.keys().find(same)).map_or("*", String::as_str);
    format!("spec.{}[{name}].template.{field}", kind.replica_specs)
}

/// Programs that are not there.
fn no_programs(pod: &Pod, around: &Surroundings) -> Vec<(String, String)> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let missing = containers_by_field(spec).filter_map(|(field, container)| {
        Some((format!("{field}.command[0]"), no_program(container, around)?))
    });
    missing.collect()
}

/// What a pod refers to and neither the files nor the job bring: nobody else could make it.
fn missing_objects(pod: &Pod, known: &[&Value]) -> Vec<String> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    let has = |kind: &str, name: &str| {
        let is = |object: &Value, pointer: &str, wanted: &str| {
            object.pointer(pointer).and_then(Value::as_str) == Some(wanted)
        };
        known.iter().any(|other| {
            let place = other.pointer("/metadata/namespace").and_then(Value::as_str);
            is(other, "/kind", kind)
                && is(other, "/metadata/name", name)
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

/// A node that is not this machine: nobody would take the pod.
fn elsewhere(pod: &Pod, inventory: &Inventory) -> Option<(String, String)> {
    let node = pod.spec.as_ref()?.node_name.as_deref().filter(|node| !node.is_empty())?;
    let here = &inventory.host_name;
    (node != here)
        .then(|| ("spec.nodeName".into(), format!("{node:?} is not this machine, {here:?}: remove it")))
}

/// Mounts whose place depends on where one stands.
fn relative_mounts(pod: &Pod) -> Vec<(String, String)> {
    let containers = pod.spec.iter().flat_map(containers_by_field);
    let mounts = containers.flat_map(|(field, container)| {
        let mounts = container.volume_mounts.iter().flatten().enumerate();
        mounts.map(move |(i, mount)| (format!("{field}.volumeMounts[{i}].mountPath"), &mount.mount_path))
    });
    let relative = mounts.filter(|(_, path)| !Path::new(path).is_absolute());
    relative.map(|(field, path)| (field, format!("{path:?} is not absolute: begin it with a /"))).collect()
}

/// A job of nothing would never end.
fn no_replicas(kind: &Kind, manifest: &Manifest) -> Option<String> {
    let field = kind.replica_specs;
    let specs = manifest.object.pointer(&format!("/spec/{field}"))?.as_object()?;
    let none = |spec: &Value| spec.get("replicas").and_then(Value::as_i64) == Some(0);
    (!specs.is_empty() && specs.values().all(none))
        .then(|| format!("spec.{field}[*].replicas: all are 0, so nothing would run: ask for one at least"))
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
        return (!path.exists()).then(|| missing(program, &format!("there is no file {}", path.display())));
    }
    let path = own
        .get("PATH")
        .map(String::as_str)
        .or_else(|| env.get("PATH").map(String::as_str))
        .unwrap_or_default();
    let mut places = std::env::split_paths(path).map(|dir| directory.join(dir).join(program));
    let found = places.any(|file: PathBuf| file.is_file());
    let cannot_tell = container.env_from.is_some() || own.get("PATH").is_some_and(|path| path.contains("$("));
    (!found && !cannot_tell).then(|| missing(program, "there is no such program in PATH"))
}

fn missing(program: &str, why: &str) -> String {
    format!("{program:?} cannot be run: {why}: correct the command, or install the program")
}

fn own_env(container: &Container) -> BTreeMap<String, String> {
    let vars = container.env.iter().flatten();
    vars.filter_map(|var| Some((var.name.clone(), var.value.clone()?))).collect()
}
