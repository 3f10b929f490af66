//! The lock on a file.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use trainyard_node::lock::{FileLock, LockError, holder, is_held};

#[test]
fn one_holds_it_and_the_other_learns_who() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    assert!(!is_held(&path), "there is no file yet");
    assert!(!path.exists(), "looking makes none");
    let lock = FileLock::acquire(&path).unwrap();
    assert!(is_held(&path));
    assert_eq!(holder(&path), Some(std::process::id()));
    let refused = FileLock::acquire(&path).unwrap_err();
    assert!(matches!(refused, LockError::Held { pid: Some(pid) } if pid == std::process::id()), "{refused}");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    drop(lock);
    assert!(!is_held(&path));
    assert_eq!(holder(&path), None, "the number of the last holder is still in the file, but says nothing");
    FileLock::acquire(&path).unwrap();
}

/// A process that was killed lets go of its lock a moment later.
#[test]
fn a_dead_holder_is_waited_for_and_a_live_one_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    let held = FileLock::acquire(&path).unwrap();
    let alive = FileLock::succeed(&path, || panic!("it is alive")).unwrap_err();
    assert!(matches!(alive, LockError::Held { pid: Some(pid) } if pid == std::process::id()), "{alive}");
    // Ended and not yet collected, as `up` is when its parent does not look.
    let mut zombie = Command::new("true").spawn().unwrap();
    let stat = || std::fs::read_to_string(format!("/proc/{}/stat", zombie.id())).unwrap();
    while !stat().contains(") Z ") {
        std::thread::yield_now();
    }
    let dead = zombie.id();
    take_over_from(dead, held, &path);
    zombie.wait().unwrap();
    take_over_from(dead, FileLock::acquire(&path).unwrap(), &path);
}

/// The lock is held, and the number in it is that of a process that is dead.
fn take_over_from(dead: u32, lock: FileLock, path: &std::path::Path) {
    std::fs::write(path, format!("{dead:>10}\n")).unwrap();
    let gone = FileLock::succeed(path, || false).unwrap_err();
    assert!(matches!(gone, LockError::Held { pid: None }), "the dead are not named: {gone}");
    let mut lock = Some(lock);
    let _taken = FileLock::succeed(path, || lock.take().is_some()).unwrap();
    assert_eq!(holder(path), Some(std::process::id()));
}

#[test]
fn a_child_does_not_inherit_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    let lock = FileLock::acquire(&path).unwrap();
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    let open = std::fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap();
    let inherited = open.flatten().any(|fd| std::fs::read_link(fd.path()).is_ok_and(|file| file == path));
    child.kill().unwrap();
    child.wait().unwrap();
    drop(lock);
    assert!(!inherited);
}
