//! `trainyard run`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::kit::{can_mount, each_replica, eventually, job, processes_with, text, trainyard};

fn run(home: &Path, manifest: &str) -> Output {
    fs::write(home.join("job.yaml"), manifest).unwrap();
    trainyard(home).args(["run", "job.yaml"]).output().unwrap()
}

#[test]
fn a_job_runs_where_and_how_the_caller_is() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("data.txt"), "here\n").unwrap();
    // The job ends with its master, and with it whoever still runs: the master waits for the worker.
    let script =
        "cat data.txt; echo $MINE $RANK of $WORLD_SIZE; touch $RANK; until [ -e 1 ]; do sleep 0.05; done";
    fs::write(home.path().join("job.yaml"), job("ok", 1, script).to_string()).unwrap();
    let output = trainyard(home.path()).args(["run", "job.yaml"]).env("MINE", "my own").output().unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    for line in ["[master-0] here", "[master-0] my own 0 of 2", "[worker-0] my own 1 of 2"] {
        assert!(out.lines().any(|found| found == line), "{line:?} is not in\n{out}");
    }
    assert!(err.contains("default/ok: Succeeded"), "{err}");
}

#[test]
fn the_exit_code_is_the_failed_containers_own() {
    let home = tempfile::tempdir().unwrap();
    let output =
        run(home.path(), &job("bad", 1, "[ $RANK = 0 ] && sleep 30; echo to no avail; exit 42").to_string());
    assert_eq!(output.status.code(), Some(42), "{}{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).contains("[worker-0] to no avail"));
    let err = text(&output.stderr);
    assert!(err.contains("Failed") && err.contains("logs are in"), "{err}");
    // In a command of Kubernetes two dollars are one.
    let output = run(home.path(), &job("killed", 0, "kill -9 $$$$").to_string());
    assert_eq!(output.status.code(), Some(137));
}

#[test]
fn an_image_has_the_program_that_the_caller_says_it_has() {
    let home = tempfile::tempdir().unwrap();
    let job = each_replica(job("imaged", 0, "never run"), |replica| {
        let container = &mut replica["template"]["spec"]["containers"][0];
        container["image"] = json!("registry.example:5000/greeter:2");
        container["args"] = json!(["the world", "$(TONE)"]);
        container["env"] = json!([{ "name": "TONE", "value": "loudly" }]);
        container.as_object_mut().unwrap().remove("command");
    });
    let output = run(home.path(), &job.to_string());
    let err = text(&output.stderr);
    assert!(!output.status.success() && err.contains("--entrypoint"), "{err}");
    let greeter = "registry.example:5000/greeter=printf '%s-' $TONE greets";
    let output = trainyard(home.path()).args(["run", "job.yaml", "--entrypoint", greeter]).output().unwrap();
    let out = text(&output.stdout);
    assert!(output.status.success(), "{out}{}", text(&output.stderr));
    assert!(out.contains("[master-0] loudly-greets-the world-loudly-"), "{out}");
}

#[test]
fn several_jobs_and_what_they_need_come_in_one_file() {
    if let Err(why) = can_mount() {
        println!("SKIPPED: {why}");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let settings = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "settings" },
        "data": { "rate": "0.1", "train.txt": "from a file\n" } });
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "key" },
        "stringData": { "token": "s3cr3t" } });
    let claim = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "disk" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } });
    let wants = |replica: &mut Value| {
        let spec = &mut replica["template"]["spec"];
        spec["volumes"] = json!([
            { "name": "settings", "configMap": { "name": "settings" } },
            { "name": "scratch", "emptyDir": {} },
            { "name": "disk", "persistentVolumeClaim": { "claimName": "disk" } },
        ]);
        spec["initContainers"] = json!([{ "name": "fetch", "image": "none",
            "command": ["sh", "-c", "echo fetched > /no-such-place/scratch/x; echo init says hello"],
            "volumeMounts": [{ "name": "scratch", "mountPath": "/no-such-place/scratch" }] }]);
        let container = &mut spec["containers"][0];
        container["env"] = json!([
            { "name": "RATE", "valueFrom": { "configMapKeyRef": { "name": "settings", "key": "rate" } } },
            { "name": "TOKEN", "valueFrom": { "secretKeyRef": { "name": "key", "key": "token" } } },
            { "name": "ME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
        ]);
        container["volumeMounts"] = json!([
            { "name": "settings", "mountPath": "/etc/settings-of-the-job" },
            { "name": "scratch", "mountPath": "/no-such-place/scratch" },
            { "name": "disk", "mountPath": "/no-such-disk" },
        ]);
    };
    let one = each_replica(
        job(
            "one",
            0,
            "echo $ME $RATE $TOKEN; cat /etc/settings-of-the-job/train.txt /no-such-place/scratch/x; echo kept > /no-such-disk/f; cat /no-such-disk/f",
        ),
        wants,
    );
    let two = job("two", 0, "echo second");
    let all = [settings, secret, claim, one, two].map(|doc| doc.to_string()).join("\n---\n");
    let output = run(home.path(), &all);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    for line in [
        "[one/master-0/fetch] init says hello",
        "[one/master-0] one-master-0 0.1 s3cr3t",
        "[one/master-0] from a file",
        "[one/master-0] fetched",
        "[one/master-0] kept",
        "[two/master-0] second",
    ] {
        assert!(out.lines().any(|found| found == line), "{line:?} is not in\n{out}\n{err}");
    }
    assert!(!Path::new("/no-such-place").exists() && !Path::new("/etc/settings-of-the-job").exists());
    // What the node does not do, it says.
    assert!(err.contains("image"), "{err}");
}

async fn interrupted(script: &str, twice: bool) -> (Option<i32>, String, String) {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("job.yaml"), job("long", 1, script).to_string()).unwrap();
    let mut child = trainyard(home.path())
        .args(["run", "job.yaml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id().to_string();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut seen = String::new();
    while !(seen.contains("[master-0] up") && seen.contains("[worker-0] up")) {
        assert!(out.read_line(&mut seen).unwrap() > 0, "ended before it was up: {seen}");
    }
    let interrupt = || assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    interrupt();
    if twice {
        let mut err = BufReader::new(child.stderr.as_mut().unwrap());
        let mut said = String::new();
        while !said.contains("stopping") {
            assert!(err.read_line(&mut said).unwrap() > 0, "ended too early: {said}");
        }
        interrupt();
    }
    std::io::Read::read_to_string(&mut out, &mut seen).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), seen, text(&output.stderr))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_stops_the_job_and_lets_it_finish_what_it_does() {
    let mark = format!("MARK=once-{}", std::process::id());
    let script = format!(
        "export {mark}; trap 'echo saved; exit 0' TERM; sh -c 'echo up'; while :; do sleep 0.1; done"
    );
    let (code, out, err) = interrupted(&script, false).await;
    assert_eq!(code, Some(130), "{err}");
    assert!(out.contains("[master-0] saved") && out.contains("[worker-0] saved"), "{out}");
    assert!(processes_with(&mark).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_twice_stops_at_once() {
    let mark = format!("MARK=twice-{}", std::process::id());
    let script = format!("export {mark}; trap '' TERM; sh -c 'echo up'; while :; do sleep 0.1; done");
    let (code, _, err) = interrupted(&script, true).await;
    assert_eq!(code, Some(130), "{err}");
    eventually("nothing is left", async || processes_with(&mark).is_empty()).await;
}

#[test]
fn a_log_of_a_hundred_thousand_lines_arrives_whole() {
    let home = tempfile::tempdir().unwrap();
    let output = run(home.path(), &job("loud", 0, "seq 100000").to_string());
    assert!(output.status.success());
    let numbers: Vec<u32> = text(&output.stdout)
        .lines()
        .map(|line| line.trim_start_matches("[master-0] ").parse().unwrap())
        .collect();
    assert_eq!(numbers, (1..=100_000).collect::<Vec<u32>>());
}

/// The examples that a newcomer runs first really learn together, and say so.
#[test]
fn the_quickstarts_learn() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (file, said) in [("pytorchjob", "the same on all 3 replicas"), ("tfjob", "the same on all workers")] {
        let home = tempfile::tempdir().unwrap();
        let mut command = trainyard(home.path());
        command.current_dir(&root).arg("run").arg(format!("examples/quickstart/{file}.yaml"));
        let output = command.output().unwrap();
        let out = text(&output.stdout);
        assert!(output.status.success(), "{out}{}", text(&output.stderr));
        assert!(out.contains("epoch 20/20") && out.contains(said), "{out}");
    }
}

#[test]
fn a_failed_container_says_why_it_did_not_start() {
    let home = tempfile::tempdir().unwrap();
    let bad = each_replica(job("lost", 0, "true"), |replica| {
        replica["template"]["spec"]["containers"][0]["workingDir"] = json!("/no/such/directory");
    });
    let output = run(home.path(), &bad.to_string());
    let err = text(&output.stderr);
    assert!(!output.status.success() && err.contains("/no/such/directory"), "{err}");
}

#[test]
fn namespaces_restarts_and_what_is_left_of_pods() {
    let home = tempfile::tempdir().unwrap();
    // The same name in two namespaces; one fails first, and is forgiven.
    let once =
        format!("echo try; [ -e {f} ] && exit 0; touch {f}; exit 3", f = home.path().join("once").display());
    let mut one =
        each_replica(job("same", 0, &once), |replica| replica["restartPolicy"] = json!("OnFailure"));
    one["metadata"]["namespace"] = json!("red");
    // Everything of it goes at once; what it said is still shown.
    let mut two = job("same", 1, "echo rank $RANK; seq 200 | tail -1");
    two["metadata"]["namespace"] = json!("blue");
    two["spec"]["runPolicy"] = json!({ "cleanPodPolicy": "All", "ttlSecondsAfterFinished": 0 });
    let output = run(home.path(), &format!("{one}\n---\n{two}"));
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    assert_eq!(out.lines().filter(|line| line.ends_with(" try")).count(), 2, "{out}");
    for line in [
        "[blue/same/master-0] rank 0",
        "[blue/same/worker-0] rank 1",
        "[blue/same/master-0] 200",
        "[blue/same/worker-0] 200",
    ] {
        assert!(out.lines().any(|found| found == line), "{line:?} is not in\n{out}\n{err}");
    }
    assert!(err.contains("red/same: Succeeded") && err.contains("blue/same: Succeeded"), "{err}");

    let mut late = job("late", 0, "trap 'exit 0' TERM; while :; do sleep 0.05; done");
    late["spec"]["runPolicy"] = json!({ "activeDeadlineSeconds": 1 });
    let output = run(home.path(), &late.to_string());
    assert!(
        !output.status.success() && text(&output.stderr).contains("deadline"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn standard_input_a_closed_pipe_and_what_is_missing() {
    use std::io::Write as _;
    let home = tempfile::tempdir().unwrap();
    let done = home.path().join("done");
    let script = format!("seq 20000; echo done > {}", done.display());
    let spawn = |home: &Path| {
        let mut command = trainyard(home);
        command.args(["run", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let mut child = spawn(home.path());
    child.stdin.take().unwrap().write_all(job("in", 0, &script).to_string().as_bytes()).unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first, "[master-0] 1\n");
    // Nobody reads on; the job is none the worse for it.
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && done.exists(), "{}", text(&output.stderr));

    // Nobody else could make what is missing, so there is nothing to wait for.
    let mut child = spawn(home.path());
    let lacks = each_replica(job("lacks", 0, "true"), |replica| {
        replica["template"]["spec"]["containers"][0]["envFrom"] =
            json!([{ "configMapRef": { "name": "absent" } }]);
    });
    child.stdin.take().unwrap().write_all(lacks.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let err = text(&output.stderr);
    assert!(output.status.code() == Some(1) && err.contains("ConfigMap \"absent\""), "{err}");
}

/// The control plane allows itself more open files than its caller has; its containers get the caller's limit.
#[test]
fn containers_have_the_callers_limit_of_open_files() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("job.yaml"), job("files", 0, "ulimit -Sn").to_string()).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -Sn 512; exec \"$0\" run job.yaml", crate::kit::BIN]);
    let output = shell.env("HOME", home.path()).current_dir(home.path()).output().unwrap();
    assert_eq!(text(&output.stdout), "[master-0] 512\n", "{}", text(&output.stderr));
}
