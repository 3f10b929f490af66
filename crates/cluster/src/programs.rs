//! Where the programs of a control plane are: a folder somebody names, or our own cache, filled when needed.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::build;

/// The version of Kubernetes that is pinned in `go/kubernetes`.
pub const KUBERNETES: &str = "1.36.3";
/// The version of etcd that is pinned in `go/etcd`.
pub const ETCD: &str = "3.6.16";

/// Folders with ready programs; the first that is set is used, and nothing is built then.
const GIVEN: [&str; 2] = ["TRAINYARD_KUBE_BIN", "KUBEBUILDER_ASSETS"];

/// A folder that has, or gets, the programs asked for.
#[derive(Clone, Debug)]
pub struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// The folder with these programs; builds those that are missing from our own cache.
    ///
    /// # Errors
    /// [`Error::Missing`] when a folder that was named lacks one, or when there is no Go to build it.
    pub fn find(names: &[&str]) -> Result<Self, Error> {
        for variable in GIVEN {
            if let Some(folder) = env::var_os(variable).filter(|value| !value.is_empty()) {
                return given(variable, PathBuf::from(folder), names);
            }
        }
        let folder = cache()?.join(build::key());
        build::all(&folder, names)?;
        Ok(Self { folder: folder.join("bin") })
    }

    /// The path of one program.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

fn given(variable: &str, folder: PathBuf, names: &[&str]) -> Result<Programs, Error> {
    match names.iter().find(|name| !folder.join(name).is_file()) {
        None => Ok(Programs { folder }),
        Some(name) => {
            Err(Error::Missing { why: format!("{variable} is {} and has no {name}", folder.display()) })
        }
    }
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
        let found = given("V", folder.path().into(), &["etcd"]).unwrap();
        assert_eq!(found.path("etcd"), folder.path().join("etcd"));
        let error = given("V", folder.path().into(), &["etcd", "kubectl"]).unwrap_err().to_string();
        assert!(error.contains("has no kubectl") && error.contains("pip install"), "{error}");
    }
}
