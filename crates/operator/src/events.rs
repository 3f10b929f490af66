//! Events on jobs. They are for people: they never delay a reconcile, and under pressure they are dropped and counted.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::sleep;
use tracing::debug;
use trainyard_core::{Notice, Resource};

use crate::api::{self, Api};
use crate::health::Health;
use crate::queue::Key;

/// Where events are kept.
const EVENT: Resource = Resource { group: "", version: "v1", kind: "Event", plural: "events" };
/// A warning that says the same is not repeated for this long.
const QUIET: SignedDuration = SignedDuration::from_mins(10);
/// Warnings that are remembered for that.
const REMEMBERED: usize = 4096;
/// Kubernetes' limit for the message of an event.
const LONGEST_MESSAGE: usize = 1024;
/// Events posted at once.
const AT_ONCE: usize = 4;
const ATTEMPTS: u32 = 3;

/// Takes events in.
#[derive(Debug)]
pub(crate) struct Events {
    sender: Mutex<Option<Sender<Post>>>,
    recent: Mutex<Recent>,
    /// Makes names differ that were given in the same nanosecond.
    serial: AtomicU64,
    health: Health,
}

/// An event to be posted.
#[derive(Debug)]
pub(crate) struct Post {
    path: String,
    body: Value,
}

impl Events {
    /// Room for `room` events; the receiver goes to [`post_all`].
    pub(crate) fn new(room: usize, health: Health) -> (Self, Receiver<Post>) {
        let (sender, receiver) = mpsc::channel(room.max(1));
        let (sender, recent) = (Mutex::new(Some(sender)), Mutex::default());
        (Self { sender, recent, serial: AtomicU64::new(0), health }, receiver)
    }

    /// Shows a notice on a job.
    pub(crate) fn show(&self, key: &Key, uid: &str, notice: &Notice, now: Timestamp) {
        let count = if notice.warning { self.repetitions(uid, notice, now) } else { Some(1) };
        let Some(count) = count else { return };
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let post = Post {
            path: api::children(&EVENT, &key.namespace),
            body: event(key, uid, notice, now, count, serial),
        };
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        if sender.as_ref().is_none_or(|sender| sender.try_send(post).is_err()) {
            self.health.counters().events_dropped.increment();
        }
    }

    /// No more events: what waits is still posted.
    pub(crate) fn close(&self) {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn repetitions(&self, uid: &str, notice: &Notice, now: Timestamp) -> Option<u32> {
        let mut hasher = DefaultHasher::new();
        (uid, &notice.reason, &notice.message).hash(&mut hasher);
        self.recent.lock().unwrap_or_else(PoisonError::into_inner).count(hasher.finish(), now)
    }
}

/// Warnings posted lately.
#[derive(Debug, Default)]
struct Recent {
    seen: BTreeMap<u64, Repeated>,
    order: VecDeque<u64>,
}

#[derive(Debug)]
struct Repeated {
    posted: Timestamp,
    unposted: u32,
}

impl Recent {
    /// How often it was said since it was last posted; nothing if it is to be kept quiet now.
    fn count(&mut self, id: u64, now: Timestamp) -> Option<u32> {
        if let Some(repeated) = self.seen.get_mut(&id) {
            repeated.unposted = repeated.unposted.saturating_add(1);
            if now.duration_since(repeated.posted) < QUIET {
                return None;
            }
            repeated.posted = now;
            return Some(std::mem::take(&mut repeated.unposted));
        }
        self.seen.insert(id, Repeated { posted: now, unposted: 0 });
        self.order.push_back(id);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        Some(1)
    }
}

/// A core/v1 Event.
fn event(key: &Key, uid: &str, notice: &Notice, now: Timestamp, count: u32, serial: u64) -> Value {
    let kind = key.kind();
    let nanoseconds = u64::try_from(now.as_nanosecond()).unwrap_or(0);
    let stamp = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": format!("{}.{:x}", key.name, nanoseconds.wrapping_add(serial)),
            "namespace": &*key.namespace,
        },
        "involvedObject": {
            "apiVersion": kind.api_version(),
            "kind": kind.name,
            "namespace": &*key.namespace,
            "name": &*key.name,
            "uid": uid,
        },
        "type": if notice.warning { "Warning" } else { "Normal" },
        "reason": notice.reason,
        "message": shorten(&notice.message),
        "source": { "component": kind.controller },
        "reportingComponent": kind.controller,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": count,
    })
}

fn shorten(message: &str) -> &str {
    let end = message.floor_char_boundary(LONGEST_MESSAGE);
    message.get(..end).unwrap_or(message)
}

/// Posts events until there are no more to come.
pub(crate) async fn post_all(api: Arc<Api>, mut receiver: Receiver<Post>, health: Health) {
    let posts = futures::stream::poll_fn(move |context| receiver.poll_recv(context));
    posts
        .for_each_concurrent(AT_ONCE, |post| {
            let (api, health) = (Arc::clone(&api), health.clone());
            async move {
                let counters = health.counters();
                if post_one(&api, &post).await {
                    counters.events_posted.increment();
                } else {
                    counters.events_dropped.increment();
                }
            }
        })
        .await;
}

async fn post_one(api: &Api, post: &Post) -> bool {
    for attempt in 1..=ATTEMPTS {
        match api.create_aside(&post.path, &post.body).await {
            Ok(answer) if answer.code.is_success() => return true,
            Ok(answer) if answer.code.is_client_error() && answer.code.as_u16() != 429 => {
                debug!(code = %answer.code, message = answer.message(), "an event was refused");
                return false;
            }
            Ok(answer) => debug!(code = %answer.code, "an event was not taken"),
            Err(error) => debug!(%error, "an event was not taken"),
        }
        if attempt < ATTEMPTS {
            sleep(Duration::from_secs(attempt.into())).await;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use trainyard_core::Catalog;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_repeated_warning_is_quiet_and_then_counted() {
        let mut recent = Recent::default();
        assert_eq!(recent.count(1, at(0)), Some(1));
        assert_eq!(recent.count(1, at(10)), None);
        assert_eq!(recent.count(1, at(20)), None);
        assert_eq!(recent.count(2, at(20)), Some(1), "another warning is another warning");
        assert_eq!(recent.count(1, at(601)), Some(3));
        for id in 10..10 + REMEMBERED as u64 {
            recent.count(id, at(700));
        }
        assert!(recent.seen.len() <= REMEMBERED);
    }

    #[test]
    fn an_event_names_its_job() {
        let key = Key::new(Catalog::default().kind("PyTorchJob").unwrap(), "ns", "j");
        let long = "ä".repeat(2000);
        let body = event(
            &key,
            "u",
            &Notice::warning("R", &long),
            at(1).checked_add(jiff::SignedDuration::from_millis(5)).unwrap(),
            3,
            1,
        );
        assert_eq!(body["metadata"]["name"], "j.3be71541");
        assert_eq!(body["involvedObject"]["apiVersion"], "kubeflow.org/v1");
        assert_eq!(body["firstTimestamp"], "1970-01-01T00:00:01Z");
        assert_eq!(body["source"]["component"], "pytorchjob-controller");
        assert_eq!((body["type"].as_str(), body["count"].as_u64()), (Some("Warning"), Some(3)));
        assert_eq!(body["message"].as_str().unwrap().len(), 1024);
    }

    #[test]
    fn beyond_its_room_events_are_dropped_and_counted() {
        let health = Health::new(Duration::ZERO);
        let (events, receiver) = Events::new(2, health.clone());
        let key = Key::new(Catalog::default().kind("PyTorchJob").unwrap(), "ns", "j");
        for _ in 0..5 {
            events.show(&key, "u", &Notice::normal("R", "m"), at(0));
        }
        assert_eq!(health.stats().events_dropped, 3);
        assert_eq!(receiver.len(), 2);
    }
}
