//! Events, of both APIs: the stored form is the core one.

use jiff::Timestamp;
use serde_json::Value;

use super::read::{has, int, moment, since, text, text_or};

pub(super) fn cells(event: &Value, now: Timestamp) -> Vec<Value> {
    let start = moment(event, "firstTimestamp").or_else(|| moment(event, "eventTime"));
    let in_series = has(event, "series");
    let (end, count) = if in_series {
        (moment(event, "series.lastObservedTime"), int(event, "series.count"))
    } else {
        // An event of the newer kind that happened once has no count.
        (moment(event, "lastTimestamp").or(start), int(event, "count").max(1))
    };
    vec![
        since(end, now).into(),
        text(event, "type").into(),
        text(event, "reason").into(),
        target(event).into(),
        text(event, "involvedObject.fieldPath").into(),
        source(event).into(),
        text(event, "message").trim().into(),
        since(start, now).into(),
        count.into(),
        text(event, "metadata.name").into(),
    ]
}

fn target(event: &Value) -> String {
    let kind = text(event, "involvedObject.kind").to_lowercase();
    match text(event, "involvedObject.name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(event: &Value) -> String {
    let component = text_or(event, "source.component", text(event, "reportingComponent"));
    match text_or(event, "source.host", text(event, "reportingInstance")) {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    }
}
