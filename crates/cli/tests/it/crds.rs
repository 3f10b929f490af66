//! `trainyard crds`.

use serde_json::Value;

use crate::{root, trainyard};

#[test]
fn prints_the_files_that_are_checked_in() {
    let said = trainyard(&["crds"], "");
    assert_eq!(said.code, Some(0), "{}", said.err);
    let printed: Vec<Value> = serde_saphyr::from_multiple(&said.out).unwrap();
    let mut files: Vec<_> = std::fs::read_dir(root().join("config/crd/bases"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let stored: Vec<Value> = files
        .iter()
        .map(|path| serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap())
        .collect();
    assert_eq!(printed, stored);
}
