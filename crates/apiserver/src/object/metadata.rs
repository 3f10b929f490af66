//! What metadata has to be like, beyond being of its type.

use serde_json::{Map, Value};

use super::{finalizers, meta, meta_map, names};
use crate::failure::Cause;
use crate::registry::Served;

/// Errors that quote the whole list they are about are made only a few times, or they would be larger than the list
/// by as much as it is long.
const MOST_QUOTES: usize = 10;

/// Everything that can be wrong with metadata beyond its shape.
///
/// `rounds` says how often a real server looks at what labels, annotations and owners say, and at finalizers: each look
/// is a cause.
pub(crate) fn validate(served: &Served, object: &Value, rounds: (usize, usize)) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (prefix, name) = (meta(object, "generateName"), meta(object, "name"));
    if !prefix.is_empty() {
        let wrong = served.names.check_prefix(prefix);
        causes.extend(wrong.iter().map(|why| Cause::invalid("metadata.generateName", prefix, why)));
    }
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else {
        let wrong = served.names.check(name);
        causes.extend(wrong.iter().map(|why| Cause::invalid("metadata.name", name, why)));
    }
    let Some(metadata) = meta_map(object) else {
        return causes;
    };
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64).filter(|number| *number < 0)
    {
        let why = "must be greater than or equal to 0";
        causes.push(Cause::invalid("metadata.generation", generation, why));
    }
    let mut marks = Vec::new();
    if let Some(labels) = metadata.get("labels").and_then(Value::as_object) {
        names::labels(labels, &mut marks);
    }
    if let Some(annotations) = metadata.get("annotations").and_then(Value::as_object) {
        names::annotations(annotations, &mut marks);
    }
    owners(metadata, &mut marks);
    let mut holds = Vec::new();
    // The rules of leases are those of custom resources.
    let built_in = !served.custom && served.plural != "leases";
    names::finalizers(&finalizers(object), built_in, &mut holds);
    for (found, times) in [(marks, rounds.0), (holds, rounds.1)] {
        (0..times).for_each(|_| causes.extend(found.iter().cloned()));
    }
    causes
}

fn owners(metadata: &Map<String, Value>, causes: &mut Vec<Cause>) {
    let Some(owners) = metadata.get("ownerReferences").and_then(Value::as_array) else {
        return;
    };
    let field = "metadata.ownerReferences";
    let (mut controller, mut quotes, mut quoted) = (None, 0, None);
    for owner in owners {
        let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        let api_version = text("apiVersion");
        // A version with two slashes is none.
        let version = if api_version.matches('/').count() > 1 { "" } else { api_version };
        for (name, value, why) in [
            ("apiVersion", version, "version must not be empty"),
            ("kind", text("kind"), "must not be empty"),
            ("name", text("name"), "must not be empty"),
            ("uid", text("uid"), "must not be empty"),
        ] {
            if value.is_empty() {
                causes.push(Cause::invalid(format!("{field}.{name}"), text(name), why));
            }
        }
        if (api_version, text("kind")) == ("v1", "Event") {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            causes.push(Cause::invalid_text(field, &shown(owner), why));
        }
        if owner.get("controller") != Some(&Value::Bool(true)) {
            continue;
        }
        let this = format!("{}/{}", text("kind"), text("name"));
        if let Some(first) = &controller {
            let why = format!(
                "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
            );
            quotes += 1;
            if quotes > MOST_QUOTES {
                continue;
            }
            let all: &mut String = quoted.get_or_insert_with(|| {
                format!("[{}]", owners.iter().map(shown).collect::<Vec<_>>().join(","))
            });
            causes.push(Cause::invalid_text(field, all, &why));
        } else {
            controller = Some(this);
        }
    }
}

/// An owner as errors quote it: in the order of the API's definition.
fn shown(owner: &Value) -> String {
    let optional =
        ["controller", "blockOwnerDeletion"].into_iter().filter(|field| owner.get(field).is_some());
    let fields: Vec<String> = ["apiVersion", "kind", "name", "uid"]
        .into_iter()
        .chain(optional)
        .map(|field| format!("\"{field}\":{}", owner.get(field).cloned().unwrap_or_else(|| "".into())))
        .collect();
    format!("{{{}}}", fields.join(","))
}
