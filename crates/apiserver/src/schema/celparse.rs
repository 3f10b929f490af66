//! From the text of a CEL expression to something that can be evaluated safely.
//!
//! The parser and the interpreter recurse with the expression, and with large frames: fifty levels fill the stack of a
//! worker thread. So expressions are parsed on a thread of their own with a large stack, and know how deep they are.

use std::thread;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, SelectExpr,
};
use kube_cel::cel::parser::Parser;

/// Longest expression. The real server limits cost instead; nobody writes a rule of this size by hand.
const MAX_LENGTH: usize = 16 << 10;
/// Deepest syntax tree that is evaluated at all.
const MAX_DEPTH: usize = 200;
/// Stack for parsing and for evaluating deep expressions. Only what is touched becomes memory.
pub(super) const STACK: usize = 128 << 20;

/// A parsed expression.
#[derive(Debug)]
pub(super) struct Expression {
    pub(super) expr: IdedExpr,
    /// Levels of nesting.
    pub(super) depth: usize,
}

impl Expression {
    /// Parses, with the parser's message on failure.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_LENGTH {
            return Err(format!("the expression has {} bytes, more than {MAX_LENGTH}", text.len()));
        }
        let parse = || {
            let expr = Parser::new().enable_optional_syntax(true).parse(text).map_err(|e| e.to_string())?;
            let expr = expand(expr);
            let depth = depth(&expr);
            if depth > MAX_DEPTH {
                return Err(format!("the expression is nested {depth} levels deep, more than {MAX_DEPTH}"));
            }
            Ok(Self { expr, depth })
        };
        thread::scope(|scope| {
            let thread = thread::Builder::new()
                .name("cel-parse".to_owned())
                .stack_size(STACK)
                .spawn_scoped(scope, parse)
                .map_err(|e| format!("no thread to parse on: {e}"))?;
            // The parser panics on some inputs, for example on very long chains of conditionals.
            thread.join().unwrap_or_else(|_| Err("the expression is too complex to parse".to_owned()))
        })
    }
}

/// The direct parts of an expression.
pub(super) fn parts(expr: &Expr) -> Vec<&IdedExpr> {
    match expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Comprehension(c) => vec![&c.iter_range, &c.accu_init, &c.loop_cond, &c.loop_step, &c.result],
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map.entries.iter().flat_map(|e| entry_parts(&e.expr)).collect(),
        Expr::Struct(s) => s.entries.iter().flat_map(|e| entry_parts(&e.expr)).collect(),
        Expr::Select(select) => vec![&select.operand],
    }
}

fn entry_parts(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

fn depth(expr: &IdedExpr) -> usize {
    1 + parts(&expr.expr).into_iter().map(depth).max().unwrap_or(0)
}

/// Rewrites the macros the parser does not know: `cel.bind`, `optMap` and `optFlatMap`.
fn expand(mut expr: IdedExpr) -> IdedExpr {
    let id = expr.id;
    expr.expr = match expr.expr {
        Expr::Call(mut call) => {
            call.target = call.target.map(|target| Box::new(expand(*target)));
            call.args = call.args.into_iter().map(expand).collect();
            expand_call(id, call)
        }
        Expr::Comprehension(mut c) => {
            c.iter_range = expand(c.iter_range);
            c.accu_init = expand(c.accu_init);
            c.loop_cond = expand(c.loop_cond);
            c.loop_step = expand(c.loop_step);
            c.result = expand(c.result);
            Expr::Comprehension(c)
        }
        Expr::List(mut list) => {
            list.elements = list.elements.into_iter().map(expand).collect();
            Expr::List(list)
        }
        Expr::Map(mut map) => {
            for entry in &mut map.entries {
                match &mut entry.expr {
                    EntryExpr::StructField(field) => field.value = expand(std::mem::take(&mut field.value)),
                    EntryExpr::MapEntry(entry) => {
                        entry.key = expand(std::mem::take(&mut entry.key));
                        entry.value = expand(std::mem::take(&mut entry.value));
                    }
                }
            }
            Expr::Map(map)
        }
        Expr::Select(SelectExpr { operand, field, test }) => {
            Expr::Select(SelectExpr { operand: Box::new(expand(*operand)), field, test })
        }
        other @ (Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_)) => other,
    };
    expr
}

fn expand_call(id: u64, call: CallExpr) -> Expr {
    let Some(target) = call.target.as_deref() else {
        return Expr::Call(call);
    };
    match (call.func_name.as_str(), &target.expr, call.args.as_slice()) {
        ("bind", Expr::Ident(space), [IdedExpr { expr: Expr::Ident(name), .. }, value, body])
            if space == "cel" =>
        {
            bind(id, name, value.clone(), body.clone()).expr
        }
        (function @ ("optMap" | "optFlatMap"), _, [IdedExpr { expr: Expr::Ident(name), .. }, body]) => {
            let body = bind(id, name, method(id, "value", target.clone(), Vec::new()), body.clone());
            let optional = || IdedExpr { id, expr: Expr::Ident("optional".to_owned()) };
            let found = if function == "optMap" { method(id, "of", optional(), vec![body]) } else { body };
            let none = method(id, "none", optional(), Vec::new());
            let args = vec![method(id, "hasValue", target.clone(), Vec::new()), found, none];
            Expr::Call(CallExpr { func_name: "_?_:_".to_owned(), target: None, args })
        }
        _ => Expr::Call(call),
    }
}

fn method(id: u64, name: &str, target: IdedExpr, args: Vec<IdedExpr>) -> IdedExpr {
    let call = CallExpr { func_name: name.to_owned(), target: Some(Box::new(target)), args };
    IdedExpr { id, expr: Expr::Call(call) }
}

/// `name` bound to `value` in `body`: a loop over nothing whose accumulator has that name.
fn bind(id: u64, name: &str, value: IdedExpr, body: IdedExpr) -> IdedExpr {
    let node = |expr: Expr| IdedExpr { id, expr };
    node(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: node(Expr::List(ListExpr::new(Vec::new()))),
        iter_var: UNUSED.to_owned(),
        iter_var2: None,
        accu_var: name.to_owned(),
        accu_init: value,
        loop_cond: node(Expr::Literal(LiteralValue::Boolean(false.into()))),
        loop_step: node(Expr::Ident(name.to_owned())),
        result: body,
    })))
}

/// The loop variable of a loop that never runs.
pub(super) const UNUSED: &str = "#unused";
