//! Strategic merge patch: a merge patch that knows which lists have keys.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::PatchError;
use super::go::{go_text, go_type};
use super::order::{Identity, arrange};
use crate::types::{Message, Shape};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ORDER: &str = "$setElementOrder/";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

type Object = Map<String, Value>;

/// How a field merges.
pub(super) enum Rule {
    /// An object: member by member. What is known of its members, if anything is.
    Object(Keys),
    /// A list of objects told apart by one of their fields.
    List { key: &'static str, item: Keys },
    /// A list of plain values that merges as a set.
    Set,
}

/// The type of an object, which says how its lists merge. Nothing known: as in a plain merge patch, objects by member
/// and lists replaced as a whole.
pub(super) type Keys = Option<&'static Message>;

/// Only lists tagged so in the real server's types merge; all others (tolerations, `envFrom`, …) are replaced, and that
/// is what existing patches count on.
pub(super) fn rule(keys: Keys, name: &str) -> Option<Rule> {
    let field = keys?.field(name)?;
    match field.shape {
        Shape::Single => Some(Rule::Object(field.message())),
        Shape::List if field.patch_merge && field.patch_merge_key.is_empty() => Some(Rule::Set),
        Shape::List if field.patch_merge => {
            Some(Rule::List { key: field.patch_merge_key, item: field.message() })
        }
        Shape::List | Shape::Map => None,
    }
}

/// Merges `patch` into `target` with the list keys of the kind's type.
///
/// # Errors
/// [`PatchError::Malformed`] when the patch is no object or a directive is misused; [`PatchError::Invalid`] when an
/// item of a keyed list lacks its key. The target is unchanged then.
pub(crate) fn strategic(
    target: &mut Value,
    patch: &Value,
    message: &'static Message,
) -> Result<(), PatchError> {
    let Value::Object(patch) = patch else {
        return Err(PatchError::Malformed("a strategic merge patch must be an object".to_owned()));
    };
    let mut result = match target {
        Value::Object(object) => object.clone(),
        _ => Object::new(),
    };
    merge_object(&mut result, patch, Some(message))?;
    *target = Value::Object(result);
    Ok(())
}

/// What the `$patch` member of an object asks for.
enum Directive {
    Merge,
    Replace,
    Delete,
}

fn directive(patch: &Object) -> Result<Directive, PatchError> {
    match patch.get(PATCH) {
        None => Ok(Directive::Merge),
        Some(value) => match value.as_str() {
            Some("merge") => Ok(Directive::Merge),
            Some("replace") => Ok(Directive::Replace),
            Some("delete") => Ok(Directive::Delete),
            _ => Err(unknown_directive(value, patch)),
        },
    }
}

fn unknown_directive(value: &Value, patch: &Object) -> PatchError {
    let (shown, map) = (go_text(value), go_object(patch));
    // Go tells what `%s` cannot show.
    let shown = match value {
        Value::String(_) => shown,
        other => format!("%!s({}={shown})", go_type(other)),
    };
    PatchError::Unexpected(format!("unknown patch type: {shown} in map: {map}"))
}

fn go_object(object: &Object) -> String {
    go_text(&Value::Object(object.clone()))
}

fn not_a_list(found: &Value) -> PatchError {
    let found = go_type(found);
    PatchError::Unexpected(format!("expected a []interface {{}}, but received a {found}"))
}

fn merge_object(target: &mut Object, patch: &Object, keys: Keys) -> Result<(), PatchError> {
    match directive(patch)? {
        Directive::Replace => {
            *target = plain_object(patch);
            return Ok(());
        }
        Directive::Delete => {
            target.clear();
            return Ok(());
        }
        Directive::Merge => {}
    }
    if let Some(retain) = patch.get(RETAIN_KEYS) {
        retain_keys(target, patch, retain)?;
    }
    for (name, value) in patch {
        if let Some(field) = name.strip_prefix(DELETE_FROM) {
            delete_values(target, field, value);
        }
    }
    for (name, value) in patch {
        if name == PATCH || name == RETAIN_KEYS || name.starts_with(DELETE_FROM) {
            // Done above.
        } else if let Some(field) = name.strip_prefix(SET_ORDER) {
            // With its list when the patch has one, because the order then applies to the merged list.
            if !patch.contains_key(field) {
                let list = Value::Array(Vec::new());
                merge_field(target, field, &list, Some(value), keys)?;
            }
        } else {
            merge_field(target, name, value, patch.get(&format!("{SET_ORDER}{name}")), keys)?;
        }
    }
    Ok(())
}

fn merge_field(
    target: &mut Object,
    name: &str,
    value: &Value,
    order: Option<&Value>,
    keys: Keys,
) -> Result<(), PatchError> {
    let rule = rule(keys, name);
    match (value, rule) {
        (Value::Null, _) => {
            target.remove(name);
        }
        (Value::Object(patch), rule) => {
            let inner = match rule {
                Some(Rule::Object(inner)) => inner,
                Some(Rule::List { .. } | Rule::Set) | None => None,
            };
            if let Some(Value::Object(slot)) = target.get_mut(name) {
                merge_object(slot, patch, inner)?;
            } else if let Some(whole) = plain(value) {
                target.insert(name.to_owned(), whole);
            } else {
                target.remove(name);
            }
        }
        (Value::Array(patch), Some(rule @ (Rule::List { .. } | Rule::Set))) => {
            let stored = match target.get(name) {
                Some(Value::Array(stored)) => stored.as_slice(),
                // Only an order, and nothing to put in order: leave the field absent.
                None if patch.is_empty() && order.is_some() => return Ok(()),
                _ => &[],
            };
            let merged = match rule {
                Rule::List { key, item } => merge_list(stored, patch, order, key, item)?,
                Rule::Set | Rule::Object(_) => merge_set(stored, patch, order)?,
            };
            target.insert(name.to_owned(), Value::Array(merged));
        }
        (Value::Array(patch), _) => {
            target.insert(name.to_owned(), Value::Array(plain_list(patch)));
        }
        (Value::Bool(_) | Value::Number(_) | Value::String(_), _) => {
            target.insert(name.to_owned(), value.clone());
        }
    }
    Ok(())
}

/// Merges a list of objects by key. Items with `$patch: delete` remove their namesake, before anything is merged; one
/// with `$patch: replace` makes the patch's items the whole list.
fn merge_list(
    stored: &[Value],
    patch: &[Value],
    order: Option<&Value>,
    key: &'static str,
    keys: Keys,
) -> Result<Vec<Value>, PatchError> {
    let identity = Identity::Key(key);
    let (named, deleted, replace) = sort_items(stored, patch, key)?;
    if replace {
        return Ok(named.into_iter().map(|(_, item)| Value::Object(plain_object(item))).collect());
    }
    let gone = |item: &Value| identity.of(item).is_some_and(|id| deleted.contains(&id));
    let left: Vec<Value> = stored.iter().filter(|item| !gone(item)).cloned().collect();
    let mut merged = left.clone();
    let mut index = identity.index(&merged);
    for (id, item) in &named {
        let at = *index.entry(id.clone()).or_insert_with(|| {
            merged.push(Value::Object(Object::new()));
            merged.len() - 1
        });
        if let Some(Value::Object(slot)) = merged.get_mut(at) {
            merge_object(slot, item, keys)?;
        }
    }
    let named = named.into_iter().map(|(_, item)| Value::Object(item.clone())).collect();
    Ok(arrange(merged, &wanted(order, named, identity)?, &left, identity))
}

/// The items of a patched list: those to merge with their identity, the identities to delete, and whether the list is
/// to be replaced.
type Sorted<'a> = (Vec<(String, &'a Object)>, HashSet<String>, bool);

fn sort_items<'a>(stored: &[Value], patch: &'a [Value], key: &'static str) -> Result<Sorted<'a>, PatchError> {
    let (mut named, mut deleted, mut replace) = (Vec::new(), HashSet::new(), false);
    for item in patch {
        let Value::Object(object) = item else {
            let lists = Value::Array(vec![stored.into(), patch.into()]);
            let why = format!("list element types are not identical: {}", go_text(&lists));
            return Err(PatchError::Unexpected(why));
        };
        let id = || {
            Identity::Key(key).of(item).ok_or_else(|| {
                let map = go_text(item);
                PatchError::Unexpected(format!("map: {map} does not contain declared merge key: {key}"))
            })
        };
        match directive(object)? {
            Directive::Replace => replace = true,
            Directive::Delete => {
                deleted.insert(id()?);
            }
            Directive::Merge => named.push((id()?, object)),
        }
    }
    Ok((named, deleted, replace))
}

fn merge_set(stored: &[Value], patch: &[Value], order: Option<&Value>) -> Result<Vec<Value>, PatchError> {
    let mut merged: Vec<Value> = Vec::with_capacity(stored.len() + patch.len());
    let mut seen = HashSet::new();
    for value in stored.iter().chain(patch) {
        if seen.insert(value.to_string()) {
            merged.push(value.clone());
        }
    }
    let wanted = wanted(order, patch.to_vec(), Identity::Whole)?;
    Ok(arrange(merged, &wanted, stored, Identity::Whole))
}

/// The order the patch asks for: its `$setElementOrder`, or else the order of its own items. When it has both, they
/// must agree.
fn wanted(order: Option<&Value>, named: Vec<Value>, identity: Identity) -> Result<Vec<Value>, PatchError> {
    let order = match order {
        None => return Ok(named),
        Some(Value::Array(order)) => order,
        Some(other) => return Err(not_a_list(other)),
    };
    let mut places = order.iter().map(|item| identity.of(item));
    for item in &named {
        let id = identity.of(item);
        if !places.any(|place| place == id) {
            let (list, order) =
                (go_text(&Value::Array(named.clone())), go_text(&Value::Array(order.clone())));
            return Err(PatchError::Unexpected(format!(
                "The order in patch list:\n{list}\n doesn't match {} list:\n{order}\n",
                SET_ORDER.trim_end_matches('/')
            )));
        }
    }
    Ok(order.clone())
}

fn no_retain_keys() -> PatchError {
    PatchError::Malformed("invalid patch format of retainKeys".to_owned())
}

/// `$retainKeys`: what the patch does not list goes. Used for unions such as a volume's source.
fn retain_keys(target: &mut Object, patch: &Object, retain: &Value) -> Result<(), PatchError> {
    let Value::Array(retain) = retain else {
        return Err(no_retain_keys());
    };
    let retain: HashSet<&str> = retain.iter().filter_map(Value::as_str).collect();
    let kept = |name: &str| retain.contains(name);
    for (name, value) in patch {
        if !name.starts_with('$') && !value.is_null() && !kept(name) {
            return Err(no_retain_keys());
        }
    }
    target.retain(|name, _| kept(name));
    Ok(())
}

/// What is no list deletes nothing, and is no error either.
fn delete_values(target: &mut Object, field: &str, values: &Value) {
    if let (Some(Value::Array(list)), Value::Array(values)) = (target.get_mut(field), values) {
        let values: HashSet<String> = values.iter().map(Value::to_string).collect();
        list.retain(|value| !values.contains(&value.to_string()));
    }
}

/// A value the patch brings in whole: without its nulls (they mean "absent"), and without directives and what they are
/// about, since there is nothing to replace or delete.
fn plain_object(patch: &Object) -> Object {
    let is_directive = |name: &str| {
        name == PATCH || name == RETAIN_KEYS || name.starts_with(SET_ORDER) || name.starts_with(DELETE_FROM)
    };
    patch
        .iter()
        .filter(|(name, value)| !value.is_null() && !is_directive(name))
        .filter_map(|(name, value)| Some((name.clone(), plain(value)?)))
        .collect()
}

fn plain_list(patch: &[Value]) -> Vec<Value> {
    patch.iter().filter_map(plain).collect()
}

fn plain(value: &Value) -> Option<Value> {
    match value {
        Value::Object(object) if object.contains_key(PATCH) => None,
        Value::Object(object) => Some(Value::Object(plain_object(object))),
        Value::Array(list) => Some(Value::Array(plain_list(list))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(value.clone()),
    }
}
