//! One node of a schema, compiled for walking.

use std::collections::HashMap;
use std::sync::Arc;

use regex::Regex;
use serde_json::{Map, Value};

use super::format::Format;
use super::rules::Rule;

/// The type of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Kind {
    pub(super) const NAMES: [&'static str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

    pub(super) fn parse(name: &str) -> Option<Self> {
        match name {
            "object" => Some(Self::Object),
            "array" => Some(Self::Array),
            "string" => Some(Self::String),
            "integer" => Some(Self::Integer),
            "number" => Some(Self::Number),
            "boolean" => Some(Self::Boolean),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// How the items of a list are told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// What `additionalProperties` says.
#[derive(Debug, Default)]
pub(super) enum Additional {
    /// Not given: the node is no map.
    #[default]
    None,
    /// `true`: a map of anything.
    Any,
    Schema(Arc<Node>),
}

impl Additional {
    pub(super) fn schema(&self) -> Option<&Node> {
        match self {
            Self::Schema(node) => Some(node),
            Self::None | Self::Any => None,
        }
    }
}

/// One node; equal ones are shared. Branches of `allOf`, `anyOf`, `oneOf` and `not` are nodes too, with nothing but checks in them.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) kind: Option<Kind>,
    pub(super) int_or_string: bool,
    pub(super) preserve: bool,
    pub(super) embedded: bool,
    pub(super) nullable: bool,
    /// A map that is replaced as a whole, so its values have no old self.
    pub(super) atomic_map: bool,
    pub(super) default: Option<Value>,
    pub(super) properties: HashMap<String, Arc<Self>>,
    /// Names of the properties with a default: only they can be missing and matter.
    pub(super) defaulted: Vec<String>,
    pub(super) additional: Additional,
    pub(super) items: Option<Arc<Self>>,
    pub(super) list: ListType,
    /// How it is called, known or not: errors about numbers name it.
    pub(super) format: Option<Box<str>>,
    /// Boxed because most nodes of a real schema check nothing but their type.
    pub(super) checks: Option<Box<Checks>>,
    pub(super) rules: Vec<Rule>,
    /// Whether a rule stands here or below: CEL visits nothing else.
    pub(super) has_rules: bool,
    /// The same for rules that go through lists or maps.
    pub(super) has_loops: bool,
}

/// Value validations of one node.
#[derive(Debug, Default)]
pub(super) struct Checks {
    pub(super) required: Vec<String>,
    pub(super) enumeration: Vec<Value>,
    pub(super) pattern: Option<(String, Regex)>,
    pub(super) format: Option<(String, Format)>,
    pub(super) minimum: Option<(f64, bool)>,
    pub(super) maximum: Option<(f64, bool)>,
    pub(super) multiple_of: Option<f64>,
    pub(super) min_length: Option<u64>,
    pub(super) max_length: Option<u64>,
    pub(super) min_items: Option<u64>,
    pub(super) max_items: Option<u64>,
    pub(super) min_properties: Option<u64>,
    pub(super) max_properties: Option<u64>,
    pub(super) all_of: Vec<Arc<Node>>,
    pub(super) any_of: Vec<Arc<Node>>,
    pub(super) one_of: Vec<Arc<Node>>,
    pub(super) not: Option<Arc<Node>>,
}

impl Node {
    /// The node of a member: a declared property or the value of a map.
    pub(super) fn child(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).map(Arc::as_ref).or_else(|| self.additional.schema())
    }

    /// The nodes of its parts.
    pub(super) fn inside(&self) -> impl Iterator<Item = &Self> {
        let properties = self.properties.values().map(Arc::as_ref);
        properties.chain(self.items.as_deref()).chain(self.additional.schema())
    }

    /// The old value of a member.
    pub(super) fn old_member<'v>(&self, old: Option<&'v Value>, name: &str) -> Option<&'v Value> {
        if self.atomic_map { None } else { old?.get(name) }
    }
}

/// Fields the server itself knows at the root of a resource, whatever the schema says.
pub(super) const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// The JSON type of a value, in the words of the schema language.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The part of `metadata` that schemas and rules may look at.
pub(super) fn visible_metadata(metadata: &Value) -> Map<String, Value> {
    ["name", "generateName"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), metadata.get(name)?.clone())))
        .collect()
}
