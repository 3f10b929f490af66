//! What happens between a decision and the disk: group commit, failed commits, reopening.

use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use trainyard_apiserver::Server;
use trainyard_apiserver::store::backend::{Backend, BackendError, Loaded, Write};
use trainyard_apiserver::store::journal::Journal;

use crate::harness::{Api, MAPS, WIDGETS, clock, map, rv, widget};

const NULL: Value = Value::Null;

/// A disk that keeps what it is given, can be told to fail, and can be held.
#[derive(Clone, Default)]
pub(crate) struct Disk(Arc<Inner>);

/// The last revision, and every live object with its own.
type Contents = (u64, BTreeMap<String, (u64, Bytes)>);

#[derive(Default)]
struct Inner {
    objects: Mutex<Contents>,
    batches: Mutex<Vec<usize>>,
    fails: AtomicBool,
    full: AtomicBool,
    panics: AtomicBool,
    held: Mutex<bool>,
    released: Condvar,
}

impl Disk {
    fn fail(&self, on: bool) {
        self.0.fails.store(on, Ordering::SeqCst);
    }

    /// Full but for what leads to less.
    fn fill(&self, on: bool) {
        self.0.full.store(on, Ordering::SeqCst);
    }

    fn panic(&self, on: bool) {
        self.0.panics.store(on, Ordering::SeqCst);
    }

    fn hold(&self, on: bool) {
        *self.0.held.lock().unwrap() = on;
        self.0.released.notify_all();
    }

    fn batches(&self) -> Vec<usize> {
        self.0.batches.lock().unwrap().clone()
    }
}

impl Backend for Disk {
    fn load(&self) -> Result<Loaded, BackendError> {
        let guard = self.0.objects.lock().unwrap();
        let objects = guard.1.iter().map(|(k, (r, b))| (k.clone(), *r, b.clone())).collect();
        Ok(Loaded { revision: guard.0, objects })
    }

    fn commit(&self, batch: &[Write]) -> Result<(), BackendError> {
        let mut held = self.0.held.lock().unwrap();
        while *held {
            held = self.0.released.wait(held).unwrap();
        }
        drop(held);
        assert!(!self.0.panics.load(Ordering::SeqCst), "told to");
        if self.0.fails.load(Ordering::SeqCst) {
            return Err(BackendError::Storage("the disk is full".into()));
        }
        if self.0.full.load(Ordering::SeqCst) {
            return Err(BackendError::Full { directory: "/data".into(), what: "no space".into() });
        }
        self.keep(batch);
        Ok(())
    }

    fn commit_from_reserve(&self, batch: &[Write]) -> Result<(), BackendError> {
        self.keep(batch);
        Ok(())
    }

    fn blocks(&self) -> bool {
        true
    }
}

impl Disk {
    fn keep(&self, batch: &[Write]) {
        let mut guard = self.0.objects.lock().unwrap();
        for write in batch {
            assert!(write.revision > guard.0, "revisions go up");
            guard.0 = write.revision;
            match &write.value {
                Some(bytes) => guard.1.insert(write.key.clone(), (write.revision, bytes.clone())),
                None => guard.1.remove(&write.key),
            };
        }
        self.0.batches.lock().unwrap().push(batch.len());
    }
}

fn open(disk: &Disk) -> Api {
    Api::with(Server::options().clock(clock()).backend(disk.clone()))
}

/// Waits until a name is taken by a write, though that is still on its way to the disk.
async fn decided(api: &Api, name: &str) {
    while api.call("POST", &format!("{MAPS}?dryRun=All"), map(name)).await.code != 409 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_failed_commit_is_answered_and_forgotten() {
    let disk = Disk::default();
    let api = open(&disk);
    let made = api.ok("POST", MAPS, map("a")).await;
    let mut watch = api.watch(&format!("{MAPS}?watch=true&resourceVersion={}", rv(&made))).await;
    for break_disk in [Disk::fail, Disk::panic] {
        break_disk(&disk, true);
        let reply = api.call("POST", MAPS, map("b")).await;
        assert_eq!(reply.code, 500);
        assert_eq!(api.call("MERGE", &format!("{MAPS}/a"), json!({"data": {"k": "v"}})).await.code, 500);
        assert_eq!(api.call("DELETE", &format!("{MAPS}/a"), NULL).await.code, 500);
        assert_eq!(api.code("GET", &format!("{MAPS}/b")).await, 404);
        assert_eq!(api.ok("GET", &format!("{MAPS}/a"), NULL).await, made);
        break_disk(&disk, false);
    }
    disk.fail(true);
    let reply = api.call("POST", MAPS, map("b")).await;
    assert!(reply.text.contains("the disk is full"), "{}", reply.text);
    disk.fail(false);
    // The server goes on, and nobody saw what was not written.
    let b = api.ok("POST", MAPS, map("b")).await;
    assert!(rv(&b) > rv(&made));
    assert_eq!(watch.next().await.unwrap()["object"], b);
}

/// A delete must not fail because it shared a commit with a create.
#[tokio::test]
async fn a_full_disk_takes_deletions_and_nothing_else() {
    let disk = Disk::default();
    let api = Arc::new(open(&disk));
    for name in ["a", "b", "c"] {
        api.ok("POST", MAPS, map(name)).await;
    }
    api.ok("MERGE", &format!("{MAPS}/b"), json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
    disk.hold(true);
    let call = |verb: &'static str, path: String, body: Value| {
        let api = Arc::clone(&api);
        tokio::spawn(async move { api.call(verb, &path, body).await })
    };
    let create = call("POST", MAPS.to_owned(), map("d"));
    decided(&api, "d").await;
    // They wait together for the next commit.
    let deletes = ["a", "b"].map(|name| call("DELETE", format!("{MAPS}/{name}"), NULL));
    let patch = call("MERGE", format!("{MAPS}/c"), json!({"data": {"k": "v"}}));
    while api.call("POST", &format!("{MAPS}?dryRun=All"), map("a")).await.code != 201 {
        tokio::task::yield_now().await;
    }
    disk.fill(true);
    disk.hold(false);
    for refused in [create, patch] {
        let reply = refused.await.unwrap();
        assert_eq!((reply.code, &reply.json()["reason"]), (507, &json!("InsufficientStorage")));
        assert!(reply.text.contains("the data directory /data is full (no space)"), "{}", reply.text);
    }
    for delete in deletes {
        assert_eq!(delete.await.unwrap().code, 200);
    }
    // What only waits for its finalizers may go on its way.
    api.ok("MERGE", &format!("{MAPS}/b"), json!({"metadata": {"finalizers": null}})).await;
    for (name, code) in [("a", 404), ("b", 404), ("c", 200), ("d", 404)] {
        assert_eq!(api.code("GET", &format!("{MAPS}/{name}")).await, code, "{name}");
    }
    // A server that starts now has nothing to write, or does without.
    let Ok(Api { server, router }) = Arc::try_unwrap(api) else { panic!("still in use") };
    server.shutdown().await;
    drop(router);
    let api = open(&disk);
    assert_eq!(api.code("GET", &format!("{MAPS}/c")).await, 200);
    assert_eq!(api.call("POST", MAPS, map("e")).await.code, 507);
    disk.fill(false);
    api.ok("POST", MAPS, map("e")).await;
}

#[tokio::test]
async fn writes_are_seen_when_they_are_durable_and_committed_together() {
    let disk = Disk::default();
    let api = Arc::new(open(&disk));
    let before = disk.batches().len();
    disk.hold(true);
    let writers: Vec<_> = (0..20)
        .map(|n| {
            let api = Arc::clone(&api);
            tokio::spawn(async move { rv(&api.ok("POST", MAPS, map(&format!("m{n}"))).await) })
        })
        .collect();
    decided(&api, "m19").await;
    assert_eq!(api.ok("GET", MAPS, NULL).await["items"], json!([]));
    disk.hold(false);
    let mut revisions = Vec::new();
    for writer in writers {
        revisions.push(writer.await.unwrap());
    }
    revisions.sort_unstable();
    revisions.dedup();
    assert_eq!(revisions.len(), 20);
    assert!(disk.batches().len() - before <= 3, "{:?}", disk.batches());
    assert_eq!(api.ok("GET", MAPS, NULL).await["items"].as_array().unwrap().len(), 20);
}

#[tokio::test]
async fn what_builds_on_a_failed_write_fails_with_it() {
    let disk = Disk::default();
    let api = Arc::new(open(&disk));
    disk.hold(true);
    let first = tokio::spawn({
        let api = Arc::clone(&api);
        async move { api.call("POST", MAPS, map("a")).await.code }
    });
    decided(&api, "a").await;
    let second = tokio::spawn({
        let api = Arc::clone(&api);
        async move { api.call("MERGE", &format!("{MAPS}/a"), json!({"data": {"k": "v"}})).await.code }
    });
    // A patch that changes nothing waits for what it would report.
    let third = tokio::spawn({
        let api = Arc::clone(&api);
        async move { api.call("MERGE", &format!("{MAPS}/a"), json!({})).await.code }
    });
    tokio::task::yield_now().await;
    disk.fail(true);
    disk.hold(false);
    assert_eq!(first.await.unwrap(), 500);
    assert!([500, 404].contains(&second.await.unwrap()));
    assert_eq!(third.await.unwrap(), 404);
    disk.fail(false);
    assert_eq!(api.code("GET", &format!("{MAPS}/a")).await, 404);
    api.ok("POST", MAPS, map("a")).await;
}

#[tokio::test]
async fn a_reopened_server_goes_on() {
    let disk = Disk::default();
    let api = open(&disk);
    api.define_widgets().await;
    let made = api.ok("POST", WIDGETS, widget("w")).await;
    api.ok("POST", MAPS, map("gone")).await;
    api.ok("DELETE", &format!("{MAPS}/gone"), NULL).await;
    let stats = api.server.stats();
    api.server.shutdown().await;

    let api = open(&disk);
    assert_eq!(api.server.stats(), stats);
    assert_eq!(api.ok("GET", &format!("{WIDGETS}/w"), NULL).await, made);
    // Its history begins with it.
    let old = format!("{WIDGETS}?watch=true&resourceVersion={}", rv(&made));
    assert_eq!(api.watch(&old).await.next().await.unwrap()["object"]["code"], 410);
    let next = api.ok("POST", MAPS, map("next")).await;
    assert_eq!(rv(&next), stats.revision + 1);
}

#[tokio::test(start_paused = true)]
async fn collection_is_tried_again_after_a_failed_commit() {
    let disk = Disk::default();
    let api = open(&disk);
    let owner = api.ok("POST", MAPS, map("owner")).await;
    let reference =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]});
    api.ok("POST", MAPS, json!({"metadata": {"name": "child", "ownerReferences": [reference]}})).await;
    api.ok("DELETE", &format!("{MAPS}/owner"), NULL).await;
    disk.fail(true);
    api.settle().await;
    disk.fail(false);
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    api.settle().await;
    assert_eq!(api.code("GET", &format!("{MAPS}/child")).await, 404);
}

#[tokio::test]
async fn the_real_disk_keeps_everything() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    let open = || {
        let backend = Journal::open(&path).unwrap();
        Arc::new(Api::with(Server::options().clock(clock()).backend(backend)))
    };
    let api = open();
    api.define_widgets().await;
    let writers: Vec<_> = (0..50)
        .map(|n| {
            let api = Arc::clone(&api);
            tokio::spawn(async move { api.ok("POST", WIDGETS, widget(&format!("w{n}"))).await })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    api.ok("DELETE", &format!("{WIDGETS}/w0"), NULL).await;
    let before = api.ok("GET", WIDGETS, NULL).await;
    let stats = api.server.stats();
    let Ok(Api { server, router }) = Arc::try_unwrap(api) else { panic!("still in use") };
    server.shutdown().await;
    drop(router);

    let api = open();
    assert_eq!(api.server.stats(), stats);
    assert_eq!(api.ok("GET", WIDGETS, NULL).await, before);
}
