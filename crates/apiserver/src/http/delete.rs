//! DELETE of one object and of a collection.

use axum::response::Response;
use futures::future::join_all;
use serde_json::Value;

use super::body::{Input, Kind};
use super::select::Selection;
use super::{Call, list, reply};
use crate::failure::{Cause, Failure};
use crate::gc::PARALLEL;
use crate::object::drop_nulls;
use crate::rules::delete::{DeleteOptions, Propagation, begin};
use crate::store::{Range, Stored, Written};

/// Reads `DeleteOptions` from JSON.
pub(crate) fn options(mut value: Value) -> Result<DeleteOptions, Failure> {
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    let (kind, version) = (text("kind"), text("apiVersion"));
    if !["", "DeleteOptions"].contains(&kind) {
        let scheme = "in scheme \"pkg/runtime/scheme.go:111\"";
        let why = format!("no kind {kind:?} is registered for version {version:?} {scheme}");
        return Err(Failure::bad_request(why));
    }
    if let Some(policy) = value.get("propagationPolicy").and_then(Value::as_str) {
        propagation(policy)?;
    }
    if let Some(asked) = value.get("dryRun").and_then(Value::as_array)
        && asked.iter().any(|word| word != "All")
    {
        let supported = "supported values: \"All\"";
        return Err(invalid(Cause::unsupported("dryRun", asked.clone(), supported)));
    }
    drop_nulls(&mut value);
    serde_json::from_value(value)
        .map_err(|error| Failure::bad_request(format!("the delete options are unrecognized: {error}")))
}

fn invalid(cause: Cause) -> Failure {
    Failure::invalid_kind("DeleteOptions", "meta.k8s.io", "", vec![cause])
}

fn propagation(text: &str) -> Result<Propagation, Failure> {
    match text {
        "Background" => Ok(Propagation::Background),
        "Foreground" => Ok(Propagation::Foreground),
        "Orphan" => Ok(Propagation::Orphan),
        other => {
            let supported = "supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"";
            Err(invalid(Cause::unsupported("propagationPolicy", other, supported)))
        }
    }
}

/// The options of a request: the body, with what the query says.
async fn read(call: &Call, input: Input) -> Result<DeleteOptions, Failure> {
    let mut options = match input.optional(Kind::named("meta.k8s.io", "v1", "DeleteOptions")).await? {
        None => DeleteOptions::default(),
        Some(body) => options(body)?,
    };
    if let Some(seconds) = call.query.integer("gracePeriodSeconds")? {
        options.grace_period_seconds = Some(seconds);
    }
    match call.query.get("propagationPolicy") {
        "" => {}
        policy => options.propagation_policy = Some(propagation(policy)?),
    }
    if call.query.has("orphanDependents") {
        options.orphan_dependents = Some(call.query.flag("orphanDependents"));
    }
    if call.query.dry_run()? {
        options.dry_run = Some(vec!["All".into()]);
    }
    if let (Some(policy), Some(_)) = (options.propagation_policy, options.orphan_dependents) {
        let why = "orphanDependents and deletionPropagation cannot be both set";
        return Err(invalid(Cause::invalid("propagationPolicy", format!("{policy:?}"), why)));
    }
    Ok(options)
}

pub(crate) async fn delete(call: &Call, input: Input) -> Result<Response, Failure> {
    let options = read(call, input).await?;
    let (written, warnings) = call.app.delete_as(&call.identity, &call.served, &call.key(), &options).await?;
    let mut response = match written {
        Written::Removed(stored) if !call.served.returns_deleted => {
            let object = stored.value().map_err(Failure::internal)?;
            reply::success(200, &call.served, &object)
        }
        // Somebody was given time to end it, if only none: the answer says so.
        Written::Removed(stored) if call.served.is_core("pods") => {
            let mut object = stored.value().map_err(Failure::internal)?;
            begin(&mut object, 0, call.app.now());
            let stored = Stored::rehearsed(&stored.key, &object).map_err(Failure::internal)?;
            reply::object(200, &call.served, &stored, call.render, &[])?
        }
        Written::Removed(stored) | Written::Put(stored) | Written::Kept(Some(stored)) => {
            reply::object(200, &call.served, &stored, call.render, &[])?
        }
        Written::Kept(None) => return Err(Failure::not_found(&call.served, &call.name)),
    };
    reply::warn(&mut response, &warnings);
    Ok(response)
}

/// Deletes what a list would show, each object by itself: one that vanished meanwhile is no error. The answer is that list.
pub(crate) async fn delete_collection(call: &Call, input: Input) -> Result<Response, Failure> {
    let selection = Selection::of(call)?;
    let options = read(call, input).await?;
    let range = Range { prefix: &selection.prefix, after: None, limit: usize::MAX };
    let page = call.app.store.page(&call.served.table, range);
    let selected: Vec<_> = page.items.into_iter().filter(|stored| selection.matches(stored)).collect();
    for batch in selected.chunks(PARALLEL) {
        let deletions = batch
            .iter()
            .map(|stored| call.app.delete_as(&call.identity, &call.served, &stored.key, &options));
        for result in join_all(deletions).await {
            match result {
                Err(failure) if failure.code() != 404 => return Err(failure),
                Ok(_) | Err(_) => {}
            }
        }
    }
    list::answer(call, &list::metadata(call, page.revision), &selected)
}
