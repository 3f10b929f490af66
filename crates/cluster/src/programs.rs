//! Where the programs of a control plane are: a folder somebody names, or our own cache, filled when needed.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::build::{self, Module};

/// The version of Kubernetes that is pinned in `go/kubernetes`.
pub const KUBERNETES: &str = "1.36.3";
/// The version of etcd that is pinned in `go/etcd`.
pub const ETCD: &str = "3.6.16";
/// The version of the training-operator that is pinned in `go/training-operator`.
pub const TRAINING_OPERATOR: &str = "1.9.4";

/// Folders with a ready control plane; the first that is set is used, and nothing of it is built then.
const GIVEN: [&str; 2] = ["TRAINYARD_KUBE_BIN", "KUBEBUILDER_ASSETS"];

/// Programs that are there.
#[derive(Clone, Debug)]
pub struct Programs {
    paths: BTreeMap<String, PathBuf>,
}

impl Programs {
    /// These programs; builds those that are missing from our own cache.
    ///
    /// # Errors
    /// [`Error::Missing`] when a folder that was named lacks one, or when there is no Go to build it.
    pub fn find(names: &[&str]) -> Result<Self, Error> {
        let given = GIVEN.iter().find_map(|variable| {
            let folder = env::var_os(variable).filter(|value| !value.is_empty())?;
            Some((*variable, PathBuf::from(folder)))
        });
        let mut paths = BTreeMap::new();
        for name in names {
            let module = module_of(name)?;
            let path = match &given {
                Some((variable, folder)) if module.is_of_a_control_plane() => taken(variable, folder, name)?,
                _ => {
                    let folder = cache()?.join(module.key());
                    build::one(module, &folder, name)?;
                    folder.join("bin").join(name)
                }
            };
            paths.insert((*name).to_owned(), path);
        }
        Ok(Self { paths })
    }

    /// The path of one program that was asked for.
    pub fn path(&self, name: &str) -> PathBuf {
        self.paths.get(name).cloned().unwrap_or_else(|| PathBuf::from(name))
    }

    /// The sources of the training-operator, with its manifests.
    ///
    /// # Errors
    /// [`Error::Missing`] where there is no Go.
    pub fn peer_sources() -> Result<PathBuf, Error> {
        let module = module_of("training-operator")?;
        let path = format!("github.com/kubeflow/training-operator@v{TRAINING_OPERATOR}");
        build::sources(module, &cache()?.join(module.key()), &path)
    }
}

fn module_of(program: &str) -> Result<&'static Module, Error> {
    Module::of(program).ok_or_else(|| Error::Missing { why: format!("nobody knows how to build {program}") })
}

/// A program in a folder that somebody named.
fn taken(variable: &str, folder: &Path, name: &str) -> Result<PathBuf, Error> {
    let path = folder.join(name);
    if path.is_file() {
        return Ok(path);
    }
    Err(Error::Missing { why: format!("{variable} is {} and has no {name}", folder.display()) })
}

/// Where a control plane for people runs, unless they say otherwise.
///
/// # Errors
/// When there is no folder of the user's to put it in.
pub fn default_directory() -> Result<PathBuf, Error> {
    Ok(cache()?.join("run"))
}

/// The folder for everything this crate keeps between runs.
fn cache() -> Result<PathBuf, Error> {
    let base = match env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute()) {
        Some(path) => path,
        None => env::home_dir()
            .ok_or_else(|| Error::Missing { why: "no home directory to keep it in".into() })?
            .join(".cache"),
    };
    let folder = base.join("trainyard").join("cluster");
    fs::create_dir_all(&folder).map_err(Error::at(&folder))?;
    Ok(folder)
}

/// Whether a program is there and complete: it gets its name only when it is.
pub(crate) fn is_built(folder: &Path, name: &str) -> bool {
    folder.join("bin").join(name).is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_was_named_is_used_or_its_gap_is_told() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("etcd"), "").unwrap();
        assert_eq!(taken("V", folder.path(), "etcd").unwrap(), folder.path().join("etcd"));
        let error = taken("V", folder.path(), "kubectl").unwrap_err().to_string();
        assert!(error.contains("has no kubectl") && error.contains("pip install"), "{error}");
    }
}
