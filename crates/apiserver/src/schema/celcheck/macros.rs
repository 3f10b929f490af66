//! What macros stand for.

use super::source::Problem;
use super::tree::{Literal, Loop, OptMap, Tree, What};

/// The name under which a loop gathers its result.
const RESULT: &str = "@result";
/// The same, as it may not be used by a rule.
const OLD_RESULT: &str = "__result__";
/// The variable of a loop that never runs.
const UNUSED: &str = "#unused";
/// The list that `sortBy` sorts.
const SORTED: &str = "@__sortBy_input__";

type Expanded = Result<Tree, Problem>;

/// A call, or what the macro of that name makes of it.
pub(super) fn expand(at: usize, name: String, target: Option<Tree>, args: Vec<Tree>) -> Expanded {
    let count = args.len();
    let Some(target) = target else {
        if name == "has" && count == 1 {
            return has(at, args);
        }
        return Ok(Tree::new(at, What::Call { name, target: None, args }));
    };
    match (name.as_str(), count) {
        ("all" | "exists" | "exists_one", 2 | 3) | ("existsOne", 3) => quantifier(at, &name, target, args),
        ("map", 2 | 3) => mapping(at, target, args),
        ("filter", 2) => filter(at, target, args),
        ("optMap" | "optFlatMap", 2) => opt_map(at, &name, target, args),
        ("sortBy", 2) => sort_by(at, target, args),
        ("transformList" | "transformMap" | "transformMapEntry", 3 | 4) => transform(at, &name, target, args),
        _ => Ok(Tree::new(at, What::Call { name, target: Some(Box::new(target)), args })),
    }
}

fn has(at: usize, args: Vec<Tree>) -> Expanded {
    let mut args = args.into_iter();
    match args.next() {
        Some(Tree { what: What::Select { operand, field, optional: false, .. }, .. }) => {
            Ok(Tree::new(at, What::Select { operand, field, test: true, optional: false }))
        }
        other => {
            Err(Problem::new(other.map_or(0, |argument| argument.at), "invalid argument to has() macro"))
        }
    }
}

/// The name of a loop variable.
fn variable(argument: Option<Tree>, otherwise: &str) -> Result<(String, usize), Problem> {
    match argument {
        Some(Tree { at, what: What::Name(name) }) => {
            if name == RESULT || name == OLD_RESULT {
                return Err(Problem::new(at, "iteration variable overwrites accumulator variable"));
            }
            Ok((name, at))
        }
        other => Err(Problem::new(other.map_or(0, |argument| argument.at), otherwise)),
    }
}

/// The names of two loop variables.
fn variables(args: &mut impl Iterator<Item = Tree>) -> Result<(String, Option<String>), Problem> {
    let wrong = "argument must be a simple name";
    let (first, _) = variable(args.next(), wrong)?;
    let (second, at) = variable(args.next(), wrong)?;
    if first == second {
        return Err(Problem::new(at, format!("duplicate variable name: {first}")));
    }
    Ok((first, Some(second)))
}

fn looped(
    at: usize,
    range: Tree,
    names: (String, Option<String>),
    [start, condition, step, result]: [Tree; 4],
) -> Tree {
    let (variable, second) = names;
    let result_name = RESULT.to_owned();
    Tree::new(
        at,
        What::Loop(Box::new(Loop { range, variable, second, result_name, start, condition, step, result })),
    )
}

fn missing(at: usize) -> Tree {
    Tree::literal(at, Literal::Null)
}

fn quantifier(at: usize, name: &str, target: Tree, args: Vec<Tree>) -> Expanded {
    let two = args.len() == 3;
    let mut args = args.into_iter();
    let names = if two {
        variables(&mut args)?
    } else {
        (variable(args.next(), "argument must be a simple name")?.0, None)
    };
    let body = args.next().unwrap_or_else(|| missing(at));
    let result = || Tree::name(at, RESULT);
    let truth = || Tree::literal(at, Literal::Bool);
    let parts = match name {
        "all" => [
            truth(),
            Tree::call(at, "@not_strictly_false", vec![result()]),
            Tree::call(at, "_&&_", vec![result(), body]),
            result(),
        ],
        "exists" => [
            truth(),
            Tree::call(at, "@not_strictly_false", vec![Tree::call(at, "!_", vec![result()])]),
            Tree::call(at, "_||_", vec![result(), body]),
            result(),
        ],
        _ => {
            let one = || Tree::literal(at, Literal::Int);
            let more = Tree::call(at, "_+_", vec![result(), one()]);
            let step = Tree::call(at, "_?_:_", vec![body, more, result()]);
            [one(), truth(), step, Tree::call(at, "_==_", vec![result(), one()])]
        }
    };
    Ok(looped(at, target, names, parts))
}

/// A loop that gathers a list: the value, and when it is taken.
fn gathered(
    at: usize,
    target: Tree,
    names: (String, Option<String>),
    kept: Option<Tree>,
    value: Tree,
) -> Tree {
    let result = || Tree::name(at, RESULT);
    let mut step = Tree::call(at, "_+_", vec![result(), Tree::list(at, vec![value])]);
    if let Some(kept) = kept {
        step = Tree::call(at, "_?_:_", vec![kept, step, result()]);
    }
    let parts = [Tree::list(at, Vec::new()), Tree::literal(at, Literal::Bool), step, result()];
    looped(at, target, names, parts)
}

fn mapping(at: usize, target: Tree, args: Vec<Tree>) -> Expanded {
    let filtered = args.len() == 3;
    let mut args = args.into_iter();
    let names = (variable(args.next(), "argument is not an identifier")?.0, None);
    let kept = if filtered { args.next() } else { None };
    let value = args.next().unwrap_or_else(|| missing(at));
    Ok(gathered(at, target, names, kept, value))
}

fn filter(at: usize, target: Tree, args: Vec<Tree>) -> Expanded {
    let mut args = args.into_iter();
    let (name, place) = variable(args.next(), "argument is not an identifier")?;
    let value = Tree::name(place, &name);
    Ok(gathered(at, target, (name, None), args.next(), value))
}

fn transform(at: usize, name: &str, target: Tree, args: Vec<Tree>) -> Expanded {
    let filtered = args.len() == 4;
    let mut args = args.into_iter();
    let names = variables(&mut args)?;
    let kept = if filtered { args.next() } else { None };
    let value = args.next().unwrap_or_else(|| missing(at));
    if name == "transformList" {
        return Ok(gathered(at, target, names, kept, value));
    }
    let result = || Tree::name(at, RESULT);
    let parts = if name == "transformMap" {
        vec![result(), Tree::name(at, &names.0), value]
    } else {
        vec![result(), value]
    };
    let mut step = Tree::call(at, "cel.@mapInsert", parts);
    if let Some(kept) = kept {
        step = Tree::call(at, "_?_:_", vec![kept, step, result()]);
    }
    let start = Tree::new(at, What::Map(Vec::new()));
    Ok(looped(at, target, names, [start, Tree::literal(at, Literal::Bool), step, result()]))
}

fn opt_map(at: usize, macro_name: &str, target: Tree, args: Vec<Tree>) -> Expanded {
    let mut args = args.into_iter();
    let name = match args.next() {
        Some(Tree { what: What::Name(name), .. }) => name,
        other => {
            let message = format!("{macro_name}() variable name must be a simple identifier");
            return Err(Problem::new(other.map_or(0, |argument| argument.at), message));
        }
    };
    let body = args.next().unwrap_or_else(|| missing(at));
    let flat = macro_name == "optFlatMap";
    Ok(Tree::new(at, What::OptMap(Box::new(OptMap { target, name, body, flat }))))
}

/// A list sorted by a key of its items.
fn sort_by(at: usize, target: Tree, args: Vec<Tree>) -> Expanded {
    if matches!(target.what, What::Literal(_) | What::Map(_) | What::Message(_)) {
        let message =
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
        return Err(Problem::new(target.at, message));
    }
    let keys = mapping(at, Tree::name(at, SORTED), args)?;
    let sorted = What::Call {
        name: "@sortByAssociatedKeys".to_owned(),
        target: Some(Box::new(Tree::name(at, SORTED))),
        args: vec![keys],
    };
    Ok(Tree::new(
        at,
        What::Loop(Box::new(Loop {
            range: Tree::list(at, Vec::new()),
            variable: UNUSED.to_owned(),
            second: None,
            result_name: SORTED.to_owned(),
            start: target,
            condition: Tree::literal(at, Literal::Bool),
            step: Tree::name(at, SORTED),
            result: Tree::new(at, sorted),
        })),
    ))
}
