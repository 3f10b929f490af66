//! Rules that hold for single files: a header, no loose ends, no paths of one machine, no unexplained exceptions.

use std::fs;

use anyhow::Result;

use super::source::{Source, matching, words};
use super::tree::Tree;

/// Folders of the machines that this was written on. Spelled in parts, so that this file passes its own check.
const MACHINE_PATHS: &[&str] = &[concat!("/", "work", "/"), concat!("/", "root", "/")];

/// What looks like a machine's path and is none, with the reason.
const NO_MACHINE_PATHS: &[(&str, &str)] =
    &[(concat!("/", "root", "/.ssh"), "where MPI containers expect their keys; part of the job's API")];

/// Every rule over every Rust file.
pub(super) fn rust_files(tree: &Tree) -> Result<Vec<String>> {
    Ok(tree
        .sources
        .iter()
        .flat_map(|source| [header(source), loose_ends(source), exceptions(source)].concat())
        .collect())
}

/// No tracked text names a folder that exists on one machine only.
pub(super) fn machine_paths(tree: &Tree) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for path in &tree.files {
        // Binary files have no text to look at.
        let Ok(text) = fs::read_to_string(tree.root.join(path)) else {
            continue;
        };
        problems.extend(paths_in(&text).map(|line| format!("{path}:{line} names a folder of one machine")));
    }
    Ok(problems)
}

/// A reader who opens a file learns first what it is for.
fn header(source: &Source) -> Vec<String> {
    let first = source.text.lines().map(str::trim).find(|line| !line.is_empty());
    match first {
        Some(line) if line.starts_with("//!") => Vec::new(),
        _ => vec![format!("{} does not start with a `//!` header", source.path)],
    }
}

/// A promise in a comment names the issue that will keep it: `(#12)` right after the word.
fn loose_ends(source: &Source) -> Vec<String> {
    let marks = words(&source.comments).filter(|(_, word)| matches!(*word, "TODO" | "FIXME"));
    let open = marks.filter(|(at, word)| {
        let after = source.comments.get(at + word.len()..).unwrap_or_default();
        let number = after.trim_start_matches(['(', ' ']).strip_prefix('#');
        !number.is_some_and(|number| number.starts_with(|digit: char| digit.is_ascii_digit()))
    });
    open.map(|(at, word)| format!("{}:{} {word} without an issue number", source.path, source.line_of(at)))
        .collect()
}

/// Switching a lint off is a decision, and a decision has a reason.
fn exceptions(source: &Source) -> Vec<String> {
    let starts = source.code.match_indices("#[allow(").chain(source.code.match_indices("#![allow("));
    let bare = starts.filter(|(at, _)| {
        let rest = source.code.get(*at..).unwrap_or_default();
        let attribute = rest.get(..matching(rest, '[', ']').unwrap_or(rest.len())).unwrap_or_default();
        !words(attribute).any(|(_, word)| word == "reason")
    });
    bare.map(|(at, _)| format!("{}:{} `allow` without a reason", source.path, source.line_of(at))).collect()
}

/// The lines, from 1, that name a machine's folder.
fn paths_in(text: &str) -> impl Iterator<Item = usize> {
    let names_one = |line: &str| {
        MACHINE_PATHS.iter().flat_map(|folder| line.match_indices(folder)).any(|(at, _)| {
            // In the middle of a longer path or an address it is just a folder's name.
            let before = line.get(..at).and_then(|text| text.chars().next_back());
            let starts = before.is_none_or(|letter| !(letter.is_alphanumeric() || "_-.~}".contains(letter)));
            let rest = line.get(at..).unwrap_or_default();
            starts && !NO_MACHINE_PATHS.iter().any(|(excused, _)| rest.starts_with(excused))
        })
    };
    text.lines().enumerate().filter(move |(_, line)| names_one(line)).map(|(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::new("a.rs", text)
    }

    #[test]
    fn a_file_starts_with_its_header() {
        assert_eq!(header(&source("\n//! What it is.\n")).len(), 0);
        for bad in ["", "// What it is.\n", "use a;\n//! Late.\n", "/// Of an item.\nfn a() {}"] {
            assert_eq!(header(&source(bad)).len(), 1, "{bad:?}");
        }
    }

    #[test]
    fn loose_ends_need_an_issue() {
        let mark = concat!("TO", "DO");
        for good in ["(#12): a", " #12 a"] {
            assert_eq!(loose_ends(&source(&format!("// {mark}{good}"))), Vec::<String>::new());
        }
        assert_eq!(loose_ends(&source(&format!("const A: &str = \"{mark}\";"))), Vec::<String>::new());
        let found = loose_ends(&source(&format!("//! A.\nfn a() {{}} // {mark}: later (#)\n")));
        assert_eq!(found, [format!("a.rs:2 {mark} without an issue number")]);
        assert_eq!(loose_ends(&source(concat!("/* FIX", "ME soon */"))).len(), 1);
    }

    #[test]
    fn an_exception_needs_a_reason() {
        assert_eq!(
            exceptions(&source("#[allow(dead_code, reason = \"later\")] fn a() {}")),
            Vec::<String>::new()
        );
        assert_eq!(exceptions(&source("// #[allow(dead_code)]")), Vec::<String>::new());
        assert_eq!(
            exceptions(&source("#![allow(dead_code)]\n#[allow(\n    unused\n)]\nfn reason() {}")).len(),
            2
        );
    }

    #[test]
    fn a_machines_folder_is_found_and_other_paths_are_not() {
        let (work, root) = (concat!("/wo", "rk/"), concat!("/ro", "ot/"));
        let bad = format!("fine\ncd {work}main\nx=\"{root}.cargo\"\n`{work}x`\n");
        assert_eq!(paths_in(&bad).collect::<Vec<_>>(), [2, 3, 4]);
        let good = format!("https://example.org{work}a\n${{HOME}}{work}a\n./a{work}b\n{root}.ssh\n");
        assert_eq!(paths_in(&good).count(), 0);
    }
}
