//! The status of a pod, from one look at it. As a kubelet would put it, because operators and people read it so.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, HostIP, PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::sight::{Outlook, Part, Refusal, Run, Sight, containers};
use super::step::Ending;
use crate::runtime::{Exit, Instance};

/// Every pod of this machine is reached here.
pub(crate) const ADDRESS: &str = "127.0.0.1";
/// `status.reason` of a pod whose port somebody else uses. The operator then chooses other ports.
pub(crate) const PORT_TAKEN: &str = "PortTaken";

/// The status. `ending` is why the pod comes to its end; `ended` the same once nothing of it runs any more.
pub(crate) fn of(sight: &Sight<'_>, ending: Option<Ending>, ended: Option<Ending>) -> PodStatus {
    let old = sight.pod.status.clone().unwrap_or_default();
    // The end of a pod is told once, also if it is deleted afterwards.
    if ending == Some(Ending::Over) || matches!(old.phase.as_deref(), Some("Succeeded" | "Failed")) {
        return old;
    }
    let (phase, why) = phase(sight, ended);
    let (init, main): (Vec<_>, Vec<_>) = containers(sight.pod).partition(|(part, _)| *part != Part::Main);
    let statuses = |list: Vec<(Part, &Container)>| -> Vec<ContainerStatus> {
        list.into_iter().map(|(part, container)| container_status(sight, part, container, ending)).collect()
    };
    let (init, main) = (statuses(init), statuses(main));
    PodStatus {
        phase: Some(phase.into()),
        reason: why.as_ref().map(|why| why.reason.clone()),
        message: why.map(|why| why.message),
        conditions: Some(conditions(sight, &init, &main, phase, &old)),
        start_time: Some(old.start_time.clone().unwrap_or(Time(sight.now))),
        host_ip: Some(ADDRESS.into()),
        host_ips: Some(vec![HostIP { ip: ADDRESS.into() }]),
        pod_ip: Some(ADDRESS.into()),
        pod_ips: Some(vec![PodIP { ip: ADDRESS.into() }]),
        init_container_statuses: (!init.is_empty()).then_some(init),
        container_statuses: Some(main),
        ..old
    }
}

fn phase(sight: &Sight<'_>, ended: Option<Ending>) -> (&'static str, Option<Refusal>) {
    let failed = |reason: &str, message: &str| {
        ("Failed", Some(Refusal { reason: reason.into(), message: message.into() }))
    };
    match ended {
        None if running(sight) => ("Running", None),
        None => ("Pending", None),
        Some(Ending::Vetoed) => ("Failed", sight.veto.cloned()),
        Some(Ending::Deadline) => {
            failed("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
        }
        Some(Ending::Deleted | Ending::Finished | Ending::Over) => (verdict(sight), None),
    }
}

/// Every init container is through and the program of a main one runs, or has run.
fn running(sight: &Sight<'_>) -> bool {
    let mut mains = containers(sight.pod).filter(|(part, _)| *part == Part::Main);
    mains.any(|(_, container)| sight.runs.get(&container.name).is_some_and(has_run))
}

fn has_run(run: &Run) -> bool {
    run.number > 0 || matches!(run.instance, Instance::Running { .. } | Instance::Ended(_))
}

fn verdict(sight: &Sight<'_>) -> &'static str {
    let good = |(part, container): (Part, &Container)| match sight.outlook(part, container) {
        Outlook::Over { exit, .. } | Outlook::Again { exit, .. } => exit.code == 0,
        Outlook::New | Outlook::Up(_) => false,
    };
    let judged = containers(sight.pod).filter(|(part, _)| *part != Part::Sidecar);
    if judged.into_iter().all(good) { "Succeeded" } else { "Failed" }
}

fn container_status(
    sight: &Sight<'_>,
    part: Part,
    container: &Container,
    ending: Option<Ending>,
) -> ContainerStatus {
    let run = sight.runs.get(&container.name);
    let up = run.filter(|run| matches!(run.instance, Instance::Running { .. }));
    let uid = sight.pod.metadata.uid.as_deref().unwrap_or_default();
    let over = matches!(sight.outlook(part, container), Outlook::Over { exit, .. } if exit.code == 0);
    let ready =
        if part == Part::Init { over } else { up.is_some_and(|run| run.health.ready && run.health.started) };
    ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        image_id: String::new(),
        container_id: run.map(|run| format!("trainyard://{uid}/{}/{}", container.name, run.number)),
        restart_count: run.map_or(0, |run| i32::try_from(run.number).unwrap_or(i32::MAX)),
        ready,
        started: Some(up.is_some_and(|run| run.health.started)),
        state: Some(state(sight, part, container, ending)),
        last_state: Some(last_state(sight, part, container, ending)),
        ..ContainerStatus::default()
    }
}

fn state(sight: &Sight<'_>, part: Part, container: &Container, ending: Option<Ending>) -> ContainerState {
    match sight.outlook(part, container) {
        Outlook::Up(run) => match &run.instance {
            Instance::Running { started_at, .. } => ContainerState {
                running: Some(ContainerStateRunning { started_at: Some(Time(*started_at)) }),
                ..ContainerState::default()
            },
            _ => waiting(not_yet(sight), None),
        },
        Outlook::Over { run, exit } => terminated(exit, sight, container, run.number),
        Outlook::Again { run, exit, .. } if ending.is_some() => {
            terminated(exit, sight, container, run.number)
        }
        Outlook::Again { at, .. } => match sight.refusals.get(&container.name) {
            Some(refusal) => waiting(&refusal.reason, Some(refusal.message.clone())),
            None => waiting("CrashLoopBackOff", Some(back_off_message(sight, container, at))),
        },
        Outlook::New => match sight.refusals.get(&container.name) {
            Some(refusal) => waiting(&refusal.reason, Some(refusal.message.clone())),
            None => waiting(not_yet(sight), None),
        },
    }
}

/// What a container waits for that has not begun.
fn not_yet(sight: &Sight<'_>) -> &'static str {
    let prepared = containers(sight.pod).any(|(part, _)| part != Part::Main);
    if prepared { "PodInitializing" } else { "ContainerCreating" }
}

/// No time that counts down: a status that changed every second would be written every second.
fn back_off_message(sight: &Sight<'_>, container: &Container, at: Timestamp) -> String {
    let name = sight.pod.metadata.name.as_deref().unwrap_or_default();
    format!("restarting failed container={} pod={name} at {at:.0}", container.name)
}

fn last_state(
    sight: &Sight<'_>,
    part: Part,
    container: &Container,
    ending: Option<Ending>,
) -> ContainerState {
    let run = sight.runs.get(&container.name);
    let previous = run.and_then(|run| Some((run.previous.as_ref()?, run.number.saturating_sub(1))));
    let last = match sight.outlook(part, container) {
        Outlook::Again { run, exit, .. } if ending.is_none() => Some((exit, run.number)),
        _ => previous,
    };
    last.map_or_else(ContainerState::default, |(exit, number)| terminated(exit, sight, container, number))
}

fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    ContainerState {
        waiting: Some(ContainerStateWaiting { reason: Some(reason.into()), message }),
        ..ContainerState::default()
    }
}

fn terminated(exit: &Exit, sight: &Sight<'_>, container: &Container, number: u32) -> ContainerState {
    let uid = sight.pod.metadata.uid.as_deref().unwrap_or_default();
    ContainerState {
        terminated: Some(ContainerStateTerminated {
            exit_code: exit.code,
            reason: Some(exit.reason.as_str().into()),
            message: exit.message.clone(),
            signal: exit.signal,
            started_at: Some(Time(exit.started_at)),
            finished_at: Some(Time(exit.finished_at)),
            container_id: Some(format!("trainyard://{uid}/{}/{number}", container.name)),
        }),
        ..ContainerState::default()
    }
}

fn conditions(
    sight: &Sight<'_>,
    init: &[ContainerStatus],
    main: &[ContainerStatus],
    phase: &str,
    old: &PodStatus,
) -> Vec<PodCondition> {
    let initialized = init.iter().all(|status| status.ready) || phase == "Succeeded";
    let unready: Vec<&str> = main.iter().filter(|s| !s.ready).map(|s| s.name.as_str()).collect();
    let ready = if phase == "Succeeded" || phase == "Failed" {
        let reason = if phase == "Succeeded" { "PodCompleted" } else { "PodFailed" };
        Err((reason, String::new()))
    } else if unready.is_empty() {
        Ok(())
    } else {
        Err(("ContainersNotReady", format!("containers with unready status: [{}]", unready.join(" "))))
    };
    let incomplete: Vec<&str> = init.iter().filter(|s| !s.ready).map(|s| s.name.as_str()).collect();
    let incomplete = format!("containers with incomplete status: [{}]", incomplete.join(" "));
    let over = phase == "Succeeded" || phase == "Failed";
    let startable = !over && sight.runs.values().any(has_run);
    // In the order in which a kubelet has them: whoever shows them shows them so.
    let wanted = [
        ("PodReadyToStartContainers", if startable { Ok(()) } else { Err(("", String::new())) }),
        ("Initialized", if initialized { Ok(()) } else { Err(("ContainersNotInitialized", incomplete)) }),
        ("Ready", ready.clone()),
        ("ContainersReady", ready),
        ("PodScheduled", Ok(())),
    ];
    let old = old.conditions.as_deref().unwrap_or_default();
    let is_ours = |type_: &str| wanted.iter().any(|(name, _)| *name == type_);
    let foreign: Vec<PodCondition> = old.iter().filter(|c| !is_ours(&c.type_)).cloned().collect();
    let ours = wanted.iter().map(|(type_, state)| condition(type_, state, old, sight.now));
    ours.chain(foreign).collect()
}

fn condition(
    type_: &str,
    state: &Result<(), (&str, String)>,
    old: &[PodCondition],
    now: Timestamp,
) -> PodCondition {
    let status = if state.is_ok() { "True" } else { "False" };
    let before = old.iter().find(|c| c.type_ == type_);
    let since = before.filter(|c| c.status == status).and_then(|c| c.last_transition_time.clone());
    let why = state.as_ref().err();
    PodCondition {
        type_: type_.into(),
        status: status.into(),
        reason: why.map(|(reason, _)| (*reason).to_owned()).filter(|reason| !reason.is_empty()),
        message: why.map(|(_, message)| message.clone()).filter(|message| !message.is_empty()),
        last_transition_time: Some(since.unwrap_or(Time(now))),
        ..PodCondition::default()
    }
}
