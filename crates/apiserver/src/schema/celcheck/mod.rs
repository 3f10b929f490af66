//! What can be known to be wrong with a rule before it runs: its types, against the schema.
//!
//! The interpreter has no type checker. Without one, a rule with a misspelt field would be accepted and then refuse
//! every object. The checker follows the real server's, and says what is wrong in its words. Where it cannot tell, the
//! type is `dyn`, which fits everything: a rule that a real server takes is never refused.

mod declare;
mod infer;
mod libraries;
mod literals;
mod macros;
mod parse;
mod source;
mod standard;
mod table;
mod token;
mod tree;
mod types;
mod unify;

pub(super) use source::{Problem, found, report};
pub(super) use token::{nesting, without_double_not};

use super::node::Node;
use infer::Checker;
use types::Type;

/// What `self` and `oldSelf` are.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) node: &'a Node,
    /// The node is the root of a resource.
    pub(super) resource: bool,
    /// `oldSelf` has the type of `self`; false when it is an optional of it.
    pub(super) typed_old: bool,
}

/// What an expression is, as far as its user has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Bool,
    Text,
    Other,
    /// It could not be found out.
    Unknown,
}

/// What objects of the schema are called in errors; a real server makes a new name every time.
const SELF_TYPE: &str = "selfType1";

/// Checks the text of an expression that the parser took.
pub(super) fn check(text: &str, scope: Scope<'_>) -> Result<Outcome, Vec<Problem>> {
    let Some((tree, problems)) = parse::parse(text) else { return Ok(Outcome::Unknown) };
    if !problems.is_empty() {
        return Err(problems);
    }
    let this = declare::declared(scope.node, SELF_TYPE, scope.resource).unwrap_or(Type::Dyn);
    let old = if scope.typed_old { this.clone() } else { Type::optional(this.clone()) };
    let mut checker = Checker::new(vec![("self".to_owned(), this), ("oldSelf".to_owned(), old)]);
    let outcome = checker.infer(&tree);
    let outcome = checker.types.settled(&outcome);
    if checker.problems.is_empty() {
        checker.problems = checker.literals.check(&mut checker.types);
    }
    if checker.types.exhausted() {
        return Ok(Outcome::Unknown);
    }
    if !checker.problems.is_empty() {
        return Err(checker.problems);
    }
    Ok(match outcome {
        Type::Bool => Outcome::Bool,
        Type::String => Outcome::Text,
        _ => Outcome::Other,
    })
}

/// What is wrong with the names and macros of a text that the parser did not take for other reasons than its syntax.
pub(super) fn misused(text: &str) -> Vec<Problem> {
    parse::parse(text).map(|(_, problems)| problems).unwrap_or_default()
}
