//! Which crate may depend on which. The table is the architecture; everything else follows from it.

use anyhow::Result;

use super::tree::{Kind, Package, Tree, cargo};

/// What each crate of ours may use. A crate that is not here has not been thought about.
const MAY_USE: &[(&str, &[&str])] = &[
    ("trainyard-api", &[]),
    ("trainyard-core", &["trainyard-api"]),
    ("trainyard-operator", &["trainyard-core", "trainyard-api"]),
    ("trainyard-apiserver", &[]),
    ("trainyard-node", &[]),
    (
        "trainyard-host",
        &["trainyard-api", "trainyard-core", "trainyard-operator", "trainyard-apiserver", "trainyard-node"],
    ),
    (
        "trainyard-cli",
        &["trainyard-host", "trainyard-core", "trainyard-operator", "trainyard-api", "trainyard-node"],
    ),
    (
        TESTKIT,
        &["trainyard-host", "trainyard-operator", "trainyard-apiserver", "trainyard-core", "trainyard-api"],
    ),
    ("trainyard-cluster", &[]),
    ("xtask", &["trainyard-api", "trainyard-core", "trainyard-cluster"]),
];

/// Only ever a dev-dependency.
const TESTKIT: &str = "trainyard-testkit";

/// What must not be in the tree of a crate, however it got there: the engine does no IO, and the embedded server
/// neither waits for the generated Kubernetes types nor knows a client.
const MUST_NOT_CONTAIN: &[(&str, &[&str])] = &[
    ("trainyard-core", &["tokio", "hyper", "kube-client", "axum"]),
    ("trainyard-apiserver", &["k8s-openapi", "kube", "kube-client", "kube-runtime"]),
];

/// Dependencies between our crates that the table does not allow.
pub(super) fn crates(tree: &Tree) -> Result<Vec<String>> {
    Ok(forbidden(&tree.packages))
}

fn forbidden(packages: &[Package]) -> Vec<String> {
    let is_ours = |name: &str| packages.iter().any(|package| package.name == name);
    let mut problems = Vec::new();
    for package in packages {
        let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == package.name) else {
            problems
                .push(format!("{} has no line in the table of xtask/src/tidy/direction.rs", package.name));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|dependency| is_ours(&dependency.name)) {
            let name = dependency.name.as_str();
            match dependency.kind {
                Kind::Dev => {}
                Kind::Normal | Kind::Build if name == TESTKIT => {
                    problems.push(format!("{} uses {TESTKIT} outside its tests", package.name));
                }
                Kind::Normal | Kind::Build if !allowed.contains(&name) => {
                    problems.push(format!("{} must not depend on {name}", package.name));
                }
                Kind::Normal | Kind::Build => {}
            }
        }
    }
    problems
}

/// Foreign crates that must not be reachable.
pub(super) fn reachable(tree: &Tree) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for (package, unwanted) in MUST_NOT_CONTAIN {
        let text = cargo(&tree.root, &["tree", "-p", package, "-e", "normal", "--prefix", "none"])?;
        let found = unwanted_in(&text, unwanted);
        problems.extend(
            found.map(|name| {
                format!("{package} must not reach {name}: see `cargo tree -p {package} -i {name}`")
            }),
        );
    }
    Ok(problems)
}

fn unwanted_in<'a>(text: &str, unwanted: &'a [&str]) -> impl Iterator<Item = &'a str> {
    unwanted.iter().copied().filter(|name| text.lines().any(|line| line.split(' ').next() == Some(name)))
}

#[cfg(test)]
mod tests {
    use super::super::tree::Dependency;
    use super::*;

    fn package(name: &str, dependencies: &[(&str, Kind)]) -> Package {
        let dependencies = dependencies.iter().map(|(name, kind)| Dependency {
            name: (*name).to_owned(),
            identifier: name.replace('-', "_"),
            kind: *kind,
        });
        Package { name: name.to_owned(), folder: String::new(), dependencies: dependencies.collect() }
    }

    #[test]
    fn a_dependency_against_the_direction_is_found() {
        let packages = [
            package("trainyard-api", &[("trainyard-core", Kind::Build)]),
            package("trainyard-core", &[("trainyard-api", Kind::Normal), ("serde", Kind::Normal)]),
            package("trainyard-apiserver", &[("trainyard-api", Kind::Dev), ("trainyard-core", Kind::Normal)]),
        ];
        let expected = [
            "trainyard-api must not depend on trainyard-core",
            "trainyard-apiserver must not depend on trainyard-core",
        ];
        assert_eq!(forbidden(&packages), expected);
    }

    #[test]
    fn the_testkit_stays_in_tests() {
        let packages = [
            package("trainyard-operator", &[(TESTKIT, Kind::Dev)]),
            package("trainyard-host", &[(TESTKIT, Kind::Normal)]),
            package(TESTKIT, &[]),
        ];
        assert_eq!(forbidden(&packages), ["trainyard-host uses trainyard-testkit outside its tests"]);
    }

    #[test]
    fn a_new_crate_needs_a_line() {
        assert_eq!(forbidden(&[package("trainyard-new", &[])]).len(), 1);
    }

    #[test]
    fn names_are_compared_whole() {
        let text = "trainyard-core v0.1.0 (/x)\nkube v5.0.0\ntokio-util v0.7.0\n";
        assert_eq!(unwanted_in(text, &["tokio", "kube", "kube-client"]).collect::<Vec<_>>(), ["kube"]);
    }
}
