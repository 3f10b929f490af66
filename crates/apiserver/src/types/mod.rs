//! Kubernetes' built-in types as static tables: what each field is called, how it is written on each wire, and how it
//! is merged.
//!
//! `cargo xtask generate wire` reads them from Kubernetes' own Go types and OpenAPI documents. Typed decoding,
//! protobuf, strategic merge and server-side apply all walk these tables; nothing here is made at run time.

#[rustfmt::skip]
mod generated;
pub(crate) mod quantity;
pub(crate) mod time;
mod zero;

pub(crate) use zero::finish;

/// An object type.
#[derive(Debug)]
pub(crate) struct Message {
    /// The Go type's name, which is also the schema's: `PodSpec`.
    pub(crate) name: &'static str,
    /// The name of its schema in OpenAPI documents: `io.k8s.api.core.v1.PodSpec`.
    #[allow(dead_code, reason = "part of what the tables say of a type, also where nobody asks")]
    pub(crate) schema: &'static str,
    /// Server-side apply takes it as one value.
    pub(crate) atomic: bool,
    /// In the order of their protobuf numbers. Those of embedded messages are in the [`Message`] of an
    /// [inline](Field::inline) field.
    pub(crate) slots: &'static [Field],
    /// Where the fields are that have names, by their names in JSON.
    pub(crate) names: &'static [(&'static str, u8)],
}

/// A field of a message.
#[derive(Debug)]
pub(crate) struct Field {
    /// Its name in JSON; empty when [inline](Self::inline).
    pub(crate) json: &'static str,
    /// Its number in protobuf; 0 when it is not written there.
    pub(crate) number: u32,
    pub(crate) ty: Ty,
    pub(crate) shape: Shape,
    /// Whether "not there" and "empty" differ for a single value.
    pub(crate) pointer: bool,
    /// Whether an empty value is left out of JSON. Of no effect for an object that is no pointer, as in Go.
    pub(crate) omit_empty: bool,
    /// Whether an object without content is left out of JSON.
    pub(crate) omit_zero: bool,
    #[allow(dead_code, reason = "part of what the tables say of a type, also where nobody asks")]
    pub(crate) required: bool,
    /// How server-side apply and schemas see a list; [`ListType::Atomic`] for everything else.
    pub(crate) list: ListType,
    /// Server-side apply takes the object or map at this field as one value.
    pub(crate) atomic: bool,
    /// What a field that names an item is when an item lacks it, as JSON text; empty when there is no default.
    pub(crate) default: &'static str,
    /// The key of a list that strategic merge patches merge; empty for others and for sets.
    pub(crate) patch_merge_key: &'static str,
    /// Whether a strategic merge patch merges the list.
    pub(crate) patch_merge: bool,
    /// Whether a strategic merge patch replaces the object's other members.
    #[allow(dead_code, reason = "part of what the tables say of a type, also where nobody asks")]
    pub(crate) patch_retain_keys: bool,
    /// The type in the words of Go's decoder: `[]v1.Container`.
    pub(crate) go: &'static str,
    /// The same of an item of a list or a value of a map.
    pub(crate) go_item: &'static str,
}

/// How many values a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Single,
    List,
    /// Keys are always strings.
    Map,
}

/// The type of one value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ty {
    String,
    Bool,
    Int32,
    Int64,
    Double,
    /// Base64 in JSON.
    Bytes,
    Quantity,
    IntOrString,
    Time,
    MicroTime,
    /// Any object.
    RawExtension,
    /// The object in `managedFields`.
    FieldsV1,
    /// A list of strings that is a message of its own.
    Strings,
    /// Any JSON value, as text in protobuf.
    Json,
    /// A JSON schema, or true or false.
    SchemaOrBool,
    /// A JSON schema, or a list of them.
    SchemaOrArray,
    /// A JSON schema, or a list of strings.
    SchemaOrStrings,
    /// A value that exists in JSON only.
    Any,
    Message(&'static Message),
}

/// How the items of a list are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListType {
    /// Not at all: the list is one value.
    Atomic,
    /// By their value.
    Set,
    /// By these fields.
    Map(&'static [&'static str]),
}

impl Field {
    /// Whether the fields of the message stand in the object itself. In protobuf it is a message like any other.
    pub(crate) fn inline(&self) -> bool {
        self.json.is_empty()
    }

    /// The message of the value, of an item or of a member.
    pub(crate) fn message(&self) -> Option<&'static Message> {
        match self.ty {
            Ty::Message(message) => Some(message),
            _ => None,
        }
    }
}

impl Message {
    /// A field by its JSON name.
    pub(crate) fn field(&'static self, json: &str) -> Option<&'static Field> {
        let own = self.names.binary_search_by(|(name, _)| (*name).cmp(json)).ok();
        let own =
            own.and_then(|at| self.names.get(at)).and_then(|(_, slot)| self.slots.get(usize::from(*slot)));
        own.or_else(|| self.inlined().find_map(|message| message.field(json)))
    }

    /// A field, or an embedded message, by its protobuf number.
    pub(crate) fn slot(&'static self, number: u32) -> Option<&'static Field> {
        self.slots.iter().find(|field| field.number == number && number != 0)
    }

    /// Every field as JSON shows it.
    pub(crate) fn fields(&'static self) -> Vec<&'static Field> {
        let mut all: Vec<&Field> = self.slots.iter().filter(|field| !field.inline()).collect();
        all.extend(self.inlined().flat_map(Self::fields));
        all
    }

    fn inlined(&'static self) -> impl Iterator<Item = &'static Self> {
        self.slots.iter().filter(|field| field.inline()).filter_map(Field::message)
    }
}

/// The type of a built-in kind. What all groups share (`Status`, `DeleteOptions`, `PartialObjectMetadata`, …) is in
/// `meta.k8s.io/v1`.
pub(crate) fn of(group: &str, version: &str, kind: &str) -> Option<&'static Message> {
    let kinds = generated::KINDS;
    let found = kinds.binary_search_by(|(known, _)| known.cmp(&[group, version, kind]));
    found.ok().and_then(|at| kinds.get(at)).map(|(_, message)| *message)
}

/// The type of a built-in kind by its `group/version`.
pub(crate) fn of_version(api_version: &str, kind: &str) -> Option<&'static Message> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    of(group, version, kind)
}

/// Every kind: group, version, kind.
#[cfg(test)]
pub(crate) fn kinds() -> impl Iterator<Item = ([&'static str; 3], &'static Message)> {
    generated::KINDS.iter().copied()
}

/// The type of a JSON schema, which the types that are "a schema or something else" contain.
pub(crate) fn json_schema() -> &'static Message {
    &generated::APIEXTENSIONS_V1_JSON_SCHEMA_PROPS
}

/// The type of an object's metadata.
pub(crate) fn object_meta() -> &'static Message {
    &generated::META_V1_OBJECT_META
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod_spec() -> &'static Message {
        of("", "v1", "Pod").unwrap().field("spec").unwrap().message().unwrap()
    }

    #[test]
    fn a_field_is_found_by_name_and_by_number() {
        let containers = pod_spec().field("containers").unwrap();
        assert_eq!((containers.number, containers.shape, containers.required), (2, Shape::List, true));
        assert_eq!(containers.list, ListType::Map(&["name"]));
        assert_eq!((containers.patch_merge, containers.patch_merge_key), (true, "name"));
        assert!(std::ptr::eq(pod_spec().slot(2).unwrap(), containers));
        assert_eq!(containers.go, "[]v1.Container");
        assert!(pod_spec().field("Containers").is_none());
        assert!(of("", "v1", "Frog").is_none());
    }

    #[test]
    fn embedded_messages_are_flat_in_json_only() {
        let volume = pod_spec().field("volumes").unwrap();
        assert!(volume.patch_retain_keys);
        let volume = volume.message().unwrap();
        let secret = volume.field("secret").unwrap();
        assert!(volume.fields().iter().any(|field| std::ptr::eq(*field, secret)));
        assert!(!volume.slots.iter().any(|field| field.json == "secret"));
        assert!(volume.slot(2).unwrap().inline());
    }

    #[test]
    fn ports_know_their_default_protocol() {
        let container = pod_spec().field("containers").unwrap().message().unwrap();
        let ports = container.field("ports").unwrap();
        assert_eq!(ports.list, ListType::Map(&["containerPort", "protocol"]));
        assert_eq!(ports.message().unwrap().field("protocol").unwrap().default, "\"TCP\"");
        assert_eq!(ports.patch_merge_key, "containerPort");
    }

    #[test]
    fn tables_are_consistent() {
        let mut seen: Vec<&Message> = Vec::new();
        let mut left: Vec<&'static Message> = kinds().map(|(_, message)| message).collect();
        while let Some(message) = left.pop() {
            if seen.iter().any(|known| std::ptr::eq(*known, message)) {
                continue;
            }
            seen.push(message);
            left.extend(message.slots.iter().filter_map(Field::message));
            let mut numbers: Vec<u32> = message.slots.iter().map(|f| f.number).filter(|n| *n > 0).collect();
            let count = numbers.len();
            numbers.dedup();
            assert!(numbers.is_sorted() && numbers.len() == count, "{}", message.name);
            assert!(message.names.is_sorted(), "{}", message.name);
            for field in message.fields() {
                assert!(
                    std::ptr::eq(message.field(field.json).unwrap(), field),
                    "{}.{}",
                    message.name,
                    field.json
                );
                let items = field.message();
                if let ListType::Map(keys) = field.list {
                    let known = |key: &&str| items.is_some_and(|item| item.field(key).is_some());
                    assert!(keys.iter().all(known), "{}.{}", message.name, field.json);
                }
                if !field.patch_merge_key.is_empty() && field.shape == Shape::List {
                    let item = items.unwrap_or_else(|| panic!("{}.{}", message.name, field.json));
                    assert!(item.field(field.patch_merge_key).is_some(), "{}.{}", message.name, field.json);
                }
            }
        }
        assert!(seen.len() > 400 && generated::KINDS.is_sorted_by_key(|(kind, _)| kind));
    }
}
