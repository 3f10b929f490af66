//! Equal parts of schemas, read and kept once.
//!
//! Most of a job kind's definition is the pod template, which is the same in all of them, and most of a pod template is
//! a few small parts over and over. A schema tells its parts apart by a hash over what they say, so a part that was read
//! before, here or in another definition, is taken as it is.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use aws_lc_rs::digest::{Context, SHA256, SHA256_OUTPUT_LEN};
use serde_json::{Map, Value};

use super::MAX_DEPTH;
use super::node::Node;
use super::parse::Level;

/// What a part of a schema says, in short. Nobody finds two that say different things and have the same.
type Hash = [u8; SHA256_OUTPUT_LEN];

/// Members that hold a schema, members that hold a list of them, and the one that holds a map of them.
const ONE: [&str; 3] = ["additionalProperties", "items", "not"];
const SEVERAL: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const NAMED: &str = "properties";
/// Texts for people. Whether there is one matters inside junctions, what it says nowhere.
const DESCRIPTION: &str = "description";

/// The hashes of one schema and of all its parts.
#[derive(Default)]
pub(super) struct Prints(HashMap<*const Value, Print>);

#[derive(Clone, Copy)]
struct Print {
    hash: Hash,
    /// Levels of schemas below.
    height: usize,
}

impl Prints {
    pub(super) fn of(schema: &Value) -> Self {
        let mut prints = Self::default();
        prints.take(schema, 0);
        prints
    }

    /// Under which name a part is kept, where it stands at this depth. Parts of schemas that are too deep have none.
    pub(super) fn key(&self, schema: &Value, level: Level, uncorrelated: bool, depth: usize) -> Option<Key> {
        let print = self.0.get(&std::ptr::from_ref(schema))?;
        (depth + print.height <= MAX_DEPTH).then_some(Key { hash: print.hash, level, uncorrelated })
    }

    fn take(&mut self, schema: &Value, depth: usize) -> Option<Print> {
        let Value::Object(members) = schema else { return None };
        if depth > MAX_DEPTH {
            return None;
        }
        let mut sum = Sum { context: Context::new(&SHA256), height: 0 };
        for (name, value) in members {
            sum.text(name);
            match (name.as_str(), value) {
                (DESCRIPTION, Value::String(text)) => sum.text(if text.is_empty() { "" } else { "there" }),
                (NAMED, Value::Object(properties)) => self.properties(&mut sum, properties, depth)?,
                (name, Value::Array(branches)) if SEVERAL.contains(&name) => {
                    sum.count(branches.len());
                    for branch in branches {
                        sum.part(self.take(branch, depth + 1)?);
                    }
                }
                (name, Value::Object(_)) if ONE.contains(&name) => sum.part(self.take(value, depth + 1)?),
                _ => sum.text(&value.to_string()),
            }
        }
        let finished = sum.context.finish();
        let print = Print { hash: finished.as_ref().try_into().ok()?, height: sum.height };
        self.0.insert(std::ptr::from_ref(schema), print);
        Some(print)
    }

    fn properties(&mut self, sum: &mut Sum, properties: &Map<String, Value>, depth: usize) -> Option<()> {
        sum.count(properties.len());
        for (name, property) in properties {
            sum.text(name);
            sum.part(self.take(property, depth + 1)?);
        }
        Some(())
    }
}

struct Sum {
    context: Context,
    height: usize,
}

impl Sum {
    /// With its length before it, so that no two rows of texts look alike.
    fn text(&mut self, text: &str) {
        self.count(text.len());
        self.context.update(text.as_bytes());
    }

    fn count(&mut self, count: usize) {
        self.context.update(&count.to_le_bytes());
    }

    fn part(&mut self, print: Print) {
        self.context.update(&print.hash);
        self.height = self.height.max(print.height + 1);
    }
}

/// What makes two parts read the same: what they say, and what the place says about them.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    hash: Hash,
    level: Level,
    uncorrelated: bool,
}

/// Parts that were read before without an error. Those that nobody uses any more go when there are many.
struct Known {
    nodes: HashMap<Key, Arc<Node>>,
    /// How many may come before it is looked for those nobody uses.
    limit: usize,
}

const FEW: usize = 1024;

static KNOWN: LazyLock<Mutex<Known>> =
    LazyLock::new(|| Mutex::new(Known { nodes: HashMap::new(), limit: FEW }));

pub(super) fn known(key: &Key) -> Option<Arc<Node>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).nodes.get(key).map(Arc::clone)
}

/// Keeps a part, unless somebody else has read it meanwhile: then theirs is the one.
pub(super) fn keep(key: Key, node: Node) -> Arc<Node> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let node = Arc::clone(known.nodes.entry(key).or_insert_with(|| Arc::new(node)));
    if known.nodes.len() > known.limit {
        known.sweep();
    }
    node
}

impl Known {
    /// A part that goes may have been the last to use others.
    fn sweep(&mut self) {
        let mut before = usize::MAX;
        while self.nodes.len() < before {
            before = self.nodes.len();
            self.nodes.retain(|_, node| Arc::strong_count(node) > 1);
        }
        self.limit = FEW.max(2 * self.nodes.len());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(schema: &Value) -> Option<Key> {
        Prints::of(schema).key(schema, Level::Field, false, 0)
    }

    fn same(one: &Value, other: &Value) -> bool {
        key(one).unwrap() == key(other).unwrap()
    }

    #[test]
    fn only_parts_that_say_the_same_are_one() {
        let text = json!({ "type": "string" });
        let described = json!({ "type": "string", "description": "A name." });
        assert!(same(&described, &json!({ "type": "string", "description": "Another." })));
        assert!(!same(&described, &text), "a junction may not be described");
        assert!(!same(&text, &json!({ "type": "string", "format": "date" })));
        let a = json!({ "properties": { "a": text } });
        assert!(same(&a, &json!({ "properties": { "a": { "type": "string" } } })));
        assert!(!same(&a, &json!({ "properties": { "b": text } })));
        assert!(!same(&a, &json!({ "properties": { "a": { "type": "integer" } } })));
        // A property may have the name of a keyword.
        assert!(!same(
            &json!({ "properties": { "description": text } }),
            &json!({ "properties": { "description": { "type": "integer" } } })
        ));
        assert!(!same(&json!({ "allOf": [text, text] }), &json!({ "allOf": [text] })));
        assert!(!same(&json!({ "allOf": [text] }), &json!({ "anyOf": [text] })));
    }

    #[test]
    fn a_part_is_another_one_elsewhere() {
        let schema = json!({ "type": "string" });
        let prints = Prints::of(&schema);
        let here = |level, uncorrelated| prints.key(&schema, level, uncorrelated, 0).unwrap();
        assert!(here(Level::Field, false) != here(Level::Item, false));
        assert!(here(Level::Field, false) != here(Level::Field, true));
        assert!(prints.key(&schema, Level::Field, false, MAX_DEPTH + 1).is_none(), "too deep to be read");
    }

    #[test]
    fn what_is_no_schema_has_no_name() {
        assert!(key(&json!(1)).is_none());
        assert!(key(&json!({ "properties": { "a": 1 } })).is_none());
        let deep = (0..=MAX_DEPTH).fold(json!({}), |inner, _| json!({ "items": inner }));
        assert!(key(&deep).is_none());
    }

    #[test]
    fn parts_that_nobody_uses_go() {
        let mut known = Known { nodes: HashMap::new(), limit: FEW };
        let names = [json!({ "a": 1 }), json!({ "a": 2 }), json!({ "a": 3 })];
        let [leaf, parent, used] = names.map(|schema| key(&schema).unwrap());
        let leaf_node = Arc::new(Node::default());
        let parent_node = Node { items: Some(Arc::clone(&leaf_node)), ..Node::default() };
        known.nodes.insert(leaf, leaf_node);
        known.nodes.insert(parent, Arc::new(parent_node));
        let kept = Arc::new(Node::default());
        known.nodes.insert(used.clone(), Arc::clone(&kept));
        known.sweep();
        assert!(known.nodes.len() == 1 && known.nodes.contains_key(&used));
    }
}
