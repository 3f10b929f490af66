//! Evaluating the CEL rules of a schema.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};
use std::thread;

use kube_cel::KubeCelExt;
use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{Context, ExecutionError, Value as Cel};
use serde_json::Value;

use super::celcost::{self, Budget, Over};
use super::celexpand;
use super::celparse::{Expression, STACK};
use super::celsize::Size;
use super::celvalue::convert;
use super::correlate::OldItems;
use super::error::{FieldError, FieldReason};
use super::node::{Kind, Node};
use super::path::Path;
use super::rules::Rule;

/// Expressions up to this depth run on the caller's stack; the interpreter takes some 40 KB per level without
/// optimisation, and worker threads have 2 MB.
const SHALLOW: usize = 20;
/// Longest message a `messageExpression` may produce.
const MAX_MESSAGE: usize = 5 << 10;

/// How a real server's interpreter says that a call costs too much.
pub(super) const TOO_EXPENSIVE: &str = "operation cancelled: actual cost limit exceeded";

/// Names of types, usable as values.
const TYPES: [&str; 9] = ["int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type"];

/// All functions, registered once: that takes longer than any rule.
pub(super) static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(|| {
    let mut context = Context::default().with_all();
    // Two functions of the language itself that the interpreter lacks.
    context.add_function("dyn", |value: Cel| -> Result<Cel, ExecutionError> { Ok(value) });
    context.add_function("type", |value: Cel| Arc::new(type_text(&value).to_owned()));
    celexpand::register(&mut context);
    for name in TYPES {
        context.add_variable_from_value(name, Cel::String(Arc::new(name.to_owned())));
    }
    context
});

pub(super) fn type_text(value: &Cel) -> &'static str {
    match value {
        Cel::Int(_) => "int",
        Cel::UInt(_) => "uint",
        Cel::Float(_) => "double",
        Cel::Bool(_) => "bool",
        Cel::String(_) => "string",
        Cel::Bytes(_) => "bytes",
        Cel::List(_) => "list",
        Cel::Map(_) => "map",
        Cel::Null => "null_type",
        _ => "dyn",
    }
}

/// Evaluates every rule of an object.
pub(super) fn check(root: &Node, obj: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let at = At { value: obj, old, anchor: old.map(|old| (old, obj)), resource: true };
    Walk { budget: Budget::default(), errors }.node(root, &at, &Path::Root);
}

/// Evaluates the rules of a value that has no old one: a default.
pub(super) fn check_value(node: &Node, value: &Value, errors: &mut Vec<FieldError>) {
    let at = At { value, old: None, anchor: None, resource: node.embedded };
    Walk { budget: Budget::default(), errors }.node(node, &at, &Path::Root);
}

/// Where the walk stands.
struct At<'v> {
    value: &'v Value,
    /// What the value was, where that can be told.
    old: Option<&'v Value>,
    /// The nearest value around, or this one, of which that can be told: old and new.
    anchor: Option<(&'v Value, &'v Value)>,
    /// The root of a resource.
    resource: bool,
}

impl<'v> At<'v> {
    fn below(&self, value: &'v Value, old: Option<&'v Value>, node: &Node) -> Self {
        Self { value, old, anchor: old.map(|old| (old, value)).or(self.anchor), resource: node.embedded }
    }

    /// Whether nothing changed here, so that a rule that does not look at changes is not held against this write.
    fn unchanged(&self) -> bool {
        self.anchor.is_some_and(|(old, new)| old == new)
    }
}

/// No further rules are run.
struct Stop;

/// What a walk has, and what it finds.
struct Walk<'e> {
    budget: Budget,
    errors: &'e mut Vec<FieldError>,
}

impl Walk<'_> {
    /// Visits the nodes that have rules and those on the way to them, unless the budget is used up before.
    fn node(&mut self, node: &Node, at: &At<'_>, path: &Path<'_>) {
        let _stopped = self.visit(node, at, path);
    }

    fn visit(&mut self, node: &Node, at: &At<'_>, path: &Path<'_>) -> Result<(), Stop> {
        if !node.has_rules || at.value.is_null() {
            return Ok(());
        }
        for rule in &node.rules {
            self.evaluate(rule, node, at, path)?;
        }
        match at.value {
            Value::Object(object) => {
                for (name, child) in object {
                    let (child_node, path) = match node.properties.get(name) {
                        Some(property) => (property.as_ref(), Path::Field(path, name)),
                        None => match node.additional.schema() {
                            Some(values) => (values, Path::Key(path, name)),
                            None => continue,
                        },
                    };
                    let old = node.old_member(at.old, name);
                    self.visit(child_node, &at.below(child, old, child_node), &path)?;
                }
            }
            Value::Array(list) => {
                let Some(item_node) = node.items.as_deref().filter(|items| items.has_rules) else {
                    return Ok(());
                };
                let old = OldItems::new(node, at.old);
                for (index, item) in list.iter().enumerate() {
                    let old = old.get(index, item);
                    self.visit(item_node, &at.below(item, old, item_node), &Path::Index(path, index))?;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        Ok(())
    }

    /// Pays for a call. If that cannot be done, says so.
    fn pay(
        &mut self,
        expression: &Expression,
        rule: &Rule,
        kind: &Value,
        at: &At<'_>,
        path: &Path<'_>,
    ) -> Result<(), Stop> {
        let mut sizes = vec![("self", Size::of(at.value))];
        sizes.extend(at.old.filter(|_| rule.transition).map(|old| ("oldSelf", Size::of(old))));
        let Err(over) = self.budget.spend(celcost::of(&expression.expr, sizes)) else { return Ok(()) };
        let detail = match over {
            Over::Call => {
                let name = rule.name();
                format!(
                    "'{TOO_EXPENSIVE}': no further validation rules will be run due to call cost exceeds limit for \
                     rule: {name}"
                )
            }
            Over::Object => {
                "validation failed due to running out of cost budget, no further validation rules will be \
                             run"
                .to_owned()
            }
        };
        self.errors.push(FieldError::invalid(path.to_string(), kind, detail));
        Err(Stop)
    }

    fn evaluate(&mut self, rule: &Rule, node: &Node, at: &At<'_>, path: &Path<'_>) -> Result<(), Stop> {
        let old = at.old.filter(|old| !old.is_null());
        if rule.transition && old.is_none() && !rule.optional_old {
            return Ok(());
        }
        let kind = Value::from(node.kind.map_or("", Kind::name));
        self.pay(&rule.program, rule, &kind, at, path)?;
        let mut context = FUNCTIONS.new_inner_scope();
        context.add_variable_from_value("self", convert(node, at.value, &rule.needs, at.resource));
        if rule.transition {
            let old = old.map(|old| convert(node, old, &rule.needs, at.resource));
            let bound = match (rule.optional_old, old) {
                (true, Some(old)) => Cel::Opaque(Arc::new(OptionalValue::of(old))),
                (true, None) => Cel::Opaque(Arc::new(OptionalValue::none())),
                (false, old) => old.unwrap_or(Cel::Null),
            };
            context.add_variable_from_value("oldSelf", bound);
        }
        match run(&rule.program, &context) {
            Ok(Cel::Bool(true)) => {}
            Ok(Cel::Bool(false)) if !rule.transition && at.unchanged() => {}
            Ok(Cel::Bool(false)) => {
                if let Some(program) = &rule.message_program {
                    self.pay(program, rule, &kind, at, path)?;
                }
                let field = format!("{path}{}", rule.field_path);
                self.errors.push(report(rule, at.value, &field, &message(rule, &context)));
            }
            Ok(other) => {
                let detail =
                    format!("rule evaluated to {} instead of bool: {}", type_text(&other), rule.text);
                self.errors.push(FieldError::invalid(path.to_string(), &kind, detail));
            }
            Err(error) => {
                let detail = format!("{error} evaluating rule: {}", rule.name());
                self.errors.push(FieldError::invalid(path.to_string(), &kind, detail));
            }
        }
        Ok(())
    }
}

/// Objects and lists are not quoted.
fn report(rule: &Rule, value: &Value, field: &str, detail: &str) -> FieldError {
    // A field path below the root begins with a dot; nothing stands before it there.
    let field = field.strip_prefix('.').unwrap_or(field);
    match rule.reason {
        FieldReason::Forbidden => FieldError::forbidden(field, detail),
        FieldReason::Required => FieldError::required(field, detail),
        FieldReason::Duplicate if value.is_object() || value.is_array() => {
            FieldError::duplicate_unquoted(field)
        }
        FieldReason::Duplicate => FieldError::duplicate(field, value),
        _ if value.is_object() || value.is_array() => FieldError::invalid_unquoted(field, detail),
        _ => FieldError::invalid(field, value, detail),
    }
}

fn message(rule: &Rule, context: &Context<'_>) -> String {
    let computed = rule.message_program.as_ref().and_then(|program| match run(program, context) {
        Ok(Cel::String(text)) => {
            let text = text.trim();
            let usable = !text.is_empty() && !text.contains('\n') && text.len() <= MAX_MESSAGE;
            usable.then(|| text.to_owned())
        }
        _ => None,
    });
    computed.or_else(|| rule.message.clone()).unwrap_or_else(|| format!("failed rule: {}", rule.text))
}

/// Runs one expression. The interpreter panics on some inputs (dates out of range, for example); that must refuse the
/// object and not end the process.
pub(super) fn run(program: &Expression, context: &Context<'_>) -> Result<Cel, String> {
    let resolve = || {
        catch_unwind(AssertUnwindSafe(|| Cel::resolve(&program.expr, context)))
            .map_err(|_| "the expression could not be evaluated".to_owned())?
            .map_err(|e| describe(&e))
    };
    if program.depth <= SHALLOW {
        return resolve();
    }
    thread::scope(|scope| {
        thread::Builder::new()
            .name("cel-eval".to_owned())
            .stack_size(STACK)
            .spawn_scoped(scope, resolve)
            .map_err(|e| format!("no thread to evaluate on: {e}"))?
            .join()
            .unwrap_or_else(|_| Err("the expression could not be evaluated".to_owned()))
    })
}

/// The interpreter's message, spelt as the real server's begins: `no such key: a`.
fn describe(error: &ExecutionError) -> String {
    let text = error.to_string();
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}
