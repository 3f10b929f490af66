//! Reading what cells are made of: fields by their dotted path, ages, lists as people read them.

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::object::at;

/// A text; empty when it is missing.
pub(super) fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// A text, or what stands for its absence.
pub(super) fn text_or<'a>(object: &'a Value, path: &str, absent: &'a str) -> &'a str {
    Some(text(object, path)).filter(|text| !text.is_empty()).unwrap_or(absent)
}

pub(super) fn int(object: &Value, path: &str) -> i64 {
    at(object, path).and_then(Value::as_i64).unwrap_or(0)
}

pub(super) fn flag(object: &Value, path: &str) -> bool {
    at(object, path).and_then(Value::as_bool).unwrap_or(false)
}

/// Whether there is something at a path.
pub(super) fn has(object: &Value, path: &str) -> bool {
    at(object, path).is_some_and(|value| !value.is_null())
}

pub(super) fn items<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The texts of a list.
pub(super) fn texts<'a>(object: &'a Value, path: &str) -> Vec<&'a str> {
    items(object, path).iter().filter_map(Value::as_str).collect()
}

pub(super) fn map<'a>(object: &'a Value, path: &str) -> Option<&'a Map<String, Value>> {
    at(object, path).and_then(Value::as_object)
}

/// How many members a map has.
pub(super) fn count(object: &Value, path: &str) -> usize {
    map(object, path).map_or(0, Map::len)
}

/// A time; nothing when it is missing or is none.
pub(super) fn moment(object: &Value, path: &str) -> Option<Timestamp> {
    text(object, path).parse().ok()
}

/// Whether a condition of this type has this status.
pub(super) fn condition(object: &Value, kind: &str, status: &str) -> bool {
    items(object, "status.conditions").iter().any(|c| text(c, "type") == kind && text(c, "status") == status)
}

/// The age column of almost every table.
pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    since(moment(object, "metadata.creationTimestamp"), now).into()
}

/// How long ago something was.
pub(super) fn since(then: Option<Timestamp>, now: Timestamp) -> String {
    then.map_or_else(|| "<unknown>".into(), |then| human(then, now))
}

/// A span of time with two or three significant figures. Clocks may differ by a second; a time further in the future
/// is none.
pub(super) fn human(from: Timestamp, to: Timestamp) -> String {
    let seconds = to.duration_since(from).as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let two = |whole: i64, unit: char, rest: i64, small: char| match rest {
        0 => format!("{whole}{unit}"),
        rest => format!("{whole}{unit}{rest}{small}"),
    };
    match () {
        () if seconds < -1 => "<invalid>".into(),
        () if seconds < 0 => "0s".into(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 24 * 8 => two(days, 'd', hours % 24, 'h'),
        () if hours < 24 * 365 * 2 => format!("{days}d"),
        () if hours < 24 * 365 * 8 => two(years, 'y', days % 365, 'd'),
        () => format!("{years}y"),
    }
}

/// The first few of many, and how many more there are.
pub(super) fn first<T: AsRef<str>>(all: &[T], most: usize, between: &str, none: &str) -> String {
    let shown: Vec<&str> = all.iter().take(most).map(AsRef::as_ref).collect();
    match all.len() {
        0 => none.to_owned(),
        many if many > most => format!("{} + {} more...", shown.join(between), many - most),
        _ => shown.join(between),
    }
}

/// Labels as `a=b,c=d`.
pub(super) fn labels(object: &Value, path: &str) -> String {
    let pairs: Vec<String> = map(object, path)
        .into_iter()
        .flatten()
        .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()))
        .collect();
    if pairs.is_empty() { "<none>".into() } else { pairs.join(",") }
}

/// The text form of a label selector; nothing when it is not a valid one.
pub(super) fn selector(selector: &Value) -> Option<String> {
    let mut parts: Vec<(String, String)> = map(selector, "matchLabels")
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.clone(), format!("{name}={}", value.as_str().unwrap_or_default())))
        .collect();
    for requirement in items(selector, "matchExpressions") {
        let key = text(requirement, "key");
        let mut values: Vec<&str> = texts(requirement, "values");
        values.sort_unstable();
        let values = values.join(",");
        let part = match text(requirement, "operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        };
        parts.push((key.to_owned(), part));
    }
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    Some(parts.into_iter().map(|(_, part)| part).collect::<Vec<_>>().join(","))
}

/// Names and images of a template's containers.
pub(super) fn containers(object: &Value, path: &str) -> [Value; 2] {
    ["name", "image"].map(|field| {
        let all: Vec<&str> = items(object, path).iter().map(|c| text(c, field)).collect();
        all.join(",").into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;
    use serde_json::json;

    #[test]
    fn spans_are_written_as_people_read_them() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        for (seconds, expected) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (10_860, "3h1m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (176_400, "2d1h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
            (63_158_400, "2y1d"),
            (315_360_000, "10y"),
        ] {
            assert_eq!(human(now - SignedDuration::from_secs(seconds), now), expected, "{seconds}");
        }
    }

    #[test]
    fn selectors_are_sorted_by_key() {
        let all = json!({
            "matchLabels": {"b": "1"},
            "matchExpressions": [
                {"key": "c", "operator": "DoesNotExist"},
                {"key": "a", "operator": "In", "values": ["y", "x"]},
            ],
        });
        assert_eq!(selector(&all).unwrap(), "a in (x,y),b=1,!c");
        assert_eq!(selector(&json!({"matchExpressions": [{"key": "a", "operator": "?"}]})), None);
    }
}
