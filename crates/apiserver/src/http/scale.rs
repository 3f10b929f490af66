//! The `scale` subresource.

use axum::response::Response;
use serde_json::Value;

use super::apply::Applying;
use super::body::{Input, Kind};
use super::patch::{APPLY, Change};
use super::reply::Render;
use super::update::{Base, modify};
use super::{Call, manager, reply};
use crate::decode;
use crate::failure::Failure;
use crate::object::time;
use crate::registry::ScalePaths;
use crate::rules::scale::{self, Owners};
use crate::rules::update::Scope;
use crate::store::Stored;
use crate::tables;
use crate::types;

fn paths(call: &Call) -> Result<&ScalePaths, Failure> {
    call.served.scale.as_ref().ok_or_else(|| Failure::not_found(&call.served, &call.name))
}

fn answer(call: &Call, stored: &Stored) -> Result<Response, Failure> {
    let mut object = stored.value().map_err(Failure::internal)?;
    call.served.present(&mut object);
    let scale = scale::show(paths(call)?, &object);
    let body = match call.render {
        Render::Table(view) => tables::scale(scale, view)?,
        Render::Object | Render::Metadata(_) => reply::serialise(&scale)?,
    };
    Ok(reply::json(200, body))
}

pub(crate) async fn get(call: &Call) -> Result<Response, Failure> {
    let stored =
        call.app.store.get(&call.key()).ok_or_else(|| Failure::not_found(&call.served, &call.name))?;
    check_replicas(call, &stored)?;
    answer(call, &stored)
}

/// A custom object that says nothing of replicas cannot be scaled.
fn check_replicas(call: &Call, stored: &Stored) -> Result<(), Failure> {
    let mut object = stored.value().map_err(Failure::internal)?;
    call.served.present(&mut object);
    let path = &paths(call)?.spec_replicas;
    if !call.served.custom || scale::follow(&object, path).is_some() {
        return Ok(());
    }
    let place = format!(".{}", path.join("."));
    Err(Failure::internal_cause(&format!("the spec replicas field {place:?} does not exist")))
}

pub(crate) async fn put(call: &Call, input: Input) -> Result<Response, Failure> {
    manager::check(&call.query, "UpdateOptions")?;
    let body = input.object(Kind::named("autoscaling", "v1", "Scale")).await?;
    change(call, |_| Ok(body.clone())).await
}

pub(crate) async fn patch(call: &Call, input: Input) -> Result<Response, Failure> {
    if input.media_type() == APPLY {
        return apply(call, input).await;
    }
    manager::check_patch(&call.query)?;
    let keys = types::of("autoscaling", "v1", "Scale").filter(|_| !call.served.custom);
    let patch = Change::read(input, keys).await?;
    let edit = |old: &Value| {
        let mut wanted = old.clone();
        patch.apply(&mut wanted)?;
        decode::check_part(&wanted, Kind::named("autoscaling", "v1", "Scale"))?;
        Ok(wanted)
    };
    change(call, edit).await
}

/// Replaces the `Scale` of an object by what `edit` makes of it.
async fn change(
    call: &Call,
    mut edit: impl FnMut(&Value) -> Result<Value, Failure> + Send,
) -> Result<Response, Failure> {
    let paths = paths(call)?;
    let (catalog, now) = (call.app.catalog(), time(call.app.now()));
    let owners = Owners { track: call.track(&catalog, "scale", &now), paths };
    let edit = |old: &Value| {
        let shown = owners.show(old)?;
        let mut wanted = edit(&shown)?;
        owners.updated(&shown, &mut wanted);
        decode::value(&owners.take_over(old, &wanted)?, &call.served)
    };
    let (stored, _) = modify(call, Scope::Main, Base::Owned, edit).await?;
    answer(call, &stored)
}

async fn apply(call: &Call, input: Input) -> Result<Response, Failure> {
    let paths = paths(call)?;
    let applying = Applying::read(call, input, (scale::API_VERSION, scale::KIND)).await?;
    let (catalog, now) = (call.app.catalog(), time(call.app.now()));
    let owners = Owners { track: call.track(&catalog, "scale", &now), paths };
    let edit = |old: &Value| {
        let wanted = owners.applied(&owners.show(old)?, &applying.config, applying.force)?;
        decode::value(&owners.take_over(old, &wanted)?, &call.served)
    };
    let (stored, _) = modify(call, Scope::Main, Base::Owned, edit).await?;
    answer(call, &stored)
}
