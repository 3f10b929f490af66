//! Dependencies that no code names. On two cores every crate that is built for nothing is felt.

use anyhow::Result;

use super::source::{Source, words};
use super::tree::{Kind, Package, Tree};

/// Dependencies that are there for their features, with the reason: package, dependency, why.
const FOR_FEATURES: &[(&str, &str, &str)] = &[];

/// Dependencies that their crate does not use.
pub(super) fn dependencies(tree: &Tree) -> Result<Vec<String>> {
    Ok(tree.packages.iter().flat_map(|package| unused(package, &tree.sources)).collect())
}

fn unused(package: &Package, sources: &[Source]) -> Vec<String> {
    let folder = format!("{}/", package.folder);
    let own: Vec<_> =
        sources.iter().filter_map(|source| Some((source.path.strip_prefix(&folder)?, source))).collect();
    let is_normal = |name: &str| {
        package.dependencies.iter().any(|other| other.name == name && other.kind == Kind::Normal)
    };
    let mut problems = Vec::new();
    for dependency in &package.dependencies {
        let kind = dependency.kind;
        let excused =
            FOR_FEATURES.iter().any(|(who, what, _)| *who == package.name && *what == dependency.name);
        // Named twice, a crate gets more features in tests than outside.
        let more_features = kind == Kind::Dev && is_normal(&dependency.name);
        let used = own.iter().any(|(path, source)| uses(path, source, &dependency.identifier, kind));
        if !used && !excused && !more_features {
            let (who, what) = (&package.name, &dependency.name);
            problems.push(match kind {
                Kind::Normal => format!("{who} does not use {what} outside its tests"),
                Kind::Dev => format!("the tests of {who} do not use {what}"),
                Kind::Build => format!("the build script of {who} does not use {what}"),
            });
        }
    }
    problems
}

/// True if the part of a file that a kind of dependency is for names the crate.
fn uses(path: &str, source: &Source, identifier: &str, kind: Kind) -> bool {
    let mut places = words(&source.code).filter(|(_, word)| *word == identifier).map(|(at, _)| at);
    let in_src = path.starts_with("src/");
    match kind {
        Kind::Build => path == "build.rs" && places.next().is_some(),
        // The testkit's own sources are its product: what they use, it uses.
        Kind::Normal => in_src && places.any(|at| source.path.contains("testkit/") || !source.in_test(at)),
        Kind::Dev => places.any(|at| (!in_src && path != "build.rs") || source.in_test(at)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::Dependency;
    use super::*;

    #[track_caller]
    fn check(dependencies: &[(&str, Kind)], files: &[(&str, &str)], expected: &[&str]) {
        let dependencies = dependencies.iter().map(|(name, kind)| Dependency {
            name: (*name).to_owned(),
            identifier: name.replace('-', "_"),
            kind: *kind,
        });
        let package =
            Package { name: "p".into(), folder: "crates/p".into(), dependencies: dependencies.collect() };
        let sources: Vec<_> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        assert_eq!(unused(&package, &sources), expected);
    }

    const LIB: &str = "crates/p/src/lib.rs";

    #[test]
    fn used_means_named_in_code_of_the_same_crate() {
        check(&[("a-b", Kind::Normal)], &[(LIB, "use a_b::c;")], &[]);
        let unused = ["p does not use a-b outside its tests"];
        check(&[("a-b", Kind::Normal)], &[(LIB, "// a_b\nconst X: &str = \"a_b\"; fn a_bc() {}")], &unused);
        check(&[("a-b", Kind::Normal)], &[("crates/pq/src/lib.rs", "use a_b::c;")], &unused);
    }

    #[test]
    fn each_sort_of_dependency_has_its_place() {
        let in_test = "#[cfg(test)]\nmod tests { use a::b; }";
        check(&[("a", Kind::Normal)], &[(LIB, in_test)], &["p does not use a outside its tests"]);
        check(&[("a", Kind::Dev)], &[(LIB, in_test)], &[]);
        check(&[("a", Kind::Dev)], &[("crates/p/tests/it.rs", "use a::b;")], &[]);
        check(&[("a", Kind::Dev)], &[(LIB, "use a::b;")], &["the tests of p do not use a"]);
        check(&[("a", Kind::Build)], &[(LIB, "use a::b;")], &["the build script of p does not use a"]);
    }

    #[test]
    fn a_second_entry_may_only_add_features() {
        check(&[("a", Kind::Normal), ("a", Kind::Dev)], &[(LIB, "use a::b;")], &[]);
    }
}
