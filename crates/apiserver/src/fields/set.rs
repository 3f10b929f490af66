//! A set of field paths, as a tree of their steps.

use serde_json::{Map, Value};
use std::cmp::Ordering;

use super::element;

/// A set of paths. The empty path, which would be the whole object, is in no set.
///
/// Most places have few below them, and they come in order: a sorted list is smaller and quicker than a tree. Whatever
/// works on a whole set goes through it once, since a set may be as large as a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set {
    nodes: Vec<(String, Node)>,
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
    pub(crate) const fn new() -> Self {
        Self { nodes: Vec::new() }
    }

    pub(super) fn with_capacity(places: usize) -> Self {
        Self { nodes: Vec::with_capacity(places) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds everything at and below a place.
    pub(super) fn put(&mut self, key: String, node: Node) {
        if node.is_empty() {
            return;
        }
        match self.find(&key) {
            Err(at) => self.nodes.insert(at, (key, node)),
            Ok(at) => {
                if let Some((_, known)) = self.nodes.get_mut(at) {
                    known.union(node);
                }
            }
        }
    }

    /// Where a step is, or would be.
    fn find(&self, key: &str) -> Result<usize, usize> {
        match self.nodes.last() {
            None => Err(0),
            Some((last, _)) if last.as_str() < key => Err(self.nodes.len()),
            Some(_) => self.nodes.binary_search_by(|(known, _)| known.as_str().cmp(key)),
        }
    }

    /// A set of places that come in any order.
    fn of(mut nodes: Vec<(String, Node)>) -> Self {
        nodes.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut set = Self { nodes: Vec::with_capacity(nodes.len()) };
        for (key, node) in nodes {
            set.put(key, node);
        }
        set
    }

    /// The union of many sets: by pairs, since adding them to one that grows would take the square of their size.
    pub(super) fn union_of(mut sets: Vec<Self>) -> Self {
        while sets.len() > 1 {
            let mut pairs = std::mem::take(&mut sets).into_iter();
            while let Some(mut left) = pairs.next() {
                if let Some(right) = pairs.next() {
                    left.union(right);
                }
                sets.push(left);
            }
        }
        sets.pop().unwrap_or_default()
    }

    /// Changes the places that another set has too, and keeps those that are not empty then.
    fn meet(&mut self, other: &Self, mut change: impl FnMut(&mut Node, &Node)) {
        if self.nodes.len() < other.nodes.len() / 16 {
            // One of many small sets against a large one: it is looked into, and not gone through each time.
            self.nodes.retain_mut(|(key, node)| {
                if let Some(twin) = other.get(key) {
                    change(node, twin);
                }
                !node.is_empty()
            });
            return;
        }
        let mut rest = other.nodes.as_slice();
        self.nodes.retain_mut(|(key, node)| {
            while let Some(((first, twin), tail)) = rest.split_first() {
                match first.as_str().cmp(key.as_str()) {
                    Ordering::Less => rest = tail,
                    Ordering::Equal => {
                        change(node, twin);
                        return !node.is_empty();
                    }
                    Ordering::Greater => break,
                }
            }
            true
        });
    }

    /// A set of paths through fields alone.
    pub(crate) fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::new();
        for path in paths {
            if let Some((last, parents)) = path.split_last() {
                let leaf = (element::field(last), Node::leaf());
                let (key, node) = parents.iter().rev().fold(leaf, |(key, node), name| {
                    (element::field(name), Node { member: false, below: Self { nodes: vec![(key, node)] } })
                });
                set.put(key, node);
            }
        }
        set
    }

    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        let at = self.find(key).ok()?;
        self.nodes.get(at).map(|(_, node)| node)
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
        let (mut left, mut right) =
            (std::mem::take(&mut self.nodes).into_iter().peekable(), other.nodes.into_iter().peekable());
        loop {
            let next = match (left.peek(), right.peek()) {
                (Some((a, _)), Some((b, _))) if a <= b => left.next(),
                (Some(_), None) => left.next(),
                (_, Some(_)) => right.next(),
                (None, None) => return,
            };
            if let Some((key, node)) = next {
                self.put(key, node);
            }
        }
    }

    /// Takes the paths of another set away. What is below or above them stays.
    pub(super) fn subtract(&mut self, other: &Self) {
        self.meet(other, |node, gone| {
            node.member &= !gone.member;
            node.below.subtract(&gone.below);
        });
    }

    /// Takes the paths of another set away, and everything below them.
    pub(super) fn cut(&mut self, other: &Self) {
        self.meet(other, |node, gone| {
            if gone.member {
                *node = Node::default();
            } else {
                node.below.cut(&gone.below);
            }
        });
    }

    /// The paths that are in both sets.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        let mut both = Self::new();
        for (key, node) in &self.nodes {
            if let Some(twin) = other.get(key) {
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
        let (mut member, mut nodes) = (map.is_empty(), Vec::with_capacity(map.len()));
        for (key, value) in map {
            if key == "." {
                member = true;
                continue;
            }
            let Some(key) = element::canonical(key)? else {
                continue;
            };
            match value {
                Value::Object(map) => nodes.push((key, Self::parse_node(map)?)),
                Value::Null => nodes.push((key, Node::leaf())),
                _ => return Err("ReadMapCB: expect { or n".into()),
            }
        }
        let below = Self::of(nodes);
        // A place with nothing known below it is one that is owned itself.
        member |= below.is_empty();
        Ok(Node { member, below })
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
        let meets = |node: &Node, twin: &Value| {
            twin.as_object().is_some_and(|members| {
                let is_member = members.is_empty() || members.contains_key(".");
                (node.member && is_member) || (!node.below.is_empty() && node.below.touches(twin))
            })
        };
        let Some(fields) = fields.as_object() else { return false };
        // Through the smaller one.
        if fields.len() < self.nodes.len() {
            return fields.iter().any(|(key, twin)| self.get(key).is_some_and(|node| meets(node, twin)));
        }
        self.nodes.iter().any(|(key, node)| fields.get(key).is_some_and(|twin| meets(node, twin)))
    }
}
