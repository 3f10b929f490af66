//! Rules as they are written in `x-kubernetes-validations`, and what is wrong with them besides their expressions.

use serde_json::{Value, json};

use super::error::{FieldError, FieldReason};
use super::node::Node;

/// A rule as written.
pub(super) struct Source {
    /// Where it stands.
    pub(super) path: String,
    pub(super) rule: String,
    pub(super) message: Option<String>,
    pub(super) message_expression: Option<String>,
    reason: Option<String>,
    field_path: Option<String>,
    /// The field path in the form errors use.
    pub(super) checked_path: String,
    pub(super) optional_old: Option<bool>,
}

/// Reads the rules of a node.
pub(super) fn read(list: &Value, node: &Node, path: &str, errors: &mut Vec<FieldError>) -> Vec<Source> {
    let Value::Array(list) = list else {
        errors.push(FieldError::invalid(path, list, "must be a list of rules"));
        return Vec::new();
    };
    let place = |index: usize| format!("{path}.x-kubernetes-validations[{index}]");
    let mut sources = Vec::with_capacity(list.len());
    for (index, raw) in list.iter().enumerate() {
        let mut source = Source::read(raw, place(index), errors);
        source.check(node, errors);
        sources.push(source);
    }
    sources
}

impl Source {
    fn read(raw: &Value, path: String, errors: &mut Vec<FieldError>) -> Self {
        let mut text = |name: &str| match raw.get(name) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()).filter(|text| !text.is_empty()),
            Some(other) => {
                errors.push(FieldError::invalid(format!("{path}.{name}"), other, "must be a string"));
                None
            }
        };
        Self {
            rule: text("rule").unwrap_or_default(),
            message: text("message"),
            message_expression: text("messageExpression"),
            reason: text("reason"),
            field_path: text("fieldPath"),
            checked_path: String::new(),
            optional_old: raw.get("optionalOldSelf").and_then(Value::as_bool),
            path,
        }
    }

    fn check(&mut self, node: &Node, errors: &mut Vec<FieldError>) {
        let at = |field: &str| format!("{}.{field}", self.path);
        let breaks = |text: &str| text.contains(['\n', '\r']);
        let message = self.message.as_deref().unwrap_or_default();
        if self.rule.trim().is_empty() {
            errors.push(FieldError::required(at("rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            let detail = "must be non-empty if specified";
            errors.push(FieldError::invalid(at("message"), &Value::from(message), detail));
        } else if breaks(message.trim()) {
            let detail = "must not contain line breaks";
            errors.push(FieldError::invalid(at("message"), &Value::from(message), detail));
        } else if breaks(self.rule.trim()) && message.is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(at("message"), detail));
        }
        if self.message_expression.as_deref().is_some_and(|text| text.trim().is_empty()) {
            let detail = "messageExpression must be non-empty if specified";
            errors.push(FieldError::required(at("messageExpression"), detail));
        }
        if let Some(reason) = self.reason.as_deref().filter(|reason| known(reason).is_none()) {
            let supported = REASONS.map(|(name, _)| Value::from(name));
            errors.push(FieldError::not_supported(at("reason"), &Value::from(reason), &supported));
        }
        let Some(path) = &self.field_path else { return };
        let mut wrong = |detail: &str| {
            errors.push(FieldError::invalid(at("fieldPath"), &Value::from(path.as_str()), detail))
        };
        if path.trim().is_empty() {
            wrong("must be non-empty if specified");
        }
        if breaks(path) {
            wrong("must not contain line breaks");
        }
        match field_path(path, node) {
            Some(checked) => self.checked_path = checked,
            None => wrong("must be a valid path"),
        }
    }

    pub(super) fn field_reason(&self) -> FieldReason {
        self.reason.as_deref().and_then(known).unwrap_or(FieldReason::Invalid)
    }

    /// The rule as a real server quotes it: as its own code has it.
    pub(super) fn shown(&self) -> String {
        let members = [
            ("Rule", json!(self.rule)),
            ("Message", json!(self.message.as_deref().unwrap_or_default())),
            ("MessageExpression", json!(self.message_expression.as_deref().unwrap_or_default())),
            ("Reason", json!(self.reason)),
            ("FieldPath", json!(self.field_path.as_deref().unwrap_or_default())),
            ("OptionalOldSelf", json!(self.optional_old)),
        ];
        let members: Vec<String> =
            members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        // Go writes JSON that can stand in HTML.
        format!("{{{}}}", members.join(","))
            .replace('<', "\\u003c")
            .replace('>', "\\u003e")
            .replace('&', "\\u0026")
            .replace('\u{2028}', "\\u2028")
            .replace('\u{2029}', "\\u2029")
    }
}

/// Reasons a rule may give, in the order errors list them.
const REASONS: [(&str, FieldReason); 4] = [
    ("FieldValueDuplicate", FieldReason::Duplicate),
    ("FieldValueForbidden", FieldReason::Forbidden),
    ("FieldValueInvalid", FieldReason::Invalid),
    ("FieldValueRequired", FieldReason::Required),
];

fn known(reason: &str) -> Option<FieldReason> {
    REASONS.into_iter().find(|(name, _)| *name == reason).map(|(_, reason)| reason)
}

/// The path `.a.b` or `['a.b'].c`, checked against the schema, in the form errors use.
fn field_path(source: &str, node: &Node) -> Option<String> {
    let mut out = String::new();
    let mut node = node;
    let mut rest = source;
    while !rest.is_empty() {
        let (name, next) = if let Some(quoted) = rest.strip_prefix("['") {
            quoted.split_once("']")?
        } else {
            let plain = rest.strip_prefix('.')?;
            plain.split_at_checked(plain.find(['.', '[']).unwrap_or(plain.len())).unwrap_or((plain, ""))
        };
        let declared = node.properties.contains_key(name);
        node = node.child(name)?;
        out.push_str(&if declared { format!(".{name}") } else { format!("[{name}]") });
        rest = next;
    }
    Some(out).filter(|out| !out.is_empty())
}
