//! Reading `x-kubernetes-validations`.

use std::collections::HashSet;

use kube_cel::cel::common::ast::{Expr, IdedExpr, SelectExpr};
use serde_json::Value;

use super::celcheck;
use super::celparse::{Expression, parts};
use super::celvalue::Needs;
use super::error::{FieldError, FieldReason};
use super::node::Node;

/// One compiled rule.
#[derive(Debug)]
pub(super) struct Rule {
    /// The expression as written, for messages.
    pub(super) text: String,
    pub(super) program: Expression,
    pub(super) message: Option<String>,
    pub(super) message_program: Option<Expression>,
    pub(super) reason: FieldReason,
    /// Where below the node the error is reported, ready to append: `.a.b`.
    pub(super) field_path: String,
    /// Whether the rule looks at the old value.
    pub(super) transition: bool,
    /// Whether a transition rule also runs when there is no old value.
    pub(super) optional_old: bool,
    pub(super) needs: Needs,
}

/// Where rules stand.
pub(super) struct Place<'a> {
    pub(super) path: &'a str,
    /// The node is the root of a resource, where `metadata` is visible.
    pub(super) resource: bool,
    /// Old and new value can be told to be the same thing: not inside lists without keys.
    pub(super) correlated: bool,
}

/// Compiles the rules of a node.
pub(super) fn compile(
    list: &Value,
    node: &Node,
    place: &Place<'_>,
    errors: &mut Vec<FieldError>,
) -> Vec<Rule> {
    let Value::Array(list) = list else {
        errors.push(FieldError::invalid(place.path, list, "must be a list of rules"));
        return Vec::new();
    };
    let mut rules = Vec::new();
    for (index, raw) in list.iter().enumerate() {
        let path = format!("{}.x-kubernetes-validations[{index}]", place.path);
        match compile_rule(raw, node, place, &path) {
            Ok(rule) => rules.push(rule),
            Err(error) => errors.push(error),
        }
    }
    rules
}

fn compile_rule(raw: &Value, node: &Node, place: &Place<'_>, path: &str) -> Result<Rule, FieldError> {
    let source = Source::read(raw, path)?;
    let scope = celcheck::Scope { node, resource: place.resource, typed_old: !source.optional_old };
    let program = compile_expression(&source.rule, &scope, &format!("{path}.rule"))?;
    let message_program = match &source.message_expression {
        Some(text) => Some(compile_expression(text, &scope, &format!("{path}.messageExpression"))?),
        None => None,
    };
    let transition = mentions(&program.expr, "oldSelf");
    if transition && !place.correlated {
        let detail = "oldSelf cannot be used on the uncorrelatable portion of the schema";
        return Err(FieldError::invalid(format!("{path}.rule"), &Value::from(source.rule), detail));
    }
    if source.optional_old && !transition {
        let detail = "may not be set if oldSelf is not used in rule";
        return Err(FieldError::invalid(format!("{path}.optionalOldSelf"), &Value::from(true), detail));
    }
    let mut needs = Some(HashSet::new());
    for program in std::iter::once(&program).chain(&message_program) {
        collect_needs(&program.expr, &mut needs);
    }
    Ok(Rule {
        reason: reason(source.reason, path)?,
        field_path: field_path(source.field_path, node, path)?,
        needs: needs.map_or(Needs::All, Needs::Only),
        message: source.message.map(|m| m.trim().to_owned()).filter(|m| !m.is_empty()),
        text: source.rule.trim().to_owned(),
        program,
        message_program,
        transition,
        optional_old: source.optional_old,
    })
}

/// A rule as written.
struct Source {
    rule: String,
    message: Option<String>,
    message_expression: Option<String>,
    reason: Option<String>,
    field_path: Option<String>,
    optional_old: bool,
}

impl Source {
    fn read(raw: &Value, path: &str) -> Result<Self, FieldError> {
        let text = |name: &str| match raw.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(FieldError::invalid(format!("{path}.{name}"), other, "must be a string")),
        };
        let Some(rule) = text("rule")?.filter(|rule| !rule.trim().is_empty()) else {
            return Err(FieldError::required(format!("{path}.rule"), "rule is not specified"));
        };
        let message = text("message")?;
        if message.as_ref().is_some_and(|m| m.trim().contains('\n')) {
            let detail = "message must not contain line breaks";
            return Err(FieldError::invalid(format!("{path}.message"), &Value::from(message), detail));
        }
        if message.is_none() && rule.trim().contains('\n') {
            let detail = "message must be specified if rule contains line breaks";
            return Err(FieldError::required(format!("{path}.message"), detail));
        }
        Ok(Self {
            rule,
            message,
            message_expression: text("messageExpression")?,
            reason: text("reason")?,
            field_path: text("fieldPath")?,
            optional_old: raw.get("optionalOldSelf").and_then(Value::as_bool).unwrap_or(false),
        })
    }
}

fn compile_expression(text: &str, scope: &celcheck::Scope<'_>, path: &str) -> Result<Expression, FieldError> {
    Expression::parse(text)
        .and_then(|program| celcheck::check(&program.expr, scope).map(|()| program))
        .map_err(|e| FieldError::invalid(path, &Value::from(text), format!("compilation failed: {e}")))
}

fn reason(reason: Option<String>, path: &str) -> Result<FieldReason, FieldError> {
    match reason.as_deref() {
        None | Some("FieldValueInvalid") => Ok(FieldReason::Invalid),
        Some("FieldValueForbidden") => Ok(FieldReason::Forbidden),
        Some("FieldValueRequired") => Ok(FieldReason::Required),
        Some("FieldValueDuplicate") => Ok(FieldReason::Duplicate),
        Some(other) => {
            let supported =
                ["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"]
                    .map(Value::from);
            Err(FieldError::not_supported(format!("{path}.reason"), &Value::from(other), &supported))
        }
    }
}

/// Checks `.a.b` or `['a.b'].c` against the schema and returns it in the form errors use.
fn field_path(field_path: Option<String>, node: &Node, path: &str) -> Result<String, FieldError> {
    let Some(source) = field_path else {
        return Ok(String::new());
    };
    let wrong = |detail: &str| {
        FieldError::invalid(
            format!("{path}.fieldPath"),
            &Value::from(source.as_str()),
            format!("fieldPath must be a valid path: {detail}"),
        )
    };
    let mut out = String::new();
    let mut node = node;
    let mut rest = source.as_str();
    while !rest.is_empty() {
        let (name, next) = if let Some(quoted) = rest.strip_prefix("['") {
            quoted.split_once("']").ok_or_else(|| wrong("unterminated string"))?
        } else if let Some(plain) = rest.strip_prefix('.') {
            plain.split_at_checked(plain.find(['.', '[']).unwrap_or(plain.len())).unwrap_or((plain, ""))
        } else {
            return Err(wrong("expected [ or ."));
        };
        let declared = node.properties.contains_key(name);
        node = node.child(name).ok_or_else(|| wrong("does not refer to a valid field"))?;
        out.push_str(&if declared { format!(".{name}") } else { format!("[{name}]") });
        rest = next;
    }
    if out.is_empty() { Err(wrong("is empty")) } else { Ok(out) }
}

fn mentions(expr: &IdedExpr, name: &str) -> bool {
    matches!(&expr.expr, Expr::Ident(ident) if ident == name)
        || parts(&expr.expr).into_iter().any(|p| mentions(p, name))
}

/// Gathers the members selected from `self` and `oldSelf`; nothing when one of them is used as a whole.
fn collect_needs(expr: &IdedExpr, needs: &mut Option<HashSet<String>>) {
    let is_self =
        |expr: &IdedExpr| matches!(&expr.expr, Expr::Ident(name) if name == "self" || name == "oldSelf");
    match &expr.expr {
        Expr::Select(SelectExpr { operand, field, .. }) if is_self(operand) => {
            if let Some(names) = needs {
                names.insert(field.clone());
            }
        }
        _ if is_self(expr) => *needs = None,
        other => parts(other).into_iter().for_each(|part| collect_needs(part, needs)),
    }
}
