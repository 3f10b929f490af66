//! A block of host ports for each attempt, where replicas are addressed by port: on one machine always, on a cluster when
//! a job whose replicas have the network of their machine asks for it.
//!
//! The block is written into the record before the first pod is created. A new attempt gets a new block: some
//! frameworks cannot bind a port again for a minute.

use trainyard_api::reasons::suffix;

use crate::conditions;
use crate::framework::Framework;
use crate::job::{JobView, add_seconds};
use crate::plan::{Draft, Flow};
use crate::seen::{Addressing, PortBlock, PortSpace};
use crate::steps::restart;

/// Room for growth: a job may be scaled up a little without losing its ports.
const SMALLEST: u32 = 8;
/// An elastic job that may grow further moves to other ports when it does: nobody else could have any otherwise.
const LARGEST_RESERVE: u32 = 256;
/// Seconds after which ports are looked for again.
const PAUSE: i64 = 10;

pub(crate) fn apply(draft: &mut Draft<'_>) -> Flow {
    if !is_due(draft) {
        return Flow::Go;
    }
    let needed = needed(draft.framework, draft.job());
    if let Some(block) = draft.record.ports {
        if u32::from(block.size) >= needed {
            return Flow::Go;
        }
        restart::start_over(draft);
        draft.recount();
        draft.say("ports", "the job outgrew its ports: all replicas start anew on others");
    }
    let Some(space) = draft.seen.ports else {
        draft.hold(suffix::NEEDS, "it is not known yet which ports are free");
        look_again(draft);
        return Flow::Go;
    };
    let before = draft.job().record.ports;
    match pick(space, before, draft.job(), draft.record.attempt, needed) {
        Some(block) => draft.record.ports = Some(block),
        None => {
            let (first, last) = (space.first, space.last);
            draft.hold(suffix::NEEDS, format!("no {needed} ports in a row are free from {first} to {last}"));
            look_again(draft);
        }
    }
    Flow::Go
}

/// Whether the job needs ports now. On a cluster it is asked for, and what runs keeps its addresses: an annotation that
/// comes later counts from the next attempt on.
fn is_due(draft: &Draft<'_>) -> bool {
    match draft.seen.options.addressing {
        Addressing::HostPorts => true,
        Addressing::Service => {
            let job = draft.job();
            let has_pods = || job.slots().any(|slot| draft.slots.pod(slot).is_some());
            job.asks_for_host_ports() && (draft.record.ports.is_some() || !has_pods())
        }
    }
}

fn look_again(draft: &mut Draft<'_>) {
    if let Some(again) = add_seconds(draft.now(), PAUSE) {
        draft.wake_at(again);
    }
}

/// The ports that a job keeps others from: those in its record, but no more than it needs, and only while it may have
/// pods. Users can write the record, and nobody may claim all ports with it.
pub fn held(framework: &dyn Framework, job: &JobView, addressing: Addressing) -> Option<PortBlock> {
    let asks = addressing == Addressing::HostPorts || job.asks_for_host_ports();
    let idle = job.policy.suspend || job.policy.managed_elsewhere || conditions::is_finished(&job.status);
    let block = job.record.ports.filter(|_| asks && !idle)?;
    let needed = u16::try_from(needed(framework, job)).unwrap_or(u16::MAX);
    Some(PortBlock { size: block.size.min(needed), ..block })
}

fn needed(framework: &dyn Framework, job: &JobView) -> u32 {
    let most = framework.elastic(job).map_or(0, |elastic| elastic.max);
    job.total_replicas().max(most.min(LARGEST_RESERVE)).max(SMALLEST)
}

/// The first free block from a place that depends on job and attempt, so that jobs do not crowd at the low end.
fn pick(
    space: &PortSpace,
    before: Option<PortBlock>,
    job: &JobView,
    attempt: u32,
    size: u32,
) -> Option<PortBlock> {
    let size = u16::try_from(size).ok()?;
    let room = (u32::from(space.last) + 1).checked_sub(u32::from(space.first))?;
    let blocks = room / u32::from(size);
    let start = spread(&job.uid, attempt).checked_rem(blocks)?;
    let places = (start..blocks).chain(0..start);
    let candidates = places.filter_map(|at| {
        let base = u32::from(space.first) + at * u32::from(size);
        Some(PortBlock { base: u16::try_from(base).ok()?, size })
    });
    let taken =
        |block: &PortBlock| space.taken.iter().chain(before.as_ref()).any(|other| other.overlaps(block));
    candidates.into_iter().find(|block| !taken(block))
}

/// FNV-1a: spreads well enough and is the same on every machine.
fn spread(uid: &str, attempt: u32) -> u32 {
    let bytes = uid.bytes().chain(attempt.to_le_bytes());
    bytes.fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
