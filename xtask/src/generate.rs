//! `cargo xtask generate`: everything that is written from the types, and the check that it is not stale.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{crd, differences, reference, webhook, yaml};

/// A file as it should be.
struct Output {
    path: String,
    text: String,
}

fn outputs() -> Result<Vec<Output>> {
    let mut outputs = Vec::new();
    for crd in crd::all()? {
        outputs.push(Output { path: crd.path(), text: manifest(&crd.value)? });
        let page = reference::render(&crd)?;
        outputs.push(Output { path: format!("docs/reference/{}.md", crd.plural), text: page });
    }
    outputs.push(Output { path: "docs/differences.md".into(), text: differences::page()? });
    outputs.push(Output { path: webhook::PATH.into(), text: manifest(&webhook::configuration())? });
    Ok(outputs)
}

fn manifest(object: &Value) -> Result<String> {
    Ok(format!("# Written by `cargo xtask generate`; do not edit.\n{}", yaml::render(object)?))
}

/// Writes every stale file and returns their paths.
pub(crate) fn write(root: &Path) -> Result<Vec<String>> {
    let mut written = Vec::new();
    for output in outputs()?.into_iter().filter(|output| is_stale(root, output)) {
        let path = root.join(&output.path);
        fs::create_dir_all(path.parent().unwrap_or(root))
            .with_context(|| format!("making the folder of {}", output.path))?;
        fs::write(&path, output.text).with_context(|| format!("writing {}", output.path))?;
        written.push(output.path);
    }
    Ok(written)
}

/// The paths of the files that [`write`] would change.
pub(crate) fn stale(root: &Path) -> Result<Vec<String>> {
    Ok(outputs()?.into_iter().filter(|output| is_stale(root, output)).map(|output| output.path).collect())
}

/// A file that cannot be read is stale: whatever is wrong with it, writing it is the answer.
fn is_stale(root: &Path, output: &Output) -> bool {
    fs::read(root.join(&output.path)).ok().as_deref() != Some(output.text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_files_are_listed_and_writing_cures_them() {
        let folder = tempfile::tempdir().unwrap();
        let all = stale(folder.path()).unwrap();
        assert!(all.contains(&"config/crd/bases/kubeflow.org_tfjobs.yaml".to_owned()));
        assert!(all.contains(&"docs/reference/pytorchjobs.md".to_owned()));
        assert_eq!(write(folder.path()).unwrap(), all);
        assert_eq!(stale(folder.path()).unwrap(), Vec::<String>::new());

        fs::write(folder.path().join("docs/reference/tfjobs.md"), "edited by hand").unwrap();
        assert_eq!(stale(folder.path()).unwrap(), ["docs/reference/tfjobs.md"]);
    }
}
