//! Random patches of every sort.

use serde_json::{Value, json};

use super::moves::Draw;
use super::world::{Part, set};

/// A sort of patch and its body.
pub(super) fn draw(draw: &mut Draw<'_>, name: &str, part: &str) -> (&'static str, Value) {
    let part = if part == "/status" { Part::Status } else { Part::Spec };
    match draw.dice.below(9) {
        0 | 1 => ("merge", merge(draw, part)),
        2 | 3 => ("json", operations(draw, part)),
        4 if !draw.kind.custom || draw.dice.once_in(10) => ("strategic", strategic(draw, part)),
        _ => ("apply", apply(draw, name, part)),
    }
}

fn merge(draw: &mut Draw<'_>, part: Part) -> Value {
    let mut body = json!({});
    draw.world.decorate(&mut draw.dice, draw.kind, part, &mut body);
    if draw.dice.once_in(5) {
        let at = draw.world.choice(&mut draw.dice, draw.kind, part).0;
        set(&mut body, &at, Value::Null);
    }
    // Which of the two a server complains about first depends on the patch.
    let retyped = body.get("kind").is_some() || body.get("apiVersion").is_some();
    if !retyped && draw.dice.once_in(8) {
        let name = *draw.dice.pick(&["a", "b", "c"]);
        set(&mut body, "/metadata/resourceVersion", json!(format!("${{old-{name}}}")));
    }
    body
}

fn strategic(draw: &mut Draw<'_>, part: Part) -> Value {
    if part == Part::Spec && !draw.kind.strategic.is_empty() && draw.dice.once_in(2) {
        return draw.dice.pick(&draw.kind.strategic).clone();
    }
    merge(draw, part)
}

fn operations(draw: &mut Draw<'_>, part: Part) -> Value {
    let count = 1 + draw.dice.below(3);
    (0..count).map(|_| operation(draw, part)).collect()
}

fn operation(draw: &mut Draw<'_>, part: Part) -> Value {
    let (at, value) = draw.world.choice(&mut draw.dice, draw.kind, part);
    match draw.dice.below(8) {
        0..=2 => json!({"op": "add", "path": at, "value": value}),
        3 => json!({"op": "replace", "path": at, "value": value}),
        4 => json!({"op": "remove", "path": draw.world.place(&mut draw.dice, draw.kind, part)}),
        5 => json!({"op": "test", "path": at, "value": value}),
        6 => {
            let op = *draw.dice.pick(&["copy", "move"]);
            json!({"op": op, "from": draw.world.place(&mut draw.dice, draw.kind, part), "path": at})
        }
        _ => {
            let at = draw.world.place(&mut draw.dice, draw.kind, part);
            json!({"op": "add", "path": at, "value": value})
        }
    }
}

fn apply(draw: &mut Draw<'_>, name: &str, part: Part) -> Value {
    // A pod without its base would be a real scheduler's.
    let bare = part == Part::Status || !draw.kind.account && draw.dice.once_in(6);
    let mut body = if bare { json!({}) } else { draw.kind.base.clone() };
    set(&mut body, "/apiVersion", json!(draw.kind.api_version));
    set(&mut body, "/kind", json!(draw.kind.kind));
    set(&mut body, "/metadata/name", json!(name));
    draw.world.decorate(&mut draw.dice, draw.kind, part, &mut body);
    draw.kind.complete(&mut body);
    // A real server stores what is empty, shows it to nobody, and drops it with the next write: one version more.
    if let (true, Some(metadata)) = (draw.kind.custom, body["metadata"].as_object_mut()) {
        let empty = |name: &str| if name == "generateName" { json!("") } else { json!([]) };
        let dropped = ["generateName", "ownerReferences", "finalizers"];
        metadata.retain(|name, value| !dropped.contains(&name.as_str()) || *value != empty(name));
    }
    body
}
