//! From the JSON of a schema to its tree.

use std::collections::HashMap;
use std::sync::Arc;

use regex::Regex;
use serde_json::{Map, Value};

use super::error::FieldError;
use super::format::Format;
use super::node::{Additional, Checks, Kind, ListType, Node};
use super::path::Path;
use super::rules::{self, Place, Rule};
use super::shared::{self, Prints};
use super::{MAX_DEPTH, celeval, default, pattern, prune, structure, validate};

type Object = Map<String, Value>;

/// What kind of place a node stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Level {
    Root,
    Field,
    Item,
    /// Inside `allOf`, `anyOf`, `oneOf` or `not`, where only value validations may stand. Types are allowed when the
    /// node around is an int-or-string, which is written that way.
    Branch {
        typed: bool,
    },
}

/// Where the parser stands.
#[derive(Clone, Copy)]
struct At<'a> {
    path: &'a str,
    level: Level,
    depth: usize,
    /// The outermost place around this one below which old and new values cannot be told to be the same.
    uncorrelated: Option<&'a str>,
}

impl<'a> At<'a> {
    /// A part of the node that stands here. Parts of a branch are branches.
    fn below<'b>(&self, path: &'b str, level: Level, correlated: bool) -> At<'b>
    where
        'a: 'b,
    {
        let level = if matches!(self.level, Level::Branch { .. }) { self.level } else { level };
        let uncorrelated = self.uncorrelated.or_else(|| (!correlated).then_some(self.path));
        At { path, level, depth: self.depth + 1, uncorrelated }
    }
}

/// Reads a whole schema.
pub(super) fn parse(schema: &Value) -> Result<Arc<Node>, Vec<FieldError>> {
    let prints = Prints::of(schema);
    let mut parser = Parser { errors: Vec::new(), rule_errors: Vec::new(), patterns: HashMap::new(), prints };
    let at = At { path: "openAPIV3Schema", level: Level::Root, depth: 0, uncorrelated: None };
    let root = parser.node(schema, at);
    if parser.errors.is_empty() && parser.rule_errors.is_empty() {
        return Ok(root);
    }
    parser.errors.sort_by_cached_key(ToString::to_string);
    parser.errors.append(&mut parser.rule_errors);
    Err(parser.errors)
}

struct Parser {
    errors: Vec<FieldError>,
    /// What is wrong with rules is told after everything else.
    rule_errors: Vec<FieldError>,
    /// Patterns compiled so far: a pod template has the same one for each of its many quantities.
    patterns: HashMap<String, Regex>,
    prints: Prints,
}

impl Parser {
    fn node(&mut self, schema: &Value, at: At<'_>) -> Arc<Node> {
        let key = self.prints.key(schema, at.level, at.uncorrelated.is_some(), at.depth);
        if let Some(node) = key.as_ref().and_then(shared::known) {
            return node;
        }
        let wrong_before = self.errors.len() + self.rule_errors.len();
        let node = self.new_node(schema, at);
        // Errors name the place, so what is wrong has to be read in each.
        let is_right = self.errors.len() + self.rule_errors.len() == wrong_before;
        match key.filter(|_| is_right) {
            Some(key) => shared::keep(key, node),
            None => Arc::new(node),
        }
    }

    fn new_node(&mut self, schema: &Value, at: At<'_>) -> Node {
        let Value::Object(schema) = schema else {
            self.errors.push(FieldError::invalid(at.path, schema, "must be a schema object"));
            return Node::default();
        };
        if at.depth > MAX_DEPTH {
            self.errors.push(FieldError::forbidden(at.path, "the schema is nested too deeply"));
            return Node::default();
        }
        let before = self.errors.len();
        structure::forbidden(schema, at.path, at.level, &mut self.errors);
        let mut node = Node {
            kind: self.kind(schema, at.path),
            int_or_string: self.flag(schema, "x-kubernetes-int-or-string", at.path),
            preserve: self.flag(schema, "x-kubernetes-preserve-unknown-fields", at.path),
            embedded: self.flag(schema, "x-kubernetes-embedded-resource", at.path),
            nullable: self.flag(schema, "nullable", at.path),
            atomic_map: self.text(schema, "x-kubernetes-map-type", at.path) == Some("atomic"),
            list: self.list_type(schema, at.path),
            format: self.text(schema, "format", at.path).filter(|name| !name.is_empty()).map(Into::into),
            ..Node::default()
        };
        self.children(&mut node, schema, at);
        node.checks = self.checks(schema, &node, at);
        if structure::unsupported(schema).next().is_none() {
            structure::check(&node, schema, at.path, at.level, &mut self.errors);
        }
        if let Some(rules) = schema.get("x-kubernetes-validations").filter(|r| !r.is_null()) {
            let resource = at.level == Level::Root || node.embedded;
            let place = Place { resource, uncorrelated: at.uncorrelated };
            let sources = rules::read(rules, &node, at.path, &mut self.errors);
            // Rules over a schema that is wrong would say nothing that helps.
            if self.errors.len() == before {
                node.rules = rules::compile(sources, &node, &place, &mut self.rule_errors);
            }
        }
        let inside: Vec<&Node> = node.inside().collect();
        let has_rules = !node.rules.is_empty() || inside.iter().any(|node| node.has_rules);
        let has_loops = node.rules.iter().any(Rule::has_loops) || inside.iter().any(|node| node.has_loops);
        (node.has_rules, node.has_loops) = (has_rules, has_loops);
        if let Some(default) = schema.get("default").filter(|_| !matches!(at.level, Level::Branch { .. })) {
            self.check_default(&node, default, at.path);
            // A default of null is none: the field stays absent.
            node.default = Some(default.clone()).filter(|default| !default.is_null());
        }
        node
    }

    fn kind(&mut self, schema: &Object, path: &str) -> Option<Kind> {
        let name = self.text(schema, "type", path).filter(|name| !name.is_empty())?;
        let kind = Kind::parse(name);
        if name == "null" {
            let detail = "type cannot be set to null, use nullable as an alternative";
            self.errors.push(FieldError::forbidden(format!("{path}.type"), detail));
        } else if kind.is_none() {
            let supported = Kind::NAMES.map(Value::from);
            self.errors.push(FieldError::not_supported(
                format!("{path}.type"),
                &Value::from(name),
                &supported,
            ));
        }
        kind
    }

    fn list_type(&mut self, schema: &Object, path: &str) -> ListType {
        match self.text(schema, "x-kubernetes-list-type", path) {
            Some("set") => ListType::Set,
            Some("map") => ListType::Map(self.texts(schema, "x-kubernetes-list-map-keys", path)),
            _ => ListType::Atomic,
        }
    }

    /// Reads properties, items and values of maps.
    fn children(&mut self, node: &mut Node, schema: &Object, at: At<'_>) {
        if let Some(properties) = self.object(schema, "properties", at.path) {
            node.properties = HashMap::with_capacity(properties.len());
            for (name, property) in properties {
                let path = format!("{}.properties[{name}]", at.path);
                let correlated = !node.atomic_map;
                let child = self.node(property, at.below(&path, Level::Field, correlated));
                if child.default.is_some() {
                    node.defaulted.push(name.clone());
                }
                node.properties.insert(name.clone(), child);
            }
        }
        match schema.get("items") {
            None | Some(Value::Null) => {}
            Some(Value::Array(_)) => {
                let detail = "items must be a schema object and not an array";
                self.errors.push(FieldError::forbidden(format!("{}.items", at.path), detail));
            }
            Some(items) => {
                let path = format!("{}.items", at.path);
                let correlated = matches!(node.list, ListType::Map(_));
                node.items = Some(self.node(items, at.below(&path, Level::Item, correlated)));
            }
        }
        match schema.get("additionalProperties") {
            None | Some(Value::Null) => {}
            Some(Value::Bool(true)) => node.additional = Additional::Any,
            Some(Value::Bool(false)) => {
                let detail = "additionalProperties cannot be set to false";
                self.errors.push(FieldError::forbidden(format!("{}.additionalProperties", at.path), detail));
            }
            Some(values) => {
                let path = format!("{}.additionalProperties", at.path);
                let values = self.node(values, at.below(&path, Level::Field, true));
                node.additional = Additional::Schema(values);
            }
        }
    }

    fn checks(&mut self, schema: &Object, node: &Node, at: At<'_>) -> Option<Box<Checks>> {
        let path = at.path;
        let bound = |this: &mut Self, name: &str, exclusive: &str| {
            let exclusive = this.flag(schema, exclusive, path);
            this.number(schema, name, path).map(|bound| (bound, exclusive))
        };
        let checks = Checks {
            required: self.texts(schema, "required", path),
            enumeration: self.list(schema, "enum", path).map(<[Value]>::to_vec).unwrap_or_default(),
            pattern: self.pattern(schema, path),
            format: self
                .text(schema, "format", path)
                .and_then(|name| Some((name.to_owned(), Format::parse(name)?))),
            minimum: bound(self, "minimum", "exclusiveMinimum"),
            maximum: bound(self, "maximum", "exclusiveMaximum"),
            multiple_of: self.number(schema, "multipleOf", path),
            min_length: self.count(schema, "minLength", path),
            max_length: self.count(schema, "maxLength", path),
            min_items: self.count(schema, "minItems", path),
            max_items: self.count(schema, "maxItems", path),
            min_properties: self.count(schema, "minProperties", path),
            max_properties: self.count(schema, "maxProperties", path),
            all_of: self.branches(schema, "allOf", node, at),
            any_of: self.branches(schema, "anyOf", node, at),
            one_of: self.branches(schema, "oneOf", node, at),
            not: schema.get("not").filter(|not| !not.is_null()).map(|not| {
                let path = format!("{path}.not");
                self.branch(not, &path, node, at)
            }),
        };
        (!checks.is_empty()).then(|| Box::new(checks))
    }

    fn branches(&mut self, schema: &Object, name: &str, node: &Node, at: At<'_>) -> Vec<Arc<Node>> {
        let Some(list) = self.list(schema, name, at.path) else {
            return Vec::new();
        };
        list.iter()
            .enumerate()
            .map(|(index, branch)| {
                let path = format!("{}.{name}[{index}]", at.path);
                self.branch(branch, &path, node, at)
            })
            .collect()
    }

    fn branch(&mut self, schema: &Value, path: &str, node: &Node, at: At<'_>) -> Arc<Node> {
        let typed = node.int_or_string || at.level == (Level::Branch { typed: true });
        let level = Level::Branch { typed };
        let branch = self.node(schema, At { path, level, depth: at.depth + 1, uncorrelated: Some(path) });
        // Below the root a real server does not look.
        if at.level == Level::Root {
            structure::skeleton(&branch, node, path, at.path, &mut self.errors);
        }
        branch
    }

    fn pattern(&mut self, schema: &Object, path: &str) -> Option<(String, Regex)> {
        let source = self.text(schema, "pattern", path).filter(|source| !source.is_empty())?;
        if let Some(regex) = self.patterns.get(source) {
            return Some((source.to_owned(), regex.clone()));
        }
        match pattern::compile(source) {
            Ok(regex) => {
                self.patterns.insert(source.to_owned(), regex.clone());
                Some((source.to_owned(), regex))
            }
            Err(error) => {
                let detail = format!("must be a valid regular expression, but isn't: {error}");
                self.errors.push(FieldError::invalid(
                    format!("{path}.pattern"),
                    &Value::from(source),
                    detail,
                ));
                None
            }
        }
    }

    /// A default must survive pruning and be valid once the defaults below it are filled in.
    fn check_default(&mut self, node: &Node, value: &Value, path: &str) {
        let path = format!("{path}.default");
        let mut filled = value.clone();
        let mut unknown = Vec::new();
        prune::prune(node, &mut filled, node.embedded, &Path::Root, &mut unknown);
        if !unknown.is_empty() {
            let detail = "must not have unknown fields";
            self.errors.push(FieldError::invalid(path, value, detail));
            return;
        }
        default::default(node, &mut filled, false);
        let mut errors = Vec::new();
        validate::node(node, &filled, None, &Path::Root, &mut errors);
        if errors.is_empty() {
            celeval::check_value(node, &filled, &mut errors);
        }
        self.errors.extend(errors.into_iter().map(|mut error| {
            error.field = match error.field.as_str() {
                "<nil>" => path.clone(),
                field if field.starts_with('[') => format!("{path}{field}"),
                field => format!("{path}.{field}"),
            };
            error
        }));
    }
}

/// Reading single members of a schema; a member of another type is an error, `null` is the same as absent.
impl Parser {
    fn wrong(&mut self, path: &str, name: &str, value: &Value, what: &str) {
        self.errors.push(FieldError::invalid(format!("{path}.{name}"), value, format!("must be {what}")));
    }

    fn flag(&mut self, schema: &Object, name: &str, path: &str) -> bool {
        match schema.get(name) {
            None | Some(Value::Null) => false,
            Some(Value::Bool(flag)) => *flag,
            Some(other) => {
                self.wrong(path, name, other, "a boolean");
                false
            }
        }
    }

    fn text<'s>(&mut self, schema: &'s Object, name: &str, path: &str) -> Option<&'s str> {
        match schema.get(name)? {
            Value::Null => None,
            Value::String(text) => Some(text),
            other => {
                self.wrong(path, name, other, "a string");
                None
            }
        }
    }

    fn object<'s>(&mut self, schema: &'s Object, name: &str, path: &str) -> Option<&'s Object> {
        match schema.get(name)? {
            Value::Null => None,
            Value::Object(object) => Some(object),
            other => {
                self.wrong(path, name, other, "an object");
                None
            }
        }
    }

    fn list<'s>(&mut self, schema: &'s Object, name: &str, path: &str) -> Option<&'s [Value]> {
        match schema.get(name)? {
            Value::Null => None,
            Value::Array(list) => Some(list),
            other => {
                self.wrong(path, name, other, "a list");
                None
            }
        }
    }

    fn texts(&mut self, schema: &Object, name: &str, path: &str) -> Vec<String> {
        let list = self.list(schema, name, path).unwrap_or_default();
        let mut texts = Vec::with_capacity(list.len());
        for item in list {
            match item.as_str() {
                Some(text) => texts.push(text.to_owned()),
                None => self.wrong(path, name, item, "a list of strings"),
            }
        }
        texts
    }

    fn number(&mut self, schema: &Object, name: &str, path: &str) -> Option<f64> {
        match schema.get(name)? {
            Value::Null => None,
            value => {
                let number = value.as_f64();
                if number.is_none() {
                    self.wrong(path, name, value, "a number");
                }
                number
            }
        }
    }

    /// A size; negative ones are as good as absent, which is how the real server treats them.
    fn count(&mut self, schema: &Object, name: &str, path: &str) -> Option<u64> {
        match schema.get(name)? {
            Value::Null => None,
            value => {
                if value.as_i64().is_none() && value.as_u64().is_none() {
                    self.wrong(path, name, value, "an integer");
                }
                value.as_u64()
            }
        }
    }
}

impl Checks {
    fn is_empty(&self) -> bool {
        self.required.is_empty()
            && self.enumeration.is_empty()
            && self.pattern.is_none()
            && self.format.is_none()
            && self.minimum.is_none()
            && self.maximum.is_none()
            && self.multiple_of.is_none()
            && self.min_length.is_none()
            && self.max_length.is_none()
            && self.min_items.is_none()
            && self.max_items.is_none()
            && self.min_properties.is_none()
            && self.max_properties.is_none()
            && self.all_of.is_empty()
            && self.any_of.is_empty()
            && self.one_of.is_empty()
            && self.not.is_none()
    }
}
