//! GET of a collection with `watch=true`: events, one JSON line each.

use axum::body::Body;
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use futures::stream;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

use super::encode;
use super::negotiate::Encoding;
use super::reply::{self, Render};
use super::select::Selection;
use super::{Call, list};
use crate::app::App;
use crate::failure::{Cause, Failure};
use crate::registry::Served;
use crate::serve::Endless;
use crate::store::{Event, EventKind, Gone, Range, Stored};
use crate::tables;
use crate::wire;

/// A watch without `timeoutSeconds` ends after this time.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// And any watch after this one.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);
/// How many events are taken from the history at once.
const BATCH: usize = 256;
pub(crate) const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

pub(crate) async fn watch(call: Call) -> Result<Response, Failure> {
    let selection = Selection::of(&call)?;
    let start = Start::of(&call)?;
    // Subscribed before anything is read, so that no event falls in between.
    let wake = call.app.store.subscribe(&call.served.table);
    let (initial, position) = match start {
        // One that is forgotten is told as an event, and one that is still to come is waited for.
        Start::After(revision) => (Vec::new(), revision),
        Start::State { at_least } => {
            list::reach(&call.app, at_least).await?;
            let range = Range { prefix: &selection.prefix, after: None, limit: usize::MAX };
            let page = call.app.store.page(&call.served.table, range);
            (page.items, page.revision)
        }
        Start::Now => (Vec::new(), call.app.store.revision()),
    };
    let timeout = call.query.number("timeoutSeconds")?.filter(|s| *s > 0).map(Duration::from_secs);
    let now = Instant::now();
    let watcher = Watcher {
        initial: initial.into_iter(),
        announce: call.query.flag("sendInitialEvents"),
        bookmarks: call.query.flag("allowWatchBookmarks"),
        deadline: now + timeout.unwrap_or(DEFAULT_TIMEOUT).min(MAX_TIMEOUT),
        next_bookmark: now + BOOKMARK_PERIOD,
        view: View { served: call.served, selection, encoding: call.encoding, render: call.render },
        app: call.app,
        position,
        wake,
        pending: VecDeque::new(),
        ended: false,
    };
    let protobuf = watcher.view.encoding == Encoding::Protobuf;
    let lines = stream::unfold(watcher, |mut watcher| async move {
        let line = watcher.next().await?;
        Some((Ok::<Bytes, Infallible>(line), watcher))
    });
    let mut response = reply::json(200, Body::from_stream(lines));
    if protobuf {
        response.headers_mut().insert(CONTENT_TYPE, encode::PROTOBUF_STREAM);
    }
    response.extensions_mut().insert(Endless);
    Ok(response)
}

fn too_old(revision: u64, floor: u64) -> Failure {
    Failure::expired(format!("too old resource version: {revision} ({floor})"))
}

/// Where a watch begins.
enum Start {
    /// With the events after a revision.
    After(u64),
    /// With the objects there are, as if they were just added.
    State { at_least: u64 },
    /// With whatever comes next.
    Now,
}

impl Start {
    fn of(call: &Call) -> Result<Self, Failure> {
        let revision = call.query.revision().map_err(Failure::unexpected)?.unwrap_or(0);
        let matching = call.query.get("resourceVersionMatch");
        let forbidden = |why: &str| Err(Failure::list_options(Cause::forbidden("resourceVersionMatch", why)));
        if !call.query.has("sendInitialEvents") {
            if !matching.is_empty() {
                return forbidden(
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                );
            }
            return Ok(if revision == 0 { Self::State { at_least: 0 } } else { Self::After(revision) });
        }
        if matching != "NotOlderThan" {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            let mut causes = vec![Cause::forbidden("resourceVersionMatch", why)];
            if !matching.is_empty() {
                let supported = "supported values: \"NotOlderThan\"";
                causes.push(Cause::unsupported("resourceVersionMatch", matching, supported));
            }
            return Err(Failure::invalid_kind("ListOptions", "meta.k8s.io", "", causes));
        }
        Ok(match (call.query.flag("sendInitialEvents"), revision) {
            (true, at_least) => Self::State { at_least },
            (false, 0) => Self::Now,
            (false, revision) => Self::After(revision),
        })
    }
}

/// What of an event a client sees.
struct View {
    served: Arc<Served>,
    selection: Selection,
    encoding: Encoding,
    render: Render,
}

impl View {
    /// The line for an event; nothing when it is about objects the client did not select. To a selecting client an
    /// object that starts to match is new, and one that stops to match is gone.
    fn line(&self, event: &Event) -> Result<Option<Bytes>, Failure> {
        if self.selection.is_everything() {
            let meant = event.object.key.path().starts_with(&self.selection.prefix);
            return if meant { self.whole(event.kind, event).map(Some) } else { Ok(None) };
        }
        let after = event.kind != EventKind::Deleted && self.selection.matches(&event.object);
        let before = event.previous.as_deref().filter(|old| self.selection.matches(old));
        match (before, after) {
            (None, false) => Ok(None),
            (None, true) => self.whole(EventKind::Added, event).map(Some),
            (Some(_), true) => self.whole(EventKind::Modified, event).map(Some),
            (Some(_), false) if event.kind == EventKind::Deleted => {
                self.whole(EventKind::Deleted, event).map(Some)
            }
            (Some(old), false) => self.left(old, event.object.revision).map(Some),
        }
    }

    /// Notes that the client got an event, and with the first one the columns of a table.
    fn sent(&mut self) {
        self.render = self.render.without_headers();
    }

    fn whole(&self, kind: EventKind, event: &Event) -> Result<Bytes, Failure> {
        let verbatim = || reply::is_verbatim(&self.served, &event.object, self.render);
        if kind == event.kind && self.encoding != Encoding::Protobuf && verbatim() {
            return Ok(event.line.clone());
        }
        self.show(kind, &event.object)
    }

    fn show(&self, kind: EventKind, stored: &Stored) -> Result<Bytes, Failure> {
        Ok(self.event(kind.name(), &reply::text(&self.served, stored, self.render)?))
    }

    /// The last matching state of an object, at the revision where it stopped to match.
    fn left(&self, old: &Stored, revision: u64) -> Result<Bytes, Failure> {
        let object = old.value().map_err(Failure::internal)?;
        let shown = reply::shown(&self.served, object, Some(revision), self.render)?;
        Ok(self.event(EventKind::Deleted.name(), &shown))
    }

    fn bookmark(&self, revision: u64, initial: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if let (true, Some(map)) = (initial, metadata.as_object_mut()) {
            map.insert("annotations".into(), json!({INITIAL_EVENTS_END: "true"}));
        }
        let object = match self.render {
            Render::Object => {
                json!({"kind": self.served.kind, "apiVersion": &*self.served.api_version, "metadata": metadata})
            }
            Render::Metadata(api_version) => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": metadata})
            }
            Render::Table(view) => {
                let object = json!({"metadata": metadata});
                return match tables::single_of(&self.served, object, None, view) {
                    Ok(table) => self.event("BOOKMARK", &table),
                    Err(failure) => self.error(&failure),
                };
            }
        };
        self.event("BOOKMARK", object.to_string().as_bytes())
    }

    fn error(&self, failure: &Failure) -> Bytes {
        self.event("ERROR", failure.status().to_string().as_bytes())
    }

    /// An event around the text of an object, as the client wants it.
    fn event(&self, kind: &str, object: &[u8]) -> Bytes {
        if self.encoding == Encoding::Protobuf {
            let envelope =
                serde_json::from_slice(object).ok().and_then(|object: Value| wire::object(&object));
            return wire::frame(kind, &envelope.unwrap_or_default());
        }
        framed(kind, object)
    }
}

fn framed(kind: &str, object: &[u8]) -> Bytes {
    let mut line = BytesMut::with_capacity(object.len() + 40);
    line.put_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
    line.put_slice(object);
    line.put_slice(b"}\n");
    line.freeze()
}

/// One client's place in the history.
struct Watcher {
    app: Arc<App>,
    view: View,
    /// Objects still to be shown as added.
    initial: std::vec::IntoIter<Arc<Stored>>,
    /// Whether the end of the initial objects is still to be announced.
    announce: bool,
    bookmarks: bool,
    deadline: Instant,
    next_bookmark: Instant,
    /// Everything up to this revision was sent.
    position: u64,
    wake: tokio::sync::watch::Receiver<u64>,
    pending: VecDeque<Bytes>,
    ended: bool,
}

impl Watcher {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.pending.pop_front() {
                return Some(line);
            }
            if self.ended {
                return None;
            }
            self.view.render = self.view.render.at(self.app.now());
            if let Some(line) = self.next_initial() {
                self.view.sent();
                return Some(line);
            }
            if !self.advance() {
                self.wait().await;
            }
        }
    }

    fn next_initial(&mut self) -> Option<Bytes> {
        for stored in self.initial.by_ref() {
            if self.view.selection.matches(&stored) {
                return match self.view.show(EventKind::Added, &stored) {
                    Ok(line) => Some(line),
                    Err(failure) => Some(self.view.error(&failure)),
                };
            }
        }
        // A watch goes on for long after this, and the list of all objects is large.
        self.initial = Vec::new().into_iter();
        std::mem::take(&mut self.announce).then(|| self.view.bookmark(self.position, true))
    }

    /// Takes the next events of the history. False when there are none.
    fn advance(&mut self) -> bool {
        self.wake.borrow_and_update();
        let store = &self.app.store;
        match store.since(&self.view.served.table, self.position, BATCH) {
            Err(Gone(floor)) => {
                self.fail(&too_old(self.position, floor));
                true
            }
            Ok((events, reached)) => {
                for event in &events {
                    match self.view.line(event) {
                        Ok(None) => {}
                        Ok(Some(line)) => {
                            self.pending.push_back(line);
                            self.view.sent();
                        }
                        Err(failure) => self.fail(&failure),
                    }
                }
                self.position = reached;
                !events.is_empty()
            }
        }
    }

    fn fail(&mut self, failure: &Failure) {
        self.pending.push_back(self.view.error(failure));
        self.ended = true;
    }

    /// Waits for an event, the time of a bookmark, or an end.
    async fn wait(&mut self) {
        // Nothing is pending, and the room it had is not kept for the next.
        self.pending = VecDeque::new();
        let mut stop = self.app.stop.clone();
        tokio::select! {
            biased;
            _ = stop.changed() => self.ended = true,
            changed = self.wake.changed() => self.ended = changed.is_err(),
            () = tokio::time::sleep_until(self.deadline) => {
                self.mark();
                self.ended = true;
            }
            () = tokio::time::sleep_until(self.next_bookmark), if self.bookmarks => self.mark(),
        }
    }

    fn mark(&mut self) {
        if self.bookmarks {
            self.view.render = self.view.render.at(self.app.now());
            self.pending.push_back(self.view.bookmark(self.position, false));
            self.view.sent();
            self.next_bookmark = Instant::now() + BOOKMARK_PERIOD;
        }
    }
}
