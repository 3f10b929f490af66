//! What a real server says about built-in types, recorded by `cargo xtask generate openapi`.
//!
//! It is read anew for every document and forgotten: clients keep documents by their hash, and ask rarely.

use flate2::read::GzDecoder;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

const RECORDED: &[u8] = include_bytes!("recorded.bin");
const REFERENCE: &str = "#/components/schemas/";

/// The recording as it is stored: what documents depend on beside the catalogue.
pub(super) fn bytes() -> &'static [u8] {
    RECORDED
}

/// A member of the recording, as text.
fn member(name: &str) -> Option<String> {
    let end = RECORDED.windows(2).position(|pair| pair == b"\n\n")?;
    let (index, bodies) = RECORDED.split_at_checked(end + 2)?;
    let mut start = 0;
    for line in std::str::from_utf8(index).ok()?.lines() {
        let (found, length) = line.split_once(' ')?;
        let length: usize = length.parse().ok()?;
        if found == name {
            let mut text = String::new();
            GzDecoder::new(bodies.get(start..start + length)?).read_to_string(&mut text).ok()?;
            return Some(text);
        }
        start += length;
    }
    None
}

/// The paths of a version (`apis/apps/v1`), or of a custom resource (`custom`), one line each: path, tab, JSON.
pub(super) fn paths(of: &str) -> String {
    member(of).unwrap_or_default()
}

/// All schemas, one line each: name, tab, JSON.
pub(super) fn schemas() -> String {
    member("schemas").unwrap_or_default()
}

/// Names to JSON, as lines.
pub(super) fn index(lines: &str) -> BTreeMap<&str, &str> {
    lines.lines().filter_map(|line| line.split_once('\t')).collect()
}

/// The names of schemas a text refers to.
pub(super) fn references(text: &str) -> impl Iterator<Item = &str> {
    text.split(REFERENCE).skip(1).filter_map(|rest| rest.split('"').next())
}

/// All schemas that can be reached from some texts.
pub(super) fn reachable<'a>(
    all: &BTreeMap<&'a str, &'a str>,
    from: impl Iterator<Item = &'a str>,
) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = from.flat_map(references).collect();
    while let Some(name) = open.pop() {
        if let Some((name, schema)) = all.get_key_value(name)
            && reached.insert(*name)
        {
            open.extend(references(schema));
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;
    use serde_json::Value;

    #[test]
    fn every_served_kind_has_a_schema() {
        let lines = schemas();
        let all = index(&lines);
        assert!(all.len() > 300, "{}", all.len());
        let kinds: BTreeSet<(String, String, String)> = all
            .values()
            .map(|schema| serde_json::from_str::<Value>(schema).unwrap())
            .flat_map(|schema| {
                schema["x-kubernetes-group-version-kind"].as_array().cloned().unwrap_or_default()
            })
            .map(|gvk| ["group", "version", "kind"].map(|f| gvk[f].as_str().unwrap().to_owned()).into())
            .collect();
        for served in builtin::table() {
            let kind = (served.group.clone(), served.version.clone(), served.kind.clone());
            assert!(kinds.contains(&kind), "{kind:?}: add it to `cargo xtask generate openapi`");
        }
    }

    #[test]
    fn references_are_followed() {
        let all = BTreeMap::from([
            ("a", "{\"$ref\":\"#/components/schemas/b\"}"),
            ("b", "{\"$ref\":\"#/components/schemas/a\"}"),
            ("c", "{}"),
        ]);
        let found = reachable(
            &all,
            ["{\"x\":\"#/components/schemas/a\",\"y\":\"#/components/schemas/z\"}"].into_iter(),
        );
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["a", "b"]);
    }
}
