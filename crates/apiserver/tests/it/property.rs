//! Properties of the store under any sequence of writes: revisions go up, watchers miss nothing or are told, lists at
//! a revision show the state of that revision, and a reopened store is the same store.

use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_apiserver::store::backend::BackendError;
use trainyard_apiserver::store::{Event, EventKind, Gone, Key, Outcome, Range, Store, Stored, Written};

use crate::durability::Disk;

const TABLE: &str = "/things";
const ALL: Range<'static> = Range { prefix: "", after: None, limit: usize::MAX };

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8),
    Remove(u8),
    Keep(u8),
    /// The watcher with this number reads at most so many events.
    Read(usize, usize),
    /// A page of the state at an earlier revision.
    Look(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..6u8, any::<u8>()).prop_map(|(key, value)| Step::Put(key, value)),
        2 => (0..6u8).prop_map(Step::Remove),
        1 => (0..6u8).prop_map(Step::Keep),
        2 => (0..3usize, 1..4usize).prop_map(|(watcher, max)| Step::Read(watcher, max)),
        1 => any::<usize>().prop_map(Step::Look),
    ]
}

type State = BTreeMap<String, (u64, u64)>;

fn number(stored: &Stored) -> u64 {
    stored.value().unwrap()["value"].as_u64().unwrap()
}

fn state(items: &[Arc<Stored>]) -> State {
    items.iter().map(|s| (s.key.path().to_owned(), (s.revision, number(s)))).collect()
}

/// A client that keeps its own copy by watching.
struct Watcher {
    position: u64,
    copy: State,
    lost: bool,
}

impl Watcher {
    fn read(&mut self, store: &Store, max: usize) {
        match store.since(TABLE, self.position, max) {
            Err(Gone(_)) => self.lost = true,
            Ok((events, reached)) => {
                for event in &events {
                    assert!(event.object.revision > self.position);
                    self.position = event.object.revision;
                    self.apply(event);
                }
                assert!(reached >= self.position);
                self.position = reached;
            }
        }
    }

    fn apply(&mut self, event: &Event) {
        let path = event.object.key.path().to_owned();
        let before = self.copy.get(&path).copied();
        assert_eq!(before.map(|b| b.0), event.previous.as_ref().map(|p| p.revision), "an event was missed");
        match event.kind {
            EventKind::Added => assert!(before.is_none()),
            EventKind::Modified | EventKind::Deleted => assert!(before.is_some()),
        }
        match event.kind {
            EventKind::Deleted => self.copy.remove(&path),
            EventKind::Added | EventKind::Modified => {
                self.copy.insert(path, (event.object.revision, number(&event.object)))
            }
        };
    }
}

async fn write(store: &Store, name: u8, outcome: impl Fn(Value) -> Outcome) -> Written {
    let key = Key::new(&TABLE.into(), "ns", &name.to_string());
    store
        .transact::<BackendError>(&key, &[], |current| {
            Ok(outcome(current.map_or(json!({"metadata": {}}), |c| c.value().unwrap())))
        })
        .await
        .unwrap()
}

fn valued(mut object: Value, value: u8) -> Value {
    object["value"] = json!(value);
    object
}

async fn run(steps: Vec<Step>, window: usize) {
    let disk = Disk::default();
    let store = Store::open(Box::new(disk.clone()), window).unwrap();
    let mut watchers: Vec<Watcher> =
        (0..3).map(|_| Watcher { position: 0, copy: State::new(), lost: false }).collect();
    // What every revision looked like.
    let mut past: Vec<(u64, State)> = vec![(0, State::new())];
    for step in steps {
        let before = store.revision();
        match step {
            Step::Put(name, value) => {
                write(&store, name, |object| Outcome::Put(valued(object, value))).await;
                assert_eq!(store.revision(), before + 1);
            }
            Step::Remove(name) => {
                let written = write(&store, name, Outcome::Remove).await;
                let removed = matches!(written, Written::Removed(_));
                assert_eq!(store.revision(), before + u64::from(removed));
            }
            Step::Keep(name) => {
                write(&store, name, |_| Outcome::Keep).await;
                assert_eq!(store.revision(), before);
            }
            Step::Read(watcher, max) => watchers[watcher].read(&store, max),
            Step::Look(which) => {
                let (revision, expected) = &past[which % past.len()];
                if let Ok(page) = store.page_at(TABLE, ALL, *revision) {
                    assert_eq!(&state(&page.items), expected);
                } else {
                    assert!((past.len() - 1).saturating_sub(which % past.len()) > window);
                }
            }
        }
        if store.revision() > before {
            past.push((store.revision(), state(&store.page(TABLE, ALL).items)));
        }
    }
    let last = state(&store.page(TABLE, ALL).items);
    for mut watcher in watchers {
        watcher.read(&store, usize::MAX);
        assert!(watcher.lost || watcher.copy == last, "a watcher's copy differs");
    }
    let again = Store::open(Box::new(disk), window).unwrap();
    assert_eq!(state(&again.page(TABLE, ALL).items), last);
    assert_eq!(again.stats(), store.stats());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn the_store_keeps_its_promises(steps in prop::collection::vec(step(), 0..60), window in 1..12usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(run(steps, window));
    }
}

#[test]
fn concurrent_increments_are_all_counted() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    runtime.block_on(async {
        let store = Store::open(Box::new(Disk::default()), 10).unwrap();
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let store = store.clone();
                tokio::spawn(async move {
                    for _ in 0..25 {
                        write(&store, 0, |mut object| {
                            object["value"] = json!(object["value"].as_u64().unwrap_or(0) + 1);
                            Outcome::Put(object)
                        })
                        .await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let page = store.page(TABLE, ALL);
        assert_eq!(number(&page.items[0]), 200);
        assert_eq!(page.revision, 200);
    });
}
