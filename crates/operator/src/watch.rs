//! A list and a watch, for ever: one source of objects.
//!
//! Objects are handed on one by one, as text. One that cannot be read is counted and skipped; it disturbs no other.
//! Whatever goes wrong with the connection, the server or the stream ends in one of two moves: take the watch up
//! again where it was, or list anew.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::time::sleep;
use tracing::{debug, info, warn};

use crate::api::{self, Answer, Api, Status};
use crate::health::{Health, SourceState};
use crate::options::Watching;
use crate::wire;

mod lines;
mod page;

use lines::{Event, Lines};
use page::Page;

/// Where objects go.
pub(crate) trait Sink: Send + Sync {
    /// A complete list made at this version is about to be shown.
    fn begin_list(&self, version: u64);
    /// An object is there.
    fn show(&self, raw: &str) -> Result<Shown, serde_json::Error>;
    /// An object is gone.
    fn remove(&self, raw: &str) -> Result<Shown, serde_json::Error>;
    /// A complete list made at this version has been shown: objects with other identities are gone.
    fn end_list(&self, uids: &BTreeSet<Box<str>>, version: u64);
    /// Everything up to this version has been told.
    fn advance(&self, version: u64);
}

/// Which object was shown.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) uid: Box<str>,
    pub(crate) version: Box<str>,
}

/// What to watch.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// For logs and health.
    pub(crate) name: String,
    /// The path of the collection.
    pub(crate) path: String,
    pub(crate) selector: Option<String>,
    /// Whether the operator does without where it may not look.
    pub(crate) optional: bool,
}

/// Why a list or a watch did not go on.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the request failed")]
    Request(#[from] api::Error),
    #[error("the server answered {code}: {message}")]
    Refused { code: u16, message: String },
    #[error("the server has forgotten what happened since")]
    Expired,
    #[error("the server does not know this kind")]
    Absent,
    #[error("the list cannot be read")]
    List(#[source] serde_json::Error),
    #[error("the stream broke")]
    Stream(#[source] Box<kube::Error>),
    #[error("a line is no event")]
    Garbled,
    #[error("nothing was heard for too long")]
    Silent,
}

/// What went wrong in a row.
#[derive(Debug, Default)]
struct Failures {
    lists: u32,
    /// Watches, whatever became of lists meanwhile.
    watches: u32,
    /// Times that there was nothing to list.
    absences: u32,
}

/// So many watches in a row may fail before the reason is sought in where they begin.
const WATCHES_BEFORE_A_LIST: u32 = 3;

/// Follows a source until it is dropped.
pub(crate) struct Follower<S> {
    api: Arc<Api>,
    source: Source,
    sink: S,
    health: Health,
    watching: Watching,
    failures: Failures,
    /// The version of the last thing heard: where a watch goes on.
    version: Option<Box<str>>,
    /// Something was heard since the watch was opened.
    progress: bool,
    /// Watches that were asked for.
    opened: u32,
}

impl<S: Sink> Follower<S> {
    pub(crate) fn new(api: Arc<Api>, source: Source, sink: S, health: Health, watching: Watching) -> Self {
        health.note(&source.name, SourceState::Listing);
        let failures = Failures::default();
        Self { api, source, sink, health, watching, failures, version: None, progress: false, opened: 0 }
    }

    /// Lists, watches, and starts over as needed.
    pub(crate) async fn run(mut self) {
        loop {
            let result = match self.version.clone() {
                None => self.list().await,
                Some(version) => self.watch(&version).await,
            };
            if let Err(delay) = self.settle(result) {
                sleep(delay).await;
            }
        }
    }

    /// Decides how to go on; an error is the time to wait before.
    fn settle(&mut self, result: Result<(), Error>) -> Result<(), Duration> {
        let Err(error) = result else { return Ok(()) };
        let failures = self.count_failure();
        match &error {
            Error::Absent => return Err(self.do_without(&error)),
            Error::Refused { code: 403, .. } if self.source.optional => return Err(self.do_without(&error)),
            Error::Expired => self.version = None,
            // The same line would come again: a list is the way around it.
            Error::Garbled if !self.progress => self.version = None,
            Error::Refused { .. } | Error::List(_) | Error::Garbled => {}
            Error::Request(_) | Error::Stream(_) | Error::Silent => {}
        }
        if self.failures.watches >= WATCHES_BEFORE_A_LIST {
            // A server may say anything when it cannot go on from a version, or nothing at all.
            self.version = None;
        }
        let counters = self.health.counters();
        if matches!(error, Error::Garbled) {
            counters.garbled.increment();
        }
        counters.watch_restarts.increment();
        let delay = doubled(self.watching.first_retry, failures, self.watching.longest_retry);
        let reason = std::error::Error::source(&error).map(ToString::to_string);
        warn!(source = %self.source.name, %error, reason, ?delay, "the watch is interrupted");
        Err(delay)
    }

    /// Counts the failure of a list or a watch; returns how many there were in a row, of either.
    fn count_failure(&mut self) -> u32 {
        let lists = self.version.is_none();
        let failures = if lists { &mut self.failures.lists } else { &mut self.failures.watches };
        *failures = if self.progress { 1 } else { failures.saturating_add(1) };
        self.failures.lists.saturating_add(self.failures.watches)
    }

    /// There is nothing to be seen for now. Returns when to look again.
    fn do_without(&mut self, why: &Error) -> Duration {
        let name = &self.source.name;
        if self.health.watches().get(name) != Some(&SourceState::Absent) {
            warn!(source = %name, %why, "done without; it is asked for again from time to time");
        }
        self.sink.end_list(&BTreeSet::new(), 0);
        self.version = None;
        self.health.note(name, SourceState::Absent);
        // A definition that was applied a moment ago is served a moment later.
        self.failures.absences = self.failures.absences.saturating_add(1);
        doubled(self.watching.first_absent, self.failures.absences, self.watching.absent_kind)
    }

    /// Shows everything there is.
    async fn list(&mut self) -> Result<(), Error> {
        self.progress = false;
        let limit = self.watching.page.to_string();
        let mut uids = BTreeSet::new();
        let mut version: Option<Box<str>> = None;
        let mut next: Option<String> = None;
        loop {
            let pairs = [
                ("labelSelector", self.source.selector.as_deref()),
                ("limit", Some(limit.as_str())),
                ("continue", next.as_deref()),
            ];
            let connections = self.api.connections();
            let answer = self.api.get_aside(&api::query(&self.source.path, &pairs)).await;
            let answer = self.heard(connections, answer)?;
            check(answer.code, || answer.status())?;
            self.health.progress(&self.source.name);
            let page: Page<'_> = serde_json::from_slice(&answer.body).map_err(Error::List)?;
            if version.is_none() {
                self.sink.begin_list(wire::number(&page.metadata.resource_version));
                version = Some(page.metadata.resource_version);
            }
            self.show_page(&page.items.unwrap_or_default(), &mut uids);
            match page.metadata.next.filter(|token| !token.is_empty()) {
                Some(token) => next = Some(token),
                None => break,
            }
        }
        let version = version.unwrap_or_default();
        self.sink.end_list(&uids, wire::number(&version));
        self.health.counters().lists.increment();
        self.health.note(&self.source.name, SourceState::Watching);
        info!(source = %self.source.name, objects = uids.len(), %version, "listed");
        self.version = Some(version);
        self.failures = Failures { lists: 0, absences: 0, ..self.failures };
        Ok(())
    }

    /// Takes note of an answer; where there is none in time, the connections are no good.
    fn heard<T>(&self, connections: u64, answer: Result<T, api::Error>) -> Result<T, Error> {
        match &answer {
            Ok(_) => self.health.hear(&self.source.name),
            Err(api::Error::Timeout) => self.api.drop_connections(connections),
            Err(api::Error::Request(_) | api::Error::Encode(_) | api::Error::Transport(_)) => {}
        }
        Ok(answer?)
    }

    fn show_page(&self, items: &[&serde_json::value::RawValue], uids: &mut BTreeSet<Box<str>>) {
        for item in items {
            let shown = self.sink.show(item.get());
            // What cannot be read is still there: a list must not make it look gone.
            if let Some(shown) = self.known(item.get(), shown) {
                uids.insert(shown.uid);
            }
        }
    }

    /// Which object it was, even if it could not be read.
    fn known(&self, raw: &str, shown: Result<Shown, serde_json::Error>) -> Option<Shown> {
        let error = match shown {
            Ok(shown) => return Some(shown),
            Err(error) => error,
        };
        self.health.counters().undecodable.increment();
        let identity = wire::identity(raw);
        let uid = identity.as_ref().map(|(uid, _)| uid);
        warn!(source = %self.source.name, uid, %error, "an object cannot be read and is skipped");
        identity.map(|(uid, version)| Shown { uid, version })
    }

    /// Hands on what happens, until the watch ends.
    async fn watch(&mut self, version: &str) -> Result<(), Error> {
        self.progress = false;
        let seconds = self.seconds();
        let time = Duration::from_secs(seconds.into()).saturating_add(self.watching.slack);
        let seconds = seconds.to_string();
        let pairs = [
            ("watch", Some("true")),
            ("labelSelector", self.source.selector.as_deref()),
            ("resourceVersion", Some(version)),
            ("allowWatchBookmarks", Some("true")),
            ("timeoutSeconds", Some(seconds.as_str())),
        ];
        let connections = self.api.connections();
        let response = self.api.stream(&api::query(&self.source.path, &pairs)).await;
        let response = self.heard(connections, response)?;
        let (parts, body) = response.into_parts();
        if !parts.status.is_success() {
            let body = body.collect_bytes().await.unwrap_or_default();
            return check(parts.status, || Answer { code: parts.status, body: body.clone() }.status());
        }
        self.health.progress(&self.source.name);
        let opened = tokio::time::Instant::now();
        let mut lines = Lines::new(body, opened + time, self.watching.slack);
        loop {
            match lines.next().await {
                Ok(Some(line)) => self.event(&line)?,
                Ok(None) => break,
                Err(error) => {
                    if matches!(error, Error::Silent) {
                        self.api.drop_connections(connections);
                    }
                    return Err(error);
                }
            }
            self.health.progress(&self.source.name);
        }
        debug!(source = %self.source.name, "the watch ended; it is taken up again");
        // A server that ends watches as soon as they are opened must not be asked in a tight loop.
        let lasted = self.progress || opened.elapsed() >= Duration::from_secs(1);
        if lasted {
            self.failures.watches = 0;
            Ok(())
        } else {
            Err(Error::Refused { code: 200, message: "the watch ended at once".into() })
        }
    }

    /// How long the next watch is to last: up to a quarter less than allowed, differently for each source and each time.
    fn seconds(&mut self) -> u32 {
        self.opened = self.opened.wrapping_add(1);
        let mut hasher = DefaultHasher::new();
        (&self.source.name, self.opened).hash(&mut hasher);
        let spread = u64::from(self.watching.seconds / 4).saturating_add(1);
        let less = hasher.finish().checked_rem(spread).and_then(|less| u32::try_from(less).ok());
        self.watching.seconds.saturating_sub(less.unwrap_or_default())
    }

    /// Hands on one event.
    fn event(&mut self, line: &[u8]) -> Result<(), Error> {
        let event: Event<'_> = serde_json::from_slice(line).map_err(|_| Error::Garbled)?;
        let raw = event.object.get();
        let shown = match &*event.type_ {
            "ADDED" | "MODIFIED" => self.known(raw, self.sink.show(raw)),
            "DELETED" => self.known(raw, self.sink.remove(raw)),
            "BOOKMARK" => wire::identity(raw).map(|(uid, version)| Shown { uid, version }),
            "ERROR" => {
                let status: Status = serde_json::from_str(raw).unwrap_or_default();
                let code = status.code.and_then(|code| StatusCode::from_u16(code).ok());
                return check(code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), || status);
            }
            _ => return Err(Error::Garbled),
        };
        if let Some(Shown { version, .. }) = shown.filter(|shown| !shown.version.is_empty()) {
            self.sink.advance(wire::number(&version));
            self.version = Some(version);
        }
        self.progress = true;
        self.failures.watches = 0;
        Ok(())
    }
}

/// A time that doubles with each failure, up to a longest one.
fn doubled(first: Duration, failures: u32, longest: Duration) -> Duration {
    first.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(longest)
}

/// What a status code means to a list or a watch.
fn check(code: StatusCode, status: impl FnOnce() -> Status) -> Result<(), Error> {
    match code {
        StatusCode::GONE => Err(Error::Expired),
        StatusCode::NOT_FOUND => Err(Error::Absent),
        code if code.is_success() => Ok(()),
        code => {
            let message = status().message.unwrap_or_default();
            Err(Error::Refused { code: code.as_u16(), message })
        }
    }
}

#[cfg(test)]
mod tests;
