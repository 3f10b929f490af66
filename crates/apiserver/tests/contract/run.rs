//! Runs one row on one server and returns its answers, normalised.

use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

use crate::client::{self, Answer, Connection, Events, Target};
use crate::normal::Normal;
use crate::row::{Row, Step};

/// Headers that are part of the contract.
const HEADERS: [&str; 9] = [
    "content-type",
    "cache-control",
    "warning",
    "retry-after",
    "content-encoding",
    "location",
    "vary",
    "www-authenticate",
    "x-content-type-options",
];
/// What stands for the end of an answer among its events.
const END: &str = "END";
const PAUSE: Duration = Duration::from_millis(40);

/// One row at work.
struct Runner<'a> {
    target: &'a Target,
    connection: Connection,
    variables: BTreeMap<String, String>,
    kept: BTreeMap<String, Bytes>,
    open: BTreeMap<String, Events>,
    normal: Normal,
    patience: Duration,
}

/// The answers of a row; or why there are not all of them.
pub(crate) async fn run(target: &Target, row: &Row, patience: Duration) -> Result<Value, String> {
    let connection = target.connect().await?;
    let mut variables = row.given.clone();
    variables.insert("ns".to_owned(), row.name.clone());
    let mut runner = Runner {
        target,
        connection,
        variables,
        kept: BTreeMap::new(),
        open: BTreeMap::new(),
        normal: Normal::default(),
        patience,
    };
    runner.prepare(row).await?;
    let mut answers = Vec::new();
    for (index, step) in row.requests.iter().enumerate() {
        let answer =
            runner.step(step).await.map_err(|why| format!("request {index}: {} {why}", step.r#do))?;
        answers.extend(answer);
    }
    Ok(Value::Array(answers))
}

impl Runner<'_> {
    /// Makes the row's namespace.
    async fn prepare(&mut self, row: &Row) -> Result<(), String> {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": row.name}});
        let namespace =
            Step { r#do: "POST /api/v1/namespaces".into(), body: Some(body), quiet: true, ..Step::default() };
        self.step(&namespace).await?;
        if row.account {
            let account = "GET ~/serviceaccounts/default".into();
            self.step(&Step { r#do: account, code: Some(200), quiet: true, ..Step::default() }).await?;
        }
        Ok(())
    }

    /// The answer of one request, if it is looked at.
    async fn step(&mut self, step: &Step) -> Result<Option<Value>, String> {
        if let Some(name) = &step.read {
            let mut events = self.open.remove(name).ok_or("was never opened")?;
            let seen = match &step.through {
                Some(last) => self.events_through(&mut events, last).await?,
                None => self.events(&mut events, step.watch.unwrap_or(1)).await?,
            };
            self.open.insert(name.clone(), events);
            return Ok(Some(json!({"read": name, "events": seen})));
        }
        let response = timeout(self.patience, self.send(step)).await.map_err(|_| "gave no answer")??;
        let (code, headers) = (response.status().as_u16(), response.headers().clone());
        if code == 200 && (step.watch.is_some() || step.open.is_some()) {
            let mut events = Events::new(response.into_body());
            let seen = self.events(&mut events, step.watch.unwrap_or(0)).await?;
            if let Some(name) = &step.open {
                self.open.insert(name.clone(), events);
            }
            let head = self.head(step, code, &headers);
            return Ok(Some(with(head, "events", seen.into())));
        }
        let answer = timeout(self.patience, client::read(response)).await.map_err(|_| "gave no end")??;
        let answer = self.settled(step, answer).await?;
        self.remember(step, &answer)?;
        if step.quiet {
            let text = String::from_utf8_lossy(&answer.body);
            return if answer.code < 300 { Ok(None) } else { Err(format!("failed: {} {text}", answer.code)) };
        }
        let head = self.head(step, answer.code, &answer.headers);
        let body = self.body(step, &answer);
        Ok(Some(with(head, "body", body)))
    }

    /// Asks again until the answer is what the row waits for.
    async fn settled(&mut self, step: &Step, mut answer: Answer) -> Result<Answer, String> {
        let begin = Instant::now();
        while !is_settled(step, &answer) {
            if begin.elapsed() > self.patience {
                let text = String::from_utf8_lossy(&answer.body).into_owned();
                return Err(format!("never became what was waited for: {} {text}", answer.code));
            }
            sleep(PAUSE).await;
            let response = timeout(self.patience, self.send(step)).await.map_err(|_| "gave no answer")??;
            answer = client::read(response).await?;
        }
        Ok(answer)
    }

    async fn events(&mut self, events: &mut Events, count: usize) -> Result<Vec<Value>, String> {
        let mut seen: Vec<Value> = Vec::new();
        while seen.len() < count && seen.last().is_none_or(|event| event != END) {
            let next = timeout(self.patience, self.event(events)).await;
            let next = next.map_err(|_| format!("sent {} events instead of {count}: {seen:?}", seen.len()));
            seen.push(next??);
        }
        Ok(seen)
    }

    /// All events up to the first one of the object of this name.
    async fn events_through(&mut self, events: &mut Events, last: &str) -> Result<Vec<Value>, String> {
        let mut seen: Vec<Value> = Vec::new();
        while seen.last().is_none_or(|event| event != END && event["object"]["metadata"]["name"] != last) {
            let next = timeout(self.patience, self.event(events)).await;
            seen.push(next.map_err(|_| format!("sent nothing about {last}: {seen:?}"))??);
        }
        Ok(seen)
    }

    /// The next event, normalised.
    async fn event(&mut self, events: &mut Events) -> Result<Value, String> {
        let Some(line) = events.next().await? else { return Ok(json!(END)) };
        let mut event = serde_json::from_slice(&line).map_err(|e| format!("sent no JSON: {e}"))?;
        self.normal.value(&mut event);
        Ok(event)
    }

    async fn send(&mut self, step: &Step) -> Result<http::Response<hyper::body::Incoming>, String> {
        let line = self.fill(&step.r#do);
        let (method, path) = line.split_once(' ').ok_or("is not METHOD path")?;
        let namespace = format!("/namespaces/{}", self.variables.get("ns").cloned().unwrap_or_default());
        let path = match path.strip_prefix('~') {
            Some(rest) => format!("/api/v1{namespace}{rest}"),
            None => path.replacen("/~", &namespace, 1),
        };
        let (media, body) = self.content(step)?;
        let mut headers = Vec::new();
        let token = step.token.as_ref().map_or_else(|| self.target.token.clone(), |token| self.fill(token));
        if !token.is_empty() {
            headers.push(("authorization".to_owned(), format!("Bearer {token}")));
        }
        headers.extend(media.map(|media| ("content-type".to_owned(), media)));
        headers.extend(step.accept.iter().map(|accept| ("accept".to_owned(), accept.clone())));
        headers.extend(step.user.iter().map(|user| ("impersonate-user".to_owned(), self.fill(user))));
        headers.extend(step.headers.iter().map(|(name, value)| (name.clone(), self.fill(value))));
        match client::send(&mut self.connection, method, &path, &headers, body.clone()).await {
            Ok(response) => Ok(response),
            // A server hangs up on somebody it does not know, and may do so before the next request.
            Err(_) => {
                self.connection = self.target.connect().await?;
                client::send(&mut self.connection, method, &path, &headers, body).await
            }
        }
    }

    /// The media type and the body of a request.
    fn content(&self, step: &Step) -> Result<(Option<String>, Bytes), String> {
        use base64::Engine;
        let body = if let Some(body) = &step.body {
            Some(Bytes::from(self.fill(&body.to_string())))
        } else if let Some(text) = &step.text {
            let text = self.fill(text);
            let blanks = " ".repeat(step.pad.saturating_sub(text.len()));
            Some(Bytes::from(text + &blanks))
        } else if let Some(text) = &step.base64 {
            let bytes = base64::engine::general_purpose::STANDARD.decode(text);
            Some(Bytes::from(bytes.map_err(|e| e.to_string())?))
        } else if let Some(name) = &step.kept {
            Some(self.kept.get(name).cloned().ok_or("was never kept")?)
        } else {
            None
        };
        let media = match (step.patch.as_deref(), &step.r#type) {
            (_, Some(media)) => Some(media.clone()),
            (Some("apply"), _) => Some("application/apply-patch+yaml".to_owned()),
            (Some("strategic"), _) => Some("application/strategic-merge-patch+json".to_owned()),
            (Some(patch), _) => Some(format!("application/{patch}-patch+json")),
            (None, None) => body.as_ref().map(|_| "application/json".to_owned()),
        };
        Ok((media, body.unwrap_or_default()))
    }

    fn fill(&self, text: &str) -> String {
        let mut filled = text.to_owned();
        for (name, value) in &self.variables {
            filled = filled.replace(&format!("${{{name}}}"), value);
        }
        filled
    }

    fn remember(&mut self, step: &Step, answer: &Answer) -> Result<(), String> {
        if let Some(name) = &step.keep {
            self.kept.insert(name.clone(), answer.body.clone());
        }
        if step.save.is_empty() {
            return Ok(());
        }
        let body: Value =
            serde_json::from_slice(&answer.body).map_err(|e| format!("answered no JSON: {e}"))?;
        for (name, pointer) in &step.save {
            let once =
                pointer.ends_with("??") && self.variables.get(name).is_some_and(|value| !value.is_empty());
            let value = match body.pointer(pointer.trim_end_matches('?')) {
                _ if once => continue,
                None if pointer.ends_with('?') => self.variables.get(name).cloned().unwrap_or_default(),
                Some(Value::String(text)) => text.clone(),
                Some(value) => value.to_string(),
                None => return Err(format!("has nothing at {pointer}: {} {body}", answer.code)),
            };
            self.variables.insert(name.clone(), value);
        }
        Ok(())
    }

    fn head(&mut self, step: &Step, code: u16, headers: &http::HeaderMap) -> Value {
        let mut shown = BTreeMap::new();
        for name in HEADERS {
            let values: Vec<&str> =
                headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
            if !values.is_empty() {
                let mut value = json!(values.join(" | "));
                self.normal.value(&mut value);
                shown.insert(name, value);
            }
        }
        json!({"do": step.r#do, "code": code, "headers": shown})
    }

    fn body(&mut self, step: &Step, answer: &Answer) -> Value {
        let mut body = crate::content::read(&answer.headers, &answer.body);
        for pointer in &step.without {
            remove(&mut body, pointer);
        }
        self.normal.value(&mut body);
        if step.unordered {
            sort_causes(&mut body);
        }
        if step.only.is_empty() {
            return body;
        }
        let chosen = step.only.iter().map(|p| (p.clone(), body.pointer(p).cloned().unwrap_or(Value::Null)));
        Value::Object(chosen.collect())
    }
}

fn is_settled(step: &Step, answer: &Answer) -> bool {
    if step.code.is_some_and(|code| code != answer.code) {
        return false;
    }
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let found = |pointer: &str| body.pointer(pointer).cloned().unwrap_or_default();
    let waits = |finalizer: &Value| finalizer == "orphan" || finalizer == "foregroundDeletion";
    let finalizers = found("/metadata/finalizers");
    let uncollected = step.collected && finalizers.as_array().is_some_and(|all| all.iter().any(waits));
    !uncollected && step.until.iter().all(|(pointer, wanted)| found(pointer) == *wanted)
}

/// The causes in the order of their text, and no message, which lists them in another.
fn sort_causes(body: &mut Value) {
    remove(body, "/message");
    if let Some(causes) = body.pointer_mut("/details/causes").and_then(Value::as_array_mut) {
        causes.sort_by_key(Value::to_string);
    }
}

fn with(mut head: Value, name: &str, value: Value) -> Value {
    if let Some(map) = head.as_object_mut() {
        map.insert(name.to_owned(), value);
    }
    head
}

/// Takes out what is at a pointer; `*` is every element of a list.
fn remove(value: &mut Value, pointer: &str) {
    let Some((parent, last)) = pointer.rsplit_once('/') else { return };
    if let Some((list, rest)) = pointer.split_once("/*") {
        for item in value.pointer_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            remove(item, rest);
        }
    } else if let Some(map) = value.pointer_mut(parent).and_then(Value::as_object_mut) {
        map.remove(last);
    }
}
