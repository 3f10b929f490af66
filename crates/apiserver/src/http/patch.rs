//! PATCH.

use axum::response::Response;
use serde_json::Value;

use super::body::{Input, json};
use super::update::{Base, modify};
use super::{Call, manager, reply};
use crate::failure::Failure;
use crate::patch::{self, PatchError};
use crate::rules::update::Scope;
use crate::types::{self, Message};

/// The media type of configurations to be applied, which are JSON as well.
pub(super) const APPLY: &str = "application/apply-patch+yaml";

/// A patch and the rule it is applied by.
pub(crate) enum Change {
    Json(Value),
    Merge(Value),
    Strategic(Value, &'static Message),
}

impl Change {
    /// Reads a patch for a kind.
    pub(crate) async fn read(input: Input, keys: Option<&'static Message>) -> Result<Self, Failure> {
        let media_type = input.media_type();
        match (media_type.as_str(), keys) {
            ("application/json-patch+json", _) => Ok(Self::Json(json(&input.bytes().await?)?)),
            ("application/merge-patch+json", _) => Ok(Self::Merge(object(input).await?)),
            ("application/strategic-merge-patch+json", Some(keys)) => {
                Ok(Self::Strategic(object(input).await?, keys))
            }
            (_, Some(_)) => Err(Failure::unsupported_media(
                "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml",
            )),
            (_, None) => Err(Failure::unsupported_media(
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
        }
    }

    pub(crate) fn apply(&self, target: &mut Value) -> Result<(), Failure> {
        let result = match self {
            Self::Json(operations) => patch::json(target, operations),
            Self::Merge(change) => {
                patch::merge(target, change);
                Ok(())
            }
            Self::Strategic(change, keys) => patch::strategic(target, change, keys),
        };
        result.map_err(|error| match error {
            PatchError::Invalid(why) => Failure::unprocessable(format!(
                "the server rejected our request due to an error in our request: {why}"
            )),
            PatchError::Malformed(why) => Failure::bad_request(why),
        })
    }
}

async fn object(input: Input) -> Result<Value, Failure> {
    let value = json(&input.bytes().await?)?;
    if value.is_object() { Ok(value) } else { Err(Failure::bad_request("the patch is not an object")) }
}

pub(crate) async fn patch(call: &Call, scope: Scope, input: Input) -> Result<Response, Failure> {
    if input.media_type() == APPLY {
        return super::apply::apply(call, scope, input).await;
    }
    manager::check_patch(&call.query)?;
    let served = &call.served;
    let keys = types::of(&served.group, &served.version, &served.kind).filter(|_| !served.custom);
    let change = Change::read(input, keys).await?;
    let edit = |old: &Value| {
        let mut new = old.clone();
        change.apply(&mut new)?;
        Ok(new)
    };
    let (stored, warnings) = modify(call, scope, Base::Stored, edit).await?;
    reply::object(200, &call.served, &stored, call.render, &warnings)
}
