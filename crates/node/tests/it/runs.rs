//! From a start to an exit code.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use trainyard_node::runtime::{ExitReason, Instance, Runtime};

use crate::harness::{Bench, clock, content, shim, whole_log};

#[tokio::test]
async fn exit_codes_and_signals_are_told() {
    let bench = Bench::new();
    let cases = [
        ("exit 0", 0, None, ExitReason::Completed),
        ("exit 7", 7, None, ExitReason::Error),
        ("kill -9 $$", 137, Some(9), ExitReason::Error),
        ("kill -15 $$", 143, Some(15), ExitReason::Error),
        ("kill -11 $$", 139, Some(11), ExitReason::Error),
    ];
    for (n, (script, code, signal, reason)) in cases.into_iter().enumerate() {
        let dir = bench.dir(&n.to_string());
        assert_eq!(bench.runtime.look(&dir).unwrap(), Instance::Absent);
        let exit = bench.run(&dir, &bench.shell(script)).await;
        assert_eq!((exit.code, exit.signal, exit.reason), (code, signal, reason), "{script}");
        assert!(exit.started_at <= exit.finished_at);
        assert_eq!(bench.runtime.look(&dir).unwrap(), Instance::Ended(exit));
    }
}

#[tokio::test]
async fn what_the_control_plane_ignores_its_programs_do_not() {
    let mut bench = Bench::new();
    let deaf = bench.root.path().join("shim");
    let script = format!("#!/bin/sh\ntrap '' HUP INT QUIT USR1\nexec {} \"$@\"\n", shim().display());
    fs::write(&deaf, script).unwrap();
    fs::set_permissions(&deaf, PermissionsExt::from_mode(0o755)).unwrap();
    bench.runtime = Runtime::new(deaf, clock());
    let dir = bench.dir("signals");
    bench.run(&dir, &bench.spec(&["grep", "SigIgn", "/proc/self/status"])).await;
    let log = whole_log(&dir).await;
    let mask = u64::from_str_radix(log.trim().rsplit('\t').next().unwrap(), 16).unwrap();
    assert_eq!(mask & 0x7fff_ffff, 0, "{log}");
}

#[tokio::test]
async fn the_environment_is_exactly_what_was_asked_for() {
    let bench = Bench::new();
    let mut spec = bench.spec(&["/usr/bin/env"]);
    spec.env.insert("GREETING".to_owned(), "good morning = hello".to_owned());
    spec.env.insert("EMPTY".to_owned(), String::new());
    let dir = bench.dir("env");
    bench.run(&dir, &spec).await;
    let log = whole_log(&dir).await;
    let (mark, mut lines): (Vec<&str>, Vec<&str>) =
        log.lines().partition(|line| line.starts_with("TRAINYARD_RUN="));
    lines.sort_unstable();
    assert_eq!(mark.len(), 1, "by which its processes are found");
    assert_eq!(lines, ["EMPTY=", "GREETING=good morning = hello", "PATH=/usr/local/bin:/usr/bin:/bin"]);
}

#[tokio::test]
async fn the_program_starts_in_its_directory_with_nothing_to_read() {
    let bench = Bench::new();
    let place = bench.root.path().join("place");
    fs::create_dir(&place).unwrap();
    let mut spec = bench.shell("pwd; cat; ls -1 /proc/self/fd | wc -l; echo $0");
    spec.working_dir = place.clone();
    let dir = bench.dir("cwd");
    assert_eq!(bench.run(&dir, &spec).await.code, 0);
    // Three descriptors and the one that `ls` reads the directory with: none of the shim's.
    assert_eq!(whole_log(&dir).await, format!("{}\n4\nsh\n", place.display()));
}

#[tokio::test]
async fn a_start_that_fails_says_why() {
    let bench = Bench::new();
    let script = bench.root.path().join("script");
    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    Command::new("chmod").arg("+x").arg(&script).status().unwrap();
    let plain = bench.root.path().join("plain");
    fs::write(&plain, "").unwrap();
    let mut lost = bench.spec(&["true"]);
    lost.working_dir = PathBuf::from("/no/such/place");
    let mut empty = bench.spec(&["true"]);
    empty.command.clear();
    let cases = [
        (bench.spec(&["trian.py"]), "no such program `trian.py` in PATH"),
        (bench.spec(&["/no/such/program"]), "no such program `/no/such/program`"),
        (bench.spec(&[script.to_str().unwrap()]), "interpreter"),
        (bench.spec(&[plain.to_str().unwrap()]), "not executable"),
        (bench.spec(&["/usr"]), "is a directory"),
        (lost, "working directory `/no/such/place`"),
        (empty, "no command"),
    ];
    for (n, (spec, message)) in cases.into_iter().enumerate() {
        let exit = bench.run(&bench.dir(&n.to_string()), &spec).await;
        assert_eq!((exit.code, exit.reason), (128, ExitReason::StartError), "{exit:?}");
        assert!(exit.message.as_ref().unwrap().contains(message), "{exit:?}");
    }
}

#[tokio::test]
async fn twenty_shims_run_it_once() {
    let bench = Bench::new();
    let dir = bench.dir("once");
    let marks = bench.root.path().join("marks");
    let spec = bench.shell(&format!("echo here >> {}; sleep 0.2", marks.display()));
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("spec.json"), serde_json::to_vec(&spec).unwrap()).unwrap();
    let start = || Command::new(shim()).arg("shim").arg(&dir).spawn().unwrap();
    let children: Vec<_> = (0..20).map(|_| start()).collect();
    bench.runtime.start(&dir, &spec).await.unwrap();
    assert_eq!(bench.ended(&dir).await.code, 0);
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert!(start().wait().unwrap().success(), "one that comes too late leaves quietly");
    bench.runtime.start(&dir, &spec).await.unwrap();
    assert_eq!(content(&marks).await, "here\n");
}

#[tokio::test]
async fn a_run_that_cannot_be_claimed_is_refused_and_may_be_tried_again() {
    let bench = Bench::new();
    let dir = bench.dir("refused");
    fs::create_dir_all(dir.join("state")).unwrap();
    let spec = bench.spec(&["true"]);
    let error = bench.runtime.start(&dir, &spec).await.unwrap_err();
    assert!(error.to_string().contains("directory"), "{error}");
    assert_eq!(bench.runtime.look(&dir).unwrap(), Instance::Absent);
    fs::remove_dir(dir.join("state")).unwrap();
    assert_eq!(bench.run(&dir, &spec).await.code, 0);
}

#[tokio::test]
async fn the_environment_is_gone_when_a_run_has_ended() {
    let bench = Bench::new();
    let secret = |dir: &std::path::Path| {
        let files =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
        files.filter(|file| String::from_utf8_lossy(&fs::read(file).unwrap()).contains("swordfish")).count()
    };
    let mut spec = bench.shell("echo $PASSWORD | wc -c; test $1 = swordfish; exit 3");
    spec.command.extend(["sh".to_owned(), "swordfish".to_owned()]);
    spec.env.insert("PASSWORD".into(), "swordfish".into());
    let dir = bench.dir("ends");
    assert_eq!(bench.run(&dir, &spec).await.code, 3);
    assert_eq!((secret(&dir), whole_log(&dir).await.as_str()), (0, "10\n"));

    let mut spec = bench.spec(&["sleep", "1000"]);
    spec.env.insert("PASSWORD".into(), "swordfish".into());
    let dir = bench.dir("killed");
    bench.begin(&dir, &spec).await;
    assert_eq!(secret(&dir), 1);
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(crate::harness::shim_of(&dir)),
        nix::sys::signal::SIGKILL,
    )
    .unwrap();
    bench.ended(&dir).await;
    assert_eq!(secret(&dir), 0, "the next look removes what a killed shim left");
}

#[tokio::test]
async fn root_runs_it_as_another_user() {
    let bench = Bench::new();
    let mut spec = bench.shell("id -u; id -g; id -G");
    spec.user = Some(65534);
    spec.group = Some(65533);
    let dir = bench.dir("user");
    let exit = bench.run(&dir, &spec).await;
    if crate::harness::is_root() {
        assert_eq!(whole_log(&dir).await, "65534\n65533\n65533\n");
    } else if nix::unistd::geteuid().as_raw() != 65534 {
        assert!(exit.message.unwrap().contains("only root"));
    }
}
