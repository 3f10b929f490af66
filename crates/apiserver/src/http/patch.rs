//! PATCH.

use axum::response::Response;
use serde_json::Value;

use super::body::Input;
use super::update::{Base, modify};
use super::{Call, manager, reply};
use crate::decode::{self, Decoded};
use crate::failure::Failure;
use crate::patch::{self, PatchError};
use crate::registry::Served;
use crate::rules::admit::Strictness;
use crate::rules::update::Scope;
use crate::types::Message;

/// The media type of configurations to be applied, which are JSON as well.
pub(super) const APPLY: &str = "application/apply-patch+yaml";

/// A patch and the rule it is applied by.
pub(crate) struct Change {
    rule: Rule,
    /// What it says twice.
    remarks: Vec<String>,
}

enum Rule {
    Json(Value),
    Merge(Value),
    Strategic(Value, &'static Message),
}

impl Change {
    /// Reads a patch for a kind.
    pub(crate) async fn read(input: Input, keys: Option<&'static Message>) -> Result<Self, Failure> {
        let media_type = input.media_type();
        match (media_type.as_str(), keys) {
            ("application/json-patch+json", _) => {
                let (patch, remarks) = document(input, "error decoding patch: ", LIST).await?;
                let remarks = remarks.into_iter().map(|remark| format!("json patch {remark}")).collect();
                Ok(Self { rule: Rule::Json(patch), remarks })
            }
            ("application/merge-patch+json", _) => {
                let (patch, remarks) = document(input, "error decoding patch: ", OBJECT).await?;
                Ok(Self { rule: Rule::Merge(patch), remarks })
            }
            ("application/strategic-merge-patch+json", Some(keys)) => {
                let (patch, remarks) = document(input, "", OBJECT).await?;
                Ok(Self { rule: Rule::Strategic(patch, keys), remarks })
            }
            (_, Some(_)) => Err(Failure::no_such_patch()),
            (_, None) => Err(Failure::unsupported_media(
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
        }
    }

    /// What it makes of an object, decoded.
    fn patched(&self, old: &Value, served: &Served, strictness: Strictness) -> Result<Decoded, Failure> {
        let mut new = old.clone();
        self.apply(&mut new)?;
        // Rarely needed, and then it is made again.
        let quoted = || match &self.rule {
            Rule::Json(_) | Rule::Merge(_) => {
                let mut again = old.clone();
                self.apply(&mut again).map_or_else(|_| String::new(), |()| again.to_string())
            }
            Rule::Strategic(patch, _) => patch::go_text(patch),
        };
        let mut decoded =
            decode::patched(new, old, served, matches!(self.rule, Rule::Strategic(..)), quoted)?;
        decoded.remarks.splice(0..0, self.remarks.iter().cloned());
        if strictness == Strictness::Strict {
            decoded.patched = Some(quoted());
        }
        Ok(decoded)
    }

    pub(crate) fn apply(&self, target: &mut Value) -> Result<(), Failure> {
        let result = match &self.rule {
            Rule::Json(operations) => patch::json(target, operations),
            Rule::Merge(change) => {
                patch::merge(target, change);
                Ok(())
            }
            Rule::Strategic(change, keys) => patch::strategic(target, change, keys),
        };
        result.map_err(|error| match error {
            // Which operation was wrong, and why, a real server does not say.
            _ if matches!(self.rule, Rule::Json(_)) => Failure::rejected(),
            PatchError::Invalid(_) => Failure::rejected(),
            PatchError::Malformed(why) => Failure::bad_request(why),
            PatchError::Unexpected(why) => Failure::unexpected(why),
        })
    }
}

/// The types of patches in Go, with what tells one that is none.
type Expected = (&'static str, fn(&Value) -> bool);
const OBJECT: Expected = ("map[string]interface {}", Value::is_object);
const LIST: Expected = ("[]handlers.jsonPatchOp", Value::is_array);

/// A patch as a document, with what it says twice.
async fn document(input: Input, prefix: &str, of: Expected) -> Result<(Value, Vec<String>), Failure> {
    let (expected, is_expected) = of;
    let bytes = input.bytes().await?;
    let (value, remarks) =
        decode::parse(&bytes).map_err(|error| Failure::bad_request(format!("{prefix}{error}")))?;
    if is_expected(&value) {
        return Ok((value, remarks));
    }
    let found = decode::kind_of(&value);
    Err(Failure::bad_request(format!(
        "{prefix}json: cannot unmarshal {found} into Go value of type {expected}"
    )))
}

pub(crate) async fn patch(call: &Call, scope: Scope, input: Input) -> Result<Response, Failure> {
    if input.media_type() == APPLY {
        return super::apply::apply(call, scope, input).await;
    }
    manager::check_patch(&call.query)?;
    let served = &call.served;
    let keys = served.message;
    let change = Change::read(input, keys).await?;
    let strictness = call.query.strictness()?;
    let edit = |old: &Value| change.patched(old, served, strictness);
    let (stored, warnings) = modify(call, scope, Base::Stored, edit).await?;
    reply::object(200, &call.served, &stored, call.render, &warnings)
}
