//! Macros that the interpreter's parser does not know: `cel.bind`, `optMap`, `sortBy`, and those with two variables.
//!
//! They become loops and calls of functions that no rule can name.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, SelectExpr,
};
use kube_cel::cel::objects::{Key, Map, OptionalValue};
use kube_cel::cel::{Context, ExecutionError, Value as Cel};

/// The loop variable of a loop that never runs.
const UNUSED: &str = "#unused";
/// What `optMap` is called on.
const TARGET: &str = "#target";
/// The variable of a loop over pairs.
const PAIR: &str = "#pair";
const RESULT: &str = "@result";
/// Indexing that gives an optional. It stands for the selection of a field too: the interpreter's own fails when there
/// is no such field.
const MAYBE: &str = "_[?_]";
/// Functions behind the macros.
const PAIRS: &str = "@pairs";
const SORTED: &str = "@sorted";
const INSERTED: &str = "@inserted";
const MERGED: &str = "@merged";
const OPENED: &str = "@opened";

/// Makes the functions behind the macros known.
pub(super) fn register(context: &mut Context<'_>) {
    context.add_function(PAIRS, pairs);
    context.add_function(SORTED, sorted);
    context.add_function(INSERTED, inserted);
    context.add_function(MERGED, merged);
    context.add_function(OPENED, opened);
}

type Evaluated = Result<Cel, ExecutionError>;

fn wrong(function: &str, message: &str) -> ExecutionError {
    ExecutionError::function_error(function, message)
}

/// Keys and values of a map, or places and items of a list.
fn pairs(of: Cel) -> Evaluated {
    let pair = |key: Cel, value: Cel| Cel::List(Arc::new(vec![key, value]));
    let pairs: Vec<Cel> = match of {
        Cel::List(items) => {
            let number = |index: usize| Cel::Int(i64::try_from(index).unwrap_or(i64::MAX));
            items.iter().enumerate().map(|(index, item)| pair(number(index), item.clone())).collect()
        }
        Cel::Map(map) => map.map.iter().map(|(key, value)| pair(key.into(), value.clone())).collect(),
        _ => return Err(wrong("all", "no such overload")),
    };
    Ok(Cel::List(Arc::new(pairs)))
}

/// The second values of pairs, in the order of the first.
fn sorted(of: Cel) -> Evaluated {
    let Cel::List(pairs) = of else { return Err(wrong("sortBy", "no such overload")) };
    let part = |pair: &Cel, index: usize| match pair {
        Cel::List(parts) => parts.get(index).cloned().unwrap_or(Cel::Null),
        _ => Cel::Null,
    };
    let mut pairs: Vec<(Cel, Cel)> = pairs.iter().map(|pair| (part(pair, 0), part(pair, 1))).collect();
    pairs.sort_by(|one, two| one.0.partial_cmp(&two.0).unwrap_or(Ordering::Equal));
    Ok(Cel::List(Arc::new(pairs.into_iter().map(|(_, item)| item).collect())))
}

/// A list of what is in an optional.
fn opened(of: Cel) -> Evaluated {
    let optional: &OptionalValue = (&of).try_into()?;
    Ok(Cel::List(Arc::new(optional.value().into_iter().cloned().collect())))
}

fn inserted(into: Cel, key: Cel, value: Cel) -> Evaluated {
    let key = match key {
        Cel::Int(number) => Key::Int(number),
        Cel::UInt(number) => Key::Uint(number),
        Cel::Bool(truth) => Key::Bool(truth),
        Cel::String(text) => Key::String(text),
        _ => return Err(wrong("transformMap", "unsupported key type")),
    };
    add(into, HashMap::from([(key, value)]))
}

fn merged(into: Cel, entries: Cel) -> Evaluated {
    match entries {
        Cel::Map(entries) => add(into, entries.map.as_ref().clone()),
        _ => Err(wrong("transformMapEntry", "no such overload")),
    }
}

fn add(into: Cel, entries: HashMap<Key, Cel>) -> Evaluated {
    let Cel::Map(map) = into else { return Err(wrong("transformMap", "no such overload")) };
    let mut map = map.map.as_ref().clone();
    for (key, value) in entries {
        if map.insert(key, value).is_some() {
            return Err(wrong("transformMap", "insert failed: key already exists"));
        }
    }
    Ok(Cel::Map(Map { map: Arc::new(map) }))
}

/// Rewrites what the parser does not know.
///
/// `optional_old` says that `oldSelf` is an optional.
pub(super) fn expand(mut expr: IdedExpr, optional_old: bool) -> IdedExpr {
    let expand = |expr: IdedExpr| expand(expr, optional_old);
    let is_optional = |expr: &Expr| is_optional(expr, optional_old);
    let id = expr.id;
    expr.expr = match expr.expr {
        Expr::Call(mut call) => {
            call.target = call.target.map(|target| Box::new(expand(*target)));
            call.args = call.args.into_iter().map(expand).collect();
            let of_optional = call.args.first().is_some_and(|operand| is_optional(&operand.expr));
            if call.func_name == "_?._" || (call.func_name == "_[_]" && of_optional) {
                MAYBE.clone_into(&mut call.func_name);
            }
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
            let operand = expand(*operand);
            if !test && is_optional(&operand.expr) {
                let field = literal(id, LiteralValue::String(field.into()));
                call_of(id, MAYBE, vec![operand, field]).expr
            } else {
                Expr::Select(SelectExpr { operand: Box::new(operand), field, test })
            }
        }
        other @ (Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_)) => other,
    };
    expr
}

/// Whether an expression gives an optional. What is selected from one is one too, which the interpreter only knows when
/// it is written.
fn is_optional(expr: &Expr, optional_old: bool) -> bool {
    match expr {
        Expr::Ident(name) => optional_old && name == "oldSelf",
        Expr::Call(call) => match (call.func_name.as_str(), call.target.as_deref()) {
            (MAYBE, _) | ("first" | "last" | "or" | "validate", Some(_)) => true,
            ("of" | "none" | "ofNonZeroValue", Some(target)) => {
                matches!(&target.expr, Expr::Ident(space) if space == "optional")
            }
            _ => false,
        },
        Expr::Comprehension(bound) => bound.accu_var == TARGET,
        _ => false,
    }
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
            // The target gets a name, because it is needed twice and chains of these would double it every time. It is
            // opened before, because the interpreter cannot keep an optional in a variable.
            let first = literal(id, LiteralValue::Int(0.into()));
            let value = call_of(id, "_[_]", vec![ident(id, TARGET), first]);
            let body = bind(id, name, value, body.clone());
            let found =
                if function == "optMap" { method(id, "of", ident(id, "optional"), vec![body]) } else { body };
            let none = method(id, "none", ident(id, "optional"), Vec::new());
            let absent = call_of(id, "_==_", vec![ident(id, TARGET), list_of(id, Vec::new())]);
            let opened = call_of(id, OPENED, vec![target.clone()]);
            bind(id, TARGET, opened, call_of(id, "_?_:_", vec![absent, none, found])).expr
        }
        ("sortBy", _, [variable @ IdedExpr { expr: Expr::Ident(name), .. }, key]) => {
            let pair = list_of(id, vec![key.clone(), variable.clone()]);
            let pairs = gathered(
                id,
                target.clone(),
                name,
                call_of(id, "_+_", vec![ident(id, RESULT), list_of(id, vec![pair])]),
            );
            call_of(id, SORTED, vec![pairs]).expr
        }
        (
            function,
            _,
            [IdedExpr { expr: Expr::Ident(key), .. }, IdedExpr { expr: Expr::Ident(value), .. }, rest @ ..],
        ) => match pairwise(id, function, key, value, rest) {
            Some((start, step, result)) => {
                over_pairs(id, target.clone(), start, with_pair(id, key, value, step), result).expr
            }
            None => Expr::Call(call),
        },
        _ => Expr::Call(call),
    }
}

/// What a macro with two variables gathers: where it begins, what it does with each pair, and what comes out.
fn pairwise(
    id: u64,
    function: &str,
    key: &str,
    value: &str,
    args: &[IdedExpr],
) -> Option<(IdedExpr, IdedExpr, IdedExpr)> {
    let result = || ident(id, RESULT);
    let truth = |truth: bool| literal(id, LiteralValue::Boolean(truth.into()));
    let number = |number: i64| literal(id, LiteralValue::Int(number.into()));
    let (kept, body) = match args {
        [body] => (None, body.clone()),
        [kept, body] if function.starts_with("transform") => (Some(kept.clone()), body.clone()),
        _ => return None,
    };
    if key == value {
        return None;
    }
    let (start, step, end) = match function {
        "all" => (truth(true), call_of(id, "_&&_", vec![result(), body]), result()),
        "exists" => (truth(false), call_of(id, "_||_", vec![result(), body]), result()),
        "exists_one" | "existsOne" => {
            let more = call_of(id, "_+_", vec![result(), number(1)]);
            let step = call_of(id, "_?_:_", vec![body, more, result()]);
            (number(0), step, call_of(id, "_==_", vec![result(), number(1)]))
        }
        "transformList" => {
            let step = call_of(id, "_+_", vec![result(), list_of(id, vec![body])]);
            (list_of(id, Vec::new()), step, result())
        }
        "transformMap" => {
            (empty_map(id), call_of(id, INSERTED, vec![result(), ident(id, key), body]), result())
        }
        "transformMapEntry" => (empty_map(id), call_of(id, MERGED, vec![result(), body]), result()),
        _ => return None,
    };
    let step = match kept {
        Some(kept) => call_of(id, "_?_:_", vec![kept, step, result()]),
        None => step,
    };
    Some((start, step, end))
}

/// Names for a pair of key and value.
fn with_pair(id: u64, key: &str, value: &str, body: IdedExpr) -> IdedExpr {
    let part =
        |index: i64| call_of(id, "_[_]", vec![ident(id, PAIR), literal(id, LiteralValue::Int(index.into()))]);
    bind(id, key, part(0), bind(id, value, part(1), body))
}

fn over_pairs(id: u64, target: IdedExpr, start: IdedExpr, step: IdedExpr, result: IdedExpr) -> IdedExpr {
    let range = call_of(id, PAIRS, vec![target]);
    looped(id, range, PAIR, start, step, result)
}

/// A loop that adds to a list.
fn gathered(id: u64, range: IdedExpr, name: &str, step: IdedExpr) -> IdedExpr {
    looped(id, range, name, list_of(id, Vec::new()), step, ident(id, RESULT))
}

fn looped(
    id: u64,
    iter_range: IdedExpr,
    name: &str,
    accu_init: IdedExpr,
    loop_step: IdedExpr,
    result: IdedExpr,
) -> IdedExpr {
    let expr = Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range,
        iter_var: name.to_owned(),
        iter_var2: None,
        accu_var: RESULT.to_owned(),
        accu_init,
        loop_cond: literal(id, LiteralValue::Boolean(true.into())),
        loop_step,
        result,
    }));
    IdedExpr { id, expr }
}

fn ident(id: u64, name: &str) -> IdedExpr {
    IdedExpr { id, expr: Expr::Ident(name.to_owned()) }
}

fn literal(id: u64, value: LiteralValue) -> IdedExpr {
    IdedExpr { id, expr: Expr::Literal(value) }
}

fn list_of(id: u64, items: Vec<IdedExpr>) -> IdedExpr {
    IdedExpr { id, expr: Expr::List(ListExpr::new(items)) }
}

fn empty_map(id: u64) -> IdedExpr {
    IdedExpr { id, expr: Expr::Map(MapExpr { entries: Vec::new() }) }
}

fn call_of(id: u64, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    let call = CallExpr { func_name: name.to_owned(), target: None, args };
    IdedExpr { id, expr: Expr::Call(call) }
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
