//! Events about a job and its pods, oldest first.

use jiff::Timestamp;
use serde_json::Value;

use super::cluster::Cluster;
use super::fields::{moment, number, text};
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

/// Events about objects with these UIDs, as a table; nothing if there are none.
pub(crate) async fn about(
    cluster: &Cluster,
    namespace: &str,
    uids: &[&str],
) -> anyhow::Result<Option<Table>> {
    let mut events = cluster.list(&Resource::core("events", "Event"), Some(namespace), "").await?;
    events.retain(|event| uids.contains(&text(event, "/involvedObject/uid")));
    events.sort_by_key(last);
    let mut table = Table::new(&["AGE", "TYPE", "REASON", "OBJECT", "MESSAGE"]);
    for event in events.iter().skip(events.len().saturating_sub(SHOWN)) {
        let count = number(event, "/count").max(number(event, "/series/count"));
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
