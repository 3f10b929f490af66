//! A kind or a framework is one file and one line in a table, and everything that users expect of it exists: CRD,
//! fixtures, pages. This is the check that the rest was not forgotten, and that no other file knows of it.

use super::source::{Source, runs};

/// One kind, as the table of kinds has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    /// For example `TFJob`.
    pub(crate) kind: &'a str,
    /// For example `tfjobs`.
    pub(crate) plural: &'a str,
    /// For example `kubeflow.org`.
    pub(crate) group: &'a str,
    /// The framework it uses; empty for a kind that leaves the choice to the user.
    pub(crate) framework: &'a str,
}

/// What is missing for the given kinds and frameworks, and which files name a framework without need.
pub(crate) fn check(
    kinds: &[Entry<'_>],
    frameworks: &[&str],
    files: &[String],
    sources: &[Source],
) -> Vec<String> {
    let mut problems = Vec::new();
    for entry in kinds {
        problems.extend(missing_for_kind(entry, files));
        if !entry.framework.is_empty() && !frameworks.contains(&entry.framework) {
            problems.push(format!(
                "{} uses framework {}, which is not in the table",
                entry.kind, entry.framework
            ));
        }
    }
    for name in frameworks {
        problems.extend(missing_for_framework(name, files));
        problems.extend(named_elsewhere(name, sources));
    }
    problems
}

fn missing_for_kind(entry: &Entry<'_>, files: &[String]) -> Vec<String> {
    let Entry { kind, plural, group, .. } = entry;
    let needed =
        [format!("config/crd/bases/{group}_{plural}.yaml"), format!("docs/kinds/{}.md", kind.to_lowercase())];
    missing(kind, &needed, files)
}

fn missing_for_framework(name: &str, files: &[String]) -> Vec<String> {
    let needed = [format!("crates/core/src/frameworks/{name}.rs"), format!("docs/frameworks/{name}.md")];
    let mut problems = missing(name, &needed, files);
    let fixtures = format!("crates/core/tests/fixtures/{name}/");
    if !files.iter().any(|path| path.starts_with(&fixtures) && path.ends_with(".yaml")) {
        problems.push(format!("{name} has no fixture {fixtures}*.yaml"));
    }
    problems
}

fn missing(what: &str, needed: &[String], files: &[String]) -> Vec<String> {
    needed.iter().filter(|path| !files.contains(path)).map(|path| format!("{what} has no {path}")).collect()
}

/// Places in the engine that name a framework without being about it. Comments may compare, tests may use any
/// framework as their example; code and strings may not.
fn named_elsewhere(name: &str, sources: &[Source]) -> Vec<String> {
    let own = format!("crates/core/src/frameworks/{name}.rs");
    let may_name = |path: &str| {
        path == own
            || path == "crates/core/src/frameworks/mod.rs"
            || path.starts_with("crates/core/src/kinds/")
    };
    let engine = sources.iter().filter(|source| source.path.starts_with("crates/core/src/"));
    engine
        .filter(|source| !may_name(&source.path))
        .filter_map(|source| {
            let at = mentions(&source.words, name).find(|at| !source.in_test(*at))?;
            Some(format!("{}:{} names {name}", source.path, source.line_of(at)))
        })
        .collect()
}

/// Where a text names a framework or its job kind, in any spelling: `PyTorch`, `pytorch_env`, `PyTorchJob`. Whole
/// words only, or `mpi` would be found in "simple".
fn mentions(text: &str, name: &str) -> impl Iterator<Item = usize> {
    let job = format!("{name}job");
    runs(text, |letter| letter.is_ascii_alphanumeric())
        .filter(move |(_, run)| run.eq_ignore_ascii_case(name) || run.eq_ignore_ascii_case(&job))
        .map(|(start, _)| start)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TFJOB: Entry<'_> =
        Entry { kind: "TFJob", plural: "tfjobs", group: "kubeflow.org", framework: "tensorflow" };

    fn files(paths: &[&str]) -> Vec<String> {
        paths.iter().map(|path| (*path).to_owned()).collect()
    }

    fn complete() -> Vec<String> {
        files(&[
            "config/crd/bases/kubeflow.org_tfjobs.yaml",
            "docs/kinds/tfjob.md",
            "crates/core/src/frameworks/tensorflow.rs",
            "crates/core/tests/fixtures/tensorflow/ps.yaml",
            "docs/frameworks/tensorflow.md",
        ])
    }

    #[test]
    fn a_complete_kind_has_no_problems() {
        assert_eq!(check(&[TFJOB], &["tensorflow"], &complete(), &[]), Vec::<String>::new());
    }

    #[test]
    fn each_missing_file_is_named() {
        for absent in complete() {
            let rest: Vec<_> = complete().into_iter().filter(|path| *path != absent).collect();
            assert_eq!(check(&[TFJOB], &["tensorflow"], &rest, &[]).len(), 1, "{absent}");
        }
    }

    #[test]
    fn a_kind_needs_a_framework_of_the_table() {
        let problems = check(&[TFJOB], &[], &complete(), &[]);
        assert_eq!(problems, ["TFJob uses framework tensorflow, which is not in the table"]);
        let open = Entry { framework: "", ..TFJOB };
        assert_eq!(check(&[open], &[], &complete(), &[]), Vec::<String>::new());
    }

    #[test]
    fn a_framework_is_named_in_its_own_file_only() {
        let named = |path: &str, text: &str| named_elsewhere("tensorflow", &[Source::new(path, text)]);
        let plan = "crates/core/src/plan.rs";
        assert_eq!(
            named(plan, "//! A.\nif name == \"tensorflow\" {}"),
            ["crates/core/src/plan.rs:2 names tensorflow"]
        );
        assert_eq!(named(plan, "use crate::frameworks::tensorflow::TensorFlow;").len(), 1);
        assert_eq!(named(plan, "TensorFlowJob").len(), 1);
        assert_eq!(named(plan, "// as TensorFlow does").len(), 0);
        assert_eq!(named(plan, "#[cfg(test)]\nmod tests { const A: &str = \"tensorflow\"; }").len(), 0);
        for own in ["frameworks/tensorflow.rs", "frameworks/mod.rs", "kinds/tfjob.rs"] {
            assert_eq!(named(&format!("crates/core/src/{own}"), "TensorFlow").len(), 0, "{own}");
        }
        assert_eq!(named("crates/cli/src/main.rs", "TensorFlow").len(), 0);
        assert_eq!(named_elsewhere("mpi", &[Source::new(plan, "simple; compile_mpi")]).len(), 1);
        assert_eq!(named_elsewhere("mpi", &[Source::new(plan, "simple; compile")]).len(), 0);
    }
}
