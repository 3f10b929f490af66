//! `known-gaps.yaml`: rows the embedded server does not pass yet, with what is missing. The list only gets shorter: a row
//! on it that passes fails the test.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use crate::row::folder;

const HEADER: &str = "\
# Rows of the contract that the embedded server does not pass yet, and the first thing that differs.
# A row that passes has to be taken out: `TRAINYARD_RECORD=gaps cargo test -p trainyard-apiserver --test contract`
# writes this file anew. `TRAINYARD_CONTRACT_ROW=NAME` shows all differences of a row.
";

fn path() -> PathBuf {
    folder().join("known-gaps.yaml")
}

/// Row name to reason.
pub(crate) fn read() -> BTreeMap<String, String> {
    let text = fs::read_to_string(path()).unwrap_or_default();
    let gaps: Option<BTreeMap<String, String>> = serde_saphyr::from_str(&text).unwrap();
    gaps.unwrap_or_default()
}

pub(crate) fn write(gaps: &BTreeMap<String, String>) {
    let mut text = HEADER.to_owned();
    for (row, reason) in gaps {
        let line: String = reason.replace("\n      ", " ").chars().take(150).collect();
        writeln!(text, "{row}: {}", serde_json::Value::from(line)).unwrap();
    }
    if gaps.is_empty() {
        text.push_str("{}\n");
    }
    fs::write(path(), text).unwrap();
}
