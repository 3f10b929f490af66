//! Ending a run: politely, for good, and with everything it started.

use std::fs;
use std::path::Path;
use std::time::Duration;

use trainyard_node::runtime::{Instance, end_all, running_under};

use crate::harness::{Bench, alive, clock, content, shim_of, until, whole_log};

const LONG: Duration = Duration::from_secs(600);

/// Every line of the file is a process; none of them is left.
async fn all_gone(pids: &str) {
    for pid in pids.lines().map(|pid| pid.parse().unwrap()) {
        until(&format!("process {pid} is gone"), || !alive(pid)).await;
    }
}

/// A script that leaves children: a plain one, one in its own session, one that is nobody's child any more.
fn family(pids: &Path, end: &str) -> String {
    let note = format!("echo $! >> {}.new", pids.display());
    format!(
        "sleep 1000 & {note}; setsid sleep 1000 & {note}; (setsid sh -c 'echo $$ >> {0}.new; trap \"\" TERM; sleep 1000' &) ; \
         while [ $(wc -l < {0}.new) -lt 3 ]; do sleep 0.01; done; mv {0}.new {0}; {end}",
        pids.display()
    )
}

#[tokio::test]
async fn a_polite_request_lets_it_finish() {
    let bench = Bench::new();
    let dir = bench.dir("polite");
    let ready = bench.root.path().join("ready");
    let script = format!(
        "trap 'echo saving; exit 3' TERM; echo up > {}; while :; do sleep 0.05; done",
        ready.display()
    );
    bench.begin(&dir, &bench.shell(&script)).await;
    content(&ready).await;
    bench.runtime.stop(&dir, LONG).unwrap();
    let exit = bench.ended(&dir).await;
    assert_eq!((exit.code, exit.signal), (3, None));
    assert!(whole_log(&dir).await.lines().any(|line| line == "saving"));
}

#[tokio::test]
async fn one_that_does_not_listen_is_killed_after_the_grace_period() {
    let bench = Bench::new();
    let dir = bench.dir("deaf");
    let ready = bench.root.path().join("ready");
    let script = format!("trap '' TERM; echo up > {}; while :; do sleep 0.05; done", ready.display());
    bench.begin(&dir, &bench.shell(&script)).await;
    content(&ready).await;
    bench.runtime.stop(&dir, Duration::from_millis(100)).unwrap();
    assert_eq!(bench.ended(&dir).await.code, 137);
}

#[tokio::test]
async fn a_second_request_shortens_the_time() {
    let bench = Bench::new();
    let dir = bench.dir("shorter");
    let ready = bench.root.path().join("ready");
    let script = format!("trap '' TERM; echo up > {}; while :; do sleep 0.05; done", ready.display());
    bench.begin(&dir, &bench.shell(&script)).await;
    content(&ready).await;
    bench.runtime.stop(&dir, LONG).unwrap();
    assert!(matches!(bench.runtime.look(&dir).unwrap(), Instance::Running { .. }));
    bench.runtime.stop(&dir, Duration::ZERO).unwrap();
    assert_eq!(bench.ended(&dir).await.code, 137);
    bench.runtime.stop(&dir, Duration::ZERO).unwrap();
}

#[tokio::test]
async fn a_request_counts_without_its_signal() {
    let bench = Bench::new();
    let dir = bench.dir("unsignalled");
    bench.begin(&dir, &bench.spec(&["sleep", "1000"])).await;
    let request = r#"{"grace_seconds":600.0,"force":false,"requested_at":"2026-01-01T00:00:00Z"}"#;
    fs::write(dir.join("stop"), request).unwrap();
    assert_eq!(bench.ended(&dir).await.code, 143);
}

#[tokio::test]
async fn a_terminated_shim_ends_its_container_in_order() {
    let bench = Bench::new();
    let dir = bench.dir("terminated");
    bench.begin(&dir, &bench.spec(&["sleep", "1000"])).await;
    let shim = nix::unistd::Pid::from_raw(shim_of(&dir));
    nix::sys::signal::kill(shim, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert_eq!(bench.ended(&dir).await.code, 143);
}

#[tokio::test]
async fn nothing_outlives_an_ordinary_end() {
    let bench = Bench::new();
    let dir = bench.dir("family");
    let pids = bench.root.path().join("pids");
    let exit = bench.run(&dir, &bench.shell(&family(&pids, "exit 4"))).await;
    assert_eq!(exit.code, 4);
    let pids = content(&pids).await;
    assert_eq!(pids.lines().count(), 3);
    for pid in pids.lines().map(|pid| pid.parse().unwrap()) {
        assert!(!alive(pid), "the end is told when all is over, not before");
    }
}

#[tokio::test]
async fn nothing_outlives_a_stop() {
    let bench = Bench::new();
    let dir = bench.dir("family");
    let pids = bench.root.path().join("pids");
    bench.begin(&dir, &bench.shell(&family(&pids, "sleep 1000"))).await;
    let pids = content(&pids).await;
    bench.runtime.stop(&dir, Duration::from_millis(200)).unwrap();
    assert_eq!(bench.ended(&dir).await.code, 143);
    assert_eq!(pids.lines().count(), 3);
    all_gone(&pids).await;
}

#[tokio::test]
async fn it_ends_when_the_control_plane_stays_away() {
    let mut bench = Bench::new();
    let (dir, stays) = (bench.dir("orphan"), bench.dir("stays"));
    let mut spec = bench.spec(&["sleep", "1000"]);
    bench.begin(&stays, &spec).await;
    spec.orphan.after_seconds = Some(1);
    bench.begin(&dir, &spec).await;
    bench.plane = None;
    assert_eq!(bench.ended(&dir).await.code, 143);
    assert!(matches!(bench.runtime.look(&stays).unwrap(), Instance::Running { .. }));
}

#[tokio::test]
async fn all_runs_are_found_and_ended_by_their_directory() {
    let bench = Bench::new();
    let dirs = [bench.dir("a"), bench.dir("b")];
    for dir in &dirs {
        bench.begin(dir, &bench.spec(&["sleep", "1000"])).await;
    }
    bench.run(&bench.dir("over"), &bench.spec(&["true"])).await;
    let root = bench.root.path().join("pods");
    let mut found = running_under(&root);
    found.sort();
    assert_eq!(found, dirs);
    let mut ended = end_all(&root, LONG, clock()()).unwrap();
    ended.sort();
    assert_eq!(ended, dirs);
    for dir in &dirs {
        assert_eq!(bench.ended(dir).await.code, 143);
    }
    until("no shim is left", || running_under(&root).is_empty()).await;
}
