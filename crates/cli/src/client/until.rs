//! Following objects until something is so: a look, then a watch from there, then a look again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use super::cluster::Cluster;
use super::fields::{name, text};
use super::pages::{Listed, Pages};
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
    loop {
        let object = patiently(async || cluster.get(&path).await).await?;
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

/// Looks until a look succeeds, or too many in a row have failed.
async fn patiently<T>(mut look: impl AsyncFnMut() -> anyhow::Result<T>) -> anyhow::Result<T> {
    for _ in 0..PATIENCE {
        if let Ok(seen) = look().await {
            return Ok(seen);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    look().await
}

/// Follows many objects of one collection with one watch. Shows `judge` each as it is (nothing: it is gone) until it
/// says that the wait for it is over. Those that are still waited for are left in `waiting`, by name.
pub(crate) async fn until_each<K>(
    cluster: &Cluster,
    (resource, namespace): (&Resource, &str),
    waiting: &mut BTreeMap<String, K>,
    mut judge: impl FnMut(&K, Option<&Value>) -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    while !waiting.is_empty() {
        let of = (resource, namespace);
        let version = patiently(async || look(cluster, of, waiting, &mut judge).await).await?;
        if waiting.is_empty() {
            break;
        }
        let watch = format!(
            "{}?watch=true&resourceVersion={}&timeoutSeconds={WATCH_SECONDS}",
            resource.collection(Some(namespace)),
            encode(&version),
        );
        let mut follow = |object: &Value, gone: bool| {
            let over = match waiting.get(name(object)) {
                Some(waits) => judge(waits, (!gone).then_some(object))?,
                None => return Ok(None),
            };
            if over {
                waiting.remove(name(object));
            }
            Ok(waiting.is_empty().then_some(()))
        };
        if let Some(over) = events(cluster, &watch, &mut follow).await {
            return over;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Shows all that are waited for as they are now, and says which state of the collection that is.
async fn look<K>(
    cluster: &Cluster,
    (resource, namespace): (&Resource, &str),
    waiting: &mut BTreeMap<String, K>,
    judge: &mut impl FnMut(&K, Option<&Value>) -> anyhow::Result<bool>,
) -> anyhow::Result<String> {
    let mut pages = Pages::of(cluster, Listed { resource, namespace: Some(namespace), selector: "" });
    let mut missing: BTreeSet<String> = waiting.keys().cloned().collect();
    let mut version = String::new();
    while let Some(page) = pages.next().await? {
        // The first page is the oldest: what changed while the others were read is seen by the watch.
        if version.is_empty() {
            version = pages.revision().to_owned();
        }
        for json in page {
            let object: Value = serde_json::from_str(json.get())?;
            missing.remove(name(&object));
            if let Some(waits) = waiting.get(name(&object))
                && judge(waits, Some(&object))?
            {
                waiting.remove(name(&object));
            }
        }
    }
    for name in missing {
        if let Some(waits) = waiting.get(&name)
            && judge(waits, None)?
        {
            waiting.remove(&name);
        }
    }
    Ok(version)
}

/// Shows `judge` every change of a watch; nothing when the watch ended first. Why it ended does not matter: the next
/// look shows what was missed.
async fn changes<T>(
    cluster: &Cluster,
    watch: &str,
    of: &str,
    judge: &mut impl FnMut(Option<&Value>) -> Option<T>,
) -> Option<T> {
    let mut follow = |object: &Value, gone: bool| {
        Ok(if name(object) == of { judge((!gone).then_some(object)) } else { None })
    };
    events(cluster, watch, &mut follow).await?.ok()
}

/// Shows `follow` each object of a watch, and whether it is gone, until that returns something.
async fn events<T>(
    cluster: &Cluster,
    watch: &str,
    follow: &mut impl FnMut(&Value, bool) -> anyhow::Result<Option<T>>,
) -> Option<anyhow::Result<T>> {
    let mut lines = cluster.lines(watch).await.ok()?;
    while let Ok(Some(line)) = lines.next().await {
        let event: Value = serde_json::from_slice(&line).ok()?;
        let gone = match text(&event, "/type") {
            "ADDED" | "MODIFIED" => false,
            "DELETED" => true,
            "BOOKMARK" => continue,
            _ => return None,
        };
        if let Some(done) = follow(event.get("object")?, gone).transpose() {
            return Some(done);
        }
    }
    None
}
