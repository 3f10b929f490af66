//! Cells as a real server made them of the same objects at the same time.

use super::*;
use crate::builtin;

/// Recorded from kube-apiserver 1.36.3: a resource, an object, the time, and the cells of its row.
const CELLS: &str = include_str!("cells.json");

#[test]
fn cells_are_those_of_a_real_server() {
    let cases: Vec<Value> = serde_json::from_str(CELLS).unwrap();
    assert!(cases.len() > 60);
    for case in cases {
        let (group, plural) = text(&case, "resource").split_once('/').unwrap();
        let object = &case["object"];
        let now = moment(&case, "now").unwrap();
        let cells = printer(group, plural)(object, now);
        assert_eq!(Value::from(cells), case["cells"], "{group}/{plural} {}", object["metadata"]["name"]);
        if plural == "pods" {
            let conditions = pods::finished(object).unwrap_or_default();
            assert_eq!(conditions, case["conditions"], "{}", object["metadata"]["name"]);
        }
    }
}

#[test]
fn every_kind_has_as_many_cells_as_columns() {
    for served in builtin::table() {
        let columns: Vec<Value> = serde_json::from_str(definitions(&served)).unwrap();
        let cells = printer(&served.group, &served.plural)(&json!({}), Timestamp::UNIX_EPOCH);
        assert_eq!(cells.len(), columns.len(), "{}", served.qualified());
    }
}
