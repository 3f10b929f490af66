//! Following one object until something is so: a look, then a watch from there, then a look again.

use std::time::Duration;

use serde_json::Value;

use super::cluster::Cluster;
use super::fields::{name, text};
use super::resource::{Resource, encode};

/// Seconds after which the server ends a watch; then there is another look.
const WATCH_SECONDS: u32 = 240;
/// Before another look after a watch that ended, so that a server in trouble is not asked without pause.
const PAUSE: Duration = Duration::from_millis(200);
/// Failed looks in a row, a second apart, before the server is given up.
const PATIENCE: u32 = 30;

/// Which object is followed.
pub(crate) struct Followed<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

/// Calls `judge` with the object as it is (nothing: it is gone) until that returns something.
pub(crate) async fn until<T>(
    cluster: &Cluster,
    followed: Followed<'_>,
    mut judge: impl FnMut(Option<&Value>) -> Option<T>,
) -> anyhow::Result<T> {
    let path = followed.resource.object(followed.namespace, followed.name);
    let collection = followed.resource.collection(Some(followed.namespace));
    let mut failures = 0;
    loop {
        let object = match cluster.get(&path).await {
            Ok(object) => object,
            Err(error) if failures >= PATIENCE => return Err(error),
            Err(_) => {
                failures += 1;
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        failures = 0;
        if let Some(done) = judge(object.as_ref()) {
            return Ok(done);
        }
        let version =
            object.as_ref().map(|object| text(object, "/metadata/resourceVersion")).unwrap_or_default();
        let watch = format!(
            "{collection}?watch=true&fieldSelector={}&resourceVersion={}&timeoutSeconds={WATCH_SECONDS}",
            encode(&format!("metadata.name={}", followed.name)),
            encode(version),
        );
        if let Some(done) = changes(cluster, &watch, followed.name, &mut judge).await {
            return Ok(done);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Shows `judge` every change of a watch; nothing when the watch ended first. Why it ended does not matter: the next
/// look shows what was missed.
async fn changes<T>(
    cluster: &Cluster,
    watch: &str,
    of: &str,
    judge: &mut impl FnMut(Option<&Value>) -> Option<T>,
) -> Option<T> {
    let mut lines = cluster.lines(watch).await.ok()?;
    while let Ok(Some(line)) = lines.next().await {
        let event: Value = serde_json::from_slice(&line).ok()?;
        let object = event.get("object").filter(|object| name(object) == of);
        let done = match (text(&event, "/type"), object) {
            ("ADDED" | "MODIFIED", Some(object)) => judge(Some(object)),
            ("DELETED", Some(_)) => judge(None),
            ("BOOKMARK", _) | (_, None) if text(&event, "/type") != "ERROR" => None,
            _ => return None,
        };
        if done.is_some() {
            return done;
        }
    }
    None
}
