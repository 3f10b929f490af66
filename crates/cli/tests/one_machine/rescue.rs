//! Damaged objects, backups, and directories of the release before.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, PostParams, WatchEvent, WatchParams};

use crate::kit::{Up, create, eventually, job, jobs, pods, processes_with, text, trainyard, until};

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

async fn put(client: &Client, name: &str) {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    maps(client).create(&PostParams::default(), &map).await.unwrap();
}

async fn has(client: &Client, name: &str) -> bool {
    maps(client).get_opt(name).await.unwrap().is_some()
}

/// A command about a data directory.
fn command(home: &Path, words: &[&str], dir: &Path) -> Output {
    trainyard(home).args(words).arg("--data-dir").arg(dir).output().unwrap()
}

/// Flips a bit of every place in the journal that has this text in it. How many there were.
fn damage_journal(dir: &Path, needle: &str) -> usize {
    let mut places = 0;
    for log in ["objects.journal-0", "objects.journal-1"] {
        let mut bytes = fs::read(dir.join(log)).unwrap();
        let found: Vec<usize> =
            (0..bytes.len()).filter(|at| bytes[*at..].starts_with(needle.as_bytes())).collect();
        found.iter().for_each(|at| bytes[*at] ^= 1);
        places += found.len();
        fs::write(dir.join(log), bytes).unwrap();
    }
    places
}

/// A job that runs until it is ended, with a mark in the environment of its process.
fn long_job(name: &str, mark: &str) -> serde_json::Value {
    job(name, 0, &format!("export MARK={mark}; exec sleep 1000"))
}

fn marked(mark: &str) -> Vec<u32> {
    processes_with(&format!("MARK={mark}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_flipped_bit_stops_the_start_and_nothing_is_ended() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("data");
    let mark = format!("salvage-{}", std::process::id());
    let mut up = Up::start(&dir, &[]).await;
    put(&up.client().await, "early").await;
    // From here on what is written is in the journal only.
    up.terminate();
    up.again().await;
    let client = up.client().await;
    create(&client, &long_job("doomed", &mark)).await;
    until(&client, "doomed", &["Running"]).await;
    eventually("its process runs", async || marked(&mark).len() == 1).await;
    put(&client, "last").await;
    let seen = maps(&client).get("last").await.unwrap().metadata.resource_version.unwrap();
    up.kill();
    assert!(damage_journal(&dir, "doomed") > 0);

    let refused = command(home.path(), &["up", "--port", "0"], &dir);
    assert!(!refused.status.success());
    let said = text(&refused.stderr);
    for part in
        ["damaged", "the journal has writes after revision", "trainyard up --salvage", "trainyard restore"]
    {
        assert!(said.contains(part), "{said}");
    }
    assert!(!said.contains("panicked"), "{said}");
    assert_eq!(marked(&mark).len(), 1, "nothing was ended");

    up.salvage().await;
    let client = up.client().await;
    assert!(has(&client, "early").await && has(&client, "last").await);
    assert!(jobs(&client).get_opt("doomed").await.unwrap().is_none());
    assert_eq!(marked(&mark).len(), 1, "its pod is lost, not deleted");
    assert!(fs::read_dir(dir.join("damaged-1")).unwrap().count() == 3);
    is_too_old(&client, &seen).await;
    // Also by the next one, which is not told to salvage anything.
    up.terminate();
    up.again().await;
    put(&up.client().await, "later").await;
    assert_eq!(marked(&mark).len(), 1);
    let down = command(home.path(), &["down", "--grace-period", "0"], &dir);
    assert!(text(&down.stdout).contains("ended 1 container(s)"), "{}", text(&down.stdout));
    eventually("it is ended", async || marked(&mark).is_empty()).await;
}

/// A client that saw a revision of the time before is told to list again.
async fn is_too_old(client: &Client, revision: &str) {
    let watch = maps(client).watch(&WatchParams::default(), revision).await.unwrap();
    let first = std::pin::pin!(watch).try_next().await;
    match first {
        Ok(Some(WatchEvent::Error(status))) => assert_eq!(status.code, 410, "{status:?}"),
        Err(kube::Error::Api(status)) => assert_eq!(status.code, 410, "{status:?}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_a_running_up_is_restored() {
    let home = tempfile::tempdir().unwrap();
    let (dir, backup) = (home.path().join("data"), home.path().join("backup"));
    let mark = format!("backup-{}", std::process::id());
    let mut up = Up::start(&dir, &[]).await;
    let client = up.client().await;
    put(&client, "before").await;
    let ok = |output: Output| {
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    };
    // With `--isolate-namespaces` the node writes here which user each namespace has: none may get another's files.
    fs::write(dir.join("uids.json"), r#"{"namespaces":{}}"#).unwrap();
    let to = backup.to_str().unwrap();
    assert!(ok(command(home.path(), &["backup", to], &dir)).contains("object(s)"));
    let again = command(home.path(), &["backup", to], &dir);
    assert!(!again.status.success(), "a backup is never written over");
    put(&client, "after").await;
    create(&client, &long_job("young", &mark)).await;
    until(&client, "young", &["Running"]).await;
    eventually("its process runs", async || marked(&mark).len() == 1).await;
    let seen = maps(&client).get("after").await.unwrap().metadata.resource_version.unwrap();
    let busy = command(home.path(), &["restore", to], &dir);
    assert!(text(&busy.stderr).contains("in use by another trainyard"), "{}", text(&busy.stderr));
    let kept =
        |dir: &Path| ["pki/ca.crt", "node-name", "uids.json"].map(|file| fs::read(dir.join(file)).unwrap());
    let before = kept(&dir);
    up.terminate();

    assert!(ok(command(home.path(), &["restore", to], &dir)).contains("replaced-1"));
    up.again().await;
    let client = up.client().await;
    assert!(has(&client, "before").await && !has(&client, "after").await);
    is_too_old(&client, &seen).await;
    assert_eq!(marked(&mark).len(), 1, "a pod that is younger than the backup goes on");

    // Another directory gets everything: who has a kubeconfig of the old one can go on with it.
    let other = home.path().join("other");
    ok(command(home.path(), &["restore", to], &other));
    assert_eq!(kept(&other), before);
    let copy = Up::start(&other, &["--without", "node"]).await;
    assert!(has(&copy.client().await, "before").await);
    drop(copy);

    // One that is not in use is backed up, too; and a damaged backup changes nothing.
    let second = home.path().join("second");
    ok(command(home.path(), &["backup", second.to_str().unwrap()], &other));
    let mut bytes = fs::read(second.join("objects")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(second.join("objects"), bytes).unwrap();
    let store = fs::read(other.join("objects.redb")).unwrap();
    let refused = command(home.path(), &["restore", second.to_str().unwrap()], &other);
    assert!(text(&refused.stderr).contains("damaged or cut off"), "{}", text(&refused.stderr));
    assert!(fs::read(other.join("objects.redb")).unwrap() == store);
}

/// What the release before left behind when it was killed: objects in the file and in the journal of layout 2, and a container
/// that runs. Its paths are those of this test, and its shim is of this release.
fn old_directory(dir: &Path) -> std::process::Child {
    fs::create_dir(dir).unwrap();
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/one_machine/fixtures/data-dir-2.tar.gz");
    let unpacked = Command::new("tar").arg("-xzf").arg(packed).arg("-C").arg(dir).status().unwrap();
    assert!(unpacked.success());
    let run = old_pod(dir).join("containers/pytorch/0");
    let spec = fs::read_to_string(run.join("spec.json")).unwrap();
    fs::write(run.join("spec.json"), spec.replace("@DATA@", dir.to_str().unwrap())).unwrap();
    Command::new(crate::kit::BIN).arg("shim").arg(&run).env_clear().current_dir("/").spawn().unwrap()
}

fn old_pod(dir: &Path) -> std::path::PathBuf {
    fs::read_dir(dir.join("pods")).unwrap().next().unwrap().unwrap().path()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_of_the_release_before_is_taken_over_with_what_runs() {
    let home = tempfile::tempdir().unwrap();
    let dir = fs::canonicalize(home.path()).unwrap().join("data");
    let mut shim = old_directory(&dir);
    let running = || trainyard_node::runtime::running_under(&dir.join("pods")).len();
    eventually("the container runs", async || running() == 1).await;
    let mut up = Up::start(&dir, &["--ports", "28000-28999"]).await;
    let client = up.client().await;
    assert!(has(&client, "kept").await, "it was in the file");
    assert!(has(&client, "journaled").await, "it was in the journal");
    until(&client, "inherited", &["Running"]).await;
    fs::write(old_pod(&dir).join("work/go"), "").unwrap();
    until(&client, "inherited", &["Succeeded"]).await;
    let [pod] = pods(&client, "inherited").await.try_into().unwrap();
    assert_eq!(pod.metadata.uid.as_deref(), old_pod(&dir).file_name().unwrap().to_str(), "the same pod");
    assert_eq!(crate::kit::log(&client, "inherited-master-0").await, "begun\nended\n", "it ran once");
    shim.wait().unwrap();
    // It is a directory of this release now.
    up.terminate();
    up.again().await;
    let client = up.client().await;
    assert!(has(&client, "kept").await && has(&client, "journaled").await);
}
