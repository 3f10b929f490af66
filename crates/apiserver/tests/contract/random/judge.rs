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
    pub(super) answers: [Value; 2],
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
        let (ours, theirs) =
            tokio::join!(run::run(self.ours, &row, PATIENCE), run::run(self.theirs, &row, PATIENCE));
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
    Verdict::Differs(Box::new(Finding { lines, answers: [Value::Null, Value::Null], sort }))
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
            return Verdict::Differs(Box::new(Finding { lines, answers: [theirs, ours], sort }));
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
fn in_order(answer: &Value) -> Value {
    let mut answer = answer.clone();
    if let Some(causes) = answer.pointer_mut("/body/details/causes").and_then(Value::as_array_mut) {
        causes.sort_by_key(Value::to_string);
    }
    if let Some(Value::String(message)) = answer.pointer_mut("/body/message") {
        let mut parts: Vec<&str> = message.split(['[', ']']).flat_map(|part| part.split(", ")).collect();
        if parts.len() > 2 {
            parts.sort_unstable();
            *message = parts.join(" | ");
        }
    }
    answer
}

#[test]
fn the_order_of_errors_does_not_matter() {
    let answer = |text: &str| serde_json::json!({"body": {"message": text}});
    assert_eq!(in_order(&answer("x: [a: no, b: no]")), in_order(&answer("x: [b: no, a: no]")));
    assert_ne!(in_order(&answer("x: a: no")), in_order(&answer("x: b: no")));
}
