//! Who owns the fields of what is served: the resources of the registry as `fields` sees them.

use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::LazyLock;

use super::admit;
use super::update::Scope;
use crate::failure::Failure;
use crate::fields::{self, Set, Shape, Target, Version, Versions, Writer};
use crate::object::meta;
use crate::registry::{Catalog, Served};
use crate::types;

/// One writer at one door of one resource.
#[derive(Clone, Copy)]
pub(crate) struct Track<'a> {
    pub(crate) served: &'a Served,
    pub(crate) catalog: &'a Catalog,
    pub(crate) writer: Writer<'a>,
    /// What was found not to be sent before the server added to it; looked for in the object if not given.
    pub(crate) unsent: Option<&'a Set>,
}

impl Scope {
    /// The name of the door; empty for the object itself.
    pub(crate) fn subresource(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
        }
    }
}

/// How writers share the objects of a resource.
fn shape(served: &Served) -> Shape<'_> {
    match (&served.schema, served.message) {
        (Some(schema), _) => Shape::resource(schema),
        (None, Some(message)) => Shape::built_in(message),
        (None, None) => Shape::Deduced,
    }
}

static NOTHING: Set = Set::new();

/// Places that a door does not write.
fn reset(served: &Served, subresource: &str) -> &'static Set {
    static STATUS: LazyLock<Set> = LazyLock::new(|| Set::of_fields(&[&["status"]]));
    static SPEC: LazyLock<Set> = LazyLock::new(|| Set::of_fields(&[&["spec"]]));
    static ALL_BUT_STATUS: LazyLock<Set> = LazyLock::new(|| Set::of_fields(&[&["metadata"], &["spec"]]));
    static OF_PODS: LazyLock<Set> = LazyLock::new(|| {
        Set::of_fields(&[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]])
    });
    static OF_DEPLOYMENTS: LazyLock<Set> =
        LazyLock::new(|| Set::of_fields(&[&["spec"], &["metadata", "labels"]]));
    match subresource {
        "" | "finalize" if served.status => &STATUS,
        "status" if served.custom => &ALL_BUT_STATUS,
        "status" if served.is_core("pods") => &OF_PODS,
        "status" if served.group == "apps" && served.plural == "deployments" => &OF_DEPLOYMENTS,
        "status" => &SPEC,
        _ => &NOTHING,
    }
}

/// What the server writes into new objects of a kind beside defaults, which belong to whoever leaves them to the server.
fn server_written(group: &str, plural: &str) -> &'static [&'static [&'static [&'static str]]] {
    match (group, plural) {
        ("", "pods") => &[
            &[&["spec", "serviceAccountName"], &["spec", "serviceAccount"]],
            &[&["spec", "tolerations"]],
            &[&["spec", "priority"]],
            &[&["spec", "preemptionPolicy"]],
        ],
        ("", "services") => &[
            &[&["spec", "clusterIP"]],
            &[&["spec", "clusterIPs"]],
            &[&["spec", "ipFamilies"]],
            &[&["spec", "ipFamilyPolicy"]],
            &[&["spec", "healthCheckNodePort"]],
        ],
        ("", "namespaces") => &[&[&["spec", "finalizers"]]],
        ("", "persistentvolumes" | "persistentvolumeclaims") => &[&[&["metadata", "finalizers"]]],
        ("batch", "jobs") => &[
            &[&["spec", "selector"]],
            &[&["spec", "template", "metadata", "labels"]],
            &[&["spec", "template", "metadata", "labels", "controller-uid"]],
            &[&["spec", "template", "metadata", "labels", "job-name"]],
            &[&["spec", "template", "metadata", "labels", "batch.kubernetes.io/controller-uid"]],
            &[&["spec", "template", "metadata", "labels", "batch.kubernetes.io/job-name"]],
        ],
        _ => &[],
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().any(has_null),
        Value::Array(items) => items.iter().any(has_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

impl Track<'_> {
    fn target(&self, stale: bool) -> Target<'_> {
        Target {
            api_version: &self.served.api_version,
            kind: &self.served.kind,
            own: Version {
                shape: shape(self.served),
                reset: reset(self.served, self.writer.subresource),
                unsent: None,
            },
            versions: self,
            stale,
        }
    }

    /// What the server itself will write into a new object. Whoever sends it owns it; otherwise nobody does.
    pub(crate) fn unsent(&self, body: &Value) -> Cow<'_, Set> {
        if let Some(known) = self.unsent {
            return Cow::Borrowed(known);
        }
        let served = self.served;
        let paths = server_written(&served.group, &served.plural);
        let is_sent = |path: &[&str]| path.iter().try_fold(body, |value, part| value.get(part)).is_some();
        let unsent: Vec<&[&str]> = paths
            .iter()
            // Alternative names of one thing come together: whoever sends one sends both.
            .filter(|names| !names.iter().any(|path| is_sent(path)))
            .flat_map(|names| names.iter().copied())
            .collect();
        // Nearly all pods are sent without any of it.
        if served.is_core("pods") && unsent.len() == paths.iter().map(|names| names.len()).sum::<usize>() {
            static OF_PODS: LazyLock<Set> =
                LazyLock::new(|| Set::of_fields(&server_written("", "pods").concat()));
            return Cow::Borrowed(&OF_PODS);
        }
        Cow::Owned(Set::of_fields(&unsent))
    }

    /// Says in a new object who made it, except for what was not sent.
    pub(crate) fn created(&self, new: &mut Value, unsent: &Set) {
        let mut target = self.target(false);
        target.own.unsent = Some(unsent);
        fields::update(&target, &self.writer, blank(self.served), new);
    }

    /// Says in a changed object who owns what now.
    pub(crate) fn updated(&self, old: &Value, new: &mut Value) {
        fields::update(&self.target(self.served.is_stale(old)), &self.writer, old, new);
    }

    /// What a configuration makes of an object, or of none.
    pub(crate) fn applied(&self, old: Option<&Value>, config: &Value, force: bool) -> Result<Value, Failure> {
        let target = self.target(old.is_some_and(|old| self.served.is_stale(old)));
        let blank;
        let live = match old {
            Some(old) => old,
            None => {
                blank = self.blank();
                &blank
            }
        };
        fields::apply(&target, &self.writer, live, config, force).map_err(Failure::apply)
    }

    /// A part of a custom resource that its owner applied empty, and in which nothing is left, is null and not gone:
    /// its schema has to allow that.
    pub(crate) fn check_emptied(&self, applied: &Value, old: Option<&Value>) -> Result<(), Failure> {
        let Some(schema) = self.served.schema.as_ref().filter(|_| has_null(applied)) else {
            return Ok(());
        };
        // A default takes the place of a null before anybody looks.
        let mut defaulted = applied.clone();
        schema.default_nulls(&mut defaulted);
        // The status is not written through this door, and goes before anybody looks as well.
        if let (true, Some(map)) =
            (self.served.status && self.writer.subresource.is_empty(), defaulted.as_object_mut())
        {
            map.remove("status");
        }
        let scope = if self.writer.subresource == "status" { Scope::Status } else { Scope::Main };
        let causes = admit::validate(self.served, &defaulted, old, scope);
        if !causes.iter().any(|cause| cause.message.starts_with("Invalid value: \"null\"")) {
            return Ok(());
        }
        Err(Failure::invalid(self.served, meta(applied, "name"), causes))
    }

    pub(super) fn sibling(&self, api_version: &str) -> Option<&Served> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        // The two Event APIs are versions of one thing in the store, and of two things here.
        let served =
            self.catalog.get(group, version, &self.served.plural).filter(|_| group == self.served.group)?;
        (served.table == self.served.table).then_some(served)
    }
}

/// A type that is not stored, and has one version.
#[derive(Clone, Copy)]
pub(crate) struct OneVersion {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
}

impl OneVersion {
    fn message(&self) -> Option<&'static types::Message> {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", self.api_version));
        types::of(group, version, self.kind)
    }

    pub(crate) fn target(&self) -> Target<'_> {
        let shape = self.message().map_or(Shape::Deduced, Shape::built_in);
        let own = Version { shape, reset: &NOTHING, unsent: None };
        Target { api_version: self.api_version, kind: self.kind, own, versions: self, stale: false }
    }

    /// Says in an object who made it.
    pub(crate) fn created(&self, writer: &Writer<'_>, new: &mut Value) {
        fields::update(&self.target(), writer, &self.blank(), new);
    }
}

impl Versions for OneVersion {
    fn blank(&self) -> Value {
        typed(self.message().map(fields::blank), self.api_version, self.kind)
    }
}

/// An object of a resource before anybody wrote to it.
fn blank(served: &Served) -> &Value {
    served.blank.get_or_init(|| typed(served.message.map(fields::blank), &served.api_version, &served.kind))
}

/// An object of a type with nothing but its type in it.
fn typed(blank: Option<Value>, api_version: &str, kind: &str) -> Value {
    let mut blank = blank.unwrap_or_else(|| json!({}));
    if let Some(map) = blank.as_object_mut() {
        map.insert("apiVersion".into(), api_version.into());
        map.insert("kind".into(), kind.into());
    }
    blank
}

impl Versions for Track<'_> {
    fn version(&self, api_version: &str) -> Option<Version<'_>> {
        let served = self.sibling(api_version)?;
        // The object of a custom resource hides its status from its own version only; other doors agree in all.
        let reset = match (served.custom, self.writer.subresource) {
            (true, "") => &NOTHING,
            (_, subresource) => reset(served, subresource),
        };
        Some(Version { shape: shape(served), reset, unsent: None })
    }

    fn convert(&self, object: &Value, api_version: &str) -> Value {
        let mut object = object.clone();
        if let Some(served) = self.sibling(api_version) {
            self.served.store_form(&mut object);
            served.present(&mut object);
        }
        object
    }

    fn convert_back(&self, mut object: Value) -> Value {
        let api_version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(served) = self.sibling(&api_version) {
            served.store_form(&mut object);
            self.served.present(&mut object);
        }
        object
    }

    fn blank(&self) -> Value {
        blank(self.served).clone()
    }
}
