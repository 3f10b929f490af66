//! From the text of a CEL expression to something that can be evaluated safely.
//!
//! The parser and the interpreter recurse with the expression, and with large frames: fifty levels fill the stack of a
//! worker thread. So expressions are parsed on a thread of their own with a large stack, and know how deep they are.

use std::thread;

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr};
use kube_cel::cel::parser::{ParseErrors, Parser};

use super::celcheck::{self, Problem};
use super::celexpand::expand;

/// Longest expression. The real server limits cost instead; nobody writes a rule of this size by hand.
const MAX_LENGTH: usize = 16 << 10;
/// Deepest syntax tree that is evaluated at all.
const MAX_DEPTH: usize = 200;
/// How the parser begins what it says about syntax.
const SYNTAX: &str = "Syntax error: ";
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
        Self::compile(text, false, || Ok(())).map(|(expression, ())| expression)
    }

    /// Parses and checks. The check sees only texts that parse, and is not called for those nested too deeply.
    /// `optional_old` says that `oldSelf` is an optional.
    pub(super) fn compile<T: Send>(
        text: &str,
        optional_old: bool,
        check: impl FnOnce() -> Result<T, Vec<Problem>> + Send,
    ) -> Result<(Self, T), String> {
        if text.len() > MAX_LENGTH {
            return Err(format!("the expression has {} bytes, more than {MAX_LENGTH}", text.len()));
        }
        // The parser takes seconds for what is nested thousands of levels deep.
        let nested = celcheck::nesting(text);
        if nested > MAX_DEPTH {
            return Err(too_deep(nested));
        }
        let parse = || {
            let parsed =
                Parser::new().enable_optional_syntax(true).parse(&celcheck::without_double_not(text));
            let expr = parsed.map_err(|errors| celcheck::report(text, problems(text, &errors)))?;
            let known = depth(&expr);
            let expr = if known > MAX_DEPTH { expr } else { expand(expr, optional_old) };
            let depth = depth(&expr);
            if depth > MAX_DEPTH {
                return Err(too_deep(depth));
            }
            let checked = check().map_err(|problems| celcheck::report(text, problems))?;
            Ok((Self { expr, depth }, checked))
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

fn too_deep(levels: usize) -> String {
    format!("the expression is nested {levels} levels deep, more than {MAX_DEPTH}")
}

/// What the parser found, in the words of the real server's.
fn problems(text: &str, errors: &ParseErrors) -> Vec<Problem> {
    let all = || errors.errors.iter();
    let syntax = all().any(|error| error.msg.starts_with(SYNTAX));
    if !syntax {
        let misused = celcheck::misused(text);
        if !misused.is_empty() {
            return misused;
        }
    }
    // What follows from a wrong syntax is not told.
    let told = all().filter(|error| !syntax || error.msg.starts_with(SYNTAX));
    told.map(|error| celcheck::found(text, error.pos, &reworded(&error.msg))).collect()
}

/// A keyword where a name should be has words of its own.
fn reworded(message: &str) -> String {
    let input = message.strip_prefix("Syntax error: no viable alternative at input '.");
    match input.and_then(|input| input.strip_suffix('\'')) {
        Some(word @ ("true" | "false" | "null")) => {
            format!("{SYNTAX}mismatched input '{word}' expecting IDENTIFIER")
        }
        _ => narrowed(message),
    }
}

/// After a value, only what must follow is named, and not every operator that could.
fn narrowed(message: &str) -> String {
    const OPERATORS: [&str; 17] = [
        "'=='", "'!='", "'in'", "'<'", "'<='", "'>='", "'>'", "'&&'", "'||'", "'['", "'.'", "'-'", "'?'",
        "'+'", "'*'", "'/'", "'%'",
    ];
    let Some((head, expected)) = message.split_once(" expecting {") else { return message.to_owned() };
    let expected: Vec<&str> = expected.trim_end_matches('}').split(", ").collect();
    let must: Vec<&str> = expected.iter().filter(|word| !OPERATORS.contains(word)).copied().collect();
    match must.as_slice() {
        _ if head.ends_with("mismatched input '?'") && expected.contains(&"'*'") => {
            format!("{head} expecting ':'")
        }
        [word] if expected.contains(&"'*'") => format!("{head} expecting {word}"),
        _ => message.to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nested_too_deep_is_not_parsed() {
        let wrapped =
            |open: &str, close: &str, n: usize| format!("{}1{} == 1", open.repeat(n), close.repeat(n));
        let cases = [
            wrapped("[", "]", 4000),
            wrapped("(", ")", 4000),
            wrapped("{1:", "}", 2000),
            "-".repeat(9000),
            wrapped("[", "", 4000),
        ];
        for text in cases {
            let why = Expression::parse(&text).unwrap_err();
            assert!(why.contains("levels deep, more than 200"), "{why:.200}");
        }
        assert!(Expression::parse(&wrapped("(", ")", 20)).is_ok());
        // What is quoted is not nested.
        assert!(Expression::parse(&format!("'{}' != ''", "(".repeat(500))).is_ok());
    }

    /// Whatever is repeated for as long as a rule may be, there is an answer: at most a hundred errors, each with the text.
    #[test]
    fn long_texts_are_answered() {
        let texts = [
            format!("self{}", ".a".repeat(7000)),
            format!("1{} > 0", "+1".repeat(7000)),
            format!("[1{}] == []", ",1".repeat(7000)),
            format!("{}true", "true?true:".repeat(1500)),
            format!("{}true{}", "true?".repeat(1500), ":true".repeat(1500)),
            ")".repeat(16000),
            "a ".repeat(8000),
            format!("true{}", "&&true".repeat(2500)),
            format!("self{}", ".a()".repeat(4000)),
            format!("self{}", "[0]".repeat(5000)),
            "§".repeat(8000),
            format!("'{}", "a".repeat(16000)),
            ",".repeat(16000),
            "[)".repeat(8000),
        ];
        for text in texts {
            let begun = std::time::Instant::now();
            let answer = Expression::parse(&text).map(drop).map_err(|why| why.len());
            println!("{text:.20}…: {answer:?} after {:?}", begun.elapsed());
            assert!(answer.is_ok() || answer.is_err_and(|length| length < 2 << 20), "{text:.20}");
        }
    }
}
