//! The two Event APIs as two spellings of one object.

use serde_json::Value;

/// Core name, `events.k8s.io` name. Fields not listed are called the same in both.
const NAMES: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Fields that the core API writes even when they are empty.
const ALWAYS: [(&str, &str); 2] =
    [("reportingComponent", "reportingController"), ("reportingInstance", "reportingInstance")];

fn rename(object: &mut Value, names: impl Iterator<Item = (&'static str, &'static str)>) {
    let Some(map) = object.as_object_mut() else { return };
    for (from, to) in names {
        if let Some(value) = map.remove(from) {
            map.insert(to.into(), value);
        }
    }
}

/// Spells a core event as `events.k8s.io` does.
pub(crate) fn to_events_api(object: &mut Value) {
    rename(object, NAMES.iter().copied());
    // Here they may be left out, there they may not.
    if let Some(map) = object.as_object_mut() {
        for field in ALWAYS.map(|(_, events)| events) {
            if map.get(field).is_some_and(|value| value == "") {
                map.remove(field);
            }
        }
    }
}

/// Spells an `events.k8s.io` event as the core API does.
pub(crate) fn to_core(object: &mut Value) {
    rename(object, NAMES.iter().map(|(core, events)| (*events, *core)));
    if let Some(map) = object.as_object_mut() {
        for (field, _) in ALWAYS {
            map.entry(field).or_insert_with(|| "".into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_spellings_are_inverse() {
        let core = json!({"reportingComponent": "", "reportingInstance": "", "involvedObject": {"kind": "Pod"}, "message": "m", "count": 3, "reason": "R"});
        let mut event = core.clone();
        to_events_api(&mut event);
        assert_eq!(
            event,
            json!({"regarding": {"kind": "Pod"}, "note": "m", "deprecatedCount": 3, "reason": "R"})
        );
        to_core(&mut event);
        assert_eq!(event, core);
    }
}
