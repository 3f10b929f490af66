//! DELETE of one object and of a collection.

use axum::response::Response;
use futures::future::join_all;
use serde_json::{Value, json};
use std::sync::Arc;

use super::body::{Input, Kind};
use super::select::Selection;
use super::{Call, list, reply};
use crate::failure::Failure;
use crate::gc::PARALLEL;
use crate::rules::delete::{DeleteOptions, Propagation};
use crate::store::{Range, Written};

/// Reads `DeleteOptions` from JSON.
pub(crate) fn options(value: Value) -> Result<DeleteOptions, Failure> {
    serde_json::from_value(value)
        .map_err(|error| Failure::bad_request(format!("the delete options are unrecognized: {error}")))
}

/// The options of a request: the body, with what the query says.
async fn read(call: &Call, input: Input) -> Result<DeleteOptions, Failure> {
    let mut options = match input.optional(Kind::named("meta.k8s.io", "v1", "DeleteOptions")).await? {
        None => DeleteOptions::default(),
        Some(body) => options(body)?,
    };
    if let Some(seconds) = call.query.number("gracePeriodSeconds")? {
        options.grace_period_seconds = Some(i64::try_from(seconds).unwrap_or(i64::MAX));
    }
    match call.query.get("propagationPolicy") {
        "" => {}
        "Background" => options.propagation_policy = Some(Propagation::Background),
        "Foreground" => options.propagation_policy = Some(Propagation::Foreground),
        "Orphan" => options.propagation_policy = Some(Propagation::Orphan),
        other => {
            return Err(Failure::unprocessable(format!(
                "DeleteOptions is invalid: propagationPolicy: Unsupported value: {other:?}: supported values: \
                 \"Background\", \"Foreground\", \"Orphan\""
            )));
        }
    }
    if call.query.has("orphanDependents") {
        options.orphan_dependents = Some(call.query.flag("orphanDependents"));
    }
    if call.query.dry_run()? {
        options.dry_run = Some(vec!["All".into()]);
    }
    if options.propagation_policy.is_some() && options.orphan_dependents.is_some() {
        return Err(Failure::unprocessable(
            "DeleteOptions is invalid: propagationPolicy: Invalid value: orphanDependents and deletionPropagation \
             cannot be both set",
        ));
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
        Written::Removed(stored) | Written::Put(stored) | Written::Kept(Some(stored)) => {
            reply::object(200, &call.served, &stored, call.render, &[])?
        }
        Written::Kept(None) => return Err(Failure::not_found(&call.served, &call.name)),
    };
    reply::warn(&mut response, &warnings);
    Ok(response)
}

/// Deletes what a list would show, each object by itself: one that vanished meanwhile is no error.
pub(crate) async fn delete_collection(call: &Call, input: Input) -> Result<Response, Failure> {
    let selection = Selection::of(call)?;
    let options = read(call, input).await?;
    let range = Range { prefix: &selection.prefix, after: None, limit: usize::MAX };
    let page = call.app.store.page(&call.served.table, range);
    let mut deleted = Vec::new();
    let selected: Vec<_> = page.items.into_iter().filter(|stored| selection.matches(stored)).collect();
    for batch in selected.chunks(PARALLEL) {
        let deletions = batch
            .iter()
            .map(|stored| call.app.delete_as(&call.identity, &call.served, &stored.key, &options));
        for (stored, result) in batch.iter().zip(join_all(deletions).await) {
            match result.map(|(written, _)| written) {
                Ok(Written::Put(after) | Written::Removed(after)) => deleted.push(after),
                Ok(Written::Kept(_)) => deleted.push(Arc::clone(stored)),
                Err(failure) if failure.code() == 404 => {}
                Err(failure) => return Err(failure),
            }
        }
    }
    let metadata = json!({"resourceVersion": call.app.store.revision().to_string()});
    list::answer(call, &metadata, &deleted)
}
