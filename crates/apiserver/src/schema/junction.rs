//! `allOf`, `anyOf`, `oneOf` and `not`.

use serde_json::Value;

use super::error::FieldError;
use super::node::{Checks, Node};
use super::path::Path;
use super::validate;

/// Checks the junctions of one node. The branches themselves are not ratcheted; the node around them is.
pub(super) fn check(checks: &Checks, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for branch in &checks.all_of {
        validate::node(branch, value, None, path, errors);
    }
    if !checks.any_of.is_empty() && !checks.any_of.iter().any(|branch| holds(branch, value)) {
        errors.push(wrong(path, "must validate at least one schema (anyOf)"));
    }
    if !checks.one_of.is_empty() {
        match checks.one_of.iter().filter(|branch| holds(branch, value)).count() {
            0 => errors.push(wrong(path, "must validate one and only one schema (oneOf). Found none valid")),
            1 => {}
            n => errors.push(wrong(
                path,
                &format!("must validate one and only one schema (oneOf). Found {n} valid alternatives"),
            )),
        }
    }
    if checks.not.as_ref().is_some_and(|branch| holds(branch, value)) {
        errors.push(wrong(path, "must not validate the schema (not)"));
    }
}

fn holds(branch: &Node, value: &Value) -> bool {
    let mut errors = Vec::new();
    validate::node(branch, value, None, &Path::Root, &mut errors);
    errors.is_empty()
}

fn wrong(path: &Path<'_>, detail: &str) -> FieldError {
    FieldError::invalid(path.to_string(), &Value::from(""), format!("\"{path}\" {detail}"))
}
