//! A disk that is full: said clearly, nothing that was answered is lost, and all goes on when there is space again.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::kit::{Up, create, eventually, job, jobs, log, pods, text, trainyard, until};

/// A small file system of its own, gone at the end.
struct Small(PathBuf);

impl Small {
    /// Nothing where mounts are not permitted.
    fn mount(at: &Path) -> Option<Self> {
        Self::mount_of(at, "size=8m")
    }

    fn mount_of(at: &Path, size: &str) -> Option<Self> {
        fs::create_dir(at).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", size, "tmpfs"]).arg(at).output();
        let permitted = mounted.is_ok_and(|output| output.status.success());
        permitted.then(|| Self(at.to_owned()))
    }

    fn fill(&self) {
        let mut file = fs::File::create(self.0.join("fill")).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    /// The same, but this many bytes stay free.
    fn fill_but(&self, free: u64) {
        self.fill();
        let file = fs::OpenOptions::new().write(true).open(self.0.join("fill")).unwrap();
        file.set_len(file.metadata().unwrap().len().saturating_sub(free)).unwrap();
    }

    fn free(&self) {
        fs::remove_file(self.0.join("fill")).unwrap();
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// Whether the directory is there already or not.
#[test]
fn a_read_only_data_directory_is_named_with_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let Some(small) = Small::mount(&home.path().join("small")) else {
        println!("SKIPPED: no file system can be mounted here");
        return;
    };
    fs::create_dir(small.0.join("there")).unwrap();
    let remounted = Command::new("mount").args(["-o", "remount,ro"]).arg(&small.0).status();
    assert!(remounted.unwrap().success());
    for name in ["there", "not-there/yet"] {
        let dir = small.0.join(name);
        let output =
            trainyard(home.path()).args(["up", "--port", "0", "--data-dir"]).arg(&dir).output().unwrap();
        let said = text(&output.stderr);
        assert!(!output.status.success());
        assert!(said.contains(&format!("the data directory {} is read-only", dir.display())), "{said}");
        assert!(said.contains("--data-dir") && !said.contains("os error"), "{said}");
    }
}

/// Nothing has to be written to start again at the same port.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_starts_on_a_full_disk() {
    let home = tempfile::tempdir().unwrap();
    let Some(small) = Small::mount(&home.path().join("small")) else {
        println!("SKIPPED: no file system can be mounted here, so none can be filled");
        return;
    };
    let dir = small.0.join("data");
    let mut up = Up::start(&dir, &[]).await;
    create(&up.client().await, &job("before", 0, "true")).await;
    until(&up.client().await, "before", &["Succeeded"]).await;
    let config = fs::read_to_string(dir.join("kubeconfig")).unwrap();
    let port = config.split("https://127.0.0.1:").nth(1).unwrap();
    let port: String = port.chars().take_while(char::is_ascii_digit).collect();
    up.terminate();
    small.fill();
    let errors = fs::File::create(home.path().join("err")).unwrap();
    let mut again = trainyard(home.path());
    again.args(["up", "--port", &port, "--data-dir"]).arg(&dir).stderr(errors);
    let mut child = again.stdout(std::process::Stdio::null()).spawn().unwrap();
    let client = up.client().await;
    eventually("it answers", async || {
        let said = || fs::read_to_string(home.path().join("err")).unwrap();
        assert!(child.try_wait().unwrap().is_none(), "it ended: {}", said());
        jobs(&client).get_opt("before").await.is_ok_and(|found| found.is_some())
    })
    .await;
    small.free();
    // A write that was on its way when there was no space may be answered only now.
    let after: kube::api::DynamicObject = serde_json::from_value(job("after", 0, "true")).unwrap();
    eventually("it takes writes again", async || {
        jobs(&client).create(&Default::default(), &after).await.is_ok()
            || jobs(&client).get_opt("after").await.is_ok_and(|found| found.is_some())
    })
    .await;
    until(&client, "after", &["Succeeded"]).await;
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    assert!(child.wait().unwrap().success());
}

/// A job that only fills the disk.
fn ballast(name: &str) -> kube::api::DynamicObject {
    let mut next = job(name, 0, "true");
    next["metadata"]["annotations"] = json!({ "ballast": "x".repeat(20_000) });
    next["spec"]["runPolicy"] = json!({ "suspend": true });
    serde_json::from_value(next).unwrap()
}

/// Many clients write until one of them is refused. Returns what was answered.
async fn write_until_full(client: &kube::Client) -> Vec<String> {
    let writer = |number: usize| {
        let client = client.clone();
        tokio::spawn(async move {
            let mut answered = Vec::new();
            for next in 0.. {
                let name = format!("w{number}-{next}");
                match jobs(&client).create(&Default::default(), &ballast(&name)).await {
                    Ok(_) => answered.push(name),
                    Err(error) => {
                        assert!(error.to_string().contains("is full (objects."), "{error}");
                        break;
                    }
                }
            }
            answered
        })
    };
    let writers: Vec<_> = (0..100).map(writer).collect();
    let mut answered = Vec::new();
    for writer in writers {
        answered.extend(writer.await.unwrap());
    }
    answered
}

/// At another port, so that there is something to write; after a kill, so that there is something to put in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_starts_after_a_kill_on_a_full_disk_and_lets_objects_be_deleted() {
    let home = tempfile::tempdir().unwrap();
    let Some(small) = Small::mount_of(&home.path().join("small"), "size=24m") else {
        println!("SKIPPED: no file system can be mounted here, so none can be filled");
        return;
    };
    // Its messages go beside the data directory, and must not take part in this.
    fs::create_dir(home.path().join("here")).unwrap();
    std::os::unix::fs::symlink(&small.0, home.path().join("here/data")).unwrap();
    let mut up = Up::start(&home.path().join("here/data"), &[]).await;
    small.fill_but(2 << 20);
    let answered = write_until_full(&up.client().await).await;
    assert!(!answered.is_empty());
    let rest = fs::File::create(small.0.join("rest")).unwrap();
    while (&rest).write_all(&[0; 4096]).is_ok() {}
    for round in 0..2 {
        up.kill();
        up.again_without_space().await;
        let client = up.client().await;
        for name in answered.iter().skip(round) {
            assert!(jobs(&client).get_opt(name).await.unwrap().is_some(), "{name} was answered and is lost");
        }
        let refusal =
            jobs(&client).create(&Default::default(), &ballast("more")).await.unwrap_err().to_string();
        assert!(refusal.contains(&format!("{} is full", small.0.display())), "{refusal}");
        assert!(refusal.contains("free some space"), "{refusal}");
        let name = answered.get(round).unwrap();
        jobs(&client).delete(name, &Default::default()).await.unwrap();
        eventually("it is gone", async || jobs(&client).get_opt(name).await.unwrap().is_none()).await;
    }
    small.free();
    let client = up.client().await;
    eventually("it takes writes again", async || {
        jobs(&client).create(&Default::default(), &ballast("more")).await.is_ok()
    })
    .await;
    up.kill();
    up.again().await;
    let found = jobs(&up.client().await).list(&Default::default()).await.unwrap().items.len();
    assert_eq!(found, answered.len() - 2 + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_loses_nothing_that_was_answered() {
    let home = tempfile::tempdir().unwrap();
    let Some(small) = Small::mount(&home.path().join("small")) else {
        println!("SKIPPED: no file system can be mounted here, so none can be filled");
        return;
    };
    let up = Up::start(&small.0.join("data"), &[]).await;
    let client = up.client().await;
    let gate = home.path().join("gate");
    let script = format!("echo begun; while [ ! -e {} ]; do sleep 0.1; done; exit 7", gate.display());
    create(&client, &job("before", 0, &script)).await;
    until(&client, "before", &["Running"]).await;

    small.fill();
    // Some space is left inside the store's own file: it takes a few writes to use it up.
    let (mut answered, mut refusal) = (Vec::new(), String::new());
    for number in 0..2000 {
        let mut next = job(&format!("during-{number}"), 0, "true");
        next["metadata"]["annotations"] = json!({ "ballast": "x".repeat(500) });
        next["spec"]["runPolicy"] = json!({ "suspend": true });
        let object = serde_json::from_value(next).unwrap();
        match jobs(&client).create(&Default::default(), &object).await {
            Ok(_) => answered.push(format!("during-{number}")),
            Err(error) => {
                refusal = error.to_string();
                break;
            }
        }
    }
    assert!(refusal.contains("is full (objects.") && refusal.contains("free some space"), "{refusal}");
    // It ends while nothing can be written; its exit code has its place already.
    fs::write(&gate, "").unwrap();
    for name in &answered {
        assert!(jobs(&client).get_opt(name).await.unwrap().is_some(), "{name} was answered and is lost");
    }

    small.free();
    until(&client, "before", &["Failed"]).await;
    let pod = pods(&client, "before").await.remove(0);
    let statuses = pod.status.unwrap().container_statuses.unwrap();
    assert_eq!(statuses[0].state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 7);
    assert!(log(&client, "before-master-0").await.starts_with("begun\n"));
    create(&client, &job("after", 0, "true")).await;
    until(&client, "after", &["Succeeded"]).await;
    eventually("all that was answered is there", async || {
        let listed = text(&up.command(&["list"]).stdout);
        answered.iter().all(|name| listed.contains(name.as_str()))
    })
    .await;
    println!("{} jobs were answered before the disk was full", answered.len());
}
