//! Commands inside a running container.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use trainyard_node::runtime::{Mount, RuntimeError};

use crate::harness::{Bench, alive, content, until};

const LONG: Duration = Duration::from_secs(100);

fn words(command: &[&str]) -> Vec<String> {
    command.iter().map(|&word| word.to_owned()).collect()
}

#[tokio::test]
async fn a_command_runs_where_the_program_runs() {
    let bench = Bench::new();
    let dir = bench.dir("exec");
    let place = bench.root.path().join("place");
    fs::create_dir(&place).unwrap();
    let mut spec = bench.spec(&["sleep", "1000"]);
    spec.working_dir = place.clone();
    spec.env.insert("WHO".to_owned(), "me".to_owned());
    bench.begin(&dir, &spec).await;
    let script = words(&["sh", "-c", "pwd; echo $WHO; echo bad >&2; exit 3"]);
    let outcome = bench.runtime.exec(&dir, &script, LONG).await.unwrap();
    assert_eq!((outcome.code, outcome.output), (3, format!("{}\nme\nbad\n", place.display())));
    let outcome = bench.runtime.exec(&dir, &words(&["no-such-probe"]), LONG).await.unwrap();
    assert_eq!(outcome.code, 126);
    assert!(outcome.output.contains("no such program `no-such-probe`"), "{}", outcome.output);
    let outcome = bench.runtime.exec(&dir, &words(&["seq", "1", "100000"]), LONG).await.unwrap();
    assert_eq!((outcome.code, outcome.output.len()), (0, 10 * 1024));
}

#[tokio::test]
async fn it_sees_the_mounts_of_the_container() {
    let bench = Bench::new();
    if let Err(reason) = bench.runtime.can_mount() {
        println!("SKIPPED: {reason}");
        return;
    }
    let dir = bench.dir("exec");
    let source = bench.root.path().join("volume");
    fs::create_dir(&source).unwrap();
    let ready = source.join("ready");
    let mut spec = bench.shell("echo hello > /ty-exec/ready; sleep 1000");
    spec.mounts =
        vec![Mount { source: source.clone(), target: PathBuf::from("/ty-exec"), ..Mount::default() }];
    bench.begin(&dir, &spec).await;
    content(&ready).await;
    let outcome = bench.runtime.exec(&dir, &words(&["cat", "/ty-exec/ready"]), LONG).await.unwrap();
    assert_eq!((outcome.code, outcome.output.as_str()), (0, "hello\n"));
}

#[tokio::test]
async fn one_that_takes_too_long_is_ended_with_its_children() {
    let bench = Bench::new();
    let dir = bench.dir("slow");
    bench.begin(&dir, &bench.spec(&["sleep", "1000"])).await;
    let pid = bench.root.path().join("pid");
    let script = words(&["sh", "-c", &format!("sleep 1000 & echo $! > {}; wait", pid.display())]);
    let error = bench.runtime.exec(&dir, &script, Duration::from_secs(2)).await.unwrap_err();
    assert!(matches!(error, RuntimeError::Timeout(_)), "{error}");
    let child = content(&pid).await.trim().parse().unwrap();
    until("its child is gone", || !alive(child)).await;
}

#[tokio::test]
async fn nothing_runs_in_a_container_that_does_not() {
    let bench = Bench::new();
    let dir = bench.dir("over");
    bench.run(&dir, &bench.spec(&["true"])).await;
    let error = bench.runtime.exec(&dir, &words(&["true"]), LONG).await.unwrap_err();
    assert!(matches!(error, RuntimeError::NotRunning), "{error}");
}
