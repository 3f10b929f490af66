//! `docs/differences.md`: the list that the comparison with the training-operator goes by, for people.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The list.
const ENTRIES: &str = include_str!("../../crates/cli/tests/oracle/differences.yaml");

const HEAD: &str = "# Differences from training-operator 1.9

<!-- Written by `cargo xtask generate` from crates/cli/tests/oracle/differences.yaml; do not edit. -->

`make test` runs training-operator 1.9.4 and Trainyard on a real API server with the same jobs of every kind, lets their pods meet the
same ends, and compares what both wrote field by field: pods, services and all other children, environment, labels, conditions, counts,
event reasons. Everything is the same but for this.

| what | training-operator 1.9 | Trainyard | why |
|---|---|---|---|
";

/// The whole page.
pub(crate) fn page() -> Result<String> {
    let mut page = HEAD.to_owned();
    for entry in entries()? {
        page.push_str(&row(&entry)?);
    }
    Ok(page)
}

fn entries() -> Result<Vec<Value>> {
    serde_saphyr::from_str(ENTRIES).context("reading the differences")
}

fn row(entry: &Value) -> Result<String> {
    let cells = ["what", "peer", "trainyard", "why"].map(|field| text(entry, field));
    Ok(format!("| {} |\n", cells.into_iter().collect::<Result<Vec<_>>>()?.join(" | ")))
}

fn text<'a>(entry: &'a Value, field: &str) -> Result<&'a str> {
    let text = entry.get(field).and_then(Value::as_str).unwrap_or_default();
    ensure!(!text.is_empty(), "{entry}: an entry needs `{field}`");
    ensure!(!text.contains(['|', '\n']), "{entry}: `{field}` does not fit into a table");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_entry_is_complete_and_shown_by_the_comparison_or_by_a_test() {
        let root = crate::root();
        let mut sources = String::new();
        read(&root.join("crates"), &mut sources);
        for entry in entries().unwrap() {
            let name = text(&entry, "name").unwrap();
            row(&entry).unwrap();
            match (entry.get("where"), entry.get("test").and_then(Value::as_str)) {
                (Some(Value::Array(places)), None) => assert!(!places.is_empty(), "{name}"),
                (None, Some(file)) if file.contains('/') => {
                    assert!(root.join(file).is_file(), "{name}: {file}")
                }
                (None, Some(test)) => assert!(sources.contains(&format!("fn {test}(")), "{name}: {test}"),
                other => panic!("{name}: {other:?}"),
            }
        }
    }

    /// All Rust below a folder.
    fn read(folder: &Path, sources: &mut String) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read(&path, sources);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push_str(&fs::read_to_string(&path).unwrap());
            }
        }
    }
}
