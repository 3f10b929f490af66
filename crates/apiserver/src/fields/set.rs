//! A set of field paths, as a tree of their steps.

use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::element;

/// A set of paths. The empty path, which would be the whole object, is in no set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set {
    nodes: BTreeMap<String, Node>,
}

/// A place: whether it is itself in the set, and which of the paths through it are. A node of a set is never empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) member: bool,
    pub(super) below: Set,
}

impl Node {
    /// A place that is in the set, with nothing below it.
    pub(super) const fn leaf() -> Self {
        Self { member: true, below: Set::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }

    fn union(&mut self, other: Self) {
        self.member |= other.member;
        self.below.union(other.below);
    }
}

impl Set {
    pub(super) const fn new() -> Self {
        Self { nodes: BTreeMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds everything at and below a place.
    pub(super) fn put(&mut self, key: String, node: Node) {
        if node.is_empty() {
            return;
        }
        match self.nodes.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(node);
            }
            Entry::Occupied(mut entry) => entry.get_mut().union(node),
        }
    }

    /// A set of paths through fields alone.
    pub(crate) fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::new();
        for path in paths {
            if let Some((last, parents)) = path.split_last() {
                let below = parents.iter().fold(&mut set, |set, name| {
                    &mut set.nodes.entry(element::field(name)).or_default().below
                });
                below.put(element::field(last), Node::leaf());
            }
        }
        set
    }

    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.nodes.get(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.nodes.iter().map(|(key, node)| (key.as_str(), node))
    }

    /// Changes what is in the set at and below each place.
    pub(super) fn each(&mut self, mut change: impl FnMut(&str, &mut Node)) {
        for (key, node) in &mut self.nodes {
            change(key, node);
        }
    }

    pub(crate) fn union(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
            return;
        }
        for (key, node) in other.nodes {
            self.put(key, node);
        }
    }

    /// Takes the paths of another set away. What is below or above them stays.
    pub(super) fn subtract(&mut self, other: &Self) {
        for (key, gone) in &other.nodes {
            if let Some(node) = self.nodes.get_mut(key) {
                node.member &= !gone.member;
                node.below.subtract(&gone.below);
                if node.is_empty() {
                    self.nodes.remove(key);
                }
            }
        }
    }

    /// Takes the paths of another set away, and everything below them.
    pub(super) fn cut(&mut self, other: &Self) {
        for (key, gone) in &other.nodes {
            if gone.member {
                self.nodes.remove(key);
            } else if let Some(node) = self.nodes.get_mut(key) {
                node.below.cut(&gone.below);
                if node.is_empty() {
                    self.nodes.remove(key);
                }
            }
        }
    }

    /// The paths that are in both sets.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        let mut both = Self::new();
        for (key, node) in &self.nodes {
            if let Some(twin) = other.nodes.get(key) {
                let member = node.member && twin.member;
                let below = node.below.intersection(&twin.below);
                both.put(key.clone(), Node { member, below });
            }
        }
        both
    }

    /// Every path, as people read it: the members of a place before what is below them.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect_paths("", &mut paths);
        paths
    }

    fn collect_paths(&self, prefix: &str, paths: &mut Vec<String>) {
        let mut nodes: Vec<(&str, &Node)> = self.iter().collect();
        nodes.sort_by(|(a, _), (b, _)| element::order(a, b));
        let members = nodes.iter().filter(|(_, node)| node.member);
        paths.extend(members.map(|(key, _)| format!("{prefix}{}", element::show(key))));
        for (key, node) in nodes {
            node.below.collect_paths(&format!("{prefix}{}", element::show(key)), paths);
        }
    }
}

/// FieldsV1, the form in which sets are part of objects.
impl Set {
    /// The tree of an object, which the server wrote itself or which a client sent.
    pub(super) fn parse(fields: &Value) -> Result<Self, String> {
        match fields {
            Value::Object(map) => Ok(Self::parse_node(map)?.below),
            Value::Null => Ok(Self::new()),
            _ => Err("ReadMapCB: expect { or n".into()),
        }
    }

    fn parse_node(map: &Map<String, Value>) -> Result<Node, String> {
        let mut node = Node { member: map.is_empty(), below: Self::new() };
        for (key, value) in map {
            if key == "." {
                node.member = true;
                continue;
            }
            let Some(key) = element::canonical(key)? else {
                continue;
            };
            match value {
                Value::Object(map) => node.below.put(key, Self::parse_node(map)?),
                Value::Null => node.below.put(key, Node::leaf()),
                _ => return Err("ReadMapCB: expect { or n".into()),
            }
        }
        // A place with nothing known below it is one that is owned itself.
        node.member |= node.below.is_empty();
        Ok(node)
    }

    pub(super) fn into_value(self) -> Value {
        let members = self.nodes.into_iter().map(|(key, node)| {
            let mut below = node.below.into_value();
            if let (true, Some(map)) = (node.member, below.as_object_mut().filter(|map| !map.is_empty())) {
                map.insert(".".into(), Value::Object(Map::new()));
            }
            (key, below)
        });
        Value::Object(members.collect())
    }

    /// Whether a set in its stored form has any path of this one. Reads only what this one leads to.
    pub(super) fn touches(&self, fields: &Value) -> bool {
        self.nodes.iter().any(|(key, node)| {
            fields.get(key).and_then(Value::as_object).is_some_and(|twin| {
                let is_member = twin.is_empty() || twin.contains_key(".");
                (node.member && is_member)
                    || (!node.below.is_empty() && fields.get(key).is_some_and(|f| node.below.touches(f)))
            })
        })
    }
}
