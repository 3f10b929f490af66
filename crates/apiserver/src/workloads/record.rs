//! Events of the controllers: what `kubectl describe` shows of their work.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::client::{Actor, Client, path};
use crate::object::{meta, time};

/// Something worth telling about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) warning: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Note {
    pub(super) fn normal(reason: &'static str, message: String) -> Self {
        Self { warning: false, reason, message }
    }

    pub(super) fn warning(reason: &'static str, message: String) -> Self {
        Self { warning: true, reason, message }
    }
}

/// Writes a note. The same one again only counts. An event that cannot be written is lost: work goes on without.
pub(super) async fn record(client: &Client, actor: Actor, about: &Value, note: &Note, now: Timestamp) {
    let namespace = meta(about, "namespace");
    let text = |field: &str| about.get(field).and_then(Value::as_str).unwrap_or_default();
    let identity = format!("{}/{}/{}", meta(about, "uid"), note.reason, note.message);
    let name = format!("{}.{:016x}", meta(about, "name"), fnv64(identity.as_bytes()));
    let now = time(now);
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "kind": text("kind"), "namespace": namespace, "name": meta(about, "name"), "uid": meta(about, "uid"),
            "apiVersion": text("apiVersion"), "resourceVersion": meta(about, "resourceVersion"),
        },
        "reason": note.reason, "message": note.message, "type": if note.warning { "Warning" } else { "Normal" },
        "source": {"component": actor.component}, "reportingComponent": actor.component,
        "firstTimestamp": now, "lastTimestamp": now, "count": 1,
    });
    let events = path("v1", namespace, "events", "");
    let written = match client.create(actor, &events, &event).await {
        Err(refused) if refused.reason == "AlreadyExists" => {
            again(client, actor, &path("v1", namespace, "events", &name), &now).await
        }
        other => other.map(|_| ()),
    };
    if let Err(refused) = written {
        tracing::debug!(%refused, "an event was lost");
    }
}

async fn again(client: &Client, actor: Actor, event: &str, now: &str) -> Result<(), super::Refused> {
    let patch = json!({"lastTimestamp": now});
    let seen = client.patch(actor, event, &patch).await?;
    let count = seen.get("count").and_then(Value::as_i64).unwrap_or(1);
    client.patch(actor, event, &json!({"count": count + 1})).await.map(|_| ())
}

/// FNV-1a, 64 bits.
pub(super) fn fnv64(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
