//! What makes a definition valid, in the words and the order of a real server.
//!
//! A real server lifts what all versions have in common (schema, subresources, columns) out of them before it looks, so
//! its errors about a definition with one version speak of `spec.validation` and not of `spec.versions[0].schema`.

use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

use super::{flag, list, text, texts};
use crate::failure::Cause;
use crate::object::names::{NameRule, label_1035};
use crate::object::{at, meta};
use crate::schema::Structural;

/// Columns have one of these types.
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 10] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "name", "password", "string"];
/// Groups under these domains belong to the Kubernetes project.
const PROTECTED: [&str; 2] = ["k8s.io", "kubernetes.io"];
/// Errors that quote the whole list they are about are made only a few times.
const MOST_QUOTES: usize = 10;
const APPROVAL: &str = "api-approved.kubernetes.io";
/// Bytes that the CEL expressions of a definition may have in all. Parsing one costs up to 25 µs a byte, so this is a few
/// seconds of work. Definitions in use have a tenth of it.
const MOST_RULES: usize = 256 << 10;

/// What is wrong with a definition.
pub(crate) fn validate(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (group, plural) = (text(object, "spec.group"), text(object, "spec.names.plural"));
    if old.is_none() && meta(object, "name") != format!("{plural}.{group}") {
        let why = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", meta(object, "name"), why));
    }
    group_and_scope(object, &mut causes);
    let rules = rule_bytes(object);
    if rules > MOST_RULES && old.is_none_or(|old| rule_bytes(old) < rules) {
        let why = format!(
            "the rules and message expressions under x-kubernetes-validations have {rules} bytes in all, more than \
             {MOST_RULES}: shorten them"
        );
        causes.push(Cause::forbidden("spec.versions", &why));
        return causes;
    }
    let before: Schemas<'_> = old
        .map(|old| list(old, "spec.versions"))
        .unwrap_or_default()
        .iter()
        .filter_map(|version| Some((text(version, "name"), at(version, "schema.openAPIV3Schema")?)))
        .collect();
    versions(object, &before, &mut causes);
    names(object, &mut causes);
    lifted(object, &before, &mut causes);
    conversion(object, &mut causes);
    stored(object, &mut causes);
    if old.is_none() {
        approval(object, &mut causes);
    }
    if flag(object.get("spec").unwrap_or(&Value::Null), "preserveUnknownFields") {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema \
                   instead";
        causes.push(Cause::invalid("spec.preserveUnknownFields", true, why));
    }
    if let Some(old) = old {
        immutable(object, old, &mut causes);
    }
    causes
}

/// How long the CEL expressions of a definition are together.
fn rule_bytes(definition: &Value) -> usize {
    let mut bytes = 0;
    let mut left = vec![definition];
    while let Some(value) = left.pop() {
        match value {
            Value::Object(map) => {
                for rule in
                    map.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten()
                {
                    bytes += text(rule, "rule").len() + text(rule, "messageExpression").len();
                }
                left.extend(map.values());
            }
            Value::Array(items) => left.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    bytes
}

fn group_and_scope(object: &Value, causes: &mut Vec<Cause>) {
    let group = text(object, "spec.group");
    let wrong = NameRule::Subdomain.check(group);
    if group.is_empty() {
        causes.push(Cause::required("spec.group", ""));
    } else if !wrong.is_empty() {
        causes.push(Cause::invalid("spec.group", group, &wrong.join(",")));
    } else if !group.contains('.') {
        causes.push(Cause::invalid("spec.group", group, "should be a domain with at least one dot"));
    }
    match text(object, "spec.scope") {
        "" => causes.push(Cause::required("spec.scope", "")),
        "Namespaced" | "Cluster" => {}
        scope => {
            let supported = "supported values: \"Cluster\", \"Namespaced\"";
            causes.push(Cause::unsupported("spec.scope", scope, supported));
        }
    }
}

fn versions(object: &Value, before: &Schemas<'_>, causes: &mut Vec<Cause>) {
    let versions = list(object, "spec.versions");
    for (index, version) in versions.iter().enumerate() {
        if at(version, "schema.openAPIV3Schema").is_none() {
            causes.push(Cause::required(format!("spec.versions[{index}].schema.openAPIV3Schema"), ""));
        }
    }
    let lifted = ["schema", "subresources", "additionalPrinterColumns"].map(|field| shared(versions, field));
    let [schemas, parts, tables] = lifted;
    for (index, version) in versions.iter().enumerate() {
        let name = text(version, "name");
        if let Some(why) = label_1035(name) {
            causes.push(Cause::invalid(format!("spec.versions[{index}].name"), name, &why));
        }
        if !schemas {
            schema(version, before, &format!("spec.versions[{index}].schema"), causes);
        }
        if !parts {
            subresources(version, &format!("spec.versions[{index}].subresources"), causes);
        }
        if !tables {
            columns(version, &format!("spec.versions[{index}].additionalPrinterColumns"), causes);
        }
    }
    let mut seen = HashSet::with_capacity(versions.len());
    if !versions.iter().all(|version| seen.insert(text(version, "name"))) {
        let why = "must contain unique version names";
        causes.push(Cause::invalid_text("spec.versions", &shown(versions), why));
    }
    if versions.iter().filter(|version| flag(version, "storage")).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid_text("spec.versions", &shown(versions), why));
    }
    let first = versions.first().map(|version| text(version, "name")).unwrap_or_default();
    if let Some(why) = label_1035(first).filter(|_| !first.is_empty()) {
        causes.push(Cause::invalid("spec.version", first, &why));
    }
}

/// Versions as a real server quotes them: in its own words, and without what it lifted out of them.
fn shown(versions: &[Value]) -> String {
    if versions.is_empty() {
        return "null".into();
    }
    let one = |version: &Value| {
        let name = Value::from(text(version, "name"));
        let [served, storage, deprecated] =
            ["served", "storage", "deprecated"].map(|field| flag(version, field));
        format!(
            "{{\"Name\":{name},\"Served\":{served},\"Storage\":{storage},\"Deprecated\":{deprecated},\
             \"DeprecationWarning\":null,\"Schema\":null,\"Subresources\":null,\"AdditionalPrinterColumns\":null,\
             \"SelectableFields\":null}}"
        )
    };
    format!("[{}]", versions.iter().map(one).collect::<Vec<_>>().join(","))
}

/// Whether all versions have the same in a field.
fn shared(versions: &[Value], field: &str) -> bool {
    let first = versions.first().and_then(|version| version.get(field));
    versions.iter().all(|version| version.get(field) == first)
}

fn names(object: &Value, causes: &mut Vec<Cause>) {
    for field in ["plural", "singular", "kind", "listKind"] {
        let path = format!("spec.names.{field}");
        if text(object, &path).is_empty() {
            causes.push(Cause::required(path, ""));
        }
    }
    for (field, mixed) in [("plural", false), ("singular", false), ("kind", true), ("listKind", true)] {
        let path = format!("spec.names.{field}");
        let name = text(object, &path);
        let checked = if mixed { name.to_lowercase() } else { name.to_owned() };
        if let Some(why) = label_1035(&checked).filter(|_| !name.is_empty()) {
            let but = if mixed { "may have mixed case, but should otherwise match: " } else { "" };
            causes.push(Cause::invalid(path, name, &format!("{but}{why}")));
        }
    }
    each_label(object, "shortNames", causes);
    let (kind, list_kind) = (text(object, "spec.names.kind"), text(object, "spec.names.listKind"));
    if !kind.is_empty() && kind == list_kind {
        causes.push(Cause::invalid("spec.names.listKind", kind, "kind and listKind may not be the same"));
    }
    each_label(object, "categories", causes);
}

fn each_label(object: &Value, field: &str, causes: &mut Vec<Cause>) {
    for (index, name) in texts(object, &format!("spec.names.{field}")).into_iter().enumerate() {
        if let Some(why) = label_1035(&name) {
            causes.push(Cause::invalid(format!("spec.names.{field}[{index}]"), name, &why));
        }
    }
}

/// What all versions have in common.
fn lifted(object: &Value, before: &Schemas<'_>, causes: &mut Vec<Cause>) {
    let versions = list(object, "spec.versions");
    let Some(first) = versions.first() else { return };
    if shared(versions, "schema") {
        schema(first, before, "spec.validation", causes);
    }
    if shared(versions, "subresources") {
        subresources(first, "spec.subresources", causes);
    }
    if shared(versions, "additionalPrinterColumns") {
        columns(first, "spec.additionalPrinterColumns", causes);
    }
}

/// The schemas of a definition by the names of their versions.
type Schemas<'a> = HashMap<&'a str, &'a Value>;

fn schema(version: &Value, before: &Schemas<'_>, path: &str, causes: &mut Vec<Cause>) {
    let Some(schema) = at(version, "schema.openAPIV3Schema") else { return };
    let is_known = before.get(text(version, "name")) == Some(&schema);
    let errors = match Structural::parse(schema) {
        Err(errors) => errors,
        // What was accepted by an older version stays.
        Ok(_) if is_known => Vec::new(),
        Ok(parsed) => parsed.too_expensive(),
    };
    causes.extend(errors.into_iter().map(Cause::from).map(|mut cause| {
        cause.field = format!("{path}.{}", cause.field);
        // A text may name another place in the schema.
        for place in ["defined in ", "schema within "] {
            cause.message =
                cause.message.replace(&format!("{place}openAPI"), &format!("{place}{path}.openAPI"));
        }
        cause
    }));
}

fn subresources(version: &Value, path: &str, causes: &mut Vec<Cause>) {
    let Some(scale) = at(version, "subresources.scale") else { return };
    for (field, below) in [("specReplicasPath", [".spec."].as_slice()), ("statusReplicasPath", &[".status."])]
    {
        let field_path = format!("{path}.scale.{field}");
        match text(scale, field) {
            "" => causes.push(Cause::required(field_path, "")),
            value => json_path(value, field_path, below, causes),
        }
    }
    match text(scale, "labelSelectorPath") {
        "" => {}
        value => json_path(value, format!("{path}.scale.labelSelectorPath"), &[".spec.", ".status."], causes),
    }
}

fn json_path(value: &str, path: String, below: &[&str], causes: &mut Vec<Cause>) {
    if !value.starts_with('.') {
        causes.push(Cause::invalid(path, value, "must be a simple json path starting with ."));
    } else if !below.iter().any(|start| value.starts_with(start)) {
        let places = below.iter().map(|start| start.trim_end_matches('.')).collect::<Vec<_>>().join(" or ");
        let either = if below.len() > 1 { "either " } else { "" };
        causes.push(Cause::invalid(path, value, &format!("should be a json path under {either}{places}")));
    }
}

fn columns(version: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (index, column) in list(version, "additionalPrinterColumns").iter().enumerate() {
        let path = format!("{path}[{index}]");
        if text(column, "name").is_empty() {
            causes.push(Cause::required(format!("{path}.name"), ""));
        }
        let types = format!("must be one of {}", COLUMN_TYPES.join(","));
        match text(column, "type") {
            "" => causes.push(Cause::required(format!("{path}.type"), &types)),
            kind if COLUMN_TYPES.contains(&kind) => {}
            kind => causes.push(Cause::invalid(format!("{path}.type"), kind, &types)),
        }
        let format = text(column, "format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let why = format!("must be one of {}", COLUMN_FORMATS.join(","));
            causes.push(Cause::invalid(format!("{path}.format"), format, &why));
        }
        match text(column, "jsonPath") {
            "" => causes.push(Cause::required(format!("{path}.JSONPath"), "")),
            place if place.starts_with('.') => {}
            place => {
                let why = "must be a simple json path starting with .";
                causes.push(Cause::invalid(format!("{path}.JSONPath"), place, why));
            }
        }
    }
}

fn conversion(object: &Value, causes: &mut Vec<Cause>) {
    let path = "spec.conversion";
    let client = at(object, "spec.conversion.webhook.clientConfig");
    let reviews = texts(object, "spec.conversion.webhook.conversionReviewVersions");
    match text(object, "spec.conversion.strategy") {
        "None" => {
            let why = "should not be set when strategy is not set to Webhook";
            if client.is_some() {
                causes.push(Cause::forbidden(format!("{path}.webhookClientConfig"), why));
            }
            if !reviews.is_empty() {
                causes.push(Cause::forbidden(format!("{path}.conversionReviewVersions"), why));
            }
        }
        "Webhook" if client.is_none() || reviews.is_empty() => {
            if client.is_none() {
                let why = "required when strategy is set to Webhook";
                causes.push(Cause::required(format!("{path}.webhookClientConfig"), why));
            }
            if reviews.is_empty() {
                causes.push(Cause::required(format!("{path}.conversionReviewVersions"), ""));
            }
        }
        // A real server would call it; this one converts nothing but the version's name.
        "Webhook" => {
            let supported = "supported values: \"None\"";
            causes.push(Cause::unsupported(format!("{path}.strategy"), "Webhook", supported));
        }
        other => {
            let supported = "supported values: \"None\", \"Webhook\"";
            causes.push(Cause::unsupported(format!("{path}.strategy"), other, supported));
        }
    }
}

/// The versions objects may be stored in, as they will be in the status.
pub(super) fn stored_versions(object: &Value) -> Vec<String> {
    let mut stored = texts(object, "status.storedVersions");
    let storage = list(object, "spec.versions").iter().find(|version| flag(version, "storage"));
    let name = storage.map(|version| text(version, "name").to_owned());
    stored.extend(name.filter(|name| !stored.contains(name)));
    stored
}

fn stored(object: &Value, causes: &mut Vec<Cause>) {
    let field = "status.storedVersions";
    let stored = stored_versions(object);
    if stored.is_empty() {
        causes.push(Cause::invalid(field, Value::Null, "must have at least one stored version"));
        return;
    }
    let versions = list(object, "spec.versions");
    let known: HashSet<&str> = stored.iter().map(String::as_str).collect();
    let storage = versions.iter().filter(|version| flag(version, "storage"));
    // More than one is another error; each of these quotes the whole list.
    for name in storage.map(|version| text(version, "name")).take(MOST_QUOTES) {
        if !known.contains(name) {
            let why = format!("must have the storage version {name}");
            causes.push(Cause::invalid(field, json!(stored), &why));
        }
    }
    let defined: HashSet<&str> = versions.iter().map(|version| text(version, "name")).collect();
    for (index, name) in stored.iter().enumerate() {
        if !defined.contains(name.as_str()) {
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in \
                 spec.versions until a storage migration ensures no data remains persisted in {name} and removes \
                 {name} from status.storedVersions"
            );
            causes.push(Cause::invalid(format!("{field}[{index}]"), name.as_str(), &why));
        }
    }
}

fn approval(object: &Value, causes: &mut Vec<Cause>) {
    let group = text(object, "spec.group");
    let is_protected = PROTECTED
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')));
    let given = at(object, "metadata.annotations").and_then(|all| all.get(APPROVAL)).and_then(Value::as_str);
    let is_approved = given.is_some_and(|text| text.contains("://") || text.starts_with("unapproved"));
    if !is_protected || is_approved {
        return;
    }
    let field = format!("metadata.annotations[{APPROVAL}]");
    let why = format!(
        "protected groups must have approval annotation {APPROVAL:?}, see \
         https://github.com/kubernetes/enhancements/pull/1111"
    );
    causes.push(match given.filter(|text| !text.is_empty()) {
        None => Cause::required(field, &why),
        Some(text) => Cause::invalid(field, text, &why),
    });
}

fn immutable(object: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let established = super::is_established(old);
    let when_established: &[&str] = if established { &["spec.scope", "spec.names.kind"] } else { &[] };
    for path in when_established.iter().chain(&["spec.group", "spec.names.plural"]) {
        if text(old, path) != text(object, path) {
            causes.push(Cause::invalid(*path, text(object, path), "field is immutable"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(versions: Value) -> Value {
        json!({"metadata": {"name": "things.x.io"}, "spec": {
            "group": "x.io", "scope": "Cluster", "conversion": {"strategy": "None"}, "versions": versions,
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        }})
    }

    fn version(name: &str, storage: bool, schema: Value) -> Value {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
    }

    fn fields(object: &Value) -> Vec<String> {
        validate(object, None).into_iter().map(|cause| cause.field).collect()
    }

    #[test]
    fn errors_speak_of_what_versions_share() {
        let (good, bad) = (json!({"type": "object"}), json!({"type": "string"}));
        let one = definition(json!([version("v1", true, bad.clone())]));
        assert_eq!(fields(&one), ["spec.validation.openAPIV3Schema.type"]);
        let two = definition(json!([version("v1", true, good.clone()), version("v2", false, bad)]));
        assert_eq!(fields(&two), ["spec.versions[1].schema.openAPIV3Schema.type"]);
        assert_eq!(fields(&definition(json!([version("v1", true, good)]))), Vec::<String>::new());
    }

    #[test]
    fn a_stored_version_stays() {
        let mut object = definition(json!([version("v2", true, json!({"type": "object"}))]));
        object["status"] = json!({"storedVersions": ["v1"]});
        let causes = validate(&object, Some(&object));
        assert_eq!(causes.len(), 1);
        assert!(causes[0].message.contains("v1 was previously a storage version"), "{causes:?}");
    }
}
