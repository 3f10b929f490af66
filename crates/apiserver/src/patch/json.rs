//! JSON patch, RFC 6902, with the limits that keep a small request from making a huge object.

use json_patch::{AddOperation, PatchOperation, jsonptr::Pointer};
use serde::Deserialize;
use serde_json::Value;

use super::PatchError;

/// Most operations in one patch, as in the real server.
const MAX_OPERATIONS: usize = 10_000;
/// Most bytes all `copy` operations together may duplicate: repeated copies double an object each time.
const MAX_COPIED: usize = 3 << 20;
/// Deepest place a value may reach. Below what `serde_json` reads back, so that a patched object stays readable.
const MAX_DEPTH: usize = 120;

/// Applies a list of operations, all or none.
///
/// # Errors
/// [`PatchError::Malformed`] when `ops` is no list of operations; [`PatchError::Invalid`] when one cannot be applied,
/// a `test` fails, or a limit is exceeded.
pub fn json(target: &mut Value, ops: &Value) -> Result<(), PatchError> {
    let Value::Array(list) = ops else {
        return Err(PatchError::Malformed("a JSON patch must be a list of operations".to_owned()));
    };
    if list.len() > MAX_OPERATIONS {
        return Err(PatchError::Invalid(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            list.len()
        )));
    }
    let operations = Vec::<PatchOperation>::deserialize(ops)
        .map_err(|e| PatchError::Malformed(format!("error decoding patch: {e}")))?;
    // A copy instead of the crate's undo log: undoing is more code than the object is bytes, and it can panic.
    let mut result = target.clone();
    let mut copied = 0;
    for (index, operation) in operations.into_iter().enumerate() {
        let Some(operation) = &lenient(&result, operation) else { continue };
        check(&result, operation, &mut copied)
            .and_then(|()| {
                json_patch::patch_unsafe(&mut result, std::slice::from_ref(operation))
                    .map_err(|e| e.kind.to_string())
            })
            .map_err(|e| describe(index, operation, &e))?;
    }
    *target = result;
    Ok(())
}

/// What an operation means where it names a member that is not there, which a real server takes more lightly than the
/// RFC: replacing adds it, a copy of it is null, and a test that it is null holds: then there is nothing left to do.
fn lenient(document: &Value, operation: PatchOperation) -> Option<PatchOperation> {
    let object = |path: &Pointer| {
        path.parent().and_then(|parent| parent.resolve(document).ok()).is_some_and(Value::is_object)
    };
    let missing = |path: &Pointer| object(path) && path.resolve(document).is_err();
    Some(match operation {
        PatchOperation::Replace(op) if object(&op.path) => {
            PatchOperation::Add(AddOperation { path: op.path, value: op.value })
        }
        PatchOperation::Copy(op) if missing(&op.from) => {
            PatchOperation::Add(AddOperation { path: op.path, value: Value::Null })
        }
        PatchOperation::Test(op) if op.value.is_null() && missing(&op.path) => return None,
        other => other,
    })
}

/// Refuses operations that would make the document too deep or too large.
fn check(document: &Value, operation: &PatchOperation, copied: &mut usize) -> Result<(), String> {
    let source = |from: &Pointer| from.resolve(document).ok();
    let depth = match operation {
        PatchOperation::Add(op) => depth(&op.value),
        PatchOperation::Replace(op) => depth(&op.value),
        PatchOperation::Move(op) => {
            if op.path.as_str().strip_prefix(op.from.as_str()).is_some_and(|rest| rest.starts_with('/')) {
                return Err("cannot move a value into itself".to_owned());
            }
            source(&op.from).map_or(0, depth)
        }
        PatchOperation::Copy(op) => {
            let value = source(&op.from);
            *copied = copied.saturating_add(value.map_or(0, size));
            if *copied > MAX_COPIED {
                return Err(format!("the copy operations duplicate more than {MAX_COPIED} bytes"));
            }
            value.map_or(0, depth)
        }
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return Ok(()),
    };
    if operation.path().tokens().count().saturating_add(depth) > MAX_DEPTH {
        return Err(format!("the value would be nested deeper than {MAX_DEPTH} levels"));
    }
    Ok(())
}

fn describe(index: usize, operation: &PatchOperation, cause: &str) -> PatchError {
    let name = match operation {
        PatchOperation::Add(_) => "add",
        PatchOperation::Remove(_) => "remove",
        PatchOperation::Replace(_) => "replace",
        PatchOperation::Move(_) => "move",
        PatchOperation::Copy(_) => "copy",
        PatchOperation::Test(_) => "test",
    };
    PatchError::Invalid(format!("{name} operation {index} at {:?}: {cause}", operation.path().as_str()))
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Roughly the serialised size.
fn size(value: &Value) -> usize {
    match value {
        Value::Array(list) => 2 + list.iter().map(|v| 1 + size(v)).sum::<usize>(),
        Value::Object(map) => 2 + map.iter().map(|(k, v)| 4 + k.len() + size(v)).sum::<usize>(),
        Value::String(text) => 2 + text.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 5,
    }
}
