//! Deaths without a word: of whoever started a shim, and of the shim.

use std::fs;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use trainyard_node::runtime::{ExitReason, Instance};

use crate::harness::{Bench, alive, content, shim, shim_of, until, whole_log};

#[tokio::test]
async fn a_run_goes_on_without_whoever_started_it() {
    let bench = Bench::new();
    let dir = bench.dir("left");
    let go = bench.root.path().join("go");
    let script = format!("while [ ! -e {} ]; do sleep 0.02; done; echo done; exit 5", go.display());
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("spec.json"), serde_json::to_vec(&bench.shell(&script)).unwrap()).unwrap();
    // A starter with a shim as its child; it is killed, with its whole group, as a crash would.
    let line = format!("\"{}\" shim \"{}\" & wait", shim().display(), dir.display());
    let mut starter = Command::new("sh").args(["-c", &line]).stdin(Stdio::null()).spawn().unwrap();
    bench.runtime.started(&dir).await.unwrap();
    starter.kill().unwrap();
    starter.wait().unwrap();
    assert!(matches!(bench.runtime.look(&dir).unwrap(), Instance::Running { .. }));
    fs::write(&go, "").unwrap();
    let exit = bench.ended(&dir).await;
    assert_eq!(exit.code, 5);
    assert_eq!(whole_log(&dir).await, "done\n");
}

#[tokio::test]
async fn a_killed_shim_takes_its_container_along() {
    let bench = Bench::new();
    let dir = bench.dir("killed");
    let pids = bench.root.path().join("pids");
    let script = format!(
        "sleep 1000 & echo $! > {0}.new; setsid sleep 1000 & echo $! >> {0}.new; mv {0}.new {0}; sleep 1000",
        pids.display()
    );
    let main = bench.begin(&dir, &bench.shell(&script)).await;
    let children = content(&pids).await;
    kill(Pid::from_raw(shim_of(&dir)), Signal::SIGKILL).unwrap();
    let exit = bench.ended(&dir).await;
    assert_eq!((exit.code, exit.reason), (137, ExitReason::Lost));
    assert_eq!(bench.runtime.look(&dir).unwrap(), Instance::Ended(exit), "and it stays the same");
    until("the program is gone", || !alive(main)).await;
    for child in children.lines().map(|pid| pid.parse().unwrap()) {
        until("its children are gone", || !alive(child)).await;
    }
    bench.runtime.start(&dir, &bench.spec(&["true"])).await.unwrap();
    assert!(matches!(bench.runtime.look(&dir).unwrap(), Instance::Ended(_)), "it is not begun again");
}

/// Without control groups, and with nothing left that leads to the shim: neither parent nor session nor pipes.
#[tokio::test]
async fn a_daemon_that_a_killed_shim_left_is_found_by_its_mark() {
    let bench = Bench::new();
    let dir = bench.dir("daemon");
    let pid = bench.root.path().join("pid");
    let daemon = format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000", pid.display());
    let script = format!("(setsid sh -c '{daemon}' </dev/null >/dev/null 2>&1 &); sleep 1000");
    bench.begin(&dir, &bench.shell(&script)).await;
    let daemon: i32 = content(&pid).await.trim().parse().unwrap();
    let mut innocent = Command::new("sleep").arg("1000").env("TRAINYARD_RUN", "another").spawn().unwrap();
    let _none_here_at_all = fs::remove_file(dir.join("cgroups"));
    kill(Pid::from_raw(shim_of(&dir)), Signal::SIGKILL).unwrap();
    let exit = bench.ended(&dir).await;
    let untouched = innocent.try_wait().unwrap().is_none();
    innocent.kill().unwrap();
    innocent.wait().unwrap();
    assert_eq!(exit.reason, ExitReason::Lost);
    until("the daemon is gone", || !alive(daemon)).await;
    assert!(untouched);
}

#[tokio::test]
async fn a_shim_of_another_life_of_the_machine_is_lost_and_nobody_else_is_touched() {
    let bench = Bench::new();
    let dir = bench.dir("before");
    fs::create_dir_all(&dir).unwrap();
    let mut innocent = Command::new("sleep").arg("1000").spawn().unwrap();
    fs::write(dir.join("claim"), format!(r#"{{"shim":{},"boot":"x","pipes":[1,2]}}"#, innocent.id()))
        .unwrap();
    fs::write(dir.join("shim.lock"), format!("{:>10}\n", innocent.id())).unwrap();
    bench.runtime.stop(&dir, std::time::Duration::ZERO).unwrap();
    let exit = bench.ended(&dir).await;
    let untouched = innocent.try_wait().unwrap().is_none();
    innocent.kill().unwrap();
    innocent.wait().unwrap();
    assert!(untouched);
    assert_eq!(exit.reason, ExitReason::Lost);
}
