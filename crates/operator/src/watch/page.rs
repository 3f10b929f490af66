//! One page of a list, its items left as text.

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Debug, Deserialize)]
pub(super) struct Page<'a> {
    #[serde(default)]
    pub(super) metadata: ListMeta,
    #[serde(borrow, default)]
    pub(super) items: Option<Vec<&'a RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListMeta {
    pub(super) resource_version: Box<str>,
    #[serde(rename = "continue")]
    pub(super) next: Option<String>,
}
