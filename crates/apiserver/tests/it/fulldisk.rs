//! A disk that is really full: a small file system of its own, in a mount namespace that goes with the process.

use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};
use trainyard_apiserver::Server;
use trainyard_apiserver::store::journal::Journal;

use crate::harness::{Api, MAPS, clock};

const CHILD: &str = "TRAINYARD_TEST_FULL_DISK";
/// What the shell below says when this machine lets nobody mount anything.
const NO_MOUNT: i32 = 97;

#[test]
fn a_full_disk_is_said_and_survived() {
    let directory = tempfile::tempdir().unwrap();
    let script = format!(
        "mount -t tmpfs -o size=8m none \"${CHILD}\" || exit {NO_MOUNT}\nexec \"$0\" --exact fulldisk::child --nocapture"
    );
    let unshare = |flags: &str| {
        let child = Command::new("unshare")
            .args([flags, "sh", "-c", &script])
            .arg(std::env::current_exe().unwrap())
            .env(CHILD, directory.path())
            .output();
        let started = |output: &Output| output.status.code() != Some(NO_MOUNT) && !output.stdout.is_empty();
        child.ok().filter(started)
    };
    // As root, or as root of a user namespace.
    let Some(output) = ["-m", "-rm"].iter().find_map(|flags| unshare(flags)) else {
        println!("no file system can be mounted here: the faults of store::redb::tests have to do");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("survived"), "{text}{errors}");
}

/// The other process of the test above; does nothing when run as a test.
#[tokio::test]
async fn child() {
    let Some(directory) = std::env::var_os(CHILD) else { return };
    let directory = Path::new(&directory);
    let file = directory.join("data/objects.redb");
    let open = || Api::with(Server::options().clock(clock()).backend(Journal::open(&file).unwrap()));
    let api = open();
    api.ok("POST", MAPS, big(0)).await;
    let ballast = directory.join("ballast");
    // More than fits: it takes all that is left.
    std::fs::write(&ballast, vec![1; 16 << 20]).unwrap_err();
    let mut acknowledged: usize = 1;
    let refused = loop {
        let reply = api.call("POST", MAPS, big(acknowledged)).await;
        if reply.code != 201 {
            break reply;
        }
        acknowledged += 1;
    };
    let status = refused.json();
    assert_eq!((refused.code, &status["reason"]), (507, &json!("InsufficientStorage")), "{status}");
    let message = status["message"].as_str().unwrap();
    let directory = file.parent().unwrap().display();
    assert!(message.starts_with(&format!("the data directory {directory} is full (objects.")), "{message}");
    assert!(message.contains("): free some space on its disk, or delete objects"), "{message}");
    // It stays so, reads go on, and so does a server that starts now.
    assert_eq!(api.call("POST", MAPS, big(acknowledged)).await.text, refused.text);
    assert_eq!(names(&api).await, acknowledged);
    close(api).await;
    let api = open();
    assert_eq!(names(&api).await, acknowledged);
    // Deletions have space of their own, and survive.
    acknowledged -= 1;
    api.ok("DELETE", &format!("{MAPS}/m{acknowledged:04}"), Value::Null).await;
    assert_eq!(names(&api).await, acknowledged);
    close(api).await;
    let api = open();
    assert_eq!(names(&api).await, acknowledged);
    std::fs::remove_file(&ballast).unwrap();
    api.ok("POST", MAPS, big(acknowledged)).await;
    close(api).await;
    assert_eq!(names(&open()).await, acknowledged + 1);
    println!("survived");
}

async fn close(api: Api) {
    drop(api.router);
    api.server.shutdown().await;
}

fn big(n: usize) -> Value {
    json!({"metadata": {"name": format!("m{n:04}")}, "data": {"k": "x".repeat(100_000)}})
}

/// How many there are: all of the numbered ones, none missing.
async fn names(api: &Api) -> usize {
    let list = api.ok("GET", MAPS, Value::Null).await;
    let items = list["items"].as_array().unwrap();
    for (n, item) in items.iter().enumerate() {
        assert_eq!(item["metadata"]["name"], format!("m{n:04}"));
    }
    items.len()
}
