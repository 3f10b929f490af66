//! Events on pods. They are for people: nothing waits for them, and what was said is not said again for a while.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::mpsc;

/// The same is not repeated for this long.
const QUIET: SignedDuration = SignedDuration::from_mins(5);
/// Events that may wait to be posted; beyond that they are dropped.
const ROOM: usize = 1024;
/// What was said lately is remembered for this many messages.
const REMEMBERED: usize = 4096;
const LONGEST_MESSAGE: usize = 1024;

/// Takes events in.
pub(crate) struct Events {
    node: String,
    sender: mpsc::Sender<Event>,
    said: Mutex<Said>,
}

/// Whose pod, which of its containers, the reason, the message.
type What = (String, Option<String>, &'static str, String);

/// What was said lately, and when.
#[derive(Default)]
struct Said {
    when: HashMap<What, Timestamp>,
    /// When there is so much of it, what is old is dropped.
    tidy_at: usize,
}

impl Events {
    /// Events of this node; the receiver goes to [`post_all`].
    pub(crate) fn new(node: &str) -> (Self, mpsc::Receiver<Event>) {
        let (sender, receiver) = mpsc::channel(ROOM);
        (Self { node: node.to_owned(), sender, said: Mutex::default() }, receiver)
    }

    pub(crate) fn normal(&self, pod: &Pod, reason: &'static str, message: &str, now: Timestamp) {
        self.say(pod, None, "Normal", reason, message, now);
    }

    /// About one of the pod's containers.
    pub(crate) fn of_container(
        &self,
        pod: &Pod,
        container: &str,
        reason: &'static str,
        message: &str,
        now: Timestamp,
    ) {
        let init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        let list =
            if init.into_iter().any(|it| it.name == container) { "initContainers" } else { "containers" };
        let field = format!("spec.{list}{{{container}}}");
        self.say(pod, Some(field), "Normal", reason, message, now);
    }

    pub(crate) fn warning(&self, pod: &Pod, reason: &'static str, message: &str, now: Timestamp) {
        self.say(pod, None, "Warning", reason, message, now);
    }

    fn say(
        &self,
        pod: &Pod,
        field: Option<String>,
        type_: &str,
        reason: &'static str,
        message: &str,
        now: Timestamp,
    ) {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let message: String = message.chars().take(LONGEST_MESSAGE).collect();
        let what = (uid, field.clone(), reason, message.clone());
        if self.said_lately(what.clone(), now) {
            return;
        }
        // A full channel drops the event, because nothing waits for people; then it was not said.
        let mut event = event(&self.node, pod, type_, reason, message, now);
        event.involved_object.field_path = field;
        if self.sender.try_send(event).is_err() {
            self.said.lock().unwrap_or_else(PoisonError::into_inner).when.remove(&what);
        }
    }

    fn said_lately(&self, what: What, now: Timestamp) -> bool {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.when.len() >= said.tidy_at.max(REMEMBERED) {
            said.when.retain(|_, at| now.duration_since(*at) < QUIET);
            // So that tidying costs little however much is said.
            said.tidy_at = said.when.len().saturating_mul(2);
        }
        if said.when.get(&what).is_some_and(|at| now.duration_since(*at) < QUIET) {
            return true;
        }
        said.when.insert(what, now);
        false
    }
}

fn event(node: &str, pod: &Pod, type_: &str, reason: &str, message: String, now: Timestamp) -> Event {
    let meta = &pod.metadata;
    Event {
        metadata: ObjectMeta {
            namespace: meta.namespace.clone(),
            generate_name: Some(format!("{}-", meta.name.as_deref().unwrap_or_default())),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Pod".into()),
            name: meta.name.clone(),
            namespace: meta.namespace.clone(),
            uid: meta.uid.clone(),
            ..ObjectReference::default()
        },
        type_: Some(type_.into()),
        reason: Some(reason.into()),
        message: Some(message),
        count: Some(1),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        source: Some(EventSource { component: Some("trainyard-node".into()), host: Some(node.into()) }),
        ..Event::default()
    }
}

/// Posts events until nobody sends any more.
pub(crate) async fn post_all(client: Client, mut events: mpsc::Receiver<Event>) {
    while let Some(event) = events.recv().await {
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
        if let Err(error) = api.create(&PostParams::default(), &event).await {
            tracing::debug!(%error, "an event was not posted");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_said_once_in_a_while_and_what_was_dropped_was_not_said() {
        let (events, mut receiver) = Events::new("here");
        let (pod, now) = (Pod::default(), Timestamp::UNIX_EPOCH);
        for _ in 0..10 {
            events.normal(&pod, "Started", "a", now);
        }
        events.normal(&pod, "Started", "a", now + QUIET);
        assert_eq!(std::iter::from_fn(|| receiver.try_recv().ok()).count(), 2);
        for number in 0..2 * ROOM {
            events.normal(&pod, "Started", &number.to_string(), now);
        }
        assert_eq!(std::iter::from_fn(|| receiver.try_recv().ok()).count(), ROOM);
        events.normal(&pod, "Started", &(2 * ROOM - 1).to_string(), now);
        assert!(receiver.try_recv().is_ok(), "it was dropped before, so it is new");
        for container in ["one", "two", "one"] {
            events.of_container(&pod, container, "Started", "Container started", now);
        }
        let fields: Vec<_> =
            std::iter::from_fn(|| receiver.try_recv().ok()?.involved_object.field_path).collect();
        assert_eq!(fields, ["spec.containers{one}", "spec.containers{two}"]);
    }

    #[test]
    fn what_is_remembered_is_bounded_by_what_is_recent() {
        let (events, mut receiver) = Events::new("here");
        let pod = Pod::default();
        for number in 0..50_000_i64 {
            events.normal(&pod, "Started", &number.to_string(), Timestamp::from_second(number).unwrap());
            receiver.try_recv().unwrap();
        }
        assert!(events.said.lock().unwrap().when.len() <= REMEMBERED);
    }
}
