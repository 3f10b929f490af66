//! The life of certificates: ours, the peer's, somebody else's.

use jiff::ToSpan;
use jiff::tz::TimeZone;
use serde_json::Value;

use super::*;

const NAME: &str = "training-operator.kubeflow.svc";

/// When the peer made its certificates.
fn start() -> Timestamp {
    "2026-01-15T12:00:00Z".parse().unwrap()
}

fn later(days: i64) -> Timestamp {
    start().to_zoned(TimeZone::UTC).checked_add(days.days()).unwrap().timestamp()
}

fn made() -> Pems {
    Pems::default().renewed(NAME, start()).unwrap()
}

/// What the peer wrote, as it wrote it.
fn of_the_peer() -> Pems {
    let secret: Value = serde_saphyr::from_str(include_str!("../../../tests/peer-secret.yaml")).unwrap();
    let data = secret["data"].as_object().unwrap().iter();
    Pems(data.map(|(name, text)| (name.clone(), BASE64.decode(text.as_str().unwrap()).unwrap())).collect())
}

fn changed(old: &Pems, new: &Pems) -> Vec<String> {
    new.0.keys().filter(|name| old.file(name) != new.file(name)).cloned().collect()
}

fn with(pems: &Pems, name: &str, text: &[u8]) -> Pems {
    let mut pems = pems.clone();
    pems.0.insert(name.into(), text.into());
    pems
}

#[test]
fn an_empty_secret_gets_four_files_that_a_client_believes() {
    assert_eq!(
        Pems::default().stale(NAME, start()).unwrap(),
        "ca.crt has no certificate that is valid for long enough"
    );
    let new = made();
    assert_eq!(changed(&Pems::default(), &new), [CA, CA_KEY, CERTIFICATE, KEY]);
    assert_eq!(new.stale(NAME, start()), None);
    assert!(new.usable(NAME, start()).is_ok());
    // The peer reads it in this form alone.
    assert!(new.file(CA_KEY).starts_with(b"-----BEGIN RSA PRIVATE KEY-----\n"));
}

#[test]
fn the_server_is_renewed_in_time_by_the_same_authority_and_that_by_a_new_one() {
    let (old, server) = (made(), [CERTIFICATE, KEY]);
    assert_eq!(old.stale(NAME, later(270)), None);
    assert!(old.stale(NAME, later(276)).unwrap().contains("expired"));
    assert!(old.usable(NAME, later(276)).is_ok(), "it is served until the new one is written");
    assert!(old.usable(NAME, later(366)).is_err());
    let new = old.renewed(NAME, later(276)).unwrap();
    assert_eq!(changed(&old, &new), server);
    assert_eq!(new.stale(NAME, later(276)), None);
    let late = old.renewed(NAME, later(3650 - 89)).unwrap();
    assert_eq!(changed(&old, &late), [CA, CA_KEY, CERTIFICATE, KEY]);
    assert_eq!(late.stale(NAME, later(3650 - 89)), None);
}

#[test]
fn the_peers_certificates_are_used_as_they_are_and_its_authority_goes_on_signing() {
    let old = of_the_peer();
    assert_eq!(old.stale(NAME, later(1)), None);
    assert!(old.usable(NAME, later(1)).is_ok());
    let new = old.renewed(NAME, later(300)).unwrap();
    assert_eq!(changed(&old, &new), [CERTIFICATE, KEY]);
    assert_eq!(new.stale(NAME, later(300)), None);
}

#[test]
fn another_name_is_a_reason_for_a_new_certificate() {
    let old = made();
    assert!(old.stale("other.kubeflow.svc", start()).is_some());
    let new = old.renewed("other.kubeflow.svc", start()).unwrap();
    assert_eq!(changed(&old, &new), [CERTIFICATE, KEY]);
    assert_eq!(new.stale("other.kubeflow.svc", start()), None);
    let long = format!("{}.{}.svc", "s".repeat(63), "n".repeat(63));
    let new = old.renewed(&long, start()).unwrap();
    assert_eq!(new.stale(&long, start()), None);
}

#[test]
fn garbage_is_replaced_and_no_more_than_that() {
    let old = made();
    let other = made();
    let bads: [&[u8]; 4] =
        [b"", b"garbage", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", &[0xff; 64]];
    for bad in bads {
        for (file, expected) in [(CERTIFICATE, 2), (KEY, 2), (CA, 4)] {
            let broken = with(&old, file, bad);
            assert!(broken.stale(NAME, start()).is_some(), "{file}");
            let new = broken.renewed(NAME, start()).unwrap();
            assert_eq!(changed(&broken, &new).len(), expected, "{file}");
            assert_eq!(new.stale(NAME, start()), None);
        }
    }
    for file in [CA, CERTIFICATE, KEY] {
        let mixed = with(&old, file, other.file(file));
        assert!(mixed.stale(NAME, start()).is_some(), "a {file} of another");
        assert_eq!(mixed.renewed(NAME, start()).unwrap().stale(NAME, start()), None);
    }
}

#[test]
fn without_the_key_of_the_authority_they_are_somebody_elses_and_good_to_the_end() {
    let mut theirs = made();
    theirs.0.remove(CA_KEY);
    assert_eq!(theirs.stale(NAME, later(360)), None);
    assert!(theirs.stale(NAME, later(366)).is_some());
    theirs.0.insert("note".into(), b"stays".to_vec());
    let new = theirs.renewed(NAME, later(366)).unwrap();
    assert_eq!(new.stale(NAME, later(366)), None);
    assert_eq!(new.file("note"), b"stays");
}
