//! Limits and use of the machine's resources.

use std::time::Duration;

use trainyard_node::runtime::{ExitReason, Limits, enforceable};

use crate::harness::{Bench, until};

#[tokio::test]
async fn one_beyond_its_memory_limit_is_killed_and_that_is_said() {
    let bench = Bench::new();
    let can = enforceable();
    if !can.memory {
        println!("SKIPPED: this machine keeps no memory limits (no writable control group)");
    }
    let dir = bench.dir("memory");
    let mut spec = bench.shell("x=$(head -c 400000000 /dev/zero | tr '\\0' x); echo ${#x}");
    spec.limits = Limits { memory: Some(32 << 20), cpu_millis: Some(1500) };
    let exit = bench.run(&dir, &spec).await;
    if can.memory {
        assert_eq!((exit.code, exit.reason), (137, ExitReason::OomKilled), "{exit:?}");
        assert!(exit.message.unwrap().contains("33554432"));
    } else {
        assert_eq!(exit.reason, ExitReason::Completed, "it goes on without");
    }
    let left = std::fs::read_to_string(dir.join("cgroups")).unwrap_or_default();
    for group in left.lines() {
        assert!(!std::path::Path::new(group).exists(), "{group} is left");
    }
}

#[tokio::test]
async fn a_small_program_fits_its_limits() {
    let bench = Bench::new();
    let mut spec = bench.shell("cat /proc/self/cgroup > /dev/null; exit 3");
    spec.limits = Limits { memory: Some(64 << 20), cpu_millis: Some(100) };
    let exit = bench.run(&bench.dir("small"), &spec).await;
    assert_eq!((exit.code, exit.reason), (3, ExitReason::Error));
}

#[tokio::test]
async fn what_a_container_uses_is_counted_without_its_shim() {
    let bench = Bench::new();
    let (busy, idle, over) = (bench.dir("busy"), bench.dir("idle"), bench.dir("over"));
    bench.begin(&busy, &bench.shell("(while :; do :; done) & wait")).await;
    bench.begin(&idle, &bench.spec(&["sleep", "1000"])).await;
    bench.run(&over, &bench.spec(&["true"])).await;
    let dirs = [busy, idle, over];
    until("the busy one has used some time", || {
        let usage = bench.runtime.usage(&dirs);
        usage[0].is_some_and(|usage| usage.cpu > Duration::from_millis(50) && usage.memory > 0)
    })
    .await;
    let usage = bench.runtime.usage(&dirs);
    assert!(usage[1].unwrap().cpu < usage[0].unwrap().cpu);
    assert!(usage[1].unwrap().memory > 0);
    assert_eq!(usage[2], None);
}
