//! Events about a job and its pods, oldest first.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::cluster::Cluster;
use super::fields::{self, moment, text};
use super::pages::{Listed, Pages};
use super::resource::Resource;
use super::table::Table;
use super::time::{age, now};

/// No more than this many are shown: the latest.
const SHOWN: usize = 40;

/// When an event last happened. Old and new writers fill different fields.
fn last(event: &Value) -> Option<Timestamp> {
    let fields = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"];
    fields.iter().find_map(|field| moment(event, field))
}

/// Events about objects with these UIDs, as a table; nothing if there are none. A namespace may have very many events,
/// so only those that are shown are kept while the others go by.
pub(crate) async fn about(
    cluster: &Cluster,
    namespace: &str,
    uids: BTreeSet<&str>,
) -> anyhow::Result<Option<Table>> {
    let resource = Resource::core("events", "Event");
    let listed = Listed { resource: &resource, namespace: Some(namespace), selector: "" };
    let mut pages = Pages::of(cluster, listed);
    let mut latest = BTreeMap::new();
    let mut number = 0_usize;
    while let Some(page) = pages.next().await? {
        for json in page.iter().filter(|json| is_about(json.get(), &uids)) {
            let event: Value = serde_json::from_str(json.get())?;
            // The number keeps those of the same time in their order.
            latest.insert((last(&event), number), event);
            number += 1;
            if latest.len() > SHOWN {
                latest.pop_first();
            }
        }
    }
    let mut table = Table::new(&["AGE", "TYPE", "REASON", "OBJECT", "MESSAGE"]);
    for event in latest.values() {
        let count = fields::number(event, "/count").max(fields::number(event, "/series/count"));
        let times = if count > 1 { format!(" (x{count})") } else { String::new() };
        let (kind, name) = (text(event, "/involvedObject/kind"), text(event, "/involvedObject/name"));
        table.row([
            age(last(event), now()),
            text(event, "/type").into(),
            text(event, "/reason").into(),
            format!("{}/{name}", kind.to_lowercase()),
            format!("{}{times}", text(event, "/message")),
        ]);
    }
    Ok((!table.is_empty()).then_some(table))
}

/// Whether an event is about one of these objects; the rest of its text is passed over.
fn is_about(json: &str, uids: &BTreeSet<&str>) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Event<'a> {
        #[serde(borrow)]
        involved_object: Option<Involved<'a>>,
    }
    #[derive(Deserialize)]
    struct Involved<'a> {
        #[serde(borrow)]
        uid: Option<Cow<'a, str>>,
    }
    let event = serde_json::from_str::<Event<'_>>(json).ok();
    let uid = event.and_then(|event| event.involved_object?.uid);
    uid.is_some_and(|uid| uids.contains(&*uid))
}
