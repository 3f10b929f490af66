//! Names and labels of children: functions of (job, replica type, index) and nothing else.
//!
//! That is what makes creation idempotent: a plan made from a stale view asks for a name that is already taken by
//! the very pod it wants, instead of counting pods and making one too many.

use std::collections::BTreeMap;

use trainyard_api::labels;

use crate::job::JobView;

/// Kubernetes' limit for names that become host names.
pub const MAX_LABEL: usize = 63;

/// Name of a replica's pod and of its service.
pub fn child(job: &str, role_label: &str, index: u32) -> String {
    format!("{job}-{role_label}-{index}")
}

/// The labels of every child of a replica; also the selector of its service.
pub fn labels(job: &JobView, role_label: &str, index: u32) -> BTreeMap<&'static str, String> {
    let mut map = role_labels(job, role_label);
    map.insert(labels::REPLICA_INDEX, index.to_string());
    map
}

/// The selector string of one replica type, keys sorted, as the scale subresource wants it.
pub fn selector(job: &JobView, role_label: &str) -> String {
    let pairs: Vec<String> = role_labels(job, role_label).iter().map(|(k, v)| format!("{k}={v}")).collect();
    pairs.join(",")
}

fn role_labels(job: &JobView, role_label: &str) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        (labels::OPERATOR_NAME, job.kind.controller.to_owned()),
        (labels::JOB_NAME, job.name.replace('/', "-")),
        (labels::REPLICA_TYPE, role_label.to_owned()),
    ])
}

/// Why `name` is no DNS-1035 label, or nothing when it is one.
pub fn dns1035_error(name: &str) -> Option<&'static str> {
    let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase());
    let ends_well = name.ends_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    let legal = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if name.len() > MAX_LABEL {
        Some("must be no more than 63 characters")
    } else if !(starts_well && ends_well && legal) {
        Some(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
             alphabetic character, and end with an alphanumeric character (e.g. 'my-name', or 'abc-123')",
        )
    } else {
        None
    }
}
