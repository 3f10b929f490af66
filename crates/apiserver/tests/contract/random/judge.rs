//! Runs a case on both servers and says where their answers part.

use serde::Deserialize;
use serde_json::Value;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use regex::Regex;

use super::game::Case;
use super::world::World;
use crate::client::Target;
use crate::{diff, run};

/// How long a request may take. Nothing is waited for that a server does not do at once, or soon after.
const PATIENCE: Duration = Duration::from_secs(20);

/// A difference that is there for a reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    /// The request, as a regular expression.
    r#do: String,
    /// The line of the difference, as a regular expression.
    line: String,
    /// For readers.
    #[expect(dead_code, reason = "every entry has to say why it is there")]
    why: String,
}

static KNOWN: LazyLock<Vec<(Regex, Regex)>> = LazyLock::new(|| {
    let known: Vec<Known> = serde_saphyr::from_str(include_str!("known.yaml")).unwrap();
    known.iter().map(|known| (Regex::new(&known.r#do).unwrap(), Regex::new(&known.line).unwrap())).collect()
});

static MADE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b(made\d+-)[a-z0-9]{5}\b").unwrap());

/// Both servers, and what may be asked of them.
pub(super) struct Judge<'a> {
    pub(super) world: World,
    pub(super) ours: &'a Target,
    pub(super) theirs: &'a Target,
    namespaces: AtomicUsize,
}

/// The first request of a case whose answers differ.
#[derive(Clone)]
pub(super) struct Finding {
    pub(super) lines: Vec<String>,
    /// Equal for differences that have the same cause, as far as can be told.
    pub(super) sort: String,
}

/// What became of a case.
pub(super) enum Verdict {
    Same,
    Differs(Box<Finding>),
    /// Neither server could run it to its end.
    Void(String),
}

impl<'a> Judge<'a> {
    pub(super) fn new(ours: &'a Target, theirs: &'a Target) -> Self {
        Self { world: World::read(), ours, theirs, namespaces: AtomicUsize::new(0) }
    }

    pub(super) async fn judge(&self, case: &Case) -> Verdict {
        let number = self.namespaces.fetch_add(1, Ordering::Relaxed);
        let row = case.row(&self.world, &format!("random-{number}"));
        let run = |server| Box::pin(run::run(server, &row, PATIENCE));
        let (ours, theirs) = tokio::join!(run(self.ours), run(self.theirs));
        match (theirs, ours) {
            (Err(why), Err(_)) => Verdict::Void(why),
            (Ok(theirs), Ok(ours)) => first(&theirs, &ours),
            (Err(why), _) => broken("the real one", &why),
            (_, Err(why)) => broken("the embedded one", &why),
        }
    }
}

fn broken(who: &str, why: &str) -> Verdict {
    let sort = format!("{who} {}", why.split_whitespace().take(4).collect::<Vec<_>>().join(" "));
    let lines = vec![format!("{who}: {why}")];
    Verdict::Differs(Box::new(Finding { lines, sort }))
}

fn first(theirs: &Value, ours: &Value) -> Verdict {
    let both = theirs.as_array().into_iter().flatten().zip(ours.as_array().into_iter().flatten());
    for (theirs, ours) in both {
        let (theirs, ours) = (in_order(theirs), in_order(ours));
        let request = theirs["do"].as_str().or(theirs["read"].as_str()).unwrap_or_default();
        let lines: Vec<String> =
            diff::differences(&theirs, &ours).into_iter().filter(|line| !is_known(request, line)).collect();
        if !lines.is_empty() {
            let sort = sort(request, &theirs, &ours, &lines[0]);
            return Verdict::Differs(Box::new(Finding { lines, sort }));
        }
    }
    Verdict::Same
}

fn is_known(request: &str, line: &str) -> bool {
    KNOWN.iter().any(|(r#do, known)| r#do.is_match(request) && known.is_match(line))
}

fn sort(request: &str, theirs: &Value, ours: &Value, line: &str) -> String {
    let path = request.split('?').next().unwrap_or_default();
    let mut words: Vec<&str> = path.split('/').collect();
    if words.len() > 2 {
        words.retain(|word| !["a", "b", "c", "~"].contains(word));
    }
    let place = line.split(": ").next().unwrap_or_default();
    let place: String =
        place.split(":\n").next().unwrap_or_default().chars().filter(|c| !c.is_ascii_digit()).collect();
    format!("{} {}/{} {place}", words.join("/"), theirs["code"], ours["code"])
}

/// Errors about members of maps come in any order, in the causes and in the message.
/// Pods are looked at without the versions of their events.
fn in_order(answer: &Value) -> Value {
    // An answer about an object that was not made names it, and nothing says that the name was generated.
    let text = MADE.replace_all(&answer.to_string(), "$1<made>").into_owned();
    let mut answer: Value = serde_json::from_str(&text).unwrap();
    if answer["read"].as_str().is_some_and(|name| name.ends_with("-pods")) {
        in_one_write(&mut answer);
    }
    if let Some(Value::String(warnings)) = answer.pointer_mut("/headers/warning") {
        let mut parts: Vec<&str> = warnings.split(" | ").collect();
        parts.sort_unstable();
        *warnings = parts.join(" | ");
    }
    if let Some(causes) = answer.pointer_mut("/body/details/causes").and_then(Value::as_array_mut) {
        causes.sort_by_key(Value::to_string);
    }
    if let Some(Value::String(message)) = answer.pointer_mut("/body/message") {
        if let Some((head, errors)) = message.split_once(" errors:\n") {
            let mut errors: Vec<&str> = errors.split('\n').collect();
            errors.sort_unstable();
            *message = format!("{head} errors:\n{}", errors.join("\n"));
        }
        if let Some((object, errors)) = message.split_once("invalid: [") {
            let mut errors: Vec<&str> = errors.trim_end_matches(']').split(", ").collect();
            errors.sort_unstable();
            *message = format!("{object}invalid: [{}]", errors.join(", "));
        }
    }
    answer
}

/// A real server removes a pod in two writes, of which the first says that no time is left. Ours needs one.
fn in_one_write(answer: &mut Value) {
    let Some(events) = answer["events"].as_array_mut() else { return };
    for event in events.iter_mut() {
        if let Some(metadata) = event.pointer_mut("/object/metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
    }
    let ended =
        |event: &Value| event.pointer("/object/metadata/deletionGracePeriodSeconds") == Some(&Value::from(0));
    let gone: Vec<Value> = events.iter().filter(|event| event["type"] == "DELETED").cloned().collect();
    let held = |event: &Value| event.pointer("/object/metadata/finalizers").is_some();
    events.retain(|event| {
        let last = gone.iter().any(|gone| gone["object"] == event["object"]);
        !(event["type"] == "MODIFIED" && ended(event) && last && !held(event))
    });
}

#[test]
fn the_order_of_errors_does_not_matter() {
    let answer = |text: &str| serde_json::json!({"body": {"message": text}});
    assert_eq!(
        in_order(&answer("x is invalid: [a: no, b: no]")),
        in_order(&answer("x is invalid: [b: no, a: no]"))
    );
    assert_ne!(in_order(&answer("x is invalid: a: no")), in_order(&answer("x is invalid: b: no")));
}
