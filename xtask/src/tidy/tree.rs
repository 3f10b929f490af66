//! The tree that the checks look at: files and packages, read once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::source::Source;

/// Everything the checks need to know.
pub(crate) struct Tree {
    /// The root of the workspace.
    pub(crate) root: PathBuf,
    /// Every file that is, or could be, checked in; from the root, with `/`, sorted.
    pub(crate) files: Vec<String>,
    /// The Rust files among them.
    pub(crate) sources: Vec<Source>,
    /// The packages of the workspace.
    pub(crate) packages: Vec<Package>,
}

/// A package of ours.
#[derive(Debug)]
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// Its folder, from the root.
    pub(crate) folder: String,
    /// What it depends on.
    pub(crate) dependencies: Vec<Dependency>,
}

/// One line under a dependency heading.
#[derive(Debug)]
pub(crate) struct Dependency {
    /// The package's name.
    pub(crate) name: String,
    /// What the code calls it.
    pub(crate) identifier: String,
    /// Under which heading it stands.
    pub(crate) kind: Kind,
}

/// The three headings of dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `[dependencies]`.
    Normal,
    /// `[dev-dependencies]`.
    Dev,
    /// `[build-dependencies]`.
    Build,
}

impl Tree {
    /// Reads the workspace under `root`.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut files = listed(root).or_else(|_| walked(root))?;
        files.retain(|path| root.join(path).is_file());
        files.sort();
        files.dedup();
        let rust = files.iter().filter(|path| path.ends_with(".rs"));
        let sources = rust
            .map(|path| {
                let text = fs::read_to_string(root.join(path)).with_context(|| format!("reading {path}"))?;
                Ok(Source::new(path, &text))
            })
            .collect::<Result<_>>()?;
        Ok(Self { root: root.to_owned(), files, sources, packages: packages(root)? })
    }
}

/// Runs cargo on the workspace. The answers must not depend on the network, nor change the lock file.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Result<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    output(Command::new(cargo).current_dir(root).args(arguments).args(["--offline", "--locked"]))
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).with_context(|| format!("output of {command:?}"))
}

/// What git would check in.
fn listed(root: &Path) -> Result<Vec<String>> {
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let text = output(Command::new("git").current_dir(root).args(arguments))?;
    Ok(text.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

/// Every file but build output: for an unpacked archive, where git knows nothing.
fn walked(root: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).with_context(|| format!("reading folder {folder:?}"))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            match entry.file_type()? {
                kind if kind.is_dir() && !matches!(name.as_str(), ".git" | "target" | "node_modules") => {
                    folders.push(path)
                }
                kind if kind.is_file() => files.push(path),
                _ => {}
            }
        }
    }
    Ok(files)
}

fn packages(root: &Path) -> Result<Vec<Package>> {
    let text = cargo(root, &["metadata", "--no-deps", "--format-version", "1"])?;
    let metadata: Value = serde_json::from_str(&text).context("reading cargo metadata")?;
    let packages =
        metadata.get("packages").and_then(Value::as_array).context("no packages in cargo metadata")?;
    packages
        .iter()
        .map(|package| read_package(root, package).context("a package in cargo metadata"))
        .collect()
}

fn read_package(root: &Path, package: &Value) -> Option<Package> {
    let manifest = Path::new(package.get("manifest_path")?.as_str()?);
    let folder = manifest.parent()?;
    let dependencies = package.get("dependencies")?.as_array()?.iter().map(read_dependency);
    Some(Package {
        name: package.get("name")?.as_str()?.to_owned(),
        folder: folder.strip_prefix(root).unwrap_or(folder).to_string_lossy().into_owned(),
        dependencies: dependencies.collect::<Option<_>>()?,
    })
}

fn read_dependency(dependency: &Value) -> Option<Dependency> {
    let name = dependency.get("name")?.as_str()?.to_owned();
    let renamed = dependency.get("rename").and_then(Value::as_str).unwrap_or(&name);
    let kind = match dependency.get("kind").and_then(Value::as_str) {
        Some("dev") => Kind::Dev,
        Some("build") => Kind::Build,
        _ => Kind::Normal,
    };
    Some(Dependency { identifier: renamed.replace('-', "_"), name, kind })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_dependency_is_called_what_the_code_calls_it() {
        let read = |value| read_dependency(&value).unwrap();
        let plain = read(json!({"name": "serde-saphyr", "kind": null}));
        assert_eq!((plain.identifier.as_str(), plain.kind), ("serde_saphyr", Kind::Normal));
        let renamed = read(json!({"name": "a-b", "rename": "c-d", "kind": "dev"}));
        assert_eq!((renamed.identifier.as_str(), renamed.kind), ("c_d", Kind::Dev));
    }

    #[test]
    fn git_and_the_folder_walk_agree_on_this_crate() {
        let root = crate::root();
        let ours = |files: Vec<String>| {
            let mut files: Vec<_> = files.into_iter().filter(|path| path.starts_with("xtask/src/")).collect();
            files.sort();
            files
        };
        let walked = ours(walked(&root).unwrap());
        assert!(walked.contains(&"xtask/src/tidy/tree.rs".to_owned()));
        if let Ok(listed) = listed(&root) {
            assert_eq!(ours(listed), walked);
        }
    }
}
