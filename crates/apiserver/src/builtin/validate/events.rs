//! Events, which two APIs spell differently.

use serde_json::Value;

use super::errors::{Errors, Path, get, number, text};
use crate::object::{meta, names};

const NULL: Value = Value::Null;

/// How one of the APIs calls what both have.
struct Names {
    about: &'static str,
    controller: &'static str,
    message: &'static str,
}

const CORE: Names = Names { about: "involvedObject", controller: "reportingComponent", message: "message" };
const NEW: Names = Names { about: "regarding", controller: "reportingController", message: "note" };

/// An event of the core API, new or changed.
pub(super) fn core(object: &Value, errors: &mut Errors) {
    common(object, &CORE, errors);
}

/// An event of `events.k8s.io`: a new one has no fields of the older API, a changed one only a longer series.
pub(super) fn new(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    common(object, &NEW, errors);
    let Some(old) = old else {
        series(object, errors);
        only_new_fields(object, errors);
        return;
    };
    if get(object, "series") != get(old, "series") {
        series(object, errors);
    }
    for (field, told) in [
        ("reason", "reason"),
        ("note", "message"),
        ("type", "type"),
        ("action", "action"),
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        if text(object, field) != text(old, field) {
            errors.invalid(&Path::Root(told), text(object, field), "field is immutable");
        }
    }
}

/// What both APIs ask of an event. Errors name fields as the core API does.
fn common(object: &Value, names: &Names, errors: &mut Errors) {
    let namespace = text(object.get(names.about).unwrap_or(&NULL), "namespace");
    let own = meta(object, "namespace");
    let dated = !text(object, "eventTime").is_empty();
    let fits = match namespace {
        "" if dated => ["default", "kube-system"].contains(&own),
        "" => ["", "default"].contains(&own),
        _ => dated || namespace == own,
    };
    if !fits {
        let place = Path::Root("involvedObject.namespace");
        errors.invalid(&place, namespace, "does not match event.namespace");
    }
    if !dated {
        return;
    }
    let (controller, root) = (text(object, names.controller), Path::Root(names.controller));
    if controller.is_empty() {
        errors.required(&root, "");
    }
    errors.all(&root, controller, &names::check_key(controller));
    for (field, needed, most) in [
        ("reportingInstance", true, 128),
        ("action", true, 128),
        ("reason", true, 128),
        ("message", false, 1024),
    ] {
        let value = text(object, if field == "message" { names.message } else { field });
        if needed && value.is_empty() {
            errors.required(&Path::Root(field), "");
        }
        if value.len() > most {
            errors.invalid(&Path::Root(field), "", &format!("can have at most {most} characters"));
        }
    }
}

fn series(object: &Value, errors: &mut Errors) {
    let Some(series) = get(object, "series") else { return };
    if number(series, "count").unwrap_or(0) < 2 {
        errors.invalid(&Path::Root("series.count"), "", "should be at least 2");
    }
    if text(series, "lastObservedTime").is_empty() {
        errors.required(&Path::Root("series.lastObservedTime"), "");
    }
}

fn only_new_fields(object: &Value, errors: &mut Errors) {
    if text(object, "eventTime").is_empty() {
        errors.required(&Path::Root("eventTime"), "");
    }
    let kind = text(object, "type");
    if !["Normal", "Warning"].contains(&kind) {
        errors.invalid(&Path::Root("type"), "", &format!("has invalid value: {kind}"));
    }
    let source = object.get("deprecatedSource").unwrap_or(&NULL);
    for (field, given) in [
        ("firstTimestamp", !text(object, "deprecatedFirstTimestamp").is_empty()),
        ("lastTimestamp", !text(object, "deprecatedLastTimestamp").is_empty()),
        ("count", number(object, "deprecatedCount").is_some_and(|count| count != 0)),
        ("source", !text(source, "component").is_empty() || !text(source, "host").is_empty()),
    ] {
        if given {
            errors.invalid(&Path::Root(field), "", "needs to be unset");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wrong(check: impl Fn(&mut Errors)) -> Vec<String> {
        let mut errors = Errors::default();
        check(&mut errors);
        errors.into_causes().into_iter().map(|cause| cause.field).collect()
    }

    #[test]
    fn an_event_lies_where_its_object_does() {
        for (own, about, fits) in
            [("a", "a", true), ("a", "b", false), ("a", "", false), ("default", "", true)]
        {
            let event = json!({"metadata": {"namespace": own}, "involvedObject": {"namespace": about}});
            assert_eq!(wrong(|errors| core(&event, errors)).is_empty(), fits, "{own} {about}");
        }
    }

    #[test]
    fn a_new_event_has_no_old_fields() {
        let event = json!({"metadata": {"namespace": "a"}, "regarding": {"namespace": "a"}, "type": "Normal",
            "eventTime": "2001-01-01T00:00:00.000000Z", "reportingController": "x.io/c", "reportingInstance": "i",
            "action": "A", "reason": "R", "deprecatedCount": 2, "series": {"count": 1}});
        assert_eq!(
            wrong(|errors| new(&event, None, errors)),
            ["series.count", "series.lastObservedTime", "count"]
        );
        assert!(wrong(|errors| new(&event, Some(&event), errors)).is_empty());
    }
}
