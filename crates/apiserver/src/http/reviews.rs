//! Questions about users, asked as objects that nobody keeps: may somebody do this, and who am I?

use axum::response::Response;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

use super::body::{Input, Kind};
use super::{Call, reply};
use crate::auth::Identity;
use crate::auth::rbac::Ask;
use crate::failure::{Cause, Failure};
use crate::object::{meta, time};
use crate::registry::Served;
use crate::store::Stored;

pub(super) async fn create(call: &Call, method: &Method, input: Input) -> Result<Response, Failure> {
    if call.served.namespaced && call.namespace.is_empty() {
        return Err(Failure::missing("the server could not find the requested resource"));
    }
    if *method != Method::POST {
        return Err(Failure::verb_not_allowed());
    }
    let body = input.object(Kind::of(&call.served)).await?;
    if call.served.kind == "Binding" {
        let body = call.ask_about(("", "v1", "Binding"), body).await?;
        return super::pods::bind_named(call, body).await;
    }
    let answer = match call.served.kind.as_str() {
        "SelfSubjectAccessReview" => access(call, body, &Asker::Self_)?,
        "SubjectAccessReview" => access(call, body, &Asker::Named)?,
        "LocalSubjectAccessReview" => access(call, body, &Asker::Local)?,
        "SelfSubjectRulesReview" => rules(call, &body)?,
        "TokenReview" => token(call, body)?,
        _ => me(call),
    };
    respond(call, &call.served, answer)
}

/// Shows an object that is not stored anywhere.
pub(super) fn respond(call: &Call, served: &Served, mut answer: Value) -> Result<Response, Failure> {
    if let Some(map) = answer.as_object_mut() {
        map.insert("kind".into(), served.kind.as_str().into());
        map.insert("apiVersion".into(), (*served.api_version).into());
    }
    let stored = Stored::rehearsed(&call.key(), &answer).map_err(Failure::internal)?;
    reply::object(201, served, &stored, call.render, &[])
}

/// Whose access is asked about.
#[derive(PartialEq, Eq)]
enum Asker {
    Self_,
    Named,
    Local,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    resource_attributes: Option<ResourceAttributes>,
    non_resource_attributes: Option<PathAttributes>,
    user: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResourceAttributes {
    namespace: String,
    verb: String,
    group: String,
    resource: String,
    subresource: String,
    name: String,
    field_selector: Option<Selector>,
    label_selector: Option<Selector>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Selector {
    raw_selector: String,
    requirements: Vec<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PathAttributes {
    path: String,
    verb: String,
}

fn access(call: &Call, mut body: Value, asker: &Asker) -> Result<Value, Failure> {
    let spec = body.get("spec").filter(|spec| !spec.is_null()).cloned().unwrap_or_else(|| json!({}));
    let spec: Spec = serde_json::from_value(drop_nulls(spec))
        .map_err(|error| Failure::bad_request(format!("the object provided is unrecognized: {error}")))?;
    let given = meta(&body, "namespace");
    if *asker == Asker::Local && !given.is_empty() && given != call.namespace {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let causes = validate(call, &body, &spec, asker);
    if !causes.is_empty() {
        return Err(Failure::invalid_kind("", "authorization.k8s.io", "", causes));
    }
    tracked(call, &mut body);
    let named = Identity { name: spec.user, uid: spec.uid, groups: spec.groups, extra: spec.extra };
    let identity = if *asker == Asker::Self_ { &*call.identity } else { &named };
    let decision =
        call.app.rbac.decide(identity, &ask(spec.resource_attributes, spec.non_resource_attributes));
    let mut status = json!({"allowed": decision.allowed});
    if let (false, Some(map)) = (decision.reason.is_empty(), status.as_object_mut()) {
        map.insert("reason".into(), decision.reason.into());
    }
    if let Some(map) = body.as_object_mut() {
        let mut metadata = map.remove("metadata").filter(Value::is_object).unwrap_or_else(|| json!({}));
        if let (Asker::Local, Some(metadata)) = (asker, metadata.as_object_mut()) {
            metadata.insert("namespace".into(), call.namespace.as_str().into());
        }
        map.insert("metadata".into(), metadata);
        map.insert("status".into(), status);
    }
    Ok(body)
}

/// Says in a question who asked it, as in any object.
fn tracked(call: &Call, body: &mut Value) {
    let (catalog, now) = (call.app.catalog(), time(call.app.now()));
    if let Some(map) = body.as_object_mut() {
        let metadata = map.entry("metadata").or_insert_with(|| json!({}));
        if !metadata.is_object() {
            *metadata = json!({});
        }
    }
    let track = call.track(&catalog, "", &now);
    let unsent = track.unsent(body);
    track.created(body, &unsent);
}

fn drop_nulls(mut value: Value) -> Value {
    crate::object::drop_nulls(&mut value);
    value
}

fn ask(resource: Option<ResourceAttributes>, path: Option<PathAttributes>) -> Ask {
    if let Some(resource) = resource {
        return Ask {
            verb: resource.verb,
            group: resource.group,
            resource: resource.resource,
            subresource: resource.subresource,
            namespace: resource.namespace,
            name: resource.name,
            path: None,
        };
    }
    let path = path.unwrap_or_default();
    Ask { verb: path.verb, path: Some(path.path), ..Ask::default() }
}

fn validate(call: &Call, body: &Value, spec: &Spec, asker: &Asker) -> Vec<Cause> {
    let mut causes = Vec::new();
    let path = spec.non_resource_attributes.as_ref().map(|a| json!({"Path": a.path, "Verb": a.verb}));
    match (&spec.resource_attributes, &path) {
        (Some(_), Some(path)) => {
            let why = "cannot be specified in combination with resourceAttributes";
            causes.push(Cause::invalid("spec.nonResourceAttributes", path.clone(), why));
        }
        (None, None) => {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            causes.push(Cause::invalid("spec.resourceAttributes", Value::Null, why));
        }
        _ => {}
    }
    if *asker != Asker::Self_ && spec.user.is_empty() && spec.groups.is_empty() {
        causes.push(Cause::invalid("spec.user", "", "at least one of user or group must be specified"));
    }
    if let Some(attributes) = &spec.resource_attributes {
        for (field, selector) in
            [("fieldSelector", &attributes.field_selector), ("labelSelector", &attributes.label_selector)]
        {
            causes.extend(selector.as_ref().and_then(|selector| check_selector(field, selector)));
        }
    }
    let mut metadata = body.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    metadata.retain(|field, value| field != "managedFields" && !value.is_null());
    let mut why = "must be empty";
    if *asker == Asker::Local {
        metadata.remove("namespace");
        why = "must be empty except for namespace";
    }
    if !metadata.is_empty() {
        causes.push(Cause::invalid("metadata", Value::Object(metadata), why));
    }
    if *asker == Asker::Local {
        let namespace = spec.resource_attributes.as_ref().map(|attributes| attributes.namespace.as_str());
        if let Some(namespace) = namespace.filter(|namespace| *namespace != call.namespace) {
            let why = "must match metadata.namespace";
            causes.push(Cause::invalid("spec.resourceAttributes.namespace", namespace, why));
        }
        if let Some(path) = path {
            let why = "disallowed on this kind of request";
            causes.push(Cause::invalid("spec.nonResourceAttributes", path, why));
        }
    }
    causes
}

fn check_selector(field: &str, selector: &Selector) -> Option<Cause> {
    let path = format!("spec.resourceAttributes.{field}");
    match (selector.raw_selector.is_empty(), selector.requirements.is_empty()) {
        (false, false) => Some(Cause::invalid(
            format!("{path}.rawSelector"),
            selector.raw_selector.as_str(),
            "may not specified at the same time as requirements",
        )),
        (true, true) => {
            let why = format!("when {path} is specified, requirements or rawSelector is required");
            Some(Cause::required(format!("{path}.requirements"), &why))
        }
        _ => None,
    }
}

/// Everything somebody may do in a namespace.
fn rules(call: &Call, body: &Value) -> Result<Value, Failure> {
    let namespace = body.pointer("/spec/namespace").and_then(Value::as_str).unwrap_or_default();
    if namespace.is_empty() {
        return Err(Failure::bad_request("no namespace on request"));
    }
    let (rules, error) = call.app.rbac.rules_for(&call.identity, namespace);
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    for rule in rules {
        if !rule.resources.is_empty() {
            let mut shown = Map::new();
            shown.insert("verbs".into(), rule.verbs.clone().into());
            for (field, list) in [
                ("apiGroups", &rule.api_groups),
                ("resources", &rule.resources),
                ("resourceNames", &rule.resource_names),
            ] {
                if !list.is_empty() {
                    shown.insert(field.into(), list.clone().into());
                }
            }
            resources.push(Value::Object(shown));
        }
        if !rule.urls.is_empty() {
            paths.push(json!({"verbs": rule.verbs, "nonResourceURLs": rule.urls}));
        }
    }
    let mut status = json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false});
    if let (Some(error), Some(map)) = (error, status.as_object_mut()) {
        map.insert("evaluationError".into(), error.into());
    }
    Ok(json!({"metadata": {}, "spec": {}, "status": status}))
}

fn me(call: &Call) -> Value {
    let now = time(call.app.now());
    json!({"metadata": {"creationTimestamp": now}, "status": {"userInfo": call.identity.info()}})
}

/// Whose token is this?
fn token(call: &Call, mut body: Value) -> Result<Value, Failure> {
    let token = body.pointer("/spec/token").and_then(Value::as_str).unwrap_or_default();
    if token.is_empty() {
        return Err(Failure::bad_request("token is required for TokenReview in authentication"));
    }
    let guard = call.app.guard();
    let wanted = body.pointer("/spec/audiences").and_then(Value::as_array).into_iter().flatten();
    let mut wanted: Vec<String> = wanted.filter_map(Value::as_str).map(str::to_owned).collect();
    if wanted.is_empty() {
        wanted = guard.audiences();
    }
    let status = match guard.token(token.as_bytes(), &wanted) {
        Ok(known) => json!({
            "authenticated": true, "user": known.identity.info(), "audiences": known.audiences,
        }),
        Err(why) => json!({"user": {}, "error": why}),
    };
    tracked(call, &mut body);
    if let Some(map) = body.as_object_mut() {
        map.insert("status".into(), status);
    }
    Ok(body)
}
