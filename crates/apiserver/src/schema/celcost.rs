//! What a rule costs at most, in the units of a real server: one for a name, a selection or a call, ten for a list, and
//! for what goes through a text or a list its length.

use std::cmp::Reverse;
use std::sync::Arc;

use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue};

use super::celsize::{Size, most_places};
use super::error::FieldError;
use super::node::{Kind, Node};

/// What one rule of a definition, and all of them, may cost by the schema.
const RULE: u64 = 10_000_000;
const DEFINITION: u64 = 100_000_000;
/// How many rules are named when all of them together cost too much.
const NAMED: usize = 4;
/// What one call, and all for one object, may cost by the object.
pub(super) const CALL: u64 = 1_000_000;
pub(super) const OBJECT: u64 = 10_000_000;
/// Values that the interpreter may copy in one call, and in all for one object. A real server copies none.
const COPIES: u64 = 50_000_000;
const ALL_COPIES: u64 = 200_000_000;

/// What an expression costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) units: u64,
    /// Values that are copied on the way.
    pub(super) copies: u64,
}

impl Cost {
    const fn units(units: u64) -> Self {
        Self { units, copies: 0 }
    }

    fn and(self, other: Self) -> Self {
        Self {
            units: self.units.saturating_add(other.units),
            copies: self.copies.saturating_add(other.copies),
        }
    }

    fn or(self, other: Self) -> Self {
        Self { units: self.units.max(other.units), copies: self.copies.max(other.copies) }
    }

    fn times(self, count: u64) -> Self {
        Self { units: self.units.saturating_mul(count), copies: self.copies.saturating_mul(count) }
    }

    fn copying(self, values: u64) -> Self {
        Self { copies: self.copies.saturating_add(values), ..self }
    }
}

/// What is left for the rules of one object.
#[derive(Debug)]
pub(super) struct Budget {
    left: Cost,
}

/// Why a rule is not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Call,
    Object,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: Cost { units: OBJECT, copies: ALL_COPIES } }
    }
}

impl Budget {
    /// Pays for a call.
    pub(super) fn spend(&mut self, cost: Cost) -> Result<(), Over> {
        if cost.units > CALL || cost.copies > COPIES {
            return Err(Over::Call);
        }
        let left = (self.left.units.checked_sub(cost.units), self.left.copies.checked_sub(cost.copies));
        let (Some(units), Some(copies)) = left else { return Err(Over::Object) };
        self.left = Cost { units, copies };
        Ok(())
    }
}

/// What an expression costs at most with these variables.
pub(super) fn of(expr: &IdedExpr, variables: Vec<(&str, Size<'_>)>) -> Cost {
    let variables = variables.into_iter().map(|(name, size)| (name.to_owned(), size)).collect();
    Coster { variables }.cost(expr).0
}

struct Coster<'a> {
    /// Names in scope, inner ones last.
    variables: Vec<(String, Size<'a>)>,
}

type Costed<'a> = (Cost, Size<'a>);

impl<'a> Coster<'a> {
    fn cost(&mut self, expr: &IdedExpr) -> Costed<'a> {
        match &expr.expr {
            Expr::Ident(name) => {
                let known = self.variables.iter().rev().find(|(known, _)| known == name);
                (Cost::units(1), known.map_or(Size::SMALL, |(_, size)| size.clone()))
            }
            Expr::Literal(LiteralValue::String(text)) => {
                (Cost::default(), Size::Made(text.inner().chars().count() as u64, None))
            }
            Expr::Literal(_) | Expr::Unspecified => (Cost::default(), Size::SMALL),
            Expr::Select(select) => {
                let (cost, operand) = self.cost(&select.operand);
                let cost = cost.and(Cost::units(1));
                if select.test {
                    return (cost, Size::SMALL);
                }
                let found = operand.field(&select.field);
                (cost.copying(found.weight()), found)
            }
            Expr::Call(call) => self.call(call),
            Expr::List(list) => {
                let parts: Vec<Costed<'a>> = list.elements.iter().map(|part| self.cost(part)).collect();
                let cost = parts.iter().fold(Cost::units(10), |sum, (cost, _)| sum.and(*cost));
                let item = parts.into_iter().map(|(_, size)| size).max_by_key(Size::len);
                (cost, Size::Made(list.elements.len() as u64, Some(Arc::new(item.unwrap_or(Size::SMALL)))))
            }
            Expr::Map(map) => {
                let entries = map.entries.iter().map(|entry| &entry.expr);
                let parts = entries.flat_map(|entry| match entry {
                    EntryExpr::StructField(field) => vec![&field.value],
                    EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
                });
                let cost = parts.fold(Cost::units(30), |sum, part| sum.and(self.cost(part).0));
                (cost, Size::Made(map.entries.len() as u64, Some(Arc::new(Size::SMALL))))
            }
            Expr::Struct(_) => (Cost::units(40), Size::SMALL),
            Expr::Comprehension(looped) => self.looped(looped),
        }
    }

    fn looped(&mut self, looped: &ComprehensionExpr) -> Costed<'a> {
        let (range_cost, range) = self.cost(&looped.iter_range);
        let (start_cost, start) = self.cost(&looped.accu_init);
        let (count, item) = (range.len(), range.visited());
        let gathers = matches!(&looped.accu_init.expr, Expr::List(_) | Expr::Map(_));
        let inside = self.variables.len();
        let gathered = if gathers { Size::Made(count, Some(Arc::new(item.clone()))) } else { start };
        self.variables.push((looped.accu_var.clone(), gathered));
        let outside = self.variables.len();
        // Each round copies the item, and what was gathered so far.
        let mut round = Cost::default().copying(item.weight());
        if gathers {
            round = round.copying((count / 2).saturating_mul(item.weight()));
        }
        self.variables.push((looped.iter_var.clone(), item));
        let (condition, _) = self.cost(&looped.loop_cond);
        let (step, _) = self.cost(&looped.loop_step);
        self.variables.truncate(outside);
        let (result, size) = self.cost(&looped.result);
        self.variables.truncate(inside);
        let rounds = round.and(condition).and(step).times(count);
        (range_cost.and(start_cost).and(rounds).and(result), size)
    }

    fn call(&mut self, call: &CallExpr) -> Costed<'a> {
        let space = call.target.as_deref().and_then(|target| match &target.expr {
            Expr::Ident(name) => SPACES.into_iter().find(|space| space == name),
            _ => None,
        });
        let target = call.target.as_deref().filter(|_| space.is_none());
        let parts: Vec<Costed<'a>> =
            target.into_iter().chain(&call.args).map(|part| self.cost(part)).collect();
        let sum = parts.iter().fold(Cost::default(), |sum, (cost, _)| sum.and(*cost));
        let size = |index: usize| parts.get(index).map_or(Size::SMALL, |(_, size)| size.clone());
        let (first, second) = (size(0), size(1));
        let qualified = space.map(|space| format!("{space}.{}", call.func_name));
        let name = qualified.as_deref().unwrap_or(&call.func_name);
        match name {
            "_&&_" | "_||_" => return (sum, Size::SMALL),
            "optional.of" => return (sum.and(Cost::units(1)), first),
            "_?_:_" => {
                let part = |index: usize| parts.get(index).map_or(Cost::default(), |(cost, _)| *cost);
                let longer = if size(1).len() >= size(2).len() { size(1) } else { size(2) };
                return (part(0).and(part(1).or(part(2))), longer);
            }
            "_[_]" | "_[?_]" => {
                return (sum.and(Cost::units(1)).copying(first.item().weight()), first.item());
            }
            "_+_" => {
                let made = Size::Made(first.len().saturating_add(second.len()), item_of(&first, &second));
                let units = if first.is_text() { tenth(made.len()) } else { 1 };
                return (sum.and(Cost::units(units)).copying(made.weight()), made);
            }
            _ => {}
        }
        let units = own_units(name, &first, &second);
        let copied: u64 = if is_operator(name) { 0 } else { first.weight().saturating_add(second.weight()) };
        (sum.and(Cost::units(units)).copying(copied), result_of(name, first))
    }
}

/// Operators work on values where they are; functions get copies.
fn is_operator(name: &str) -> bool {
    name.contains('_') || name == "@in"
}

/// What functions can stand in front of, as if they were methods of it.
const SPACES: [&str; 9] = ["base64", "cel", "cidr", "ip", "jsonpatch", "math", "optional", "sets", "strings"];

fn item_of<'a>(first: &Size<'a>, second: &Size<'a>) -> Option<Arc<Size<'a>>> {
    if first.is_text() || second.is_text() {
        return None;
    }
    let longer = if first.item().len() >= second.item().len() { first.item() } else { second.item() };
    Some(Arc::new(longer))
}

/// What a real server takes for going through a text.
fn tenth(length: u64) -> u64 {
    length.div_ceil(10)
}

/// What a call costs beside its arguments.
fn own_units(name: &str, first: &Size<'_>, second: &Size<'_>) -> u64 {
    match name {
        "_==_" | "_!=_" => tenth(first.len().min(second.len())),
        "_<_" | "_<=_" | "_>_" | "_>=_" if first.is_text() && second.is_text() => {
            tenth(first.len().min(second.len()))
        }
        "@in" | "_in_" => second.len(),
        "startsWith" | "endsWith" => tenth(second.len()),
        "contains" => tenth(first.len()).saturating_mul(tenth(second.len())),
        "matches" | "find" | "findAll" => {
            tenth(first.len().saturating_add(1)).saturating_mul(second.len().div_ceil(4))
        }
        "indexOf" | "lastIndexOf" | "isSorted" | "sum" | "min" | "max" | "join" | "distinct" | "sort"
        | "@sorted" | "@pairs" => first.len(),
        "sets.contains" | "sets.intersects" | "sets.equivalent" => first.len().saturating_mul(second.len()),
        "lowerAscii" | "upperAscii" | "replace" | "split" | "substring" | "trim" | "string" | "bytes"
        | "url" | "isURL" | "quantity" | "isQuantity" | "ip" | "isIP" | "cidr" | "isCIDR" => {
            tenth(first.len())
        }
        _ => 1,
    }
}

/// The size of what a function gives: no more than what it was called on, if it makes something of that.
fn result_of<'a>(name: &str, first: Size<'a>) -> Size<'a> {
    match name {
        "lowerAscii" | "upperAscii" | "replace" | "substring" | "trim" | "string" | "bytes" | "join"
        | "distinct" | "sort" | "slice" | "reverse" | "flatten" | "dyn" | "orValue" | "value" | "or"
        | "first" | "last" | "@opened" | "@sorted" => first,
        "split" | "findAll" | "@pairs" => Size::Made(first.len(), Some(Arc::new(first))),
        _ => Size::SMALL,
    }
}

/// What is too expensive in a schema. Paths start with `openAPIV3Schema`.
pub(super) fn check(root: &Node) -> Vec<FieldError> {
    let mut total = Total::default();
    total.visit(root, "openAPIV3Schema", Some(1));
    let Total { sum, mut rules, mut errors } = total;
    if sum > DEFINITION {
        rules.sort_by_key(|(_, cost)| Reverse(*cost));
        for (path, _) in rules.into_iter().take(NAMED) {
            let why = "contributed to estimated rule & messageExpression cost total exceeding cost limit for entire \
                       OpenAPIv3 schema";
            errors.push(FieldError::forbidden(path, why));
        }
        let what = "x-kubernetes-validations estimated rule & messageExpression cost total for entire OpenAPIv3 schema";
        errors.push(FieldError::forbidden("openAPIV3Schema", exceeds(what, sum, DEFINITION)));
    }
    errors
}

#[derive(Default)]
struct Total {
    sum: u64,
    rules: Vec<(String, u64)>,
    errors: Vec<FieldError>,
}

impl Total {
    /// `places` says how often the node can be in an object, if the schema does.
    fn visit(&mut self, node: &Node, path: &str, places: Option<u64>) {
        if !node.has_rules {
            return;
        }
        for (index, rule) in node.rules.iter().enumerate() {
            let path = format!("{path}.x-kubernetes-validations[{index}]");
            let often = places.unwrap_or_else(|| most_places(node));
            let cost = |expr| {
                let sizes = vec![("self", Size::Fits(node)), ("oldSelf", Size::Fits(node))];
                of(expr, sizes).units.saturating_mul(often)
            };
            self.note(format!("{path}.rule"), "estimated rule cost", cost(&rule.program.expr));
            if let Some(message) = &rule.message_program {
                let what = "estimated messageExpression cost";
                self.note(format!("{path}.messageExpression"), what, cost(&message.expr));
            }
        }
        let checks = node.checks.as_deref();
        let times = |most: Option<u64>| Some(places?.saturating_mul(most?));
        for (name, property) in &node.properties {
            self.visit(property, &format!("{path}.properties[{name}]"), places);
        }
        if let Some(items) = node.items.as_deref().filter(|_| node.kind == Some(Kind::Array)) {
            let most = checks.and_then(|checks| checks.max_items);
            self.visit(items, &format!("{path}.items"), times(most));
        }
        if let Some(values) = node.additional.schema() {
            let most = checks.and_then(|checks| checks.max_properties);
            self.visit(values, &format!("{path}.additionalProperties"), times(most));
        }
    }

    fn note(&mut self, path: String, what: &str, cost: u64) {
        if cost > RULE {
            self.errors.push(FieldError::forbidden(path.clone(), exceeds(what, cost, RULE)));
        }
        self.sum = self.sum.saturating_add(cost);
        self.rules.push((path, cost));
    }
}

fn exceeds(what: &str, cost: u64, limit: u64) -> String {
    let times = cost as f64 / limit as f64;
    let factor = if times > 100.0 {
        "more than 100x".to_owned()
    } else if times < 1.5 {
        format!("{times:.6}x")
    } else {
        format!("{times:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}
