//! Names and labels of children: functions of (job, replica type, index) and nothing else.
//!
//! That is what makes creation idempotent: a plan made from a stale view asks for a name that is already taken by
//! the very pod it wants, instead of counting pods and making one too many.

use std::collections::BTreeMap;

use trainyard_api::labels;

use crate::job::{JobView, Slot};

/// Kubernetes' limit for names that become host names.
pub const MAX_LABEL: usize = 63;

/// Name of a replica's pod and of its service.
pub fn child(job: &str, role_label: &str, index: u32) -> String {
    format!("{job}-{role_label}-{index}")
}

/// The labels of every child of a replica; also the selector of its service.
pub fn labels(job: &JobView, slot: Slot<'_>) -> BTreeMap<&'static str, String> {
    let mut map = role_labels(job, &slot.role.label);
    if !slot.role.single {
        map.insert(labels::REPLICA_INDEX, slot.index.to_string());
    }
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

/// Why `name` is no DNS-1035 label, in Kubernetes' words, or nothing when it is one.
pub fn dns1035_error(name: &str) -> Option<String> {
    const SHAPE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
         alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', \
         regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
    let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase());
    let ends_well = name.ends_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    let legal = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    let reasons = [
        (name.len() > MAX_LABEL).then_some("must be no more than 63 characters"),
        (!(starts_well && ends_well && legal)).then_some(SHAPE),
    ];
    let reasons: Vec<&str> = reasons.into_iter().flatten().collect();
    (!reasons.is_empty()).then(|| reasons.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_against_a_name_is_given() {
        assert_eq!(dns1035_error("a-1"), None);
        assert_eq!(dns1035_error(&"a".repeat(63)), None);
        assert_eq!(dns1035_error(&"a".repeat(64)).unwrap(), "must be no more than 63 characters");
        for bad in ["", "1a", "a-", "A", "a.b", "-a"] {
            assert!(dns1035_error(bad).unwrap().starts_with("a DNS-1035 label must"), "{bad}");
        }
        let both = dns1035_error(&"A".repeat(64)).unwrap();
        assert!(both.starts_with("must be no more than 63 characters,a DNS-1035"), "{both}");
        assert!(both.ends_with(
            "(e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
        ));
    }
}
