//! Makes a case that differs as small as it gets: fewer moves, then smaller requests.

use serde_json::Value;

use super::game::Case;
use super::judge::{Finding, Judge, Verdict};
use crate::row::Step;

/// Each trial is a case in a namespace of its own.
const TRIALS: usize = 250;

/// Without these, a real server's controllers would write too.
const KEPT: [&str; 1] = ["schedulerName"];

struct Shrink<'a> {
    judge: &'a Judge<'a>,
    case: Case,
    finding: Finding,
    trials: usize,
}

/// A smaller case with the same difference.
pub(super) async fn shrink(judge: &Judge<'_>, case: Case, finding: Finding) -> (Case, Finding) {
    let mut shrink = Shrink { judge, case, finding, trials: TRIALS };
    let bare = Case { watched: false, ..shrink.case.clone() };
    shrink.accepts(bare).await;
    shrink.moves().await;
    while shrink.requests().await {}
    (shrink.case, shrink.finding)
}

impl Shrink<'_> {
    /// Takes a case if it still shows the difference.
    async fn accepts(&mut self, case: Case) -> bool {
        if self.trials == 0 {
            return false;
        }
        self.trials -= 1;
        let Verdict::Differs(finding) = self.judge.judge(&case).await else { return false };
        if finding.sort != self.finding.sort {
            return false;
        }
        (self.case, self.finding) = (case, *finding);
        true
    }

    /// Leaves out moves: many at once, then fewer, the last ones first.
    async fn moves(&mut self) {
        let mut size = self.case.moves.len().div_ceil(2);
        while size > 0 {
            let mut end = self.case.moves.len();
            while end > 0 {
                let begin = end.saturating_sub(size);
                let mut case = self.case.clone();
                case.moves.drain(begin..end);
                self.accepts(case).await;
                end = begin;
            }
            size /= 2;
        }
    }

    /// Leaves out parts of requests; true if there was something to leave out.
    async fn requests(&mut self) -> bool {
        let mut changed = false;
        for at in 0..self.case.moves.len() {
            for index in 0..self.case.moves[at].len() {
                // What is left out of one request moves nothing in another.
                let mut skipped = 0;
                loop {
                    let smaller = smaller(&self.case.moves[at][index]);
                    let Some(step) = smaller.into_iter().nth(skipped) else { break };
                    let mut case = self.case.clone();
                    case.moves[at][index] = step;
                    if self.accepts(case).await { changed = true } else { skipped += 1 }
                }
            }
        }
        changed
    }
}

/// Requests that are this one with something left out.
fn smaller(step: &Step) -> Vec<Step> {
    let mut found = Vec::new();
    if let Some((path, options)) = step.r#do.split_once('?') {
        let options: Vec<&str> = options.split('&').collect();
        for left_out in (0..options.len()).filter(|index| !options[*index].starts_with("fieldSelector")) {
            let mut rest = options.clone();
            rest.remove(left_out);
            let mark = if rest.is_empty() { "" } else { "?" };
            found.push(Step { r#do: format!("{path}{mark}{}", rest.join("&")), ..step.clone() });
        }
    }
    if step.accept.is_some() {
        found.push(Step { accept: None, ..step.clone() });
    }
    for name in step.save.keys() {
        let mut save = step.save.clone();
        save.remove(name);
        found.push(Step { save, ..step.clone() });
    }
    let keeps = |body: &Value| KEPT.iter().all(|key| has(step.body.as_ref(), key) == has(Some(body), key));
    let bodies = step.body.iter().flat_map(without_one).filter(keeps);
    found.extend(bodies.map(|body| Step { body: Some(body), ..step.clone() }));
    found
}

fn has(body: Option<&Value>, key: &str) -> bool {
    body.is_some_and(|body| body.to_string().contains(key))
}

/// Values that are this one without one of its parts, the largest parts first.
fn without_one(value: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    match value {
        Value::Object(map) => {
            for key in map.keys() {
                let mut rest = map.clone();
                rest.remove(key);
                found.push(Value::Object(rest));
            }
            for (key, child) in map {
                found.extend(without_one(child).into_iter().map(|child| {
                    let mut rest = map.clone();
                    rest.insert(key.clone(), child);
                    Value::Object(rest)
                }));
            }
        }
        Value::Array(items) => {
            for index in 0..items.len() {
                let mut rest = items.clone();
                rest.remove(index);
                found.push(Value::Array(rest));
            }
            for (index, child) in items.iter().enumerate() {
                found.extend(without_one(child).into_iter().map(|child| {
                    let mut rest = items.clone();
                    rest[index] = child;
                    Value::Array(rest)
                }));
            }
        }
        _ => {}
    }
    found
}

#[test]
fn each_part_is_left_out_once() {
    let value = serde_json::json!({"a": [1, {"b": 2}], "c": {}});
    let found: Vec<String> = without_one(&value).iter().map(Value::to_string).collect();
    assert_eq!(
        found,
        [
            r#"{"c":{}}"#,
            r#"{"a":[1,{"b":2}]}"#,
            r#"{"a":[{"b":2}],"c":{}}"#,
            r#"{"a":[1],"c":{}}"#,
            r#"{"a":[1,{}],"c":{}}"#
        ]
    );
}
