//! What a container writes, and how it is read.

use std::fs;
use std::process::Command;

use jiff::Timestamp;
use trainyard_node::runtime::logs::{LogQuery, last_line, tail_bytes};
use trainyard_node::runtime::{Instance, LogRules};

use crate::harness::{Bench, content, log, shim, whole_log};

#[tokio::test]
async fn nothing_of_the_output_is_missing_after_the_end() {
    let bench = Bench::new();
    let dir = bench.dir("fast");
    let exit = bench.run(&dir, &bench.shell("seq 1 100000; exec seq 100001 100010 >&2")).await;
    assert_eq!(exit.code, 0);
    let text = whole_log(&dir).await;
    assert_eq!(text.lines().count(), 100_010);
    let mut numbers: Vec<u32> = text.lines().map(|line| line.parse().unwrap()).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(1..=100_010));
    let raw = fs::read_to_string(dir.join("log")).unwrap();
    assert_eq!(raw.lines().filter(|line| line.contains(" stdout F ")).count(), 100_000);
    assert_eq!(raw.lines().filter(|line| line.contains(" stderr F ")).count(), 10);
}

#[tokio::test]
async fn long_lines_and_unfinished_ones_come_back_as_they_were_written() {
    let bench = Bench::new();
    let dir = bench.dir("parts");
    let script = "head -c 40000 /dev/zero | tr '\\0' x; echo; echo; printf 'no end'";
    bench.run(&dir, &bench.shell(script)).await;
    let raw = fs::read_to_string(dir.join("log")).unwrap();
    assert_eq!(
        raw.lines().filter(|line| line.contains(" stdout P ")).count(),
        3,
        "two of the long line, the last"
    );
    assert_eq!(whole_log(&dir).await, format!("{}\n\nno end", "x".repeat(40_000)));
    assert_eq!(last_line(&dir).as_deref(), Some("no end"));
    let query = LogQuery { tail_lines: Some(2), timestamps: true, ..LogQuery::default() };
    let dated = log(&dir, query).await;
    assert_eq!(dated.lines().count(), 2, "{dated:?}");
    let (time, text) = dated.lines().nth(1).unwrap().split_once(' ').unwrap();
    assert_eq!(text, "no end");
    time.parse::<Timestamp>().unwrap();
}

#[tokio::test]
async fn old_parts_are_put_aside_and_the_oldest_dropped() {
    let bench = Bench::new();
    let dir = bench.dir("rotated");
    let mut spec = bench.shell("seq 1 2000");
    spec.log = LogRules { max_bytes: 10_000, max_files: 3 };
    bench.run(&dir, &spec).await;
    for (name, there) in [("log", true), ("log.1", true), ("log.2", true), ("log.3", false)] {
        assert_eq!(dir.join(name).exists(), there, "{name}");
    }
    let text = whole_log(&dir).await;
    let numbers: Vec<u32> = text.lines().map(|line| line.parse().unwrap()).collect();
    let first = *numbers.first().unwrap();
    assert!(first > 1 && numbers.into_iter().eq(first..=2000), "without a gap to the end");
    let tail = log(&dir, LogQuery { tail_lines: Some(300), ..LogQuery::default() }).await;
    assert!(tail.lines().map(|line| line.parse::<u32>().unwrap()).eq(1701..=2000), "across the parts");
}

#[tokio::test]
async fn a_follower_misses_nothing_whatever_is_put_aside() {
    let bench = Bench::new();
    let dir = bench.dir("followed");
    let script =
        "i=0; while [ $i -lt 40 ]; do seq $((i * 50 + 1)) $((i * 50 + 50)); i=$((i + 1)); sleep 0.01; done";
    let mut spec = bench.shell(script);
    spec.log = LogRules { max_bytes: 4_000, max_files: 100 };
    bench.runtime.start(&dir, &spec).await.unwrap();
    let text = log(&dir, LogQuery { follow: true, ..LogQuery::default() }).await;
    assert!(text.lines().map(|line| line.parse::<u32>().unwrap()).eq(1..=2000));
    assert!(matches!(bench.runtime.look(&dir).unwrap(), Instance::Ended(_)), "it followed to the end");
}

#[tokio::test]
async fn parts_of_a_log_can_be_asked_for() {
    let bench = Bench::new();
    let dir = bench.dir("query");
    let ready = bench.root.path().join("ready");
    let script =
        format!("seq 1 5; echo up > {}; while [ -e {0} ]; do sleep 0.01; done; seq 6 9", ready.display());
    bench.begin(&dir, &bench.shell(&script)).await;
    content(&ready).await;
    crate::harness::until("five lines are there", || last_line(&dir).as_deref() == Some("5")).await;
    let between = crate::harness::clock()();
    fs::remove_file(&ready).unwrap();
    bench.ended(&dir).await;
    let query = LogQuery::default();
    assert_eq!(log(&dir, LogQuery { since: Some(between), ..query }).await, "6\n7\n8\n9\n");
    assert_eq!(log(&dir, LogQuery { tail_lines: Some(2), ..query }).await, "8\n9\n");
    assert_eq!(log(&dir, LogQuery { tail_lines: Some(100), ..query }).await.lines().count(), 9);
    assert_eq!(log(&dir, LogQuery { tail_lines: Some(0), follow: true, ..query }).await, "");
    assert_eq!(log(&dir, LogQuery { limit_bytes: Some(5), ..query }).await, "1\n2\n3");
    assert_eq!(log(&bench.dir("none"), query).await, "");
    assert_eq!(tail_bytes(&dir, 3, 100), "7\n8\n9\n");
    assert_eq!(tail_bytes(&dir, 3, 3), "\n9\n");
    assert_eq!(last_line(&bench.dir("none")), None);
}

/// The run's directory is a small disk of its own, filled up until the container itself makes room again. What the pipe
/// and the shim may still hold then fits the disk; what was written before never did.
#[tokio::test]
async fn a_full_disk_is_told_when_there_is_room_again() {
    let bench = Bench::new();
    let flags = if crate::harness::is_root() { "-m" } else { "-rm" };
    if !Command::new("unshare").args([flags, "true"]).status().is_ok_and(|status| status.success()) {
        println!("SKIPPED: `unshare {flags}` is not permitted here");
        return;
    }
    let (dir, out) = (bench.dir("disk"), bench.root.path().join("out"));
    fs::create_dir_all(&dir).unwrap();
    fs::create_dir_all(&out).unwrap();
    let here = dir.display();
    let spec = bench.shell(&format!(
        "seq -f %0100.0f 1 10000; rm {here}/filler; n=0; while [ $n -lt 3000 ] && ! grep -q 'lines lost' {here}/log; do \
         echo again; sleep 0.01; n=$((n + 1)); done; echo last; exit 6"
    ));
    fs::write(out.join("spec.json"), serde_json::to_vec(&spec).unwrap()).unwrap();
    let script = format!(
        "set -e; mount -t tmpfs -o size=1200k none {here}; cp {out}/spec.json {here}; \
         head -c 1048576 /dev/zero > {here}/filler; {shim} shim {here}; cp {here}/log {here}/state {here}/claim {out}",
        out = out.display(),
        shim = shim().display(),
    );
    assert!(Command::new("unshare").args([flags, "sh", "-c", &script]).status().unwrap().success());
    let Instance::Ended(exit) = bench.runtime.look(&out).unwrap() else { panic!("it did not end") };
    assert_eq!(exit.code, 6);
    let text = whole_log(&out).await;
    let note = text.lines().find(|line| line.contains("lines lost")).unwrap();
    assert!(note.contains("No space left on device"), "{note}");
    assert!(
        text.lines().all(|line| !line.starts_with('0') || line.len() == 100) && text.ends_with("last\n"),
        "whole lines only"
    );
    // Each note counts what was lost since the one before.
    let notes = text.lines().filter(|line| line.contains("lines lost"));
    let lost: usize = notes.map(|note| note.split(' ').nth(1).unwrap().parse::<usize>().unwrap()).sum();
    let numbers = text.lines().filter(|line| line.parse::<u32>().is_ok()).count();
    assert!(numbers + lost >= 10_000 && lost > 0, "{numbers} numbers, {lost} lost");
}

/// The shim cannot write more than this to a file: the same without a disk of its own.
#[tokio::test]
async fn a_full_disk_loses_lines_but_neither_the_run_nor_its_exit_code() {
    let bench = Bench::new();
    let dir = bench.dir("full");
    fs::create_dir_all(&dir).unwrap();
    let mut spec = bench.shell("ulimit -f unlimited 2>/dev/null; seq 1 20000; sleep 0.2; echo last; exit 6");
    spec.log = LogRules { max_bytes: 1 << 30, max_files: 2 };
    fs::write(dir.join("spec.json"), serde_json::to_vec(&spec).unwrap()).unwrap();
    let line = format!("ulimit -f 40; exec \"{}\" shim \"{}\"", shim().display(), dir.display());
    let mut child = Command::new("sh").args(["-c", &line]).spawn().unwrap();
    assert_eq!(bench.ended(&dir).await.code, 6);
    assert!(child.wait().unwrap().success());
    let text = whole_log(&dir).await;
    assert!(text.starts_with("1\n2\n3\n") && text.ends_with('\n'), "whole lines only");
    assert!(text.lines().count() < 20_000);
    // The disk stays full to the end: what is missing is told by whoever reads the log.
    let (note, lines) =
        text.lines().collect::<Vec<_>>().split_last().map(|(last, rest)| (*last, rest.len())).unwrap();
    let words: Vec<&str> = note.split(' ').collect();
    assert!(note.starts_with("… ") && note.contains("lines lost: File too large"), "{note}");
    assert_eq!(lines + words[1].parse::<usize>().unwrap(), 20_001);
    assert!(last_line(&dir).unwrap().contains("lines lost"));
}
