//! The `Status` a request is answered with when it fails, in the words clients know.

use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::HashSet;
use std::time::Duration;

use crate::fields::{ApplyError, Conflict};
use crate::registry::Served;
use crate::schema::FieldError;
use crate::store::backend::BackendError;

/// The most causes that one answer lists. A real server lists them all, and its answer to a body of three megabytes can
/// take hundreds.
pub(crate) const MOST_CAUSES: usize = 1000;
/// The most bytes of causes, after the first one: each of them may quote much of the body.
const MOST_BYTES: usize = 1 << 20;

/// One field that is wrong.
#[derive(Clone, Debug)]
pub(crate) struct Cause {
    pub(crate) field: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl Cause {
    fn new(field: impl Into<String>, reason: &str, message: String) -> Self {
        Self { field: field.into(), reason: reason.into(), message }
    }

    pub(crate) fn required(field: impl Into<String>, why: &str) -> Self {
        let message = if why.is_empty() { "Required value".into() } else { format!("Required value: {why}") };
        Self::new(field, "FieldValueRequired", message)
    }

    pub(crate) fn invalid(field: impl Into<String>, value: impl Into<Value>, why: &str) -> Self {
        Self::invalid_text(field, &value.into().to_string(), why)
    }

    /// For a value that is quoted otherwise than as JSON in the order of its keys.
    pub(crate) fn invalid_text(field: impl Into<String>, value: &str, why: &str) -> Self {
        Self::new(field, "FieldValueInvalid", format!("Invalid value: {value}: {why}"))
    }

    pub(crate) fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self::new(field, "FieldValueForbidden", format!("Forbidden: {why}"))
    }

    pub(crate) fn unsupported(field: impl Into<String>, value: impl Into<Value>, supported: &str) -> Self {
        Self::new(
            field,
            "FieldValueNotSupported",
            format!("Unsupported value: {}: {supported}", value.into()),
        )
    }

    /// For a value that is quoted otherwise than as JSON.
    pub(crate) fn unsupported_text(field: impl Into<String>, value: &str, supported: &str) -> Self {
        Self::new(field, "FieldValueNotSupported", format!("Unsupported value: {value}: {supported}"))
    }

    /// For a value that is quoted otherwise than as JSON.
    pub(crate) fn duplicate_text(field: impl Into<String>, value: &str) -> Self {
        Self::new(field, "FieldValueDuplicate", format!("Duplicate value: {value}"))
    }

    pub(crate) fn not_found(field: impl Into<String>, value: &str) -> Self {
        Self::new(field, "FieldValueNotFound", format!("Not found: {value:?}"))
    }

    pub(crate) fn internal(field: impl Into<String>, why: &str) -> Self {
        Self::new(field, "InternalError", format!("Internal error: {why}"))
    }

    pub(crate) fn too_long(field: impl Into<String>, max: usize) -> Self {
        Self::new(field, "FieldValueTooLong", format!("Too long: may not be more than {max} bytes"))
    }

    pub(crate) fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(field, "FieldValueDuplicate", format!("Duplicate value: {}", value.into()))
    }
}

impl From<FieldError> for Cause {
    fn from(error: FieldError) -> Self {
        Self { field: error.field, reason: error.reason.to_string(), message: error.message }
    }
}

/// A failed request. Boxed, because it travels in every `Result` and is rare.
#[derive(Clone, Debug)]
pub(crate) struct Failure(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    code: u16,
    reason: Cow<'static, str>,
    message: String,
    details: Map<String, Value>,
    metadata: Map<String, Value>,
    /// Has details even where there is nothing to say in them.
    detailed: bool,
    /// What the client is warned of beside.
    warnings: Vec<String>,
}

impl Failure {
    fn new(code: u16, reason: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        let (details, metadata) = (Map::new(), Map::new());
        let reason = reason.into();
        let detailed = reason == "Forbidden";
        let (message, warnings) = (message.into(), Vec::new());
        Self(Box::new(Inner { code, reason, message, details, metadata, detailed, warnings }))
    }

    /// A failure of the server as a whole rather than of one resource.
    fn generic(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        let mut failure = Self::new(code, reason, message);
        failure.0.detailed = true;
        failure
    }

    fn about(mut self, kind: &str, group: &str, name: &str) -> Self {
        for (field, value) in [("name", name), ("group", group), ("kind", kind)] {
            if !value.is_empty() {
                self.0.details.insert(field.into(), value.into());
            }
        }
        self
    }

    /// The same with what there was to warn of before it failed.
    pub(crate) fn warned(mut self, warnings: &[String]) -> Self {
        self.0.warnings.splice(0..0, warnings.iter().cloned());
        self
    }

    pub(crate) fn warnings(&self) -> &[String] {
        &self.0.warnings
    }

    pub(crate) fn code(&self) -> u16 {
        self.0.code
    }

    /// Whether the name of a new object was taken.
    pub(crate) fn is_taken(&self) -> bool {
        self.0.reason == "AlreadyExists"
    }

    /// The `Status` object.
    pub(crate) fn status(&self) -> Value {
        let inner = &self.0;
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": inner.metadata, "status": "Failure",
            "message": inner.message, "reason": inner.reason, "code": inner.code,
        });
        if let (Some(map), true) = (status.as_object_mut(), inner.reason.is_empty()) {
            map.remove("reason");
        }
        let bare = inner.details.is_empty() && !inner.detailed;
        if let (Some(map), false) = (status.as_object_mut(), bare) {
            map.insert("details".into(), Value::Object(inner.details.clone()));
        }
        status
    }

    pub(crate) fn not_found(served: &Served, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", served.qualified())).about(
            &served.plural,
            &served.group,
            name,
        )
    }

    pub(crate) fn namespace_not_found(name: &str) -> Self {
        Self::new(404, "NotFound", format!("namespaces \"{name}\" not found")).about("namespaces", "", name)
    }

    /// The name is taken by an object that its finalizers, or a node, keep for a while.
    pub(crate) fn still_exists(served: &Served, name: &str) -> Self {
        let message = format!("object is being deleted: {} \"{name}\" already exists", served.qualified());
        Self::new(409, "AlreadyExists", message).about(&served.plural, &served.group, name)
    }

    pub(crate) fn already_exists(served: &Served, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", served.qualified())).about(
            &served.plural,
            &served.group,
            name,
        )
    }

    pub(crate) fn conflict(served: &Served, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", served.qualified());
        Self::new(409, "Conflict", message).about(&served.plural, &served.group, name)
    }

    /// A conflict about something that is not a resource.
    pub(crate) fn conflict_of(kind: &str, group: &str, name: &str, why: &str) -> Self {
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let message = format!("Operation cannot be fulfilled on {qualified} \"{name}\": {why}");
        Self::new(409, "Conflict", message).about(kind, group, name)
    }

    /// The same for a rule that knows an object only by its kind.
    pub(crate) fn conflict_of_kind(served: &Served, name: &str, why: &str) -> Self {
        let qualified = match served.group.as_str() {
            "" => served.kind.clone(),
            group => format!("{}.{group}", served.kind),
        };
        let message = format!("Operation cannot be fulfilled on {qualified} \"{name}\": {why}");
        Self::new(409, "Conflict", message).about(&served.kind, &served.group, name)
    }

    /// The object is not the version the client built its change on.
    pub(crate) fn modified(served: &Served, name: &str) -> Self {
        Self::conflict(
            served,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// A condition of the request that the stored object does not meet: what, wanted, found. The words are those of the
    /// storage of a real server.
    pub(crate) fn precondition(
        served: &Served,
        namespace: &str,
        name: &str,
        (what, wanted, found): (&str, &str, &str),
    ) -> Self {
        let folder = served.registry_folder();
        let place = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/{folder}/{place}{name}, ResourceVersion: 0, \
             AdditionalErrorMsg: Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
        );
        Self::conflict(served, name, &why)
    }

    pub(crate) fn invalid(served: &Served, name: &str, causes: Vec<Cause>) -> Self {
        Self::invalid_kind(&served.kind, &served.group, name, causes)
    }

    /// Something that is not a resource, and invalid nevertheless: options.
    pub(crate) fn invalid_kind(kind: &str, group: &str, name: &str, causes: Vec<Cause>) -> Self {
        let qualified = match group {
            "" => kind.to_owned(),
            group => format!("{kind}.{group}"),
        };
        let causes = bounded(causes);
        let text = told(&causes);
        let message = format!("{qualified} \"{name}\" is invalid: {text}");
        let mut failure = Self::new(422, "Invalid", message).about(kind, group, name);
        let causes = causes
            .into_iter()
            .map(|c| json!({"reason": c.reason, "message": c.message, "field": c.field}))
            .collect();
        failure.0.details.insert("causes".into(), Value::Array(causes));
        failure
    }

    pub(crate) fn forbidden(served: &Served, name: &str, why: &str, cause: Option<(&str, &str)>) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", served.qualified());
        let mut failure = Self::new(403, "Forbidden", message).about(&served.plural, &served.group, name);
        if let Some((reason, message)) = cause {
            let causes = json!([{"reason": reason, "message": message, "field": "metadata.namespace"}]);
            failure.0.details.insert("causes".into(), causes);
        }
        failure
    }

    /// A patch with operations that nobody knows.
    pub(crate) fn rejected() -> Self {
        Self::generic(422, "Invalid", "the server rejected our request due to an error in our request")
    }

    /// A patch of a built-in kind in a form that there is none of.
    pub(crate) fn no_such_patch() -> Self {
        Self::generic(415, "UnsupportedMediaType", "415: Unsupported Media Type")
    }

    /// What a patch made of an object is none.
    pub(crate) fn patched(quoted: &str, why: &str) -> Self {
        Self::invalid_kind("", "", "", vec![Cause::invalid("patch", quoted, why)])
    }

    /// Somebody may not do something, to a resource or (without one) to a path.
    pub(crate) fn denied(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let qualified = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        let message = match (resource, name) {
            ("", _) => format!("forbidden: {why}"),
            (_, "") => format!("{qualified} is forbidden: {why}"),
            _ => format!("{qualified} {name:?} is forbidden: {why}"),
        };
        Self::new(403, "Forbidden", message).about(resource, group, name)
    }

    /// What somebody else says, in their words.
    pub(crate) fn said(code: u16, reason: &str, message: String, details: Map<String, Value>) -> Self {
        let mut failure = Self::new(code, reason.to_owned(), message);
        failure.0.detailed = false;
        failure.0.details = details;
        failure
    }

    /// An error inside, with its text as a cause too.
    pub(crate) fn internal_cause(why: &str) -> Self {
        let mut failure = Self::internal(why);
        failure.0.details.insert("causes".into(), json!([{"message": why}]));
        failure
    }

    /// An error that has no reason but its text.
    pub(crate) fn plain(code: u16, message: impl Into<String>) -> Self {
        Self::new(code, "", message)
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// Something that is not an object is not there.
    pub(crate) fn missing(message: impl Into<String>) -> Self {
        Self::new(404, "NotFound", message)
    }

    /// Part of the API, and not of this server.
    pub(crate) fn not_implemented(message: impl Into<String>) -> Self {
        Self::new(501, "NotImplemented", message)
    }

    /// A path below a known group that addresses nothing.
    pub(crate) fn no_such_resource() -> Self {
        Self::generic(404, "NotFound", "the server could not find the requested resource")
    }

    /// An error that a real server did not expect of itself: it has no reason.
    pub(crate) fn unexpected(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    pub(crate) fn method_not_allowed(message: impl Into<String>) -> Self {
        Self::generic(405, "MethodNotAllowed", message)
    }

    /// A verb that this part of a custom object does not have.
    pub(crate) fn verb_not_supported(served: &Served, verb: &str) -> Self {
        let kind = served.qualified();
        let message = format!("{verb} is not supported on resources of kind {kind:?}");
        Self::method_not_allowed(message).about(&served.plural, &served.group, "")
    }

    pub(crate) fn verb_not_allowed() -> Self {
        Self::method_not_allowed("the server does not allow this method on the requested resource")
    }

    pub(crate) fn not_acceptable(accepted: &str) -> Self {
        Self::new(406, "NotAcceptable", format!("only the following media types are accepted: {accepted}"))
    }

    /// What was asked for cannot be made of what there is.
    pub(crate) fn not_shown(message: String) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    /// Refused before it was looked at what is asked for.
    pub(crate) fn not_produced(produced: &str) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {produced}");
        Self::generic(406, "NotAcceptable", message)
    }

    pub(crate) fn unsupported_media(accepted: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        Self::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {limit}"))
    }

    /// A body that did not come in time.
    pub(crate) fn slow_body(patience: Duration) -> Self {
        let message = format!("the body of the request was not sent within {} seconds", patience.as_secs());
        Self::new(408, "Timeout", message)
    }

    pub(crate) fn too_many_requests(message: impl Into<String>) -> Self {
        Self::new(429, "TooManyRequests", message)
    }

    /// List or watch options that contradict each other.
    pub(crate) fn list_options(cause: Cause) -> Self {
        Self::invalid_kind("ListOptions", "meta.k8s.io", "", vec![cause])
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// A list that cannot be continued at its revision, with the token that continues it at the current one.
    pub(crate) fn expired_list(token: String) -> Self {
        let mut failure = Self::expired(
            "The provided continue parameter is too old to display a consistent list result. Start a new list \
             without it, or use the continue token in this response to get the rest at the current revision; \
             objects written in between may then be missing or doubled.",
        );
        failure.0.metadata.insert("continue".into(), token.into());
        failure
    }

    /// A revision that is still to come.
    pub(crate) fn too_new(asked: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {asked}, current: {current}");
        let mut failure = Self::new(504, "Timeout", format!("Timeout: {message}"));
        failure.0.details.insert("retryAfterSeconds".into(), 1.into());
        failure.0.details.insert(
            "causes".into(),
            json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]),
        );
        failure
    }

    /// Why a configuration was not applied.
    pub(crate) fn apply(error: ApplyError) -> Self {
        match error {
            ApplyError::Bad(why) => Self::bad_request(why),
            // The real server has no better word for it.
            ApplyError::Failed(why) => Self::new(500, "", why),
            ApplyError::Conflicts(conflicts) => Self::apply_conflict(&conflicts),
        }
    }

    fn apply_conflict(conflicts: &[Conflict]) -> Self {
        let text = match conflicts {
            [one] => format!("1 conflict: conflict with {}: {}", one.with, one.path),
            many => {
                let mut lines: Vec<String> = Vec::new();
                for (index, conflict) in many.iter().enumerate() {
                    if index == 0 || many.get(index - 1).is_none_or(|last| last.with != conflict.with) {
                        lines.push(format!("conflicts with {}:", conflict.with));
                    }
                    lines.push(format!("- {}", conflict.path));
                }
                format!("{} conflicts: {}", many.len(), lines.join("\n"))
            }
        };
        let mut failure = Self::new(409, "Conflict", format!("Apply failed with {text}"));
        let cause = |conflict: &Conflict| {
            json!({
                "reason": "FieldManagerConflict", "message": format!("conflict with {}", conflict.with),
                "field": conflict.path,
            })
        };
        failure.0.details.insert("causes".into(), conflicts.iter().map(cause).collect());
        failure
    }

    pub(crate) fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(500, "InternalError", format!("Internal error occurred: {message}"))
    }
}

/// The first causes, and a last one that says that there are more.
fn bounded(mut causes: Vec<Cause>) -> Vec<Cause> {
    let mut bytes = 0;
    let sized = causes.iter().map(|cause| {
        bytes += cause.field.len() + cause.message.len();
        bytes
    });
    let fit = sized.take(MOST_CAUSES).take_while(|bytes| *bytes <= MOST_BYTES).count().max(1);
    if fit < causes.len() {
        causes.truncate(fit);
        let why = format!("the server lists the first {fit} errors: correct these to see the others");
        causes.push(Cause::new("<more>", "FieldValueInvalid", why));
    }
    causes
}

/// Causes as one text. Two rules may find the same fault: it is listed twice among the causes, and told once.
fn told(causes: &[Cause]) -> String {
    let mut seen = HashSet::with_capacity(causes.len());
    let news = causes.iter().filter(|cause| seen.insert((cause.field.as_str(), cause.message.as_str())));
    let texts: Vec<String> = news.map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        match error {
            // What is wrong, and what helps, first: this is for the person in front of the machine.
            BackendError::Full { .. } => Self::new(507, "InsufficientStorage", error.to_string()),
            BackendError::Newer { .. } | BackendError::Damaged { .. } | BackendError::Storage(_) => {
                Self::internal(error)
            }
        }
    }
}
