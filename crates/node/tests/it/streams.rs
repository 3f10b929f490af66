//! Commands that somebody talks to, and programs that somebody joins.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use trainyard_node::runtime::{RuntimeError, Streams, WindowSize};

use crate::harness::{Bench, alive, content, until, whole_log};

/// The other ends of the streams of a process.
struct Ends {
    stdin: Option<DuplexStream>,
    stdout: DuplexStream,
    stderr: DuplexStream,
    sizes: mpsc::Sender<WindowSize>,
}

fn streams(tty: bool) -> (Streams, Ends) {
    let pipe = || duplex(4096);
    let ((stdin, input), (stdout, output), (stderr, errors)) = (pipe(), pipe(), pipe());
    let (size, sizes) = mpsc::channel(1);
    let streams = Streams {
        stdin: Some(Box::new(input)),
        stdout: Some(Box::new(output)),
        stderr: (!tty).then(|| Box::new(errors) as _),
        tty,
        sizes,
    };
    (streams, Ends { stdin: Some(stdin), stdout, stderr, sizes: size })
}

impl Ends {
    async fn type_in(&mut self, text: &str) {
        self.stdin.as_mut().unwrap().write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads until something was written.
    async fn until(&mut self, wanted: &str) -> String {
        let mut read = Vec::new();
        let mut chunk = [0; 1000];
        while !String::from_utf8_lossy(&read).contains(wanted) {
            let reading = self.stdout.read(&mut chunk);
            let count = tokio::time::timeout(Duration::from_secs(120), reading).await;
            let count =
                count.unwrap_or_else(|_| panic!("no {wanted:?} in {:?}", String::from_utf8_lossy(&read)));
            let count = count.unwrap();
            assert!(count > 0, "no {wanted:?} in {:?}", String::from_utf8_lossy(&read));
            read.extend_from_slice(chunk.get(..count).unwrap());
        }
        String::from_utf8(read).unwrap()
    }

    async fn rest(mut self) -> (String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        drop(self.stdin.take());
        let _both = tokio::join!(self.stdout.read_to_string(&mut out), self.stderr.read_to_string(&mut err));
        (out, err)
    }
}

fn words(command: &[&str]) -> Vec<String> {
    command.iter().map(|&word| word.to_owned()).collect()
}

fn run(
    bench: &Bench,
    dir: &Path,
    command: &[&str],
    streams: Streams,
) -> JoinHandle<Result<i32, RuntimeError>> {
    let (runtime, dir, command) = (bench.runtime.clone(), dir.to_owned(), words(command));
    tokio::spawn(async move { runtime.run(&dir, &command, streams).await })
}

fn attach(bench: &Bench, dir: &Path, streams: Streams) -> JoinHandle<Result<(), RuntimeError>> {
    let (runtime, dir) = (bench.runtime.clone(), dir.to_owned());
    tokio::spawn(async move { runtime.attach(&dir, streams).await })
}

#[tokio::test]
async fn a_command_has_streams_of_its_own() {
    let bench = Bench::new();
    let dir = bench.dir("plain");
    bench.begin(&dir, &bench.spec(&["sleep", "1000"])).await;
    let (process, ends) = streams(false);
    let script = "read line; echo got $line; echo bad >&2; cat; exit 7";
    let running = run(&bench, &dir, &["sh", "-c", script], process);
    let Ends { stdin, mut stdout, mut stderr, sizes: _ } = ends;
    let typing = async move {
        let mut stdin = stdin.unwrap();
        stdin.write_all(b"hello\n").await.unwrap();
        stdin.write_all(&vec![b'x'; 3_000_000]).await.unwrap();
    };
    let (mut out, mut err) = (Vec::new(), String::new());
    let (_, read, _) = tokio::join!(typing, stdout.read_to_end(&mut out), stderr.read_to_string(&mut err));
    read.unwrap();
    assert_eq!((out.len(), err.as_str()), ("got hello\n".len() + 3_000_000, "bad\n"));
    assert!(out.starts_with(b"got hello\nxxx"));
    assert_eq!(running.await.unwrap().unwrap(), 7);
    // A signal, and nothing to read.
    let (process, ends) = streams(false);
    let running = run(&bench, &dir, &["sh", "-c", "cat; kill -KILL $$"], process);
    assert_eq!(ends.rest().await, (String::new(), String::new()));
    assert_eq!(running.await.unwrap().unwrap(), 137);
    let left =
        fs::read_dir(&dir).unwrap().flatten().filter(|e| e.file_name().to_string_lossy().contains("run."));
    assert_eq!(left.count(), 0, "nothing is left of them");
}

#[tokio::test]
async fn one_that_cannot_be_started_says_why() {
    let bench = Bench::new();
    let dir = bench.dir("none");
    bench.begin(&dir, &bench.spec(&["sleep", "1000"])).await;
    for tty in [false, true] {
        let (process, _ends) = streams(tty);
        let error = run(&bench, &dir, &["no-such-program"], process).await.unwrap().unwrap_err();
        assert!(
            error.to_string().contains("exec: \"no-such-program\": executable file not found in $PATH"),
            "{error}"
        );
    }
    // The same code of its own is no such error.
    let (process, _ends) = streams(false);
    assert_eq!(run(&bench, &dir, &["sh", "-c", "exit 126"], process).await.unwrap().unwrap(), 126);
    let over = bench.dir("over");
    bench.run(&over, &bench.spec(&["true"])).await;
    let (process, _ends) = streams(false);
    let error = run(&bench, &over, &["true"], process).await.unwrap().unwrap_err();
    assert!(matches!(error, RuntimeError::NotRunning), "{error}");
}

#[tokio::test]
async fn a_terminal_is_one() {
    let bench = Bench::new();
    let dir = bench.dir("tty");
    bench.begin(&dir, &bench.spec(&["sleep", "1000"])).await;
    let (process, mut ends) = streams(true);
    let running = run(&bench, &dir, &["sh"], process);
    ends.sizes.send(WindowSize { columns: 100, rows: 30 }).await.unwrap();
    ends.type_in("until [ \"$(stty size)\" = '30 100' ]; do sleep 0.01; done; tty; echo $TERM-\n").await;
    let text = ends.until("xterm-").await;
    assert!(text.contains("/dev/pts/"), "{text}");
    ends.type_in("exit 3\n").await;
    assert_eq!(running.await.unwrap().unwrap(), 3);
    // A window that changes is told to whoever wants to know.
    let (process, mut ends) = streams(true);
    let script = "trap 'stty size; exit 9' WINCH; echo ready; while :; do sleep 0.01; done";
    let running = run(&bench, &dir, &["sh", "-c", script], process);
    ends.until("ready").await;
    ends.sizes.send(WindowSize { columns: 80, rows: 25 }).await.unwrap();
    ends.until("25 80").await;
    assert_eq!(running.await.unwrap().unwrap(), 9);
    // Keys are signals. No shell: one that is about to start a program keeps a signal for itself.
    let (process, mut ends) = streams(true);
    let running = run(&bench, &dir, &["cat"], process);
    ends.type_in("ready\n").await;
    // Once from the terminal, which shows what is typed, and once from the program.
    ends.until("ready\r\nready\r\n").await;
    ends.type_in("\u{3}").await;
    assert_eq!(running.await.unwrap().unwrap(), 130);
}

#[tokio::test]
async fn it_ends_with_whoever_talks_to_it_and_with_the_container() {
    let bench = Bench::new();
    let dir = bench.dir("gone");
    bench.begin(&dir, &bench.spec(&["sleep", "1000"])).await;
    for tty in [false, true] {
        let pids = bench.root.path().join(format!("pids-{tty}"));
        let script = format!("sleep 1000 & (sleep 1000 & echo $$ $! > {}; wait)", pids.display());
        let (process, _ends) = streams(tty);
        let running = run(&bench, &dir, &["sh", "-c", &script], process);
        let found: Vec<i32> =
            content(&pids).await.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
        running.abort();
        assert!(running.await.unwrap_err().is_cancelled());
        until("all of it is gone", || found.iter().all(|pid| !alive(*pid))).await;
    }
    let (process, mut ends) = streams(false);
    let running = run(&bench, &dir, &["sh", "-c", "trap '' TERM; echo up; sleep 1000"], process);
    ends.until("up").await;
    bench.runtime.stop(&dir, Duration::ZERO).unwrap();
    assert_eq!(running.await.unwrap().unwrap(), 137);
}

#[tokio::test]
async fn whoever_joins_a_program_hears_it_from_then_on_and_can_type() {
    let bench = Bench::new();
    let dir = bench.dir("joined");
    let mut spec =
        bench.shell("echo before; while read x; do printf 'got %s' $x; echo err >&2; done; echo; echo eof");
    (spec.stdin, spec.stdin_once) = (true, true);
    bench.begin(&dir, &spec).await;
    while !whole_log(&dir).await.contains("before") {
        tokio::task::yield_now().await;
    }
    let (process, mut ends) = streams(false);
    let joined = attach(&bench, &dir, process);
    ends.type_in("one\n").await;
    let text = ends.until("got one").await;
    assert!(!text.contains("before"), "{text}");
    // Its input ends with the first who typed.
    let (out, err) = ends.rest().await;
    assert_eq!((out.as_str(), err.as_str()), ("\neof\n", "err\n"));
    joined.await.unwrap().unwrap();
    assert_eq!(bench.ended(&dir).await.code, 0);
    let log = whole_log(&dir).await;
    assert!(log.contains("got one\n") && log.ends_with("eof\n"), "{log}");
}

#[tokio::test]
async fn input_that_is_not_for_once_stays_open() {
    let bench = Bench::new();
    let dir = bench.dir("often");
    let mut spec = bench.shell("while read x; do echo got $x; done; echo eof");
    spec.stdin = true;
    bench.begin(&dir, &spec).await;
    for text in ["one", "two"] {
        let (process, mut ends) = streams(false);
        let joined = attach(&bench, &dir, process);
        ends.type_in(&format!("{text}\n")).await;
        ends.until(&format!("got {text}")).await;
        drop(ends.stdin.take());
        // Who only listens changes nothing.
        let (process, _ends) = streams(false);
        let other = attach(&bench, &dir, process);
        other.abort();
        joined.abort();
    }
    assert!(!whole_log(&dir).await.contains("eof"));
}

#[tokio::test]
async fn a_program_in_a_terminal_can_be_joined() {
    let bench = Bench::new();
    let dir = bench.dir("terminal");
    let mut spec = bench.spec(&["sh"]);
    (spec.stdin, spec.stdin_once, spec.tty) = (true, true, true);
    spec.env.insert("PS1".into(), "prompt ".into());
    bench.begin(&dir, &spec).await;
    let (process, mut ends) = streams(true);
    let joined = attach(&bench, &dir, process);
    ends.sizes.send(WindowSize { columns: 100, rows: 30 }).await.unwrap();
    ends.type_in("until [ \"$(stty size)\" = '30 100' ]; do sleep 0.01; done; tty\n").await;
    ends.until("/dev/pts/").await;
    ends.type_in("echo $((40 + 2))\n").await;
    // The prompt comes without the end of a line.
    ends.until("42\r\nprompt ").await;
    ends.type_in("exit 5\n").await;
    joined.await.unwrap().unwrap();
    assert_eq!(bench.ended(&dir).await.code, 5);
    // A polite end reaches what runs in a terminal too.
    let dir = bench.dir("polite");
    let mut spec = bench.shell("trap 'exit 6' TERM; echo up; while :; do sleep 0.01; done");
    spec.tty = true;
    bench.begin(&dir, &spec).await;
    while !whole_log(&dir).await.contains("up") {
        tokio::task::yield_now().await;
    }
    bench.runtime.stop(&dir, Duration::from_secs(100)).unwrap();
    assert_eq!(bench.ended(&dir).await.code, 6);
}
