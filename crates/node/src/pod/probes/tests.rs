//! Asking, without anybody to ask.

use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::*;

fn subject(container: Value, age: u64) -> Subject {
    Subject {
        runtime: Runtime::new(PathBuf::new(), Arc::new(|| jiff::Timestamp::UNIX_EPOCH)),
        dir: PathBuf::new(),
        container: serde_json::from_value(container).unwrap(),
        age: Duration::from_secs(age),
    }
}

fn tally(probe: Value, known: bool) -> impl FnMut(bool) -> Option<bool> {
    let mut tally = Tally::new(&serde_json::from_value(probe).unwrap(), known);
    move |good| tally.count(good)
}

#[test]
fn thresholds_count_answers_in_a_row() {
    let mut probe = tally(json!({ "successThreshold": 2, "failureThreshold": 3 }), false);
    let answers = [true, false, true, true, false, false, true, false, false, false, true];
    let verdicts = answers.map(&mut probe);
    let (yes, no) = (Some(true), Some(false));
    // Once ready, a single success is as good as many.
    assert_eq!(verdicts, [None, None, None, yes, None, None, yes, None, None, no, None]);
}

/// A server that never closes a connection, and counts them.
async fn server(answer: &'static [u8]) -> (u16, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let count = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            let _ = stream.write_all(answer).await;
            open.push(stream);
        }
    });
    (port, count)
}

#[tokio::test]
async fn an_http_probe_needs_no_more_than_the_first_line() {
    for (answer, healthy) in [
        (&b"HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\n"[..], true),
        (b"HTTP/1.1 302 Found\r\n", true),
        (b"HTTP/1.1 503 Service Unavailable\r\n", false),
        (b"SSH-2.0-OpenSSH\r\n", false),
    ] {
        let (port, _) = server(answer).await;
        let subject = subject(json!({ "name": "c", "ports": [{ "name": "web", "containerPort": port }] }), 0);
        let probe: Probe = serde_json::from_value(
            json!({ "httpGet": { "path": "healthz", "port": "web" }, "timeoutSeconds": 20 }),
        )
        .unwrap();
        assert_eq!(once(&subject, &probe).await.is_ok(), healthy, "{}", String::from_utf8_lossy(answer));
    }
}

/// Each answer is bad at once; asking is still bound to the period.
#[tokio::test(start_paused = true)]
async fn a_probe_that_fails_at_once_is_asked_once_a_period() {
    for probe in ["readinessProbe", "livenessProbe", "startupProbe"] {
        let (asked, board) = asked_within(probe, 0, 100).await;
        let wanted = if probe == "readinessProbe" { 7..=9 } else { 1..=1 };
        assert!(wanted.contains(&asked), "{probe}: {asked}");
        assert_eq!(board.dead, probe != "readinessProbe");
    }
    // The container had run for 15 seconds before: 15 of 30 are left.
    let (asked, _) = asked_within("readinessProbe", 15, 16).await;
    assert!(asked <= 1, "{asked}");
    let (asked, _) = asked_within("readinessProbe", 15, 14).await;
    assert_eq!(asked, 0);
}

/// How often a probe was asked whose container refuses every connection, and what it made of it.
async fn asked_within(probe: &str, age: u64, seconds: u64) -> (usize, Health) {
    // An exec probe of a container that does not run fails without waiting for anything.
    let rules = json!({ "exec": { "command": ["true"] }, "initialDelaySeconds": 30, "failureThreshold": 1 });
    let container = json!({ "name": "c", probe: rules });
    let changed = Arc::new(Notify::new());
    let subject = subject(container, age);
    let prober = Prober::start(subject.clone(), at_start(&subject.container), Arc::clone(&changed));
    let mut asked = 0;
    let _ = timeout(Duration::from_secs(seconds), async {
        loop {
            changed.notified().await;
            asked += usize::from(prober.take_trouble().is_some());
        }
    })
    .await;
    (asked, prober.health())
}
