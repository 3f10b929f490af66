//! A follower on a server that follows a script.

use std::sync::Mutex;

use serde_json::{Value, json};
use tower::util::BoxCloneSyncService;

use super::*;
use crate::connect::Connections;
use crate::options::Effort;
use crate::tests::script::{Reply, Script, status};

/// Notes what it is shown.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Notes {
    fn note(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }

    fn object(&self, verb: &str, raw: &str) -> Result<Shown, serde_json::Error> {
        let meta = wire::meta(raw)?;
        self.note(format!("{verb} {}", meta.name));
        Ok(Shown { uid: meta.uid, version: meta.resource_version })
    }
}

impl Sink for Arc<Notes> {
    fn begin_list(&self, version: u64) {
        self.note(format!("begin {version}"));
    }
    fn show(&self, raw: &str) -> Result<Shown, serde_json::Error> {
        self.object("show", raw)
    }
    fn remove(&self, raw: &str) -> Result<Shown, serde_json::Error> {
        self.object("remove", raw)
    }
    fn end_list(&self, uids: &BTreeSet<Box<str>>, version: u64) {
        let uids: Vec<&str> = uids.iter().map(|uid| &**uid).collect();
        self.note(format!("end {version} [{}]", uids.join(" ")));
    }
    fn advance(&self, version: u64) {
        self.note(format!("at {version}"));
    }
}

fn object(name: &str, version: u64) -> Value {
    json!({ "metadata": { "name": name, "uid": format!("u-{name}"), "resourceVersion": version.to_string() } })
}

fn list(items: Vec<Value>, version: u64, next: &str) -> Reply {
    let metadata = json!({ "resourceVersion": version.to_string(), "continue": next });
    Reply::Json(200, json!({ "metadata": metadata, "items": items }))
}

fn event(type_: &str, object: Value) -> String {
    format!("{}\n", json!({ "type": type_, "object": object }))
}

/// Runs a follower for a while and returns what it showed, what it asked, and its health.
async fn follow(seconds: u64, replies: Vec<Reply>) -> (Vec<String>, Vec<String>, Health) {
    follow_source(source(), seconds, replies).await
}

fn source() -> Source {
    Source { name: "x".into(), path: "/x".into(), selector: Some("a in (b)".into()), optional: false }
}

async fn follow_source(
    source: Source,
    seconds: u64,
    replies: Vec<Reply>,
) -> (Vec<String>, Vec<String>, Health) {
    let script = Script::new(replies);
    let api = Arc::new(Api::new(script.client(), Effort::default()));
    let health = Health::new(Duration::from_secs(330));
    let notes = Arc::new(Notes::default());
    let follower = Follower::new(api, source, Arc::clone(&notes), health.clone(), Watching::default());
    let _ = tokio::time::timeout(Duration::from_secs(seconds), follower.run()).await;
    let shown = notes.0.lock().unwrap().clone();
    (shown, script.asked(), health)
}

#[tokio::test(start_paused = true)]
async fn pages_then_a_watch_from_where_the_list_was_made() {
    let lines = vec![
        event("ADDED", object("c", 12)),
        event("MODIFIED", object("a", 13)),
        event("DELETED", object("b", 14)),
        event("BOOKMARK", object("", 20)),
    ];
    let (shown, asked, health) = follow(
        1,
        vec![
            list(vec![object("a", 3)], 10, "t/1"),
            list(vec![object("b", 4)], 10, ""),
            Reply::Lines(lines, true),
        ],
    )
    .await;
    let expected = [
        "begin 10",
        "show a",
        "show b",
        "end 10 [u-a u-b]",
        "show c",
        "at 12",
        "show a",
        "at 13",
        "remove b",
        "at 14",
        "at 20",
    ];
    assert_eq!(shown, expected);
    let selected = "labelSelector=a%20in%20%28b%29";
    assert_eq!(
        asked[..2],
        [format!("GET /x?{selected}&limit=500"), format!("GET /x?{selected}&limit=500&continue=t%2F1")]
    );
    let watch =
        format!("GET /x?watch=true&{selected}&resourceVersion=10&allowWatchBookmarks=true&timeoutSeconds=");
    let seconds: u32 = asked[2].strip_prefix(&watch).unwrap().parse().unwrap();
    assert!((30..=40).contains(&seconds), "{seconds}");
    assert_eq!(health.watches()["x"], SourceState::Watching);
    assert_eq!(health.stats().watch_restarts, 0);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_goes_on_where_it_was() {
    let half = event("ADDED", object("lost", 30));
    let lines = vec![event("ADDED", object("a", 12)), half[..half.len() / 2].to_owned()];
    let more = event("ADDED", object("b", 15));
    let (one, two) = more.split_at(9);
    let (shown, asked, _) = follow(
        1,
        vec![
            list(vec![], 10, ""),
            Reply::Lines(lines, false),
            Reply::Lines(vec![one.to_owned(), format!("{two}\n\n")], true),
        ],
    )
    .await;
    assert_eq!(shown, ["begin 10", "end 10 []", "show a", "at 12", "show b", "at 15"]);
    assert!(asked[2].contains("resourceVersion=12&"), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn what_the_server_has_forgotten_is_listed_anew() {
    let gone = event("ERROR", json!({ "kind": "Status", "code": 410, "reason": "Expired" }));
    let (shown, asked, _) = follow(
        5,
        vec![
            list(vec![object("a", 1), object("b", 2)], 10, ""),
            Reply::Lines(vec![gone], true),
            list(vec![object("a", 1)], 50, ""),
            status(410, "Expired", "too old"),
            list(vec![], 60, ""),
            Reply::Lines(vec![], true),
        ],
    )
    .await;
    let expected = [
        "begin 10",
        "show a",
        "show b",
        "end 10 [u-a u-b]",
        "begin 50",
        "show a",
        "end 50 [u-a]",
        "begin 60",
        "end 60 []",
    ];
    assert_eq!(shown, expected);
    assert_eq!(asked.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn one_object_that_cannot_be_read_disturbs_no_other() {
    let bad = json!({ "metadata": { "name": 7, "uid": "u-bad", "resourceVersion": "11" } });
    let lines = vec![
        event("ADDED", object("c", 12)),
        event("MODIFIED", bad.clone()),
        event("MODIFIED", json!("not an object")),
        event("ADDED", object("d", 14)),
    ];
    let (shown, _, health) = follow(
        1,
        vec![list(vec![object("a", 1), bad, json!(null), object("b", 2)], 10, ""), Reply::Lines(lines, true)],
    )
    .await;
    let expected = [
        "begin 10",
        "show a",
        "show b",
        "end 10 [u-a u-b u-bad]",
        "show c",
        "at 12",
        "at 11",
        "show d",
        "at 14",
    ];
    assert_eq!(shown, expected, "it is still there, though unread");
    assert_eq!((health.stats().undecodable, health.stats().watch_restarts), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn a_garbled_line_is_asked_for_again_and_then_listed_around() {
    let garbled = "{\"type\":\"ADD\u{fffd}\n".to_owned();
    let (shown, asked, health) = follow(
        5,
        vec![
            list(vec![], 10, ""),
            Reply::Lines(vec![event("ADDED", object("a", 11)), garbled.clone()], true),
            Reply::Lines(vec![garbled], true),
            list(vec![object("a", 11), object("b", 12)], 20, ""),
            Reply::Lines(vec![], true),
        ],
    )
    .await;
    assert!(asked[2].contains("resourceVersion=11&"), "first again from the last good one: {asked:?}");
    assert!(asked[3].contains("limit=500"), "then around it: {asked:?}");
    assert_eq!(shown.last().unwrap(), "end 20 [u-a u-b]");
    assert_eq!(health.stats().garbled, 2);
}

#[tokio::test(start_paused = true)]
async fn errors_back_off_and_a_kind_that_is_absent_is_asked_for_slowly() {
    let failing = || (0..100).map(|_| status(500, "InternalError", "no")).collect::<Vec<_>>();
    let (_, asked, health) = follow(60, failing()).await;
    assert!((8..=10).contains(&asked.len()), "0.2 0.4 0.8 … 25.6 s: {}", asked.len());
    assert!(!health.ready());
    let absent = || (0..100).map(|_| status(404, "NotFound", "no")).collect::<Vec<_>>();
    let (shown, asked, health) = follow(95, absent()).await;
    assert_eq!(asked.len(), 7, "at once, after 2 s, 4, 8, 16 and then every 30");
    assert_eq!(shown[0], "end 0 []", "whatever was known of it is gone");
    assert!(health.ready());
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_seen_is_done_without_where_that_is_possible() {
    let forbidden = || (0..100).map(|_| status(403, "Forbidden", "no")).collect::<Vec<_>>();
    let (_, _, health) = follow(95, forbidden()).await;
    assert!(!health.ready(), "pods have to be seen");
    let source = Source { name: "x".into(), path: "/x".into(), selector: None, optional: true };
    let (shown, asked, health) = follow_source(source.clone(), 95, forbidden()).await;
    assert_eq!((asked.len(), shown[0].as_str()), (7, "end 0 []"));
    assert!(health.ready());
    let mut granted = vec![status(403, "Forbidden", "no"), list(vec![object("a", 3)], 10, "")];
    granted.push(Reply::Lines(vec![], true));
    let (shown, _, _) = follow_source(source, 95, granted).await;
    assert!(shown.contains(&"show a".to_owned()), "somebody granted it meanwhile");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_is_not_asked_in_a_tight_loop() {
    let mut replies = vec![list(vec![], 10, "")];
    replies.extend((0..1000).map(|_| Reply::Lines(vec![], false)));
    let (_, asked, _) = follow(60, replies).await;
    assert!(asked.len() < 12, "{}", asked.len());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_neither_speaks_nor_ends_is_dead_and_drops_the_connections() {
    let made = Arc::new(Mutex::new(0));
    let connections = {
        let made = Arc::clone(&made);
        Connections::new(http::Uri::from_static("http://x"), move || {
            *made.lock().unwrap() += 1;
            BoxCloneSyncService::new(tower::service_fn(|_| std::future::pending()))
        })
    };
    let late = vec![event("ADDED", object("a", 11))];
    let script = Script::new(vec![
        list(vec![], 10, ""),
        Reply::Lines(late, true),
        Reply::Lines(vec![], true),
        Reply::Lines(vec![], true),
    ]);
    let api = Arc::new(Api::new(script.client(), Effort::default()).over(Some(connections)));
    let health = Health::new(Duration::from_secs(50));
    let follower =
        Follower::new(api, source(), Arc::new(Notes::default()), health.clone(), Watching::default());
    let following = tokio::spawn(follower.run());
    let drops = |seconds| {
        let made = Arc::clone(&made);
        async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            *made.lock().unwrap() - 1
        }
    };
    assert_eq!(drops(34).await, 0, "no watch is shorter than 30 s, and each has 5 s to end");
    assert_eq!((drops(12).await, health.silent()), (1, vec![]), "none is longer than 40 s");
    assert_eq!(script.asked().len(), 3, "the next one is open");
    assert_eq!(drops(46).await, 2);
    assert_eq!(health.stats().watch_restarts, 2);
    following.abort();
}

#[tokio::test(start_paused = true)]
async fn errors_of_a_watch_that_repeat_lead_to_a_list() {
    let refused = || status(400, "BadRequest", "that version is not to my taste");
    let mut replies = vec![list(vec![object("a", 1)], 10, "")];
    replies.extend([refused(), refused(), refused(), list(vec![], 20, ""), Reply::Lines(vec![], true)]);
    let (shown, asked, health) = follow(10, replies).await;
    assert_eq!(shown.last().unwrap(), "end 20 []", "{asked:?}");
    assert!(asked[5].contains("resourceVersion=20&"), "{asked:?}");
    assert!(health.ready());
    let mut replies = Vec::new();
    for _ in 0..100 {
        replies.extend([list(vec![], 10, ""), refused()]);
    }
    replies.splice(1..1, [refused(), refused()]);
    let (_, asked, health) = follow(600, replies).await;
    let lists = asked.iter().filter(|line| line.contains("limit=")).count();
    assert!((20..40).contains(&lists), "a server that serves lists alone is asked every 30 s: {lists}");
    assert!(health.ready(), "what is known is as good as it gets");
}

#[tokio::test(start_paused = true)]
async fn what_is_never_answered_is_reported() {
    let (_, _, health) = follow(400, vec![list(vec![], 10, ""), Reply::Silence]).await;
    assert_eq!(health.silent(), ["x"]);
    assert!(!health.ready());
}
