//! Rows of the table: read from `rows/*.yaml`, one file per theme.

use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Where the table lies.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/contract")
}

/// One behaviour: requests in order, in a namespace of its own that is called as the row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// Waits until the namespace has its default service account, which pods need.
    #[serde(default)]
    pub(crate) account: bool,
    /// Values for `${…}` until an answer supplies others.
    #[serde(default)]
    pub(crate) given: BTreeMap<String, String>,
    pub(crate) requests: Vec<Step>,
    /// The file it stands in.
    #[serde(skip)]
    pub(crate) theme: String,
}

/// One request and what is looked at in its answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Step {
    /// `METHOD path`. A path that starts with `~` is in the row's namespace of the core group; `/~/` elsewhere is the
    /// row's namespace.
    pub(crate) r#do: String,
    /// Sent as JSON.
    pub(crate) body: Option<Value>,
    /// Sent as it is.
    pub(crate) text: Option<String>,
    /// Blanks are added until the body has this many bytes.
    pub(crate) pad: usize,
    /// Bytes in base64.
    pub(crate) base64: Option<String>,
    /// Bytes of an earlier answer that was kept by `keep`.
    pub(crate) kept: Option<String>,
    /// `merge`, `json`, `strategic`, `apply`.
    pub(crate) patch: Option<String>,
    /// The media type of the body.
    pub(crate) r#type: Option<String>,
    pub(crate) accept: Option<String>,
    pub(crate) headers: BTreeMap<String, String>,
    /// Acts as this user.
    pub(crate) user: Option<String>,
    /// Sends this token instead of the owner's; an empty one is none at all.
    pub(crate) token: Option<String>,
    /// Reads this many events of the answer and then leaves.
    pub(crate) watch: Option<usize>,
    /// Leaves the answer open under a name, for a later `read`.
    pub(crate) open: Option<String>,
    /// Reads `watch` events of an answer that was opened, instead of a request.
    pub(crate) read: Option<String>,
    /// With `read`: reads on until an event of the object of this name, instead of `watch` events.
    pub(crate) through: Option<String>,
    /// Values of the answer for later requests: name, and JSON pointer. One with a `?` behind it may be missing: then the
    /// earlier value stays, or is empty. One with `??` is taken once.
    pub(crate) save: BTreeMap<String, String>,
    pub(crate) keep: Option<String>,
    /// Asks again until the answer has these values at these JSON pointers; a null is a value that is not there.
    pub(crate) until: BTreeMap<String, Value>,
    /// Asks again until this is the code of the answer.
    pub(crate) code: Option<u16>,
    /// Asks again until the garbage collector has done its part: its finalizers are gone, or the object is.
    pub(crate) collected: bool,
    /// Of the body only what is at these pointers is compared.
    pub(crate) only: Vec<String>,
    /// What is at these pointers is not compared.
    pub(crate) without: Vec<String>,
    /// The causes of the error come in any order.
    pub(crate) unordered: bool,
    /// Has to succeed, and its answer is not compared.
    pub(crate) quiet: bool,
}

/// Every row, by theme.
pub(crate) fn all() -> Vec<Row> {
    let mut rows = Vec::new();
    for (theme, text) in files(&folder().join("rows")) {
        let mut found: Vec<Row> =
            serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("rows/{theme}.yaml: {error}"));
        found.iter_mut().for_each(|row| row.theme.clone_from(&theme));
        rows.extend(found);
    }
    let names: BTreeSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names.len(), rows.len(), "two rows have the same name: {:?}", doubled(&rows));
    rows
}

fn doubled(rows: &[Row]) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    rows.iter().map(|row| row.name.as_str()).filter(|name| !seen.insert(*name)).collect()
}

/// The YAML files of a folder: name without ending, and text.
pub(crate) fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.unwrap().path());
    let named = paths.filter_map(|path| {
        let stem = path.file_stem()?.to_str()?.to_owned();
        (path.extension()? == "yaml").then(|| (stem, fs::read_to_string(&path).unwrap()))
    });
    named.collect()
}

#[test]
fn every_row_can_be_a_namespace() {
    for row in all() {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(row.name.len() <= 50 && row.name.chars().all(fits), "{}", row.name);
    }
}
