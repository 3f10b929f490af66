//! The promises of the queue.

use trainyard_core::Catalog;

use super::*;

const PACE: Pace = Pace {
    debounce: ms(10),
    longest_wait: ms(100),
    first_retry: ms(100),
    longest_retry: Duration::from_secs(60),
};

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn queue() -> Queue {
    Queue::new(PACE)
}

fn key(namespace: &str, name: &str) -> Key {
    Key::new(Catalog::default().kind("PyTorchJob").unwrap(), namespace, name)
}

#[test]
fn a_burst_is_one_look() {
    let mut queue = queue();
    let job = key("a", "j");
    for at in 0..5 {
        queue.add(&job, ms(at));
    }
    assert_eq!(queue.next_due(), Some(ms(14)));
    assert_eq!(queue.pop(ms(13)), None);
    assert_eq!(queue.pop(ms(14)), Some(job));
    assert_eq!(queue.pop(ms(1000)), None);
}

#[test]
fn a_job_that_never_rests_is_looked_at_all_the_same() {
    let mut queue = queue();
    let job = key("a", "j");
    let mut looks = 0;
    for at in 0..1000 {
        queue.add(&job, ms(at));
        if queue.pop(ms(at)).is_some() {
            looks += 1;
            queue.done(&job, ms(at), Next::Rest(None));
        }
    }
    assert!((8..=10).contains(&looks), "once per longest wait: {looks}");
}

#[test]
fn a_job_is_never_worked_on_twice_at_once_and_nothing_is_forgotten() {
    let mut queue = queue();
    let job = key("a", "j");
    queue.add(&job, ms(0));
    assert!(queue.pop(ms(10)).is_some());
    queue.add(&job, ms(11));
    assert_eq!(queue.next_due(), None, "it is being worked on");
    assert_eq!(queue.pop(ms(5000)), None);
    queue.done(&job, ms(6000), Next::Rest(None));
    assert_eq!(queue.pop(ms(6010)), Some(job), "what happened meanwhile is looked at");
}

#[test]
fn namespaces_take_turns() {
    let mut queue = queue();
    for i in 0..1000 {
        queue.add(&key("big", &format!("j{i:04}")), ms(0));
    }
    queue.add(&key("small", "only"), ms(1));
    queue.add(&key("tiny", "only"), ms(1));
    let order: Vec<String> =
        std::iter::from_fn(|| queue.pop(ms(20))).take(5).map(|key| key.to_string()).collect();
    assert_eq!(
        order,
        [
            "PyTorchJob big/j0000",
            "PyTorchJob small/only",
            "PyTorchJob tiny/only",
            "PyTorchJob big/j0001",
            "PyTorchJob big/j0002"
        ]
    );
}

#[test]
fn errors_back_off_per_job_and_success_forgives() {
    let mut queue = queue();
    let job = key("a", "j");
    let mut now = ms(0);
    let mut delays = Vec::new();
    queue.add(&job, now);
    for _ in 0..14 {
        let due = queue.next_due().unwrap();
        delays.push((due - now).as_millis());
        now = due;
        assert!(queue.pop(now).is_some());
        queue.done(&job, now, Next::Retry(None));
    }
    assert_eq!(delays[..6], [10, 100, 200, 400, 800, 1600]);
    assert_eq!(delays[13], 60_000);
    now = queue.next_due().unwrap();
    assert!(queue.pop(now).is_some());
    queue.done(&job, now, Next::Again);
    now = queue.next_due().unwrap();
    assert!(queue.pop(now).is_some());
    queue.done(&job, now, Next::Retry(None));
    assert_eq!(queue.next_due(), Some(now + ms(100)));
}

#[test]
fn looks_that_never_come_to_rest_slow_down() {
    let mut queue = queue();
    let job = key("a", "j");
    let mut now = ms(0);
    queue.add(&job, now);
    for _ in 0..200 {
        now = queue.next_due().unwrap();
        assert!(queue.pop(now).is_some());
        queue.done(&job, now, Next::Again);
    }
    assert!(now > Duration::from_secs(3600), "{now:?}");
    queue.add(&job, now);
    now = queue.next_due().unwrap();
    assert!(queue.pop(now).is_some());
    queue.done(&job, now, Next::Rest(None));
    assert!(queue.entries.is_empty());
}

#[test]
fn a_change_is_not_kept_waiting_by_an_error_before_it() {
    let mut queue = queue();
    let job = key("a", "j");
    queue.add(&job, ms(0));
    assert!(queue.pop(ms(10)).is_some());
    queue.done(&job, ms(10), Next::Retry(Some(ms(9000))));
    assert_eq!(queue.next_due(), Some(ms(110)), "what is due later does not delay the repetition");
    queue.add(&job, ms(50));
    assert_eq!(queue.next_due(), Some(ms(60)));
}

#[test]
fn what_is_due_is_not_kept_waiting_by_a_back_off() {
    let mut queue = queue();
    let job = key("a", "j");
    let mut now = ms(0);
    queue.add(&job, now);
    for _ in 0..14 {
        now = queue.next_due().unwrap();
        assert!(queue.pop(now).is_some());
        queue.done(&job, now, Next::Retry(None));
    }
    now = queue.next_due().unwrap();
    assert!(queue.pop(now).is_some());
    queue.done(&job, now, Next::Retry(Some(now + ms(3000))));
    assert_eq!(queue.next_due(), Some(now + ms(3000)), "the back-off is a minute");
    now += ms(3000);
    assert!(queue.pop(now).is_some());
    queue.done(&job, now, Next::Retry(Some(now)));
    assert_eq!(queue.next_due(), Some(now + ms(60_000)), "it was tried just now");
}

#[test]
fn timers_wake_and_a_change_comes_before_its_timer() {
    let mut queue = queue();
    let (a, b) = (key("a", "j"), key("b", "j"));
    for job in [&a, &b] {
        queue.add(job, ms(0));
        assert!(queue.pop(ms(10)).is_some());
    }
    queue.done(&a, ms(10), Next::Rest(Some(ms(3_600_000))));
    queue.done(&b, ms(10), Next::Rest(Some(ms(7_200_000))));
    assert_eq!(queue.len(), 0, "who waits for a time is at rest");
    assert_eq!(queue.next_due(), Some(ms(3_600_000)));
    queue.add(&b, ms(20));
    assert_eq!(queue.len(), 1);
    assert_eq!(queue.pop(ms(30)), Some(b.clone()));
    queue.done(&b, ms(30), Next::Rest(None));
    assert_eq!(queue.pop(ms(3_600_000)), Some(a.clone()));
    queue.done(&a, ms(3_600_000), Next::Forget);
    assert_eq!(queue.next_due(), None);
    assert!(queue.entries.is_empty() && queue.timers.is_empty() && queue.lines.is_empty());
}

/// Random walks: whatever happens, no job runs twice at once, and every job that something happened to is looked
/// at after that.
#[test]
fn random_walks_lose_nothing() {
    let mut seed = 0x2545_F491_4F6C_DD1D_u64;
    let mut random = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed >> 16).unwrap() % below
    };
    for _ in 0..200 {
        let mut queue = queue();
        let mut running: BTreeSet<Key> = BTreeSet::new();
        let mut unseen: BTreeSet<Key> = BTreeSet::new();
        let mut now = ms(0);
        for _ in 0..200 {
            now += ms(random(30) as u64);
            let job = key(["a", "b"][random(2)], ["x", "y", "z"][random(3)]);
            match random(3) {
                0 => {
                    queue.add(&job, now);
                    unseen.insert(job);
                }
                1 => {
                    if let Some(job) = queue.pop(now) {
                        assert!(running.insert(job.clone()), "{job} twice at once");
                        unseen.remove(&job);
                    }
                }
                _ => {
                    if let Some(job) = running.pop_first() {
                        let next =
                            [Next::Rest(None), Next::Again, Next::Retry(None), Next::Forget][random(4)];
                        queue.done(&job, now, next);
                    }
                }
            }
            let places = queue.entries.values();
            assert_eq!(queue.len(), places.filter(|entry| entry.place.is_pending()).count());
        }
        for job in std::mem::take(&mut running) {
            queue.done(&job, now, Next::Rest(None));
        }
        while let Some(due) = queue.next_due() {
            now = now.max(due);
            let job = queue.pop(now).unwrap();
            unseen.remove(&job);
            queue.done(&job, now, Next::Rest(None));
        }
        assert!(unseen.is_empty(), "{unseen:?}");
        assert!(queue.entries.is_empty());
    }
}
