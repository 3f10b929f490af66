//! Request bodies as objects: what a real server's decoder accepts, drops, completes and refuses, in its words.

pub(crate) mod json;
pub(crate) mod moment;
#[cfg(test)]
mod tests;
mod typed;
pub(crate) mod yaml;

use serde_json::{Map, Value};

use self::json::{Members, Node};
use crate::failure::{Cause, Failure};
use crate::object::too_deep;
use crate::registry::Served;
use crate::types::{self, Message};
use crate::wire::Envelope;

/// An object as it was meant, and what is to be said about how it was written: `unknown field "spec.foo"`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decoded {
    pub(crate) object: Value,
    pub(crate) remarks: Vec<String>,
    /// What errors quote when it is the work of a patch; empty when nobody will ask.
    pub(crate) patched: Option<String>,
}

impl Decoded {
    /// An object that needs no decoding.
    pub(crate) fn new(object: Map<String, Value>, remarks: Vec<String>) -> Self {
        Self { object: Value::Object(object), remarks, patched: None }
    }

    /// Why an object is refused on which there are remarks.
    pub(crate) fn strict_error(remarks: &[String], patched: Option<&str>, served: &Served) -> Failure {
        // Keys that are there twice in YAML are found by its parser, which puts them below a line of its own.
        let head =
            if remarks.first().is_some_and(|first| first.ends_with(yaml::TWICE)) { yaml::HEAD } else { "" };
        let why = format!("strict decoding error: {head}{}", remarks.join(", "));
        match patched {
            Some(quoted) => Failure::patched(quoted, &why),
            None => Kind::of(served).mistyped(why),
        }
    }
}

/// Why a document is no object of the kind that was expected.
enum Problem {
    /// It does not say what it is.
    Unrecognized(String),
    /// It says what it is (version, kind), and is not that.
    Unhandled(String, String, String),
    Refused(Failure),
}

impl Problem {
    fn why(self) -> Result<String, Failure> {
        match self {
            Self::Unrecognized(why) | Self::Unhandled(_, _, why) => Ok(why),
            Self::Refused(failure) => Err(failure),
        }
    }
}

/// The kind of object a body is taken for when it does not say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
    /// Its type, unless it is custom.
    pub(crate) message: Option<&'static Message>,
}

impl Kind<'static> {
    /// A built-in kind.
    pub(crate) fn named(group: &'static str, version: &'static str, kind: &'static str) -> Self {
        Self { group, version, kind, message: types::of(group, version, kind) }
    }
}

impl<'a> Kind<'a> {
    /// The kind of a resource.
    pub(crate) fn of(served: &'a Served) -> Self {
        let Served { group, version, kind, message, .. } = served;
        Self { group, version, kind, message: *message }
    }

    fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    fn unrecognized(&self, why: impl std::fmt::Display, bytes: &[u8]) -> Failure {
        // Options of requests belong to no resource, and are quoted without it.
        if self.group == "meta.k8s.io" {
            return Failure::bad_request(why.to_string());
        }
        let (kind, data) = (self.kind, summary(bytes));
        Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({data})"
        ))
    }

    /// An object that says it is of a kind could not be taken for one of this kind.
    fn unhandled(&self, (version, kind): (&str, &str), why: impl std::fmt::Display) -> Failure {
        if self.group == "meta.k8s.io" {
            return Failure::bad_request(why.to_string());
        }
        let wanted = self.kind;
        Failure::bad_request(format!("{kind} in version {version:?} cannot be handled as a {wanted}: {why}"))
    }

    fn mistyped(&self, why: impl std::fmt::Display) -> Failure {
        self.unhandled((self.version, self.kind), why)
    }

    fn failure(&self, problem: Problem, bytes: &[u8]) -> Failure {
        match problem {
            Problem::Unrecognized(why) => self.unrecognized(why, bytes),
            Problem::Unhandled(version, kind, why) => self.unhandled((&version, &kind), why),
            Problem::Refused(failure) => failure,
        }
    }

    fn wrong(&self, why: impl std::fmt::Display) -> Problem {
        Problem::Unhandled(self.version.to_owned(), self.kind.to_owned(), why.to_string())
    }
}

/// The beginning of a body, for an error.
fn summary(bytes: &[u8]) -> String {
    const MOST: usize = 30;
    let head = bytes.get(..MOST).unwrap_or(bytes);
    let more = if bytes.len() > MOST { " ..." } else { "" };
    match head.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(head)),
        Some(_) => format!("{}{more}", head.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
    }
}

/// What a document says it is.
struct Type {
    api_version: String,
    kind: String,
}

/// Reads the type of a document, in the way a real server does before it knows what to decode it as.
fn interpret(node: &Node<'_>) -> Result<Type, String> {
    let mut found = Type { api_version: String::new(), kind: String::new() };
    let members = match node {
        Node::Object(members) => members,
        Node::Null => return Ok(found),
        node => {
            return Err(format!(
                "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
                 \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
                node.kind()
            ));
        }
    };
    for (name, node) in members {
        let place = match &**name {
            "apiVersion" => &mut found.api_version,
            "kind" => &mut found.kind,
            _ => continue,
        };
        match node {
            Node::Text(text) => text.as_ref().clone_into(place),
            Node::Null => {}
            node => {
                let kind = node.kind();
                return Err(format!(
                    "json: cannot unmarshal {kind} into Go struct field .{name} of type string"
                ));
            }
        }
    }
    Ok(found)
}

/// Decodes a JSON body.
pub(crate) fn json(bytes: &[u8], wanted: Kind<'_>) -> Result<Decoded, Failure> {
    let parsed = Node::parse(bytes).and_then(|node| interpret(&node).map(|found| (node, found)));
    let (node, found) = parsed.map_err(|error| {
        wanted.unrecognized(format!("couldn't get version/kind; json parse error: {error}"), bytes)
    })?;
    document(node, &found, wanted, bytes).map_err(|problem| wanted.failure(problem, bytes))
}

/// Decodes a YAML body. The parser of YAML keeps no order, so remarks come in the order of the names.
pub(crate) fn yaml(bytes: &[u8], wanted: Kind<'_>) -> Result<Decoded, Failure> {
    let value = yaml::read(bytes).map_err(|error| wanted.unrecognized(error, bytes))?;
    let node = Node::of(&value);
    let found = interpret(&node).map_err(|error| {
        wanted.unrecognized(format!("couldn't get version/kind; json parse error: {error}"), bytes)
    })?;
    let mut decoded =
        document(node, &found, wanted, bytes).map_err(|problem| wanted.failure(problem, bytes))?;
    decoded.remarks.splice(0..0, yaml::duplicate(bytes));
    Ok(decoded)
}

/// Decodes an object that was made from a stored one.
pub(crate) fn value(value: &Value, served: &Served) -> Result<Decoded, Failure> {
    let wanted = Kind::of(served);
    of_value(value, wanted).map_err(|problem| wanted.failure(problem, value.to_string().as_bytes()))
}

/// What Go's converter of maps says of a text that does not decode.
fn in_maps(why: String) -> String {
    if why.starts_with("illegal base64") { format!("error decoding from json: {why}") } else { why }
}

/// Decodes a value, or says why it cannot be one of its kind in the words of Go's converter of maps.
pub(crate) fn converted(
    value: &Value,
    served: &Served,
    failure: impl FnOnce(&str) -> Failure,
) -> Result<Decoded, Failure> {
    let problem = match of_value(value, Kind::of(served)) {
        Ok(decoded) => return Ok(decoded),
        Err(problem) => problem,
    };
    let why = problem.why()?;
    let why = if why.starts_with("illegal base64") {
        in_maps(why)
    } else if why.starts_with("json: cannot unmarshal number") && why.contains(" of type int") {
        "cannot convert float64 to int64".to_owned()
    } else {
        why
    };
    Err(failure(&why))
}

/// Checks what a patch made of a part of an object that has a kind of its own.
pub(crate) fn check_part(value: &Value, kind: Kind<'_>) -> Result<(), Failure> {
    match of_value(value, kind) {
        Ok(_) => Ok(()),
        Err(problem) => problem.why().and_then(|why| Err(Failure::patched(&value.to_string(), &why))),
    }
}

/// Decodes what a patch made of an object. `quoted` is what errors show of it; a strategic patch is read as a map.
///
/// What the patch left alone was decoded when it was stored: only the rest is read again.
pub(crate) fn patched(
    new: Value,
    old: &Value,
    served: &Served,
    strategic: bool,
    quoted: impl Fn() -> String,
) -> Result<Decoded, Failure> {
    if let Some(failure) = of_another_version(&new, served) {
        return Err(failure);
    }
    let wanted = Kind::of(served);
    let (changed, same) = split(new, old);
    let whole = match of_value(&changed, wanted) {
        Ok(mut decoded) => {
            if let Value::Object(members) = &mut decoded.object {
                members.extend(same);
            }
            return Ok(Decoded { patched: Some(String::new()), ..decoded });
        }
        Err(_) => joined(changed, same),
    };
    // A built-in kind is read from the text of the patched object.
    if let (false, Err(error)) = (served.custom, interpret(&Node::of(&whole))) {
        let why = format!("couldn't get version/kind; json parse error: {error}");
        return Err(Failure::patched(&quoted(), &why));
    }
    // An error may quote anything.
    match of_value(&whole, wanted) {
        Ok(decoded) => Ok(Decoded { patched: Some(String::new()), ..decoded }),
        Err(problem) => {
            let why = problem.why()?;
            Err(Failure::patched(&quoted(), &if strategic { in_maps(why) } else { why }))
        }
    }
}

/// The members of an object that are not as they were, with its type, and those that are.
fn split(new: Value, old: &Value) -> (Value, Map<String, Value>) {
    let Value::Object(members) = new else { return (new, Map::new()) };
    let is_type = |name: &str| matches!(name, "apiVersion" | "kind");
    let (same, changed): (Map<String, Value>, Map<String, Value>) =
        members.into_iter().partition(|(name, value)| !is_type(name) && old.get(name) == Some(value));
    (Value::Object(changed), same)
}

fn joined(changed: Value, same: Map<String, Value>) -> Value {
    match changed {
        Value::Object(mut members) => {
            members.extend(same);
            Value::Object(members)
        }
        other => other,
    }
}

/// A custom resource may not be patched into another version. No version has the fields of one that there is none of.
fn of_another_version(value: &Value, served: &Served) -> Option<Failure> {
    let object = value.as_object().filter(|_| served.custom)?;
    let found =
        object.get("apiVersion").and_then(Value::as_str).filter(|found| *found != &*served.api_version)?;
    let cause = Cause::invalid("apiVersion", found, &format!("must be {}", served.api_version));
    let name = value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let unknown = object.keys().filter(|name| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
    let warnings: Vec<String> = unknown.map(|name| format!("unknown field {name:?}")).collect();
    Some(Failure::invalid(served, name, vec![cause]).warned(&warnings))
}

fn of_value(value: &Value, wanted: Kind<'_>) -> Result<Decoded, Problem> {
    let node = Node::of(value);
    let found = interpret(&node).map_err(Problem::Unrecognized)?;
    // Only an object whose type is missing is quoted.
    let text = if found.kind.is_empty() { value.to_string() } else { String::new() };
    document(node, &found, wanted, text.as_bytes())
}

/// What Go calls a value in errors.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    Node::of(value).kind()
}

/// Parses JSON that is not an object yet, with remarks on what it says twice.
pub(crate) fn parse(bytes: &[u8]) -> Result<(Value, Vec<String>), String> {
    let node = Node::parse(bytes)?;
    let mut remarks = Vec::new();
    within(&node, &mut String::new(), &mut remarks);
    Ok((node.into_value(), remarks))
}

fn document(node: Node<'_>, found: &Type, wanted: Kind<'_>, bytes: &[u8]) -> Result<Decoded, Problem> {
    let Some(message) = wanted.message else {
        return custom(node, found, wanted, bytes);
    };
    let members = match node {
        Node::Object(members) => members,
        _ => Vec::new(),
    };
    let mistaken = check_type(found, wanted).err();
    if let (Some(other), Some(_)) = (types::of_version(&found.api_version, &found.kind), &mistaken) {
        // It is decoded as what it says it is before anybody sees that this is not what was wanted.
        let version = found.api_version.rsplit('/').next().unwrap_or_default().to_owned();
        let wrong = |why| Problem::Unhandled(version, found.kind.clone(), why);
        typed::decode(other, members.clone(), None).map_err(wrong)?;
    }
    if let Some(problem) = mistaken {
        return Err(problem);
    }
    let (mut object, remarks) = typed::decode(message, members, None).map_err(|why| wanted.wrong(why))?;
    stamp(&mut object, wanted);
    checked(Decoded::new(object, remarks))
}

/// What was stored must be readable again.
fn checked(decoded: Decoded) -> Result<Decoded, Problem> {
    if too_deep(&decoded.object) {
        return Err(Problem::Refused(Failure::bad_request("the object is nested too deeply")));
    }
    Ok(decoded)
}

fn stamp(object: &mut Map<String, Value>, wanted: Kind<'_>) {
    object.insert("kind".into(), wanted.kind.into());
    object.insert("apiVersion".into(), wanted.api_version().into());
}

/// A body may leave out its type. One that names another is refused, in different words for each reason.
fn check_type(found: &Type, wanted: Kind<'_>) -> Result<(), Problem> {
    let (group, version) = match found.api_version.split('/').collect::<Vec<_>>().as_slice() {
        [""] => (wanted.group, wanted.version),
        [version] => ("", *version),
        [group, version] => (*group, *version),
        _ => {
            let why = format!("unexpected GroupVersion string: {}", found.api_version);
            return Err(Problem::Unrecognized(why));
        }
    };
    let kind = if found.kind.is_empty() { wanted.kind } else { &found.kind };
    // Options may name the group they are sent to.
    if (group, version, kind) == (wanted.group, wanted.version, wanted.kind)
        || (wanted.group == "meta.k8s.io" && kind == wanted.kind)
    {
        return Ok(());
    }
    let full = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    // Answers are registered too, though nobody serves them.
    let registered =
        types::of(group, version, kind).is_some() || (group, version, kind) == ("", "v1", "Status");
    if wanted.group == "meta.k8s.io" || !registered {
        let why = format!(
            "no kind {kind:?} is registered for version {full:?} in scheme \"pkg/runtime/scheme.go:111\""
        );
        return Err(Problem::Unhandled(version.to_owned(), kind.to_owned(), why));
    }
    if kind == wanted.kind {
        return Err(Problem::Refused(other_version(&full, &wanted.api_version())));
    }
    let internal = internal_group(wanted.group);
    let why = format!("converting ({version}.{kind}) to ({internal}.{}): unknown conversion", wanted.kind);
    Err(Problem::Unhandled(version.to_owned(), kind.to_owned(), why))
}

fn other_version(found: &str, expected: &str) -> Failure {
    Failure::bad_request(format!(
        "the API version in the data ({found}) does not match the expected API version ({expected})"
    ))
}

/// What a real server calls a group in its own code.
fn internal_group(group: &str) -> &str {
    match group.split('.').next() {
        None | Some("" | "events") => "core",
        Some(name) => name,
    }
}

/// A custom resource: its metadata has a type, everything else is for its schema.
fn custom(node: Node<'_>, found: &Type, wanted: Kind<'_>, bytes: &[u8]) -> Result<Decoded, Problem> {
    if found.api_version.matches('/').count() > 1 {
        let why = format!("unexpected GroupVersion string: {}", found.api_version);
        return Err(Problem::Unrecognized(why));
    }
    if found.kind.is_empty() {
        let text = String::from_utf8_lossy(bytes);
        return Err(Problem::Unrecognized(format!("Object 'Kind' is missing in '{text}'")));
    }
    let expected = wanted.api_version();
    if found.api_version != expected {
        return Err(Problem::Refused(other_version(&found.api_version, &expected)));
    }
    let Node::Object(members) = node else {
        return Err(Problem::Unrecognized("the body is not an object".into()));
    };
    let mut remarks = Vec::new();
    duplicates(&members, &mut String::new(), &mut remarks);
    let (mut object, mut metadata) = (Map::new(), Vec::new());
    for (name, node) in members {
        match (&*name, node) {
            ("metadata", Node::Object(members)) => metadata = members,
            ("metadata", Node::Null) => {}
            ("metadata", node) => {
                let kind = node.kind();
                let why = format!("json: cannot unmarshal {kind} into Go value of type v1.ObjectMeta");
                return Err(wanted.wrong(why));
            }
            (_, node) => {
                object.insert(name.into_owned(), node.into_value());
            }
        }
    }
    let metadata = typed::decode(types::object_meta(), metadata, Some("metadata"));
    let (metadata, unknown) = metadata.map_err(|why| wanted.wrong(why))?;
    remarks.extend(unknown.into_iter().filter(|remark| !remark.starts_with("duplicate")));
    if found.kind != wanted.kind {
        let name = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
        let cause = Cause::invalid("kind", found.kind.as_str(), &format!("must be {}", wanted.kind));
        let failure = Failure::invalid_kind(&found.kind, wanted.group, name, vec![cause]);
        return Err(Problem::Refused(failure));
    }
    object.insert("metadata".into(), Value::Object(metadata));
    checked(Decoded::new(object, remarks))
}

/// Members that are named twice, anywhere in a document.
fn duplicates(members: &Members<'_>, path: &mut String, remarks: &mut Vec<String>) {
    let mut seen = std::collections::HashSet::with_capacity(members.len());
    for (name, node) in members {
        let length = path.len();
        if length > 0 {
            path.push('.');
        }
        path.push_str(name);
        if !seen.insert(&**name) {
            let remark = format!("duplicate field {path:?}");
            if !remarks.contains(&remark) && remarks.len() < 100 {
                remarks.push(remark);
            }
        }
        within(node, path, remarks);
        path.truncate(length);
    }
}

fn within(node: &Node<'_>, path: &mut String, remarks: &mut Vec<String>) {
    match node {
        Node::Object(members) => duplicates(members, path, remarks),
        Node::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let length = path.len();
                path.push_str(&format!("[{index}]"));
                within(item, path, remarks);
                path.truncate(length);
            }
        }
        Node::Null | Node::Bool(_) | Node::Number(_) | Node::Text(_) => {}
    }
}

/// Decodes a protobuf body. What the envelope does not name is what was expected.
pub(crate) fn protobuf(
    bytes: &[u8],
    message: &'static Message,
    wanted: Kind<'_>,
) -> Result<Decoded, Failure> {
    let envelope = Envelope::open(bytes).map_err(|error| wanted.unrecognized(error, bytes))?;
    let found = Type { api_version: envelope.api_version.clone(), kind: envelope.kind.clone() };
    if found.api_version.matches('/').count() < 2
        && let Err(problem) = check_type(&found, wanted)
    {
        // It is decoded as what it says it is before anybody sees that this is not what was wanted.
        let decoded = types::of_version(&found.api_version, &found.kind).map(|other| envelope.decode(other));
        let problem = match decoded {
            Some(Err(error)) => {
                let version = found.api_version.rsplit('/').next().unwrap_or_default().to_owned();
                Problem::Unhandled(version, found.kind, error.to_string())
            }
            _ => problem,
        };
        return Err(wanted.failure(problem, bytes));
    }
    let mut object = envelope.decode(message).map_err(|error| wanted.mistyped(error))?;
    stamp(&mut object, wanted);
    Ok(Decoded::new(object, Vec::new()))
}
