//! `up --isolate-namespaces`: each namespace is a user of its own.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, LogParams, PostParams};
use serde_json::{Value, json};

use super::{cannot, exec, is_root};
use crate::kit::{self, BIN, Up, eventually, processes_with, text, trainyard};
use crate::pods::{phase, pod, sh, waiting, with};

const UIDS: [&str; 3] = ["--isolate-namespaces", "--uids", "1234567000-1234567099"];

async fn post(client: &Client, path: &str, value: &Value) {
    let request = http::Request::post(path).header("content-type", "application/json");
    client.request_text(request.body(value.to_string().into_bytes()).unwrap()).await.unwrap();
}

async fn namespace(client: &Client, name: &str) {
    post(client, "/api/v1/namespaces", &json!({ "metadata": { "name": name } })).await;
    // Pods are refused until the namespace has its account.
    let accounts = Api::<k8s_openapi::api::core::v1::ServiceAccount>::namespaced(client.clone(), name);
    eventually("there is an account", async || accounts.get_opt("default").await.unwrap().is_some()).await;
}

fn pods(client: &Client, namespace: &str) -> Api<Pod> {
    Api::namespaced(client.clone(), namespace)
}

async fn make(client: &Client, namespace: &str, value: Value) {
    let object: Pod = serde_json::from_value(value).unwrap();
    pods(client, namespace).create(&PostParams::default(), &object).await.unwrap();
}

async fn ended(client: &Client, namespace: &str, name: &str) -> (String, String) {
    eventually(&format!("{name} ends"), async || {
        ["Succeeded", "Failed"].contains(&phase(&pods(client, namespace).get(name).await.unwrap()))
    })
    .await;
    let found = pods(client, namespace).get(name).await.unwrap();
    (phase(&found).to_owned(), log(client, namespace, name).await)
}

async fn log(client: &Client, namespace: &str, name: &str) -> String {
    let params = LogParams { container: Some("c".into()), ..LogParams::default() };
    pods(client, namespace).logs(name, &params).await.unwrap_or_default()
}

/// Why a container did not start.
async fn start_error(client: &Client, namespace: &str, name: &str) -> String {
    ended(client, namespace, name).await;
    let found = pods(client, namespace).get(name).await.unwrap();
    let status = found.status.unwrap().container_statuses.unwrap().remove(0);
    let terminated = status.state.unwrap().terminated.unwrap();
    assert_eq!((terminated.exit_code, terminated.reason.as_deref()), (128, Some("StartError")));
    terminated.message.unwrap_or_default()
}

/// What each namespace was given, by its name.
fn given(up: &Up) -> BTreeMap<String, Vec<u64>> {
    let book: Value = serde_json::from_slice(&fs::read(up.dir.join("uids.json")).unwrap()).unwrap();
    let mut given: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for entry in book["namespaces"].as_object().unwrap().values() {
        let name = entry["name"].as_str().unwrap().to_owned();
        given.entry(name).or_default().push(entry["user"].as_u64().unwrap());
    }
    given
}

/// A pod of one container that may have volumes.
fn plain(name: &str, script: &str, more: Value, volumes: Value) -> Value {
    pod(
        name,
        json!({ "restartPolicy": "Never", "containers": [with(sh("c", script), more)], "volumes": volumes }),
    )
}

/// A pod that has secrets, files and a process.
async fn resident(client: &Client, namespace: &str, mark: &str) {
    let path = |plural: &str| format!("/api/v1/namespaces/{namespace}/{plural}");
    let secret =
        json!({ "metadata": { "name": "s" }, "stringData": { "word": format!("word of {namespace}") } });
    post(client, &path("secrets"), &secret).await;
    let claim = json!({ "metadata": { "name": "claim" }, "spec": { "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": "1Mi" } } } });
    post(client, &path("persistentvolumeclaims"), &claim).await;
    let script = "id -un; id -gn; echo $USER $LOGNAME $HOME $PWD; cat /ty-secret/word; echo; \
        echo kept > /ty-claim/file; echo own > $HOME/file; echo shared > /tmp/$MARK; \
        mkdir /ty-empty/x && grep NoNewPrivs /proc/self/status; \
        if command -v python3 > /dev/null; then python3 -c 'import os,pwd,getpass; \
        u=pwd.getpwuid(os.getuid()); print(u.pw_name, u.pw_dir, getpass.getuser(), os.path.expanduser(\"~\"))'; fi; \
        echo ready; exec sleep 1000";
    let probe = json!({ "exec": { "command": ["sh", "-c", "id -u > $HOME/probed"] }, "periodSeconds": 1 });
    let more = json!({ "env": [{ "name": "WORD", "valueFrom": { "secretKeyRef": { "name": "s", "key": "word" } } },
            { "name": "MARK", "value": mark }],
        "readinessProbe": probe,
        "volumeMounts": [{ "name": "s", "mountPath": "/ty-secret" }, { "name": "claim", "mountPath": "/ty-claim" },
            { "name": "empty", "mountPath": "/ty-empty" }] });
    let volumes = json!([{ "name": "s", "secret": { "secretName": "s", "defaultMode": 0o400 } },
        { "name": "claim", "persistentVolumeClaim": { "claimName": "claim" } }, { "name": "empty", "emptyDir": {} }]);
    make(client, namespace, plain("resident", script, more, volumes)).await;
    eventually("it is ready", async || log(client, namespace, "resident").await.contains("ready")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_namespace_gets_at_what_another_has() {
    if let Some(why) = cannot() {
        println!("SKIPPED: {why}");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &UIDS).await;
    assert_eq!(fs::read_to_string(home.path().join("up.err")).unwrap(), "");
    let client = up.client().await;
    let mark = format!("ty-users-{}", std::process::id());
    let marks = ["alpha", "beta"].map(|name| format!("{mark}-{name}"));
    for (name, mark) in ["alpha", "beta"].into_iter().zip(&marks) {
        namespace(&client, name).await;
        resident(&client, name, mark).await;
    }
    let users = given(&up);
    let (alpha, beta) = (users["alpha"][0], users["beta"][0]);
    assert_eq!((alpha, beta), (1_234_567_000, 1_234_567_001));
    for name in ["alpha", "beta"] {
        if !is_at_home(&client, name).await {
            println!("LEFT OUT: getpwuid of Python, which is not in PATH");
        }
    }
    let pid = process_of(&marks[0], alpha);
    assert_eq!(fs::metadata(format!("/proc/{pid}")).unwrap().uid(), u32::try_from(alpha).unwrap());

    // A curious one of `beta`: every line that it prints is something it should not have got.
    let data = up.dir.display();
    let uid = pods(&client, "alpha").get("resident").await.unwrap().metadata.uid.unwrap();
    let reads = [
        format!("/proc/{pid}/environ"),
        format!("/proc/{pid}/root/ty-secret/word"),
        format!("/proc/{pid}/cwd/file"),
        format!("/tmp/{}", marks[0]),
        format!("{data}/pki/token"),
        format!("{data}/kubeconfig"),
        format!("{data}/objects.redb"),
        format!("{data}/pods/{uid}/work/file"),
        format!("{data}/pods/{uid}/volumes/s/word"),
        "/etc/shadow".to_owned(),
    ];
    let reading: String =
        reads.iter().map(|path| format!("cat {path} 2> /dev/null && echo read {path}; ")).collect();
    let script = format!(
        "{reading} kill -0 {pid} 2> /dev/null && echo signalled; ls {data} 2> /dev/null; \
         (echo x >> /etc/passwd) 2> /dev/null && echo changed; id -G; exit 0"
    );
    make(&client, "beta", plain("curious", &script, json!({}), json!([]))).await;
    let (end, found) = ended(&client, "beta", "curious").await;
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!((end.as_str(), lines.len()), ("Succeeded", 1), "{found}");
    assert!(lines[0].split(' ').next() == Some(beta.to_string().as_str()), "{found}");
    assert!(!lines[0].split(' ').any(|group| group == "0"), "{found}");
    for mark in &marks {
        fs::remove_file(Path::new("/tmp").join(mark)).unwrap();
    }
}

/// The program itself, not what else has its environment.
fn process_of(mark: &str, user: u64) -> u32 {
    let all = processes_with(&format!("MARK={mark}"));
    let is_theirs =
        |pid: &u32| fs::metadata(format!("/proc/{pid}")).is_ok_and(|of| u64::from(of.uid()) == user);
    all.into_iter().find(is_theirs).unwrap()
}

/// Looks at what a container found. Whether it could ask Python, too.
async fn is_at_home(client: &Client, name: &str) -> bool {
    let (login, work) = (format!("ty-{name}"), "/run/trainyard/work");
    let found = log(client, name, "resident").await;
    let mut expected = vec![
        login.clone(),
        login.clone(),
        format!("{login} {login} {work} {work}"),
        format!("word of {name}"),
        "NoNewPrivs:\t1".to_owned(),
        format!("{login} {work} {login} {work}"),
        "ready".to_owned(),
    ];
    let python = found.lines().count() == expected.len();
    if !python {
        expected.remove(5);
    }
    assert_eq!(found.lines().collect::<Vec<_>>(), expected);
    let script = "id -un; cat file; until test -s probed; do sleep 0.1; done; cat probed; id -u; umask; cat /ty-claim/file";
    let asked = exec(&pods(client, name), "resident", script).await;
    let lines: Vec<&str> = asked.lines().collect();
    assert_eq!(
        (lines[0], lines[1], lines[2] == lines[3], lines[4], lines[5]),
        (&*login, "own", true, "0077", "kept")
    );
    python
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_keeps_its_user_and_a_new_one_of_its_name_gets_another() {
    if let Some(why) = cannot() {
        println!("SKIPPED: {why}");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let mut up = Up::start(&home.path().join("data"), &UIDS).await;
    let client = up.client().await;
    let user = async |client: &Client, namespace: &str, name: &str| {
        make(client, namespace, plain(name, "id -u", json!({}), json!([]))).await;
        ended(client, namespace, name).await.1
    };
    for (name, number) in [("alpha", "1234567000\n"), ("beta", "1234567001\n")] {
        namespace(&client, name).await;
        assert_eq!(user(&client, name, "first").await, number);
    }
    up.terminate();
    up.again().await;
    let client = up.client().await;
    assert_eq!(user(&client, "alpha", "again").await, "1234567000\n");
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.delete("beta", &DeleteParams::default()).await.unwrap();
    eventually("it is gone", async || namespaces.get_opt("beta").await.unwrap().is_none()).await;
    namespace(&client, "beta").await;
    assert_eq!(user(&client, "beta", "new").await, "1234567002\n");
    let mut beta = given(&up)["beta"].clone();
    beta.sort_unstable();
    assert_eq!(beta, [1_234_567_001, 1_234_567_002]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_user_and_the_machines_files_are_refused() {
    if let Some(why) = cannot() {
        println!("SKIPPED: {why}");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &UIDS).await;
    let client = up.client().await;
    let refused = async |name: &str, value: Value, reason: &str, words: &str| {
        make(&client, "default", value).await;
        eventually(&format!("{name} is refused: {words}"), async || {
            let (found, message) = waiting(&pods(&client, "default").get(name).await.unwrap(), "c");
            found == reason && message.contains(words)
        })
        .await;
    };
    let root = json!({ "securityContext": { "runAsUser": 0 } });
    let words = "runAsUser 0 is refused";
    refused("root", plain("root", "true", root, json!([])), "CreateContainerConfigError", words).await;
    let mounted = json!({ "volumeMounts": [{ "name": "v", "mountPath": "/ty-host" }] });
    let host = |path: &Path, kind: &str| json!([{ "name": "v", "hostPath": { "path": path, "type": kind } }]);
    let data = plain("data", "true", mounted.clone(), host(&up.dir.join("pki"), "Directory"));
    make(&client, "default", data).await;
    eventually("the data directory is refused", async || {
        let events = crate::pods::events(&client, "data").await;
        events.iter().any(|(_, message)| message.contains("it lies in the data directory"))
    })
    .await;

    // A link that leads there is no way either, nor is a file that only root may read.
    let open = tempfile::tempdir().unwrap();
    fs::set_permissions(open.path(), fs::Permissions::from_mode(0o777)).unwrap();
    std::os::unix::fs::symlink(up.dir.join("pki"), open.path().join("link")).unwrap();
    fs::write(open.path().join("closed"), "closed").unwrap();
    fs::set_permissions(open.path().join("closed"), fs::Permissions::from_mode(0o600)).unwrap();
    for (name, file) in [("link", "link"), ("closed", "closed")] {
        make(&client, "default", plain(name, "true", mounted.clone(), host(&open.path().join(file), "")))
            .await;
        let why = start_error(&client, "default", name).await;
        assert!(why.contains("/ty-host") && why.contains("ermission denied"), "{name}: {why}");
    }
    // What anybody may use is there, and what is made belongs to the namespace.
    let write = plain(
        "write",
        "echo x > /ty-host/file",
        mounted.clone(),
        host(&open.path().join("new"), "DirectoryOrCreate"),
    );
    make(&client, "default", write).await;
    assert_eq!(ended(&client, "default", "write").await.0, "Succeeded");
    let made = fs::metadata(open.path().join("new")).unwrap();
    assert_eq!((made.uid(), made.gid()), (1_234_567_000, 1_234_567_000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_in_a_volume_leads_nowhere() {
    if let Some(why) = cannot() {
        println!("SKIPPED: {why}");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(&home.path().join("data"), &UIDS).await;
    let client = up.client().await;
    // A directory that is missing is made for the user.
    let volume = json!([{ "name": "v", "emptyDir": {} }]);
    let sub =
        |path: &str| json!({ "volumeMounts": [{ "name": "v", "mountPath": "/ty-sub", "subPath": path }] });
    make(
        &client,
        "default",
        plain("fresh", "echo x > /ty-sub/y; ls -nd /ty-sub", sub("a/b"), volume.clone()),
    )
    .await;
    let (end, listed) = ended(&client, "default", "fresh").await;
    assert!(end == "Succeeded" && listed.contains("1234567000"), "{listed}");
    let link = with(
        sh("i", "ln -s /etc /ty-host/out"),
        json!({ "volumeMounts": [{ "name": "v", "mountPath": "/ty-host" }] }),
    );
    let mut leads = plain("leads", "ls /ty-sub", sub("out"), volume);
    leads["spec"]["initContainers"] = json!([link]);
    make(&client, "default", leads).await;
    let why = start_error(&client, "default", "leads").await;
    assert!(why.contains("leads through a link"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_launcher_reaches_its_workers_as_their_user() {
    if let Some(why) = cannot() {
        println!("SKIPPED: {why}");
        return;
    }
    // The program of the tests lies where anybody may run it; a copy that only root can reach must do as well.
    let home = tempfile::tempdir().unwrap();
    let program = home.path().join("trainyard");
    fs::copy(BIN, &program).unwrap();
    let up = Up::start_with(&program, &home.path().join("data"), &UIDS).await;
    let client = up.client().await;
    let template = |script: &str| json!({ "spec": { "containers": [{ "name": "mpi", "image": "none", "command": ["sh", "-c", script] }] } });
    // What `mpirun` does: it starts a program in the worker, by the script that it is told to use.
    let launcher = "$OMPI_MCA_plm_rsh_agent far-worker-0 'echo $HOSTNAME as $(id -u) $(id -un)'";
    let job = json!({ "metadata": { "name": "far" }, "spec": { "runPolicy": { "cleanPodPolicy": "None" }, "mpiReplicaSpecs": {
        "Launcher": { "replicas": 1, "restartPolicy": "Never", "template": template(launcher) },
        "Worker": { "replicas": 1, "restartPolicy": "Never", "template": template("sleep 1000") } } } });
    let job = with(job, json!({ "apiVersion": "kubeflow.org/v1", "kind": "MPIJob" }));
    post(&client, "/apis/kubeflow.org/v1/namespaces/default/mpijobs", &job).await;
    eventually("the launcher exists", async || {
        pods(&client, "default").get_opt("far-launcher").await.unwrap().is_some()
    })
    .await;
    let launcher = pods(&client, "default").get("far-launcher").await.unwrap();
    let delivery = launcher.spec.unwrap().init_containers.unwrap().remove(0);
    assert_eq!(delivery.command.unwrap()[0], "/run/trainyard/trainyard");
    let (end, _) = ended(&client, "default", "far-launcher").await;
    let found = kit::log(&client, "far-launcher").await;
    assert_eq!((end.as_str(), found.as_str()), ("Succeeded", "far-worker-0 as 1234567000 ty-default\n"));
}

#[test]
fn it_is_roots_alone_and_its_numbers_must_be_free() {
    let home = tempfile::tempdir().unwrap();
    let up = |args: &[&str]| {
        let data = home.path().join("data");
        let output =
            trainyard(home.path()).arg("up").arg("--data-dir").arg(data).args(args).output().unwrap();
        assert!(!output.status.success());
        text(&output.stderr)
    };
    let odd = up(&["--isolate-namespaces", "--uids", "9-5"]);
    assert!(odd.contains("--uids") && odd.contains("FIRST-LAST"), "{odd}");
    if is_root() {
        let taken = up(&["--isolate-namespaces", "--uids", "1-99"]);
        assert!(taken.contains("is not free: /etc/passwd gives a part of it to"), "{taken}");
        let mut other = Command::new("setpriv");
        let open = tempfile::tempdir().unwrap();
        fs::set_permissions(open.path(), fs::Permissions::from_mode(0o777)).unwrap();
        fs::copy(BIN, open.path().join("trainyard")).unwrap();
        other
            .args(["--reuid", "12345", "--regid", "12345", "--clear-groups"])
            .arg(open.path().join("trainyard"));
        other.args(["up", "--isolate-namespaces", "--data-dir"]).arg(open.path().join("data"));
        match other.output() {
            Ok(output) => assert!(text(&output.stderr).contains("needs root"), "{}", text(&output.stderr)),
            Err(error) => println!("LEFT OUT: `up` as another user: setpriv: {error}"),
        }
    } else {
        assert!(up(&["--isolate-namespaces"]).contains("needs root"));
    }
}
