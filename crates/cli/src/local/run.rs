//! `trainyard run`: jobs on this machine, followed to their end.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use kube::api::PostParams;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use serde_json::{Value, json};
use trainyard_core::{Catalog, Kind};
use trainyard_host::crds::Definition;
use trainyard_host::{DataDir, Host, Socket};
use trainyard_node::Surroundings;

use super::display::{Display, Naming};
use super::follow::{Followed, Follower};
use super::job::JobRef;
use super::machine::MachineArgs;
use super::places;
use super::preflight::{self, Here};
use super::rehearsal::{self, Planned};
use super::runtime;
use crate::check;
use crate::manifests::{self, Manifest};

/// When this program is killed, its processes are ended after this long.
const ORPHANS_AFTER: Duration = Duration::from_secs(3);
/// The operator waits this long for more to happen to a job.
const DEBOUNCE: Duration = Duration::from_millis(1);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Manifest files; `-` is standard input. Jobs, and what they need: ConfigMaps, Secrets, claims.
    #[arg(required = true)]
    files: Vec<String>,
    /// Where logs are kept [default: a new directory in $XDG_STATE_HOME/trainyard/runs].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Plain lines instead of a live display, also on a terminal.
    #[arg(long)]
    plain: bool,
    #[command(flatten)]
    machine: MachineArgs,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    crate::log_to_stderr("error", false);
    let mut documents = Vec::new();
    for file in &args.files {
        documents.extend(manifests::read(file)?);
    }
    let directory = std::env::current_dir().context("this directory is gone")?;
    let env = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let around = Surroundings::Caller { directory, env };
    args.machine.check()?;
    let inventory = args.machine.inventory(Path::new("/"))?;
    let plan = args.machine.operator()?.plan;
    let here = Here { inventory, around, entrypoints: args.machine.entrypoints()?, plan };
    let ready = match checked(&documents, &here)? {
        Ok(ready) => ready,
        Err(problems) => {
            problems.iter().for_each(|problem| crate::complain(problem));
            return Ok(ExitCode::FAILURE);
        }
    };
    runtime::run(run_all(args, documents, ready, here))
}

/// Jobs that nothing is known against, and what they become.
struct Ready {
    jobs: Vec<JobRef>,
    planned: Vec<Planned>,
}

/// Everything that is wrong is said before anything is started.
fn checked(documents: &[Manifest], here: &Here) -> anyhow::Result<Result<Ready, Vec<String>>> {
    if let Err(errors) = check::check(documents) {
        return Ok(Err(errors.0));
    }
    let catalog = Catalog::default();
    let (mut jobs, mut planned) = (Vec::new(), Vec::new());
    let (mut problems, mut notes) = (Vec::new(), Vec::new());
    for document in documents {
        match job_kind(&catalog, document) {
            Some(kind) => {
                let found = preflight::check(&catalog, kind, document, documents, here)?;
                problems.extend(found.problems);
                notes.extend(found.notes);
                let subject = document.subject();
                planned.extend(
                    found.children.into_iter().map(|child| Planned { subject: subject.clone(), child }),
                );
                jobs.push(JobRef::of(kind, &document.object));
            }
            None if is_plain(document) => {}
            None => problems.push(unknown(&catalog, document)),
        }
    }
    if jobs.is_empty() && problems.is_empty() {
        problems.push("nothing to run: the files hold no job".into());
    }
    if problems.is_empty() {
        notes.iter().for_each(|note| crate::complain(&format!("note: {note}")));
    }
    Ok(if problems.is_empty() { Ok(Ready { jobs, planned }) } else { Err(problems) })
}

fn job_kind(catalog: &Catalog, document: &Manifest) -> Option<&'static Kind> {
    let version = document.object.get("apiVersion").and_then(Value::as_str);
    document
        .kind()
        .ok()
        .and_then(|name| catalog.kind(name))
        .filter(|kind| version == Some(&*kind.api_version()))
}

/// Kinds beside jobs that `run` knows what to do with.
const PLAIN: &[(&str, &str)] = &[
    ("ConfigMap", "configmaps"),
    ("Secret", "secrets"),
    ("PersistentVolumeClaim", "persistentvolumeclaims"),
    ("Namespace", "namespaces"),
    ("ServiceAccount", "serviceaccounts"),
    ("Service", "services"),
];

fn is_plain(document: &Manifest) -> bool {
    let version = document.object.get("apiVersion").and_then(Value::as_str);
    let kind = document.kind().unwrap_or_default();
    version == Some("v1") && PLAIN.iter().any(|(name, _)| *name == kind)
}

fn unknown(catalog: &Catalog, document: &Manifest) -> String {
    let kinds = catalog.kinds.iter().map(|kind| kind.name).chain(PLAIN.iter().map(|(name, _)| *name));
    let known: Vec<&str> = kinds.collect();
    format!(
        "{}: kind: Unsupported value: {} of {}: `run` knows {}",
        document.origin,
        document.kind().unwrap_or_default(),
        document.object.get("apiVersion").and_then(Value::as_str).unwrap_or_default(),
        known.join(", ")
    )
}

async fn run_all(args: Args, documents: Vec<Manifest>, ready: Ready, here: Here) -> anyhow::Result<ExitCode> {
    let Ready { jobs, planned } = ready;
    let refusals = rehearsal::refusals(&documents, &planned).await?;
    if !refusals.is_empty() {
        refusals.iter().for_each(|refusal| crate::complain(refusal));
        return Ok(ExitCode::FAILURE);
    }
    let clock = trainyard_operator::system_clock();
    let path = match args.data_dir.clone() {
        Some(path) => path,
        None => places::run_dir(&clock().strftime("%Y%m%d-%H%M%S").to_string())?,
    };
    let dir = DataDir::open(&path)?;
    let Here { inventory, around, .. } = here;
    let name = inventory.host_name.clone();
    let node = args.machine.node(name, dir.path(), inventory, around, Some(ORPHANS_AFTER))?;
    let host = Host::start(trainyard_host::Options {
        crds: definitions(&jobs),
        operator: Some(operator(&args, &jobs)?),
        node: Some(node),
        // Nobody outside asks for anything, so there is no port, unless replicas themselves do.
        socket: uses_api(&jobs).then(|| Socket { port: 0, dir: dir.path().to_owned() }),
        ..trainyard_host::Options::bare()
    })
    .await?;
    let display = Display::new(args.plain, Naming::of(&jobs));
    let logs = host.logs().context("the node has no logs")?;
    let mut follower = Follower::new(host.client(), jobs, logs, host.metrics(), display);
    let created = create_all(&host.client(), &documents, &rehearsal::classes(&planned)).await;
    let followed = match created {
        Ok(()) => follower.follow().await,
        Err(error) => Err(error),
    };
    // Whatever happened, nothing stays behind.
    let pods = dir.path().join("pods");
    let grace = if followed.as_ref().is_ok_and(Followed::was_killed) {
        Duration::ZERO
    } else {
        Duration::from_secs(2)
    };
    trainyard_node::end_containers(&pods, grace, clock).await?;
    follower.finish().await;
    host.stop().await?;
    trainyard_node::scrub_all(&pods);
    report(followed?, dir.path())
}

/// Whether replicas of these jobs talk to the API.
fn uses_api(jobs: &[JobRef]) -> bool {
    let catalog = Catalog::default();
    let kinds = jobs.iter().filter_map(|job| catalog.kind(job.kind));
    let mut frameworks = kinds.filter_map(|kind| catalog.framework(kind.framework));
    frameworks.any(|framework| framework.facts().uses_api)
}

/// Only of the kinds that are run: each takes its time to be read.
fn definitions(jobs: &[JobRef]) -> Vec<Definition> {
    let catalog = Catalog::default();
    let names: BTreeSet<&str> = jobs.iter().map(|job| job.kind).collect();
    let kinds = names.into_iter().filter_map(|name| catalog.kind(name));
    kinds.filter_map(trainyard_host::crds::of_kind).collect()
}

/// Nobody else uses this operator, so it may answer at once.
fn operator(args: &Args, jobs: &[JobRef]) -> anyhow::Result<trainyard_operator::Options> {
    let mut options = args.machine.operator()?;
    options.kinds = Some(jobs.iter().map(|job| job.kind.to_owned()).collect());
    options.effort.debounce = DEBOUNCE;
    Ok(options)
}

async fn create_all(
    client: &Client,
    documents: &[Manifest],
    classes: &BTreeSet<String>,
) -> anyhow::Result<()> {
    send_plain(client, documents).await?;
    make_classes(client, classes).await?;
    let catalog = Catalog::default();
    for job in documents.iter().filter(|document| job_kind(&catalog, document).is_some()) {
        create(client, job, resource(&catalog, job)?).await?;
    }
    Ok(())
}

/// Creates what stands beside the jobs. Namespaces that are not there are made: on one machine nobody else would.
pub(super) async fn send_plain(client: &Client, documents: &[Manifest]) -> anyhow::Result<()> {
    let catalog = Catalog::default();
    for document in documents {
        let namespace = namespace(&document.object);
        if document.kind()? != "Namespace" && namespace != "default" {
            make_namespace(client, namespace).await?;
        }
        if job_kind(&catalog, document).is_none() {
            create(client, document, resource(&catalog, document)?).await?;
        }
    }
    Ok(())
}

/// Makes the PriorityClasses that pods name. They are all alike: here who comes first is served first.
pub(super) async fn make_classes(client: &Client, names: &BTreeSet<String>) -> anyhow::Result<()> {
    let resource = ApiResource {
        group: "scheduling.k8s.io".into(),
        version: "v1".into(),
        api_version: "scheduling.k8s.io/v1".into(),
        kind: "PriorityClass".into(),
        plural: "priorityclasses".into(),
    };
    for name in names {
        let object = json!({ "apiVersion": &resource.api_version, "kind": &resource.kind,
                             "metadata": { "name": name }, "value": 0 });
        let manifest = Manifest { origin: format!("priorityClassName {name}"), object };
        create(client, &manifest, resource.clone()).await?;
    }
    Ok(())
}

fn namespace(object: &Value) -> &str {
    object
        .pointer("/metadata/namespace")
        .and_then(Value::as_str)
        .filter(|n| !n.is_empty())
        .unwrap_or("default")
}

fn resource(catalog: &Catalog, document: &Manifest) -> anyhow::Result<ApiResource> {
    if let Some(kind) = job_kind(catalog, document) {
        return Ok(super::job::api_resource(kind));
    }
    let kind = document.kind()?;
    let Some((_, plural)) = PLAIN.iter().find(|(name, _)| *name == kind) else {
        bail!("{}: kind {kind} is not known", document.origin);
    };
    Ok(ApiResource {
        group: String::new(),
        version: "v1".into(),
        api_version: "v1".into(),
        kind: kind.into(),
        plural: (*plural).into(),
    })
}

async fn create(client: &Client, document: &Manifest, resource: ApiResource) -> anyhow::Result<()> {
    let cluster = ["Namespace", "PriorityClass"].contains(&resource.kind.as_str());
    let api: Api<DynamicObject> = if cluster {
        Api::all_with(client.clone(), &resource)
    } else {
        Api::namespaced_with(client.clone(), namespace(&document.object), &resource)
    };
    let object: DynamicObject = serde_json::from_value(document.object.clone())
        .with_context(|| format!("{} is not an object of Kubernetes", document.subject()))?;
    match api.create(&PostParams::default(), &object).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_already_exists() && cluster => Ok(()),
        Err(kube::Error::Api(status)) => bail!("{}: {}", document.subject(), status.message),
        Err(error) => Err(error).with_context(|| document.subject()),
    }
}

async fn make_namespace(client: &Client, name: &str) -> anyhow::Result<()> {
    let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    let manifest = Manifest { origin: format!("namespace {name}"), object };
    create(client, &manifest, resource(&Catalog::default(), &manifest)?).await
}

fn report(followed: Followed, dir: &Path) -> anyhow::Result<ExitCode> {
    match followed {
        Followed::Succeeded => Ok(ExitCode::SUCCESS),
        Followed::Failed { code } => {
            crate::complain(&format!("logs are in {}", dir.join("pods").display()));
            Ok(ExitCode::from(u8::try_from(code.clamp(1, 255)).unwrap_or(1)))
        }
        Followed::Stopped { code, .. } => Ok(ExitCode::from(code)),
    }
}
