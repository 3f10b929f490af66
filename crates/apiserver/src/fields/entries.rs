//! `metadata.managedFields`: who wrote which fields, when, through which door.

use jiff::Timestamp;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::HashMap;

use super::set::Set;

/// How somebody writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    /// A configuration that says what its owner wants: what it no longer says goes.
    Apply,
    /// Anything else.
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// The fields of an owner: as they are stored until somebody asks for them.
#[derive(Clone, Debug)]
enum Fields {
    Stored(Value),
    Parsed(Set),
}

/// One owner of fields.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) manager: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    pub(super) subresource: String,
    pub(super) time: Option<String>,
    fields: Fields,
}

impl Entry {
    pub(super) fn new(id: &Id<'_>, time: Option<String>, set: Set) -> Self {
        Self {
            manager: id.manager.to_owned(),
            operation: id.operation,
            api_version: id.api_version.to_owned(),
            subresource: id.subresource.to_owned(),
            time,
            fields: Fields::Parsed(set),
        }
    }

    /// Who this is. Somebody who applies is the same in every version.
    pub(super) fn is(&self, id: &Id<'_>) -> bool {
        self.operation == id.operation
            && self.manager == id.manager
            && self.subresource == id.subresource
            && (self.operation == Operation::Apply || self.api_version == id.api_version)
    }

    pub(super) fn id(&self) -> Id<'_> {
        Id {
            manager: &self.manager,
            operation: self.operation,
            api_version: &self.api_version,
            subresource: &self.subresource,
        }
    }

    /// Whether the owner has any of these places.
    pub(super) fn has_any(&self, places: &Set) -> bool {
        match &self.fields {
            Fields::Stored(fields) => places.touches(fields),
            Fields::Parsed(set) => !set.intersection(places).is_empty(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match &self.fields {
            Fields::Stored(fields) => fields.as_object().is_none_or(Map::is_empty),
            Fields::Parsed(set) => set.is_empty(),
        }
    }

    pub(super) fn set(&self) -> Cow<'_, Set> {
        match &self.fields {
            // What is stored was parsed when it came.
            Fields::Stored(fields) => Cow::Owned(Set::parse(fields).unwrap_or_default()),
            Fields::Parsed(set) => Cow::Borrowed(set),
        }
    }

    pub(super) fn change(&mut self, change: impl FnOnce(&mut Set)) {
        let mut set = match std::mem::replace(&mut self.fields, Fields::Parsed(Set::new())) {
            Fields::Stored(fields) => Set::parse(&fields).unwrap_or_default(),
            Fields::Parsed(set) => set,
        };
        change(&mut set);
        self.fields = Fields::Parsed(set);
    }

    fn seconds(&self) -> i64 {
        self.time.as_ref().and_then(|time| time.parse::<Timestamp>().ok()).map_or(0, Timestamp::as_second)
    }

    /// For how long an owner has been silent, and then by name, as texts are compared.
    pub(super) fn age(&self) -> (i64, String) {
        (self.seconds(), self.id().text())
    }

    fn into_value(self) -> Value {
        let mut map = Map::new();
        if !self.manager.is_empty() {
            map.insert("manager".into(), self.manager.into());
        }
        map.insert("operation".into(), self.operation.name().into());
        map.insert("apiVersion".into(), self.api_version.into());
        if let Some(time) = self.time {
            map.insert("time".into(), time.into());
        }
        map.insert("fieldsType".into(), "FieldsV1".into());
        let fields = match self.fields {
            Fields::Stored(fields) => fields,
            Fields::Parsed(set) => set.into_value(),
        };
        map.insert("fieldsV1".into(), fields);
        if !self.subresource.is_empty() {
            map.insert("subresource".into(), self.subresource.into());
        }
        Value::Object(map)
    }
}

/// What tells owners apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Id<'a> {
    pub(crate) manager: &'a str,
    pub(crate) operation: Operation,
    pub(crate) api_version: &'a str,
    /// Empty for the object itself.
    pub(crate) subresource: &'a str,
}

impl Id<'_> {
    /// The text by which owners are sorted in messages.
    pub(super) fn text(&self) -> String {
        let mut text = "{".to_owned();
        let mut member = |name: &str, value: &str| {
            if !value.is_empty() {
                let comma = if text.len() > 1 { "," } else { "" };
                text.push_str(&format!("{comma}\"{name}\":{}", Value::from(value)));
            }
        };
        member("manager", self.manager);
        member("operation", self.operation.name());
        if self.operation == Operation::Update {
            member("apiVersion", self.api_version);
        }
        member("subresource", self.subresource);
        text.push('}');
        text
    }

    /// The name by which a conflict is reported.
    pub(super) fn show(&self) -> String {
        let mut name = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            name.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if self.operation == Operation::Update {
            name.push_str(&format!(" using {}", self.api_version));
        }
        name
    }
}

/// The owners of an object as the server stored them.
pub(super) fn stored(list: Option<Value>) -> Result<Vec<Entry>, String> {
    read(list, |fields| Ok(Fields::Stored(fields)))
}

/// The owners somebody sent.
pub(super) fn sent(list: Option<Value>) -> Result<Vec<Entry>, String> {
    read(list, |fields| {
        Set::parse(&fields).map(Fields::Parsed).map_err(|why| format!("error decoding set: {why}"))
    })
}

fn read(list: Option<Value>, fields: impl Fn(Value) -> Result<Fields, String>) -> Result<Vec<Entry>, String> {
    let mut entries: Vec<Entry> = Vec::new();
    let Some(Value::Array(items)) = list else {
        return Ok(entries);
    };
    let mut places: HashMap<String, usize> = HashMap::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let entry = entry(index, item, &fields)?;
        let place = *places.entry(entry.id().text()).or_insert(entries.len());
        match entries.get_mut(place) {
            Some(twin) => *twin = entry,
            None => entries.push(entry),
        }
    }
    Ok(entries)
}

fn entry(
    index: usize,
    mut item: Value,
    fields: &impl Fn(Value) -> Result<Fields, String>,
) -> Result<Entry, String> {
    let mut take = |name: &str| item.get_mut(name).map(Value::take).unwrap_or_default();
    let text = |value: Value| match value {
        Value::String(text) => text,
        _ => String::new(),
    };
    let operation = match text(take("operation")).as_str() {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return Err("operation must be `Apply` or `Update`".into()),
    };
    let api_version = text(take("apiVersion"));
    if api_version.is_empty() {
        return Err("apiVersion must not be empty".into());
    }
    match text(take("fieldsType")).as_str() {
        "FieldsV1" => {}
        "" => return Err(format!("missing fieldsType in managed fields entry {index}")),
        other => return Err(format!("invalid fieldsType {other:?} in managed fields entry {index}")),
    }
    Ok(Entry {
        manager: text(take("manager")),
        operation,
        api_version,
        subresource: text(take("subresource")),
        time: Some(text(take("time"))).filter(|time| !time.is_empty()),
        fields: fields(take("fieldsV1"))?,
    })
}

/// Whether somebody asks for the owners to be forgotten: by no entries, or by an empty one.
pub(super) fn is_reset(list: &Value) -> bool {
    match list.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([one]) => one.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

/// The list as it is stored: sorted, and nothing instead of an empty one.
pub(super) fn encode(mut entries: Vec<Entry>) -> Option<Value> {
    if entries.is_empty() {
        return None;
    }
    if entries.len() > 1 {
        entries.sort_by_cached_key(|entry| {
            let Id { manager, operation, api_version, subresource } = entry.id();
            (operation, entry.seconds(), manager.to_owned(), api_version.to_owned(), subresource.to_owned())
        });
    }
    Some(Value::Array(entries.into_iter().map(Entry::into_value).collect()))
}
