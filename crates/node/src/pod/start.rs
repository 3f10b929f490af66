//! Making a run of a container out of a pod: its environment, its files, its limits, its GPUs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};
use nix::unistd::geteuid;

use super::message;
use super::sight::{Refusal, containers, grace};
use super::status::PORT_TAKEN;
use super::step::Start;
use crate::env::{self, ConfigError};
use crate::fetch::{Tokens, bind_claims, fetch};
use crate::files::{Lane, NoAnswer};
use crate::options::{Surroundings, clean_env};
use crate::runtime::{self, ContainerSpec, Limits, Mount, Orphan, Runtime};
use crate::schedule::gpus_of_container;
use crate::shared::Shared;
use crate::sources::Fetched;
use crate::users::{Ground, Identity, Tenant, device_groups};
use crate::volumes::{self, Owner, Place, Prepared, VolumeError};
use crate::{account, quantity, unsupported, users};

/// Where CUDA looks for the GPUs a process may use.
const VISIBLE_GPUS: &str = "CUDA_VISIBLE_DEVICES";

fn no_directory(error: std::io::Error) -> Refusal {
    refusal("CreateContainerError", format!("the data directory: {error}"))
}

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
    notes.extend(messages_not_read(pod, &shared.runtime));
    if !notes.is_empty() {
        shared.events.normal(pod, "NotHonoured", &notes.join("; "), shared.options.now());
    }
}

/// Places for termination messages that this machine cannot show to containers.
pub(crate) fn messages_not_read(pod: &Pod, runtime: &Runtime) -> Option<String> {
    if !containers(pod).any(|(_, container)| message::is_chosen(container)) {
        return None;
    }
    let why = runtime.can_mount().err()?;
    Some(format!("terminationMessagePath: no message is read, because nothing can be mounted there: {why}"))
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
pub(crate) async fn start(
    shared: &Arc<Shared>,
    lane: &Lane,
    pod: &Arc<Pod>,
    uid: &str,
    wanted: &Start,
) -> Result<(), Refusal> {
    let pod = &trimmed(shared, lane, pod).await;
    let Some((_, container)) = containers(pod).find(|(_, c)| c.name == wanted.container) else {
        return Err(refusal("InvalidSpec", format!("there is no container {}", wanted.container)));
    };
    if let Some(problem) = unsupported::cannot_start(pod, &shared.options.entrypoints)
        .into_iter()
        .find(|p| p.container == container.name)
    {
        return Err(refusal("CreateContainerConfigError", problem.to_string()));
    }
    let sources = fetch(&shared.client, pod, &mut Tokens::new(shared.options.clock.clone())).await;
    let sources = sources.map_err(|error| refusal("CreateContainerConfigError", error.to_string()))?;
    let sources = Arc::new(sources);
    let tenant = shared.tenant(pod).await?;
    let (own, seen, of, found) = (Arc::clone(shared), Arc::clone(pod), uid.to_owned(), Arc::clone(&sources));
    let (part, run) = (container.clone(), wanted.clone());
    let preparing =
        in_lane(lane, pod, move || prepare(&own, &seen, &of, &part, &run, &found, tenant.as_ref()));
    let spec = preparing.await.map_err(|error| refusal("FailedMount", hangs(pod, error)))??;
    bind_claims(&shared.client, &sources).await;
    let dir = shared.disk.run(uid, &container.name, wanted.number);
    // Starting hundreds at once would only make each of them slow.
    let turn = shared.starts.acquire().await;
    let started = shared.runtime.start(&dir, &spec).await;
    drop(turn);
    let (own, uid, name) = (Arc::clone(shared), uid.to_owned(), container.name.clone());
    lane.own(move || own.disk.prune_runs(&uid, &name)).await;
    started.map_err(|error| refusal("CreateContainerError", error.to_string()))
}

/// The pod as it is run here.
pub(super) async fn trimmed(shared: &Arc<Shared>, lane: &Lane, pod: &Arc<Pod>) -> Arc<Pod> {
    let (shared, pod) = (Arc::clone(shared), Arc::clone(pod));
    let trimming = lane.own(move || match shared.trimmed(&pod) {
        Cow::Borrowed(_) => Arc::clone(&pod),
        Cow::Owned(trimmed) => Arc::new(trimmed),
    });
    trimming.await
}

/// Does what has to do with a pod's volumes: where they lead out of the node's own directories, with limited patience.
pub(super) async fn in_lane<T: Send + 'static>(
    lane: &Lane,
    pod: &Pod,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NoAnswer> {
    if volumes::lead_outside(pod) { lane.outside(work).await } else { Ok(lane.own(work).await) }
}

fn hangs(pod: &Pod, error: NoAnswer) -> String {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let paths: Vec<&str> =
        volumes.filter_map(|volume| Some(volume.host_path.as_ref()?.path.as_str())).collect();
    format!(
        "{error} at a volume of the pod (hostPath: {}); is it on a mount whose server is gone?",
        paths.join(", ")
    )
}

/// Everything of a run that is on disk before it begins.
fn prepare(
    shared: &Shared,
    pod: &Pod,
    uid: &str,
    container: &Container,
    wanted: &Start,
    sources: &Fetched,
    tenant: Option<&Tenant>,
) -> Result<ContainerSpec, Refusal> {
    shared.disk.admit(pod, shared.options.now()).map_err(no_directory)?;
    let mut spec = spec(shared, pod, uid, container, sources, tenant)?;
    let run = shared.disk.run(uid, &container.name, wanted.number);
    let can_mount = || shared.runtime.can_mount().is_ok();
    message::provide(&mut spec, container, &run, geteuid().is_root(), can_mount);
    shared.disk.set_level(uid, &container.name, wanted.number, wanted.level).map_err(no_directory)?;
    Ok(spec)
}

fn spec(
    shared: &Shared,
    pod: &Pod,
    uid: &str,
    container: &Container,
    sources: &Fetched,
    tenant: Option<&Tenant>,
) -> Result<ContainerSpec, Refusal> {
    let facts = shared.facts();
    let node_is_root = geteuid().is_root();
    let identity = users::identity(pod, container, node_is_root, tenant)?;
    let own = env::environment(pod, container, sources, &facts)?;
    let program = shared.options.entrypoints.command(container);
    let words: Vec<String> = program.iter().chain(container.args.iter().flatten()).cloned().collect();
    let command = env::expand_all(&words, &own);
    let volumes = volumes_of(shared, pod, uid, tenant, sources)?;
    let working_dir = container.working_dir.clone().filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let ground = |work: &Path| {
        users::ground(identity, node_is_root, work, working_dir.as_deref(), || shared.runtime.can_mount())
    };
    let (directory, mut env, ours) = surroundings(shared, uid, ground, tenant)?;
    let mounts = volumes::mounts(container, &volumes, &own, identity.isolated)?;
    let is_own = directory == shared.disk.work(uid);
    let mut mounts = permitted(shared, if is_own { visible(mounts, &directory) } else { mounts })?;
    users::add(&mut mounts, ours);
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
    Ok(ContainerSpec {
        label: label(pod, container),
        command,
        env,
        working_dir: working_dir.map_or(directory.clone(), |dir| directory.join(dir)),
        mounts,
        user: identity.user,
        group: identity.group,
        groups: groups(shared, pod, container, identity),
        isolated: identity.isolated,
        no_new_privs: identity.no_new_privs,
        limits: limits(container),
        stdin: container.stdin == Some(true),
        stdin_once: container.stdin_once == Some(true),
        tty,
        open_files: shared.options.open_files,
        log: shared.options.log,
        orphan: orphan(shared, pod),
    })
}

fn label(pod: &Pod, container: &Container) -> String {
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    format!("{}/{}/{}", part(&pod.metadata.namespace), part(&pod.metadata.name), container.name)
}

/// The pod's volumes, made for whom they are.
pub(super) fn volumes_of(
    shared: &Shared,
    pod: &Pod,
    uid: &str,
    tenant: Option<&Tenant>,
    sources: &Fetched,
) -> Result<BTreeMap<String, Prepared>, VolumeError> {
    let root = shared.disk.volumes(uid);
    let claims = tenant.map_or_else(|| shared.disk.claims(), Tenant::claims);
    let owner = tenant.map(|tenant| Owner { user: tenant.user, closed: &shared.options.root });
    let place = Place { root: &root, claims: &claims, owner };
    volumes::prepare(pod, place, sources, &shared.facts())
}

/// Another user than the node's needs the groups of the GPUs it was given; where GPUs are not counted, of all.
fn groups(shared: &Shared, pod: &Pod, container: &Container, identity: Identity) -> Vec<u32> {
    let is_other = identity.user.is_some_and(|user| user != 0);
    let has_gpus = !shared.options.inventory.has_gpus || !gpus_of_container(pod, &container.name).is_empty();
    if is_other && has_gpus { device_groups() } else { Vec::new() }
}

fn orphan(shared: &Shared, pod: &Pod) -> Orphan {
    Orphan {
        lock: shared.options.lock.clone(),
        after_seconds: shared.options.orphans_after.map(|after| after.as_secs()),
        grace_seconds: grace(pod).as_secs().unsigned_abs(),
    }
}

/// Where a container starts, what it finds in its environment, and what has to be mounted for that.
type Around = (PathBuf, BTreeMap<String, String>, Vec<Mount>);

fn surroundings(
    shared: &Shared,
    uid: &str,
    ground: impl FnOnce(&Path) -> Result<Ground, ConfigError>,
    tenant: Option<&Tenant>,
) -> Result<Around, Refusal> {
    match &shared.options.surroundings {
        Surroundings::Caller { directory, env } => Ok((directory.clone(), env.clone(), Vec::new())),
        Surroundings::Clean { env } => {
            let Ground { directory, mount } = ground(&shared.disk.work(uid))?;
            if mount.is_some() {
                shared.disk.open_work(uid, tenant.map(|tenant| tenant.user)).map_err(no_directory)?;
            }
            let mut mounts: Vec<Mount> = mount.into_iter().collect();
            let mut env = clean_env(&directory.to_string_lossy(), env);
            if let Some(tenant) = tenant {
                mounts.extend(tenant.mounts(&shared.options.shim));
                env.insert("USER".into(), tenant.login.clone());
                env.insert("LOGNAME".into(), tenant.login.clone());
            }
            Ok((directory, env, mounts))
        }
    }
}

/// A mount over a directory above the pod's own would hide it, and with it the container's home: it is mounted there again.
fn visible(mut mounts: Vec<Mount>, work: &Path) -> Vec<Mount> {
    let hides = |mount: &Mount| mount.source != mount.target || mount.read_only;
    if mounts.iter().any(|mount| work.starts_with(&mount.target) && hides(mount)) {
        mounts.push(Mount { source: work.to_owned(), target: work.to_owned(), ..Mount::default() });
    }
    mounts
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pods_own_directory_stays_where_it_is() {
        let mount = |source: &str, target: &str, read_only| Mount {
            source: source.into(),
            target: target.into(),
            read_only,
            opened: None,
        };
        let work = Path::new("/home/me/.local/share/trainyard/pods/u/work");
        let own = mount(&work.to_string_lossy(), &work.to_string_lossy(), false);
        for (one, hidden) in [
            (mount("/nfs/me", "/home/me", false), true),
            (mount("/home/me", "/home/me", true), true),
            (mount("/home/me", "/home/me", false), false),
            (mount("/nfs/you", "/home/you", false), false),
        ] {
            let expected: Vec<Mount> = [one.clone()].into_iter().chain(hidden.then(|| own.clone())).collect();
            assert_eq!(visible(vec![one], work), expected);
        }
    }
}
