//! Logs as they are now: one replica's, or those of all, merged by the time of their lines.
//!
//! The logs are read while they are merged and never held as a whole: those of a long job are larger than memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::process::ExitCode;

use anyhow::bail;
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use serde_json::Value;

use super::choose::{Replica, Run, container};
use super::line::Line;
use super::together::pods_of;
use super::{Ask, Session, Whose};
use crate::client::cluster::Lines;
use crate::client::fields::{is_over, state};
use crate::client::resource::Resource;
use crate::client::trouble::Trouble;

/// Logs that are being opened at the same time.
const OPENING: usize = 32;

/// A log that is being read.
struct Source {
    label: String,
    lines: Lines,
    next: Option<Line>,
    /// When its latest line was written: one that does not say so belongs to the line before it.
    at: Timestamp,
}

impl Source {
    async fn advance(&mut self) -> std::io::Result<bool> {
        self.next = self.lines.next().await?.map(Line::new);
        if let Some(at) = self.next.as_ref().and_then(|line| line.at) {
            // Within one log the order of its lines counts, whatever their stamps say.
            self.at = self.at.max(at);
        }
        Ok(self.next.is_some())
    }
}

pub(super) async fn run(session: Session, chosen: Vec<Replica>) -> anyhow::Result<ExitCode> {
    let single = chosen.len() == 1;
    let (mut sources, mut failed) = (Vec::new(), false);
    let mut pods = match &session.whose {
        Whose::Job(job) if !single => Some(pods_of(&session.cluster, job).await?),
        Whose::Job(_) | Whose::Pod => None,
    };
    let opening = chosen.into_iter().map(|replica| {
        let known = pods.as_mut().map(|pods| pods.remove(&replica.pod));
        let session = &session;
        async move { (open(session, &replica, known).await, replica) }
    });
    let opening: Vec<_> = opening.collect();
    // In order, because the order is that of lines with the same time.
    let mut opened = stream::iter(opening).buffered(OPENING);
    while let Some((source, replica)) = opened.next().await {
        match source {
            Ok(source) => sources.push(source),
            Err(error) if single => return Err(error),
            Err(error) => {
                failed = true;
                crate::complain(&format!("{}: {error:#}", replica.label));
            }
        }
    }
    if sources.is_empty() {
        bail!("no replica has a log to show");
    }
    failed |= !merge(&session, &mut sources).await?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Opens the log of a replica, whose pod was perhaps read already.
async fn open(session: &Session, replica: &Replica, known: Option<Option<Value>>) -> anyhow::Result<Source> {
    let pod = match known {
        Some(pod) => pod,
        None => session.cluster.get(&Resource::pods().object(&session.namespace, &replica.pod)).await?,
    };
    let Some(pod) = pod else { bail!(absent(session, replica)) };
    let container = container(&pod, session.container.as_deref(), session.trains())?;
    // A server may answer for a container that has not started with nothing at all.
    if let (None, Some(trouble), false) = (Run::of(&pod, &container), Trouble::of(&pod), session.ask.previous)
    {
        bail!("pod {} has no log yet: {}; -f waits for it", replica.pod, trouble.why);
    }
    let ask = Ask { container, ..session.ask.clone() };
    let opened = session.cluster.lines(&ask.path(&session.namespace, &replica.pod)).await;
    let lines = opened.map_err(|error| session.cluster.explain(error))?;
    Ok(Source { label: replica.label.clone(), lines, next: None, at: Timestamp::MIN })
}

fn absent(session: &Session, replica: &Replica) -> String {
    let pod = &replica.pod;
    match &session.whose {
        Whose::Pod => format!("no pod {pod} in namespace {}", session.namespace),
        Whose::Job(job) if is_over(&job.object) => {
            format!("pod {pod} is gone: the job has ended ({}) and was cleaned up", state(&job.object))
        }
        Whose::Job(job) => {
            format!("pod {pod} is not there: the job is {}; -f waits for it", state(&job.object))
        }
    }
}

/// Writes all lines in the order of their times; false when one log could not be read to its end.
async fn merge(session: &Session, sources: &mut [Source]) -> anyhow::Result<bool> {
    let mut whole = true;
    let mut heap = BinaryHeap::new();
    for number in 0..sources.len() {
        push(sources, number, &mut heap, &mut whole).await;
    }
    while let Some(Reverse((_, number))) = heap.pop() {
        if let Some(source) = sources.get(number)
            && let Some(line) = &source.next
            && !session.out.line(number, &source.label, line)?
        {
            return Ok(true);
        }
        push(sources, number, &mut heap, &mut whole).await;
    }
    Ok(whole)
}

async fn push(
    sources: &mut [Source],
    number: usize,
    heap: &mut BinaryHeap<Reverse<(Timestamp, usize)>>,
    whole: &mut bool,
) {
    let Some(source) = sources.get_mut(number) else { return };
    match source.advance().await {
        Ok(true) => heap.push(Reverse((source.at, number))),
        Ok(false) => {}
        Err(error) => {
            *whole = false;
            crate::complain(&format!("{}: the log broke off: {error}", source.label));
        }
    }
}
