//! The real kubectl reaches into pods: exec, cp, port-forward, attach, run, over both protocols.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;
use trainyard_cluster::{Error, Programs};

use crate::kit::{LONG, Up, processes_with, text};
use crate::pods::{FOREVER, make, pod, sh, until, with};

/// What switches kubectl's protocols: exec and attach, and port-forward.
const SWITCHES: [&str; 2] = ["KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS"];

/// An `up` with a pod `p`, and kubectl.
struct Bed {
    // Dropped first: it needs its files to end what it started.
    up: Up,
    home: TempDir,
    kubectl: PathBuf,
}

impl Bed {
    /// Nothing where there is no kubectl, after saying so; on a build server that is a failure.
    #[expect(clippy::print_stdout, reason = "a test that was left out has to say so")]
    async fn new() -> Option<Self> {
        let programs = match Programs::find(&["kubectl"]) {
            Ok(programs) => programs,
            Err(error @ Error::Missing { .. }) if std::env::var_os("CI").is_none() => {
                println!("LEFT OUT: kubectl reaching into pods. {error}");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        let home = tempfile::tempdir().unwrap();
        let up = Up::start(&home.path().join("data"), &[]).await;
        let client = up.client().await;
        make(&client, pod("p", json!({ "containers": [sh("main", FOREVER)] }))).await;
        until(&client, "p", "Running").await;
        Some(Self { home, up, kubectl: programs.path("kubectl") })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// kubectl over WebSockets, or over SPDY.
    fn kubectl(&self, websockets: bool, args: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.current_dir(self.home.path()).env("HOME", self.home.path());
        command.env("KUBECONFIG", self.up.dir.join("kubeconfig"));
        for switch in SWITCHES {
            command.env(switch, websockets.to_string());
        }
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, websockets: bool, args: &[&str]) -> Output {
        self.kubectl(websockets, args).output().unwrap()
    }

    /// Runs it with something to read.
    fn feed(&self, websockets: bool, args: &[&str], input: Vec<u8>) -> Output {
        let mut child = self.kubectl(websockets, args).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let feeding = thread::spawn(move || stdin.write_all(&input));
        let output = child.wait_with_output().unwrap();
        let _may_have_read_enough = feeding.join().unwrap();
        output
    }
}

/// Waits for a condition, in a thread of its own.
fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LONG, "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Bytes that are no text and do not repeat.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_are_run() {
    let Some(bed) = Bed::new().await else { return };
    for websockets in [true, false] {
        let script = "echo out; echo err >&2; exit 3";
        let output = bed.run(websockets, &["exec", "p", "--", "sh", "-c", script]);
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(text(&output.stdout), "out\n");
        assert_eq!(text(&output.stderr), "err\ncommand terminated with exit code 3\n");
        let output = bed.run(websockets, &["exec", "p", "--", "sh", "-c", "kill -9 $$"]);
        assert_eq!(output.status.code(), Some(137));
        let output = bed.run(websockets, &["exec", "p", "--", "no-such-program"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            text(&output.stderr).contains("exec: \"no-such-program\": executable file not found in $PATH"),
            "{output:?}"
        );
        // All of it arrives, both ways, before the end is told.
        let sent = noise(50_000_000);
        let output = bed.feed(websockets, &["exec", "-i", "p", "--", "cat"], sent.clone());
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(output.stdout == sent, "{} of {} bytes", output.stdout.len(), sent.len());
        // Who does not read all of it is not waited for.
        let output = bed.feed(websockets, &["exec", "-i", "p", "--", "head", "-c", "5"], noise(1_000_000));
        assert_eq!(output.stdout.len(), 5);
    }
}

/// `script` gives kubectl a terminal, and reads what is typed from a pipe.
fn in_terminal(bed: &Bed, websockets: bool, args: &str) -> Child {
    let gate = bed.path("gate");
    let _from_before = fs::remove_file(&gate);
    let resize = format!(
        "(while [ ! -e {} ]; do sleep 0.05; done; stty rows 40 cols 120 </dev/tty) &",
        gate.display()
    );
    let line = format!("stty rows 30 cols 100; {resize} exec {} {args}", bed.kubectl.display());
    let mut command = bed.kubectl(websockets, &[]);
    let environment: Vec<_> =
        command.get_envs().map(|(k, v)| (k.to_owned(), v.map(ToOwned::to_owned))).collect();
    command = Command::new("script");
    for (key, value) in environment {
        command.env(key, value.unwrap());
    }
    command.args(["-qefc", &line, "/dev/null"]).current_dir(bed.home.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Reads until something was written.
fn expect(from: &mut impl Read, wanted: &str) -> String {
    let mut seen = Vec::new();
    let mut chunk = [0; 1000];
    while !text(&seen).contains(wanted) {
        let count = from.read(&mut chunk).unwrap();
        assert!(count > 0, "no {wanted:?} in {:?}", text(&seen));
        seen.extend_from_slice(&chunk[..count]);
    }
    text(&seen)
}

/// A session at a shell: what it is told about its terminal, a window that changes, keys that are signals.
fn session(bed: &Bed, mut child: Child) {
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut type_in = |text: &str| {
        stdin.write_all(text.as_bytes()).unwrap();
        stdin.flush().unwrap();
    };
    type_in("until [ \"$(stty size)\" = '30 100' ]; do sleep 0.05; done; echo $TERM-$((40 + 2))\n");
    expect(&mut stdout, "xterm-42");
    type_in(&format!("touch {}\n", bed.path("gate").display()));
    type_in("until [ \"$(stty size)\" = '40 120' ]; do sleep 0.05; done; echo resized-$((40 + 2))\n");
    expect(&mut stdout, "resized-42");
    type_in(
        "sh -c 'trap \"echo interrupt$((1))ed; exit\" INT; echo wait$((1))ing; while :; do sleep 0.05; done'\n",
    );
    expect(&mut stdout, "wait1ing");
    type_in("\u{3}");
    expect(&mut stdout, "interrupt1ed");
    type_in("exit 5\n");
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(5), "{rest}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terminals_are_terminals() {
    let Some(bed) = Bed::new().await else { return };
    for websockets in [true, false] {
        session(&bed, in_terminal(&bed, websockets, "exec -it p -- sh"));
        let run = format!("run -it --rm --restart=Never t-{websockets} --image=none --command -- sh");
        session(&bed, in_terminal(&bed, websockets, &run));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_copied_both_ways() {
    let Some(bed) = Bed::new().await else { return };
    let (there, back) = (bed.path("there"), bed.path("back"));
    fs::create_dir(bed.path("tree")).unwrap();
    let bytes = noise(5_000_000);
    fs::write(bed.path("tree/noise"), &bytes).unwrap();
    fs::write(bed.path("tree/with space"), "x").unwrap();
    for websockets in [true, false] {
        let place = |path: &Path| format!("p:{}", path.display());
        let output = bed.run(websockets, &["cp", "tree", &place(&there)]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(fs::read(there.join("noise")).unwrap() == bytes);
        let output = bed.run(websockets, &["cp", &place(&there), "back"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(fs::read(back.join("noise")).unwrap() == bytes);
        assert_eq!(fs::read_to_string(back.join("with space")).unwrap(), "x");
        for dir in [&there, &back] {
            trainyard_node::remove_tree(dir).unwrap();
        }
    }
}

/// A server that sends back what it gets, behind its name.
fn echo(name: &'static str) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || {
                let mut stream = stream.unwrap();
                stream.write_all(name.as_bytes()).unwrap();
                let mut back = stream.try_clone().unwrap();
                let _client_is_gone = std::io::copy(&mut stream, &mut back);
            });
        }
    });
    port
}

/// Where kubectl listens for the ports, in their order.
fn forwarded(child: &mut Child, count: usize) -> Vec<SocketAddr> {
    let mut lines = String::new();
    let mut found = Vec::new();
    let mut byte = [0];
    while found.len() < count {
        assert_eq!(child.stdout.as_mut().unwrap().read(&mut byte).unwrap(), 1, "{lines}");
        lines.push(char::from(byte[0]));
        let ends = lines.lines().filter(|_| lines.ends_with('\n'));
        found = ends
            .filter_map(|line| {
                line.strip_prefix("Forwarding from ")?.split(' ').next()?.parse::<SocketAddr>().ok()
            })
            .filter(SocketAddr::is_ipv4)
            .collect();
    }
    found
}

fn talk(to: SocketAddr, name: &str, said: &[u8]) {
    let mut stream = TcpStream::connect(to).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let text = said.to_vec();
    let writing = thread::spawn(move || {
        writer.write_all(&text).unwrap();
        writer.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).unwrap();
    writing.join().unwrap();
    assert!(
        heard == [name.as_bytes(), said].concat(),
        "{} of {} bytes",
        heard.len(),
        name.len() + said.len()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ports_are_forwarded() {
    let Some(bed) = Bed::new().await else { return };
    let (one, two) = (format!(":{}", echo("one ")), format!(":{}", echo("two ")));
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    for websockets in [true, false] {
        let mut child = bed.kubectl(websockets, &["port-forward", "pod/p", &one, &two]).spawn().unwrap();
        let ports = forwarded(&mut child, 2);
        let mut clients = Vec::new();
        for n in 0..40 {
            let (to, name) = if n % 2 == 0 { (ports[0], "one ") } else { (ports[1], "two ") };
            clients.push(thread::spawn(move || talk(to, name, &noise(n * 20_000))));
        }
        for client in clients {
            client.join().unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // Nobody listens there, which the client is told.
        let mut child =
            bed.kubectl(websockets, &["port-forward", "pod/p", &format!(":{nobody}")]).spawn().unwrap();
        let ports = forwarded(&mut child, 1);
        let mut heard = Vec::new();
        let _reset = TcpStream::connect(ports[0]).unwrap().read_to_end(&mut heard);
        let output = child.wait_with_output().unwrap();
        let said = text(&output.stderr);
        assert!(
            said.contains(&format!("dial tcp4 127.0.0.1:{nobody}: connect: connection refused")),
            "{said}"
        );
        assert!(said.contains("lost connection to pod"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_are_joined() {
    let Some(bed) = Bed::new().await else { return };
    let client = bed.up.client().await;
    let script = "while read x; do echo got $x; echo err $x >&2; [ $x = end ] && exit 0; done; exit 9";
    for websockets in [true, false] {
        let name = format!("joined-{websockets}");
        let container = with(sh("main", script), json!({ "stdin": true }));
        make(&client, pod(&name, json!({ "restartPolicy": "Never", "containers": [container] }))).await;
        until(&client, &name, "Running").await;
        let output = bed.feed(websockets, &["attach", "-i", &name], b"one\nend\n".to_vec());
        assert_eq!(text(&output.stdout), "got one\ngot end\n");
        let errors = text(&output.stderr);
        assert!(errors.contains("err one\n") && errors.contains("err end\n"), "{errors}");
        until(&client, &name, "Succeeded").await;
        // One that reads to the end, and then says how it went.
        let run = format!("run-{websockets}");
        let args =
            ["run", &run, "-i", "--rm", "--restart=Never", "--image=none", "--command", "--", "sh", "-c"];
        let output =
            bed.feed(websockets, &[&args[..], &["cat; echo done; exit 4"]].concat(), b"hello\n".to_vec());
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        assert!(text(&output.stdout).starts_with("hello\ndone\n"), "{output:?}");
        let output = bed.run(websockets, &["attach", &name]);
        assert!(!output.status.success(), "{output:?}");
        let output = bed.run(websockets, &["exec", &name, "--", "true"]);
        assert!(text(&output.stderr).contains("current phase is Succeeded"), "{output:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_ends_with_its_client_and_with_the_server() {
    let Some(mut bed) = Bed::new().await else { return };
    for (websockets, tty) in [(true, false), (false, false), (true, true)] {
        let mark = format!("REACH_MARK={websockets}-{tty}-{}", std::process::id());
        let script = format!("export {mark}; sleep 1000 & echo up; cat");
        let stdin = if tty { "-it" } else { "-i" };
        let mut child = bed
            .kubectl(websockets, &["exec", stdin, "p", "--", "sh", "-c", &script])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        expect(child.stdout.as_mut().unwrap(), "up");
        wait("its child runs", || !processes_with(&mark).is_empty());
        child.kill().unwrap();
        child.wait().unwrap();
        wait("the command is gone", || processes_with(&mark).is_empty());
    }
    let mark = format!("REACH_MARK=server-{}", std::process::id());
    let script = format!("export {mark}; sleep 1000 & echo up; cat");
    let mut child = bed
        .kubectl(true, &["exec", "-i", "p", "--", "sh", "-c", &script])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    expect(child.stdout.as_mut().unwrap(), "up");
    wait("its child runs", || !processes_with(&mark).is_empty());
    bed.up.terminate();
    wait("the command is gone", || processes_with(&mark).is_empty());
    assert!(!child.wait().unwrap().success());
}
