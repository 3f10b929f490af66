//! `cargo xtask tidy`: the house rules, as code. The same checks run as a test, so that they need no CI of their
//! own and no network.

mod complete;
mod direction;
mod lexer;
mod rules;
mod sizes;
mod source;
mod tree;
mod unused;

use std::path::Path;

use anyhow::Result;
use trainyard_core::{Kind, frameworks, kinds};

use crate::{generate, wire};
use tree::Tree;

/// A rule, and how to find what breaks it.
type Check = (&'static str, fn(&Tree) -> Result<Vec<String>>);

/// Every rule, in the order in which a report is best read.
const CHECKS: &[Check] = &[
    ("dependency direction", direction::crates),
    ("unwanted in the dependency tree", direction::reachable),
    ("unused dependency", unused::dependencies),
    ("stale, run `cargo xtask generate`", |tree| generate::stale(&tree.root)),
    ("stale", |tree| wire::stale(&tree.root)),
    ("incomplete", completeness),
    ("source", rules::rust_files),
    ("machine path", rules::machine_paths),
    ("too long", sizes::too_long),
];

/// What breaks a rule, one line each; and the size statistics.
pub(crate) fn run(root: &Path) -> Result<(Vec<String>, String)> {
    let tree = Tree::read(root)?;
    let mut problems = Vec::new();
    for (rule, check) in CHECKS {
        problems.extend(check(&tree)?.into_iter().map(|problem| format!("{rule}: {problem}")));
    }
    Ok((problems, sizes::report(&tree)?))
}

/// Every line of the engine's two tables has everything that belongs to it.
fn completeness(tree: &Tree) -> Result<Vec<String>> {
    let entry = |kind: &&Kind| complete::Entry {
        kind: kind.name,
        plural: kind.plural,
        group: kind.group,
        framework: kind.framework,
    };
    let kinds: Vec<complete::Entry<'_>> = kinds::ALL.iter().map(entry).collect();
    let frameworks: Vec<&str> = frameworks::ALL.iter().map(|framework| framework.facts().name).collect();
    Ok(complete::check(&kinds, &frameworks, &tree.files, &tree.sources))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let (problems, sizes) = run(&crate::root()).unwrap();
        println!("{sizes}");
        assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
    }
}
