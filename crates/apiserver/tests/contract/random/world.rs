//! What requests are made of: `world.yaml`.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::dice::Dice;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct World {
    /// Fields that every kind has.
    metadata: Vec<Field>,
    pub(super) kinds: Vec<Kind>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Kind {
    pub(super) plural: String,
    /// The path of its collection, as in a row.
    pub(super) at: String,
    pub(super) api_version: String,
    pub(super) kind: String,
    /// What an object needs to be accepted.
    pub(super) base: Value,
    /// A field selector that leaves out what controllers write.
    #[serde(default)]
    pub(super) skip: Option<String>,
    /// Whether its objects need the namespace's service account.
    #[serde(default)]
    pub(super) account: bool,
    /// Whether a definition makes it: then strategic patches are refused.
    #[serde(default)]
    pub(super) custom: bool,
    #[serde(default)]
    pub(super) status: bool,
    #[serde(default)]
    pub(super) scale: bool,
    /// Field selectors.
    pub(super) selectors: Vec<String>,
    fields: Vec<Field>,
    /// Fields of its status.
    #[serde(default)]
    states: Vec<Field>,
    /// Places inside lists, for JSON patches.
    #[serde(default)]
    inside: Vec<String>,
    /// Whole patches with directives.
    #[serde(default)]
    pub(super) strategic: Vec<Value>,
}

/// A place in an object, and values for it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Field {
    at: String,
    good: Vec<Value>,
    odd: Vec<Value>,
}

/// Which part of an object a request is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Spec,
    Status,
}

impl Kind {
    /// Gives an object back what keeps a real server's controllers away. Its whole spec may have been replaced.
    pub(super) fn complete(&self, object: &mut Value) {
        let at = "/spec/schedulerName";
        if let (Some(known), Some(Value::Object(_))) = (self.base.pointer(at), object.get("spec")) {
            set(object, at, known.clone());
        }
    }
}

impl World {
    pub(super) fn read() -> Self {
        serde_saphyr::from_str(include_str!("world.yaml")).unwrap_or_else(|e| panic!("world.yaml: {e}"))
    }

    /// A place and a value that may stand there.
    pub(super) fn choice(&self, dice: &mut Dice, kind: &Kind, part: Part) -> (String, Value) {
        let own = if part == Part::Status { &kind.states } else { &kind.fields };
        let fields = if own.is_empty() || dice.once_in(3) { &self.metadata } else { own };
        let field = dice.pick(fields);
        let odd = field.good.is_empty() || dice.once_in(5) && !field.odd.is_empty();
        let value = dice.pick(if odd { &field.odd } else { &field.good }).clone();
        (field.at.clone(), value)
    }

    /// A place, also one inside a list.
    pub(super) fn place(&self, dice: &mut Dice, kind: &Kind, part: Part) -> String {
        if part == Part::Spec && !kind.inside.is_empty() && dice.once_in(3) {
            return dice.pick(&kind.inside).clone();
        }
        self.choice(dice, kind, part).0
    }

    /// An object with some of its fields set.
    pub(super) fn object(&self, dice: &mut Dice, kind: &Kind, name: &str, part: Part) -> Value {
        let mut object = kind.base.clone();
        set(&mut object, "/metadata/name", json!(name));
        if kind.custom || !dice.once_in(3) {
            set(&mut object, "/apiVersion", json!(kind.api_version));
            set(&mut object, "/kind", json!(kind.kind));
        }
        self.decorate(dice, kind, part, &mut object);
        kind.complete(&mut object);
        object
    }

    /// Sets up to four fields.
    pub(super) fn decorate(&self, dice: &mut Dice, kind: &Kind, part: Part, object: &mut Value) {
        for _ in 0..dice.below(5) {
            let (at, value) = self.choice(dice, kind, part);
            set(object, &at, value);
        }
    }
}

/// Puts a value at a JSON pointer; what is on the way there becomes an object.
pub(super) fn set(object: &mut Value, at: &str, value: Value) {
    let mut place = object;
    for step in at.split('/').skip(1) {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        let Value::Object(map) = place else { return };
        place = map.entry(step).or_insert(Value::Null);
    }
    *place = value;
}

#[test]
fn values_are_put_where_they_belong() {
    let mut object = json!({"a": 1});
    set(&mut object, "/b/c", json!(2));
    set(&mut object, "/a/d", json!(3));
    assert_eq!(object, json!({"a": {"d": 3}, "b": {"c": 2}}));
}
