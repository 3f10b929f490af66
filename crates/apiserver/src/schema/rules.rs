//! Compiling `x-kubernetes-validations`.

use std::collections::HashSet;

use kube_cel::cel::common::ast::{Expr, IdedExpr, SelectExpr};
use serde_json::Value;

use super::celcheck::{self, Outcome};
use super::celparse::{Expression, parts};
use super::celvalue::Needs;
use super::error::{FieldError, FieldReason};
use super::node::Node;
use super::rulesource::Source;
pub(super) use super::rulesource::read;

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

impl Rule {
    /// Whether it goes through a list or a map.
    pub(super) fn has_loops(&self) -> bool {
        std::iter::once(&self.program).chain(&self.message_program).any(|program| loops(&program.expr))
    }

    /// What errors call it.
    pub(super) fn name(&self) -> &str {
        self.message.as_ref().unwrap_or(&self.text)
    }
}

/// Where rules stand.
pub(super) struct Place<'a> {
    /// The node is the root of a resource, where `metadata` is visible.
    pub(super) resource: bool,
    /// Where the part of the schema begins in which old and new value cannot be told to be the same thing.
    pub(super) uncorrelated: Option<&'a str>,
}

/// Compiles the rules of a node.
pub(super) fn compile(
    sources: Vec<Source>,
    node: &Node,
    place: &Place<'_>,
    errors: &mut Vec<FieldError>,
) -> Vec<Rule> {
    sources.into_iter().filter_map(|source| compile_rule(source, node, place, errors)).collect()
}

fn compile_rule(
    source: Source,
    node: &Node,
    place: &Place<'_>,
    errors: &mut Vec<FieldError>,
) -> Option<Rule> {
    let path = &source.path;
    let optional_old = source.optional_old == Some(true);
    let scope = celcheck::Scope { node, resource: place.resource, typed_old: !optional_old };
    let wrong = |part: &str, detail: String| {
        FieldError::invalid_shown(format!("{path}.{part}"), &source.shown(), detail)
    };
    let program = match compile_rule_text(&source.rule, scope) {
        Ok(program) => Some(program),
        Err(detail) => {
            errors.push(wrong("rule", detail));
            None
        }
    };
    let text = source.message_expression.as_deref().filter(|_| program.is_some());
    let message_program = match text.map(|text| compile_message(text, scope)) {
        Some(Err(detail)) => {
            errors.push(wrong("messageExpression", detail));
            None
        }
        other => other.and_then(Result::ok),
    };
    let transition = program.as_ref().is_some_and(|program| mentions(&program.expr, "oldSelf"));
    if transition && let Some(around) = place.uncorrelated {
        let detail =
            format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {around}");
        errors.push(FieldError::invalid(format!("{path}.rule"), &Value::from(source.rule.as_str()), detail));
    }
    if let Some(optional) = source.optional_old.filter(|_| !transition) {
        let detail = "may not be set if oldSelf is not used in rule";
        errors.push(FieldError::invalid(format!("{path}.optionalOldSelf"), &Value::from(optional), detail));
    }
    let program = program?;
    let mut needs = Some(HashSet::new());
    for program in std::iter::once(&program).chain(&message_program) {
        collect_needs(&program.expr, &mut needs);
    }
    Some(Rule {
        reason: source.field_reason(),
        needs: needs.map_or(Needs::All, Needs::Only),
        message: source.message.map(|m| m.trim().to_owned()).filter(|m| !m.is_empty()),
        text: source.rule.trim().to_owned(),
        field_path: source.checked_path,
        program,
        message_program,
        transition,
        optional_old,
    })
}

fn compile_rule_text(text: &str, scope: celcheck::Scope<'_>) -> Result<Expression, String> {
    let (program, outcome) = Expression::compile(text, !scope.typed_old, || celcheck::check(text, scope))
        .map_err(|why| format!("compilation failed: {why}"))?;
    match outcome {
        Outcome::Bool | Outcome::Unknown => Ok(program),
        Outcome::Text | Outcome::Other => Err("cel expression must evaluate to a bool".to_owned()),
    }
}

fn compile_message(text: &str, scope: celcheck::Scope<'_>) -> Result<Expression, String> {
    let (program, outcome) = Expression::compile(text, !scope.typed_old, || celcheck::check(text, scope))
        .map_err(|why| format!("messageExpression compilation failed: {why}"))?;
    match outcome {
        Outcome::Text | Outcome::Unknown => Ok(program),
        Outcome::Bool | Outcome::Other => Err("messageExpression must evaluate to a string".to_owned()),
    }
}

fn loops(expr: &IdedExpr) -> bool {
    matches!(expr.expr, Expr::Comprehension(_)) || parts(&expr.expr).into_iter().any(loops)
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
