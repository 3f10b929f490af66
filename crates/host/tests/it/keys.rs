//! Keys: made once, kept, renewed in time, and never replaced behind anybody's back.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use jiff::{Timestamp, ToSpan, tz::TimeZone};
use trainyard_host::pki::Pki;
use trainyard_host::{Error, kubeconfig};

const FILES: [&str; 6] = ["ca.crt", "ca.key", "server.crt", "server.key", "service-account.key", "token"];

fn start() -> Timestamp {
    "2026-01-15T12:00:00Z".parse().unwrap()
}

fn later(days: i64) -> Timestamp {
    start().to_zoned(TimeZone::UTC).checked_add(days.days()).unwrap().timestamp()
}

fn contents(dir: &Path) -> BTreeMap<&'static str, String> {
    FILES.iter().map(|name| (*name, fs::read_to_string(dir.join("pki").join(name)).unwrap())).collect()
}

/// Which files differ after opening at that time.
fn changed(dir: &Path, now: Timestamp) -> Vec<&'static str> {
    let before = contents(dir);
    Pki::open(dir, now).unwrap();
    let after = contents(dir);
    FILES.into_iter().filter(|name| before[name] != after[name]).collect()
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn keys_are_made_once_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let first = Pki::open(&data, start()).unwrap();
    assert!(first.token().len() >= 64, "256 bits");
    assert!(first.ca_pem().starts_with("-----BEGIN CERTIFICATE-----"));
    assert_eq!(first.server_config().alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
    assert!(!format!("{first:?}").contains(first.token()));
    assert_eq!(changed(&data, later(1)), [""; 0]);
    let second = Pki::open(&data, later(2)).unwrap();
    assert_eq!((first.token(), first.ca_pem()), (second.token(), second.ca_pem()));
    let other = tempfile::tempdir().unwrap();
    assert_ne!(Pki::open(other.path(), start()).unwrap().token(), first.token());
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_read_them() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    Pki::open(&data, start()).unwrap();
    let check = || {
        assert_eq!(mode(&data.join("pki")), 0o700);
        for name in FILES {
            assert_eq!(mode(&data.join("pki").join(name)), 0o600, "{name}");
        }
    };
    check();
    // Also when somebody was careless meanwhile.
    fs::set_permissions(data.join("pki/ca.key"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(data.join("pki"), fs::Permissions::from_mode(0o755)).unwrap();
    Pki::open(&data, start()).unwrap();
    check();
    let config = dir.path().join("new/kubeconfig");
    kubeconfig::write(&config, "https://127.0.0.1:1", &"pem".repeat(100), "token", "default").unwrap();
    let text = fs::read_to_string(&config).unwrap();
    assert!(text.contains("certificate-authority-data: cGVt"), "on one line: {text}");
    assert_eq!((mode(config.parent().unwrap()), mode(&config)), (0o700, 0o600));
    let left: Vec<_> = fs::read_dir(config.parent().unwrap()).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing is left over: {left:?}");
}

#[test]
fn what_expires_is_renewed_in_time() {
    let dir = tempfile::tempdir().unwrap();
    Pki::open(dir.path(), start()).unwrap();
    assert_eq!(changed(dir.path(), later(300)), [""; 0]);
    assert_eq!(changed(dir.path(), later(340)), ["server.crt", "server.key"]);
    assert_eq!(changed(dir.path(), later(341)), [""; 0]);
    // A year off, and ten: the authority keeps its key.
    assert_eq!(changed(dir.path(), later(2000)), ["server.crt", "server.key"]);
    assert_eq!(changed(dir.path(), later(3640)), ["ca.crt", "server.crt", "server.key"]);
    // A clock that was set back makes a certificate of the future useless.
    assert_eq!(changed(dir.path(), later(1000)), ["server.crt", "server.key"]);
}

#[test]
fn what_is_missing_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    Pki::open(dir.path(), start()).unwrap();
    for (missing, anew) in [
        ("token", vec!["token"]),
        ("server.crt", vec!["server.crt", "server.key"]),
        ("server.key", vec!["server.crt", "server.key"]),
        ("ca.crt", vec!["ca.crt"]),
        ("ca.key", vec!["ca.crt", "ca.key", "server.crt", "server.key"]),
    ] {
        let before = contents(dir.path());
        fs::remove_file(dir.path().join("pki").join(missing)).unwrap();
        Pki::open(dir.path(), start()).unwrap();
        let after = contents(dir.path());
        let changed: Vec<_> = FILES.into_iter().filter(|name| before[name] != after[name]).collect();
        assert_eq!(changed, anew, "without {missing}");
    }
}

#[test]
fn a_damaged_file_is_named_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    Pki::open(dir.path(), start()).unwrap();
    let good = contents(dir.path());
    let armoured = |label: &str| format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n");
    for name in FILES {
        let path = dir.path().join("pki").join(name);
        let label = if name.ends_with("key") { "PRIVATE KEY" } else { "CERTIFICATE" };
        for garbage in [b"".to_vec(), b"garbage".to_vec(), vec![0xff; 100], armoured(label).into_bytes()] {
            if name == "token" && garbage.len() > 32 && garbage.is_ascii() {
                continue;
            }
            fs::write(&path, &garbage).unwrap();
            let error = Pki::open(dir.path(), start()).unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, Error::Damaged { .. }), "{name}: {text}");
            assert!(text.contains(path.to_str().unwrap()) && text.contains("Delete it"), "{text}");
            assert_eq!(fs::read(&path).unwrap(), garbage);
        }
        fs::write(&path, &good[name]).unwrap();
    }
    // A certificate of another authority.
    let other = tempfile::tempdir().unwrap();
    Pki::open(other.path(), start()).unwrap();
    fs::copy(other.path().join("pki/ca.crt"), dir.path().join("pki/ca.crt")).unwrap();
    let error = Pki::open(dir.path(), start()).unwrap_err().to_string();
    assert!(error.contains("does not belong to ca.key"), "{error}");
}
