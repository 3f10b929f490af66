//! Horizontal pod autoscalers, in the form of their second version.

use jiff::Timestamp;
use serde_json::Value;

use super::read::{age, first, int, items, text};
use crate::object::at;

/// How many metrics are listed.
const LISTED: usize = 2;

pub(super) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let least = at(object, "spec.minReplicas").and_then(Value::as_i64);
    vec![
        text(object, "metadata.name").into(),
        format!("{}/{}", text(object, "spec.scaleTargetRef.kind"), text(object, "spec.scaleTargetRef.name"))
            .into(),
        metrics(object).into(),
        least.map_or_else(|| "<unset>".into(), |least| least.to_string()).into(),
        int(object, "spec.maxReplicas").into(),
        int(object, "status.currentReplicas").into(),
        age(object, now),
    ]
}

fn metrics(object: &Value) -> String {
    let current = items(object, "status.currentMetrics");
    let specs = items(object, "spec.metrics");
    let all: Vec<String> =
        specs.iter().enumerate().map(|(index, spec)| metric(spec, current.get(index))).collect();
    first(&all, LISTED, ", ", "<none>")
}

/// What is measured and what is wanted.
fn metric(spec: &Value, status: Option<&Value>) -> String {
    let (field, named) = match text(spec, "type") {
        "External" => ("external", false),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".into(),
    };
    let null = Value::Null;
    let spec = spec.get(field).unwrap_or(&null);
    let target = spec.get("target").unwrap_or(&null);
    let current = status.and_then(|status| status.get(field)).and_then(|status| status.get("current"));
    let average = target.get("averageValue").is_some();
    let shown = |value: Option<&Value>, field: &str, absent: &str| {
        value.map_or_else(
            || absent.to_owned(),
            |value| quantity(value.get(field)).unwrap_or_else(|| "0".into()),
        )
    };
    if named {
        let prefix = text(spec, "name");
        if average {
            let current = shown(current, "averageValue", "<unknown>");
            return format!("{prefix}: {current}/{}", shown(Some(target), "averageValue", ""));
        }
        let current = percent(current).unwrap_or_else(|| "<unknown>".into());
        return format!("{prefix}: {current}/{}", percent(Some(target)).unwrap_or_else(|| "<auto>".into()));
    }
    if field == "pods" {
        let current = shown(current, "averageValue", "<unknown>");
        return format!("{current}/{}", shown(Some(target), "averageValue", ""));
    }
    if average {
        let measured = current.filter(|current| current.get("averageValue").is_some());
        let measured = shown(measured, "averageValue", "<unknown>");
        return format!("{measured}/{} (avg)", shown(Some(target), "averageValue", ""));
    }
    format!("{}/{}", shown(current, "value", "<unknown>"), shown(Some(target), "value", ""))
}

fn quantity(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn percent(value: Option<&Value>) -> Option<String> {
    let number = value?.get("averageUtilization")?.as_i64()?;
    Some(format!("{number}%"))
}
