//! How big things are. A mirror and not a gate: only a file that nobody can hold in mind any more is an error.

use std::fmt::Write;

use anyhow::Result;

use super::source::Source;
use super::tree::Tree;

/// Lines without tests at which a file has to be split.
const MAX_FILE: usize = 800;
/// Lines that a function should stay below.
const LONG_FUNCTION: usize = 60;
/// How many of the worst are printed.
const WORST: usize = 5;

/// How many lines of each sort a file has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lines {
    code: usize,
    comments: usize,
    blank: usize,
    test: usize,
}

/// Something with a length and a name to find it by.
type Sized = (usize, String);

/// Files that are too long to be kept.
pub(super) fn too_long(tree: &Tree) -> Result<Vec<String>> {
    Ok(tree.sources.iter().filter_map(|source| over_limit(source, MAX_FILE)).collect())
}

fn over_limit(source: &Source, limit: usize) -> Option<String> {
    let lines = length(&count(source));
    let generated = source.text.lines().take(5).any(|line| line.contains("@generated"));
    (lines > limit && !generated)
        .then(|| format!("{} has {lines} lines without its tests; split it", source.path))
}

/// The statistics of the whole tree, as text.
pub(super) fn report(tree: &Tree) -> Result<String> {
    let functions = functions(tree);
    let long = functions.iter().filter(|(lines, _)| *lines > LONG_FUNCTION).count();
    let share = percent(long, functions.len());
    let mut text = String::new();
    table(&mut text, "files, lines without tests", files(tree))?;
    table(&mut text, &format!("functions, lines ({share} over {LONG_FUNCTION})"), functions)?;
    text.push_str(&totals(tree));
    Ok(text)
}

fn files(tree: &Tree) -> Vec<Sized> {
    let files = tree.sources.iter().filter(|source| !source.is_test_file());
    files.map(|source| (length(&count(source)), source.path.clone())).collect()
}

fn functions(tree: &Tree) -> Vec<Sized> {
    let mut all = Vec::new();
    for source in &tree.sources {
        for function in source.functions().into_iter().filter(|function| !function.test) {
            all.push((function.lines, format!("{}:{} {}", source.path, function.line, function.name)));
        }
    }
    all
}

fn totals(tree: &Tree) -> String {
    let mut sum = Lines::default();
    for lines in tree.sources.iter().map(count) {
        sum.code += lines.code;
        sum.comments += lines.comments;
        sum.test += lines.test;
    }
    let Lines { code, comments, test, .. } = sum;
    let share = percent(comments, code + comments);
    let ratio = test * 100 / code.max(1);
    format!(
        "code {code}, comments {comments} ({share}), tests {test}; tests : code = {}.{:02}\n",
        ratio / 100,
        ratio % 100
    )
}

fn table(text: &mut String, title: &str, mut all: Vec<Sized>) -> Result<()> {
    all.sort();
    let at = |per_cent: usize| {
        all.get(all.len().saturating_sub(1) * per_cent / 100).map_or(0, |(lines, _)| *lines)
    };
    writeln!(text, "{title}: {} in all, median {}, p90 {}, max {}", all.len(), at(50), at(90), at(100))?;
    for (lines, name) in all.iter().rev().take(WORST) {
        writeln!(text, "  {lines:>5}  {name}")?;
    }
    Ok(())
}

/// Comments and blank lines count for a file's length: they have to be read, or scrolled past, too.
fn length(lines: &Lines) -> usize {
    lines.code + lines.comments + lines.blank
}

fn percent(part: usize, whole: usize) -> String {
    let tenths = part * 1000 / whole.max(1);
    format!("{}.{} %", tenths / 10, tenths % 10)
}

fn count(source: &Source) -> Lines {
    let mut count = Lines::default();
    let mut at = 0;
    for (line, words) in source.text.split_inclusive('\n').zip(source.words.split_inclusive('\n')) {
        if source.in_test(at + line.len() - line.trim_start().len()) {
            count.test += usize::from(!line.trim().is_empty());
        } else if !words.trim().is_empty() {
            count.code += 1;
        } else if !line.trim().is_empty() {
            count.comments += 1;
        } else {
            count.blank += 1;
        }
        at += line.len();
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "//! Header.\n\nfn a() {} // code\n/* a\n b */\n#[cfg(test)]\nmod tests {\n\n    fn b() {}\n}\n";

    #[test]
    fn lines_are_sorted() {
        let expected = Lines { code: 1, comments: 3, blank: 1, test: 4 };
        assert_eq!(count(&Source::new("a.rs", TEXT)), expected);
        let all_test = Lines { test: 8, ..Lines::default() };
        assert_eq!(count(&Source::new("crates/a/tests/it.rs", TEXT)), all_test);
    }

    #[test]
    fn only_code_of_ours_can_be_too_long() {
        assert!(over_limit(&Source::new("a.rs", TEXT), 4).unwrap().starts_with("a.rs has 5 lines"));
        assert_eq!(over_limit(&Source::new("a.rs", TEXT), 5), None);
        assert_eq!(over_limit(&Source::new("a.rs", &format!("//! @generated\n{TEXT}")), 1), None);
        assert_eq!(over_limit(&Source::new("crates/a/tests/it.rs", TEXT), 1), None);
    }

    #[test]
    fn a_table_shows_the_middle_and_the_worst() {
        let all = (1..=10).map(|lines| (lines, format!("f{lines}"))).collect();
        let mut text = String::new();
        table(&mut text, "functions", all).unwrap();
        assert!(text.starts_with("functions: 10 in all, median 5, p90 9, max 10\n     10  f10\n"), "{text}");
        assert_eq!(percent(1, 3), "33.3 %");
        assert_eq!(percent(0, 0), "0.0 %");
    }
}
