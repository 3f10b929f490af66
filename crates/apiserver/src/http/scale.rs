//! The `scale` subresource.

use axum::response::Response;
use serde_json::Value;

use super::body::{Input, Kind};
use super::patch::Change;
use super::reply::Render;
use super::update::{Base, modify};
use super::{Call, reply};
use crate::failure::Failure;
use crate::registry::ScalePaths;
use crate::rules::scale;
use crate::rules::update::Scope;
use crate::store::Stored;
use crate::tables;

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
    answer(call, &stored)
}

pub(crate) async fn put(call: &Call, input: Input) -> Result<Response, Failure> {
    let body = input.object(Kind::named("autoscaling", "v1", "Scale")).await?;
    let paths = paths(call)?;
    let edit = |old: &Value| scale::apply(&call.served, paths, old, &body);
    let (stored, _) = modify(call, Scope::Main, Base::Stored, edit).await?;
    answer(call, &stored)
}

pub(crate) async fn patch(call: &Call, input: Input) -> Result<Response, Failure> {
    let change = Change::read(input, None).await?;
    let paths = paths(call)?;
    let edit = |old: &Value| {
        let mut wanted = scale::show(paths, old);
        change.apply(&mut wanted)?;
        scale::apply(&call.served, paths, old, &wanted)
    };
    let (stored, _) = modify(call, Scope::Main, Base::Stored, edit).await?;
    answer(call, &stored)
}
