//! Making a run of a container out of a pod: its environment, its files, its limits, its GPUs.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Container, Pod, PodSecurityContext, SecurityContext};

use super::sight::{Refusal, containers, grace};
use super::status::PORT_TAKEN;
use super::step::Start;
use crate::env::{self, ConfigError};
use crate::fetch::{Tokens, bind_claims, fetch};
use crate::options::{Surroundings, clean_env};
use crate::runtime::{self, ContainerSpec, Limits, Mount, Orphan};
use crate::schedule::gpus_of_container;
use crate::shared::Shared;
use crate::volumes::{self, VolumeError};
use crate::{account, quantity, unsupported};

/// Where CUDA looks for the GPUs a process may use.
const VISIBLE_GPUS: &str = "CUDA_VISIBLE_DEVICES";

fn refusal(reason: &str, message: impl Into<String>) -> Refusal {
    Refusal { reason: reason.into(), message: message.into() }
}

impl From<ConfigError> for Refusal {
    fn from(error: ConfigError) -> Self {
        refusal("CreateContainerConfigError", error.message)
    }
}

impl From<VolumeError> for Refusal {
    fn from(error: VolumeError) -> Self {
        refusal(error.reason, error.message)
    }
}

/// Why a pod must not be started here at all: one of its ports belongs to somebody else.
pub(crate) fn veto(pod: &Pod) -> Option<Refusal> {
    let ports = containers(pod).flat_map(|(_, container)| container.ports.iter().flatten());
    let ports = ports.filter(|port| port.protocol.as_deref().unwrap_or("TCP") == "TCP");
    let mut numbers = ports.filter_map(|port| port.host_port).filter_map(|port| u16::try_from(port).ok());
    let taken = numbers.find(|port| *port != 0 && !is_free(*port))?;
    Some(refusal(PORT_TAKEN, format!("port {taken} of this machine is in use by another program")))
}

/// A port is free when it can be bound everywhere: frameworks listen on all addresses.
fn is_free(port: u16) -> bool {
    TcpListener::bind(("0.0.0.0", port)).is_ok()
}

/// Says once what this machine does not do for the pod.
pub(crate) fn note_what_is_not_honoured(shared: &Shared, pod: &Pod) {
    let mut notes = unsupported::not_honoured(pod);
    notes.extend(limits_not_kept(pod));
    if !notes.is_empty() {
        shared.events.normal(pod, "NotHonoured", &notes.join("; "), shared.options.now());
    }
}

/// Limits of the pod that this machine cannot keep.
pub(crate) fn limits_not_kept(pod: &Pod) -> Vec<String> {
    let limits: Vec<Limits> = containers(pod).map(|(_, container)| limits(container)).collect();
    let (memory, cpu) =
        (limits.iter().any(|own| own.memory.is_some()), limits.iter().any(|own| own.cpu_millis.is_some()));
    if !memory && !cpu {
        return Vec::new();
    }
    let kept = runtime::enforceable();
    let note =
        |what: &str| format!("resources.limits.{what} is not enforced: no {what} cgroup may be made here");
    let memory = (memory && !kept.memory).then(|| note("memory"));
    memory.into_iter().chain((cpu && !kept.cpu).then(|| note("cpu"))).collect()
}

/// Starts one run; what was started before is not started again.
pub(crate) async fn start(shared: &Shared, pod: &Pod, uid: &str, wanted: &Start) -> Result<(), Refusal> {
    let pod = &*shared.trimmed(pod);
    let Some((_, container)) = containers(pod).find(|(_, c)| c.name == wanted.container) else {
        return Err(refusal("InvalidSpec", format!("there is no container {}", wanted.container)));
    };
    if let Some(problem) = unsupported::cannot_start(pod, &shared.options.entrypoints)
        .into_iter()
        .find(|p| p.container == container.name)
    {
        return Err(refusal("CreateContainerConfigError", problem.to_string()));
    }
    let io = |error: std::io::Error| refusal("CreateContainerError", format!("the data directory: {error}"));
    shared.disk.admit(pod, shared.options.now()).map_err(io)?;
    let spec = spec(shared, pod, uid, container).await?;
    shared.disk.set_level(uid, &container.name, wanted.number, wanted.level).map_err(io)?;
    let dir = shared.disk.run(uid, &container.name, wanted.number);
    // Starting hundreds at once would only make each of them slow.
    let _turn = shared.starts.acquire().await;
    let started = shared.runtime.start(&dir, &spec).await;
    shared.disk.prune_runs(uid, &container.name);
    started.map_err(|error| refusal("CreateContainerError", error.to_string()))
}

async fn spec(
    shared: &Shared,
    pod: &Pod,
    uid: &str,
    container: &Container,
) -> Result<ContainerSpec, Refusal> {
    let sources = fetch(&shared.client, pod, &mut Tokens::new(shared.options.clock.clone())).await;
    let sources = sources.map_err(|error| refusal("CreateContainerConfigError", error.to_string()))?;
    let facts = shared.facts();
    let own = env::environment(pod, container, &sources, &facts)?;
    let program = shared.options.entrypoints.command(container);
    let words: Vec<String> = program.iter().chain(container.args.iter().flatten()).cloned().collect();
    let command = env::expand_all(&words, &own);
    let (volumes_dir, claims) = (shared.disk.volumes(uid), shared.disk.claims());
    let volumes = volumes::prepare(pod, &volumes_dir, &claims, &sources, &facts)?;
    bind_claims(&shared.client, &sources).await;
    let mounts = permitted(shared, volumes::mounts(container, &volumes, &own)?)?;
    let (directory, around) = surroundings(shared, uid);
    let mut env = around;
    env.insert("HOSTNAME".into(), pod.metadata.name.clone().unwrap_or_default());
    if shared.options.inventory.has_gpus {
        env.insert(VISIBLE_GPUS.into(), gpus_of_container(pod, &container.name).join(","));
    }
    env.extend(account::env(pod, shared.options.api));
    env.extend(own);
    let tty = container.tty == Some(true);
    if tty {
        env.entry("TERM".into()).or_insert_with(|| "xterm".into());
    }
    let working_dir = container.working_dir.clone().filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let (user, group) = ids(pod, container);
    Ok(ContainerSpec {
        label: format!(
            "{}/{}/{}",
            pod.metadata.namespace.as_deref().unwrap_or_default(),
            pod.metadata.name.as_deref().unwrap_or_default(),
            container.name
        ),
        command,
        env,
        working_dir: working_dir.map_or(directory.clone(), |dir| directory.join(dir)),
        mounts,
        user,
        group,
        limits: limits(container),
        stdin: container.stdin == Some(true),
        stdin_once: container.stdin_once == Some(true),
        tty,
        open_files: shared.options.open_files,
        log: shared.options.log,
        orphan: orphan(shared, pod),
    })
}

fn orphan(shared: &Shared, pod: &Pod) -> Orphan {
    Orphan {
        lock: shared.options.lock.clone(),
        after_seconds: shared.options.orphans_after.map(|after| after.as_secs()),
        grace_seconds: grace(pod).as_secs().unsigned_abs(),
    }
}

fn surroundings(shared: &Shared, uid: &str) -> (PathBuf, BTreeMap<String, String>) {
    match &shared.options.surroundings {
        Surroundings::Caller { directory, env } => (directory.clone(), env.clone()),
        Surroundings::Clean { env } => {
            let work = shared.disk.work(uid);
            let env = clean_env(&work.to_string_lossy(), env);
            (work, env)
        }
    }
}

/// Where nothing can be mounted, a path that stays where it is can be used all the same; that it is read-only cannot be
/// kept up then.
fn permitted(shared: &Shared, mut mounts: Vec<Mount>) -> Result<Vec<Mount>, Refusal> {
    if mounts.iter().all(|mount| mount.source == mount.target && !mount.read_only) {
        return Ok(mounts);
    }
    let Err(why) = shared.runtime.can_mount() else { return Ok(mounts) };
    if let Some(mount) = mounts.iter().find(|mount| mount.source != mount.target) {
        let target = mount.target.display();
        return Err(refusal(
            "FailedMount",
            format!(
                "nothing can be mounted at {target}: {why}; or use a hostPath whose path is the mountPath"
            ),
        ));
    }
    mounts.iter_mut().for_each(|mount| mount.read_only = false);
    Ok(mounts)
}

fn ids(pod: &Pod, container: &Container) -> (Option<u32>, Option<u32>) {
    let own: Option<&SecurityContext> = container.security_context.as_ref();
    let shared: Option<&PodSecurityContext> =
        pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let id = |own: Option<i64>, shared: Option<i64>| own.or(shared).and_then(|id| u32::try_from(id).ok());
    (
        id(own.and_then(|c| c.run_as_user), shared.and_then(|c| c.run_as_user)),
        id(own.and_then(|c| c.run_as_group), shared.and_then(|c| c.run_as_group)),
    )
}

fn limits(container: &Container) -> Limits {
    let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    let of = |name: &str| limits.and_then(|limits| limits.get(name));
    Limits {
        memory: of("memory")
            .and_then(|q| quantity::parse_units(&q.0).ok())
            .and_then(|n| u64::try_from(n).ok()),
        cpu_millis: of("cpu")
            .and_then(|q| quantity::parse_millis(&q.0).ok())
            .and_then(|n| u64::try_from(n).ok()),
    }
}
