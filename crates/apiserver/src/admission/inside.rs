//! Validators in this process: asked as a webhook is, without the way there and back.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use super::matching::Place;
use super::review::{Attributes, denied};
use crate::failure::Failure;

/// Says what to warn of, or why an object is refused. The first argument is the object that it replaces, if it does.
pub type Judge = Arc<dyn Fn(Option<&Value>, &Value) -> Result<Vec<String>, String> + Send + Sync>;

/// Somebody in this process who is asked before objects of one resource are created or changed.
#[derive(Clone)]
pub struct Validator {
    /// What refused users read, as the name of a webhook.
    pub name: String,
    /// The group of the resource.
    pub group: String,
    /// The resource.
    pub plural: String,
    /// What it says.
    pub judge: Judge,
}

impl fmt::Debug for Validator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Validator").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Validator {
    pub(super) fn wants(&self, place: &Place<'_>) -> bool {
        place.subresource.is_empty()
            && ["CREATE", "UPDATE"].contains(&place.operation)
            && (place.served.group.as_str(), place.served.plural.as_str())
                == (self.group.as_str(), self.plural.as_str())
    }

    pub(super) fn ask(&self, attributes: &Attributes<'_>) -> Result<Vec<String>, Failure> {
        let Some(object) = &attributes.object else { return Ok(Vec::new()) };
        (self.judge)(attributes.old.as_ref(), object)
            .map_err(|why| denied(&self.name, &json!({ "code": 403, "reason": "Forbidden", "message": why })))
    }
}
