//! For tests: an API server that answers from a script and notes what it was asked.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::stream;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// What was asked and what will be answered.
#[derive(Clone, Default)]
pub(crate) struct Script(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    answers: VecDeque<Reply>,
    asked: Vec<String>,
    bodies: Vec<Value>,
}

/// One answer.
pub(crate) enum Reply {
    Json(u16, Value),
    Header(u16, &'static str, &'static str),
    /// The lines of a watch; the stream ends after them, or stays open.
    Lines(Vec<String>, bool),
    /// Nobody ever answers.
    Silence,
}

impl Script {
    pub(crate) fn new(answers: impl IntoIterator<Item = Reply>) -> Self {
        let script = Self::default();
        script.0.lock().unwrap().answers.extend(answers);
        script
    }

    pub(crate) fn client(&self) -> Client {
        let script = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let script = script.clone();
            async move { script.answer(request).await }
        });
        Client::new(service, "default")
    }

    async fn answer(&self, request: Request<Body>) -> Result<Answer, Infallible> {
        let line = format!("{} {}", request.method(), request.uri());
        let body = request.into_body().collect_bytes().await.unwrap();
        let reply = {
            let mut state = self.0.lock().unwrap();
            state.asked.push(line);
            state.bodies.push(serde_json::from_slice(&body).unwrap_or_default());
            state.answers.pop_front()
        };
        let Some(reply) = reply else { return futures::future::pending().await };
        match reply {
            Reply::Silence => futures::future::pending().await,
            Reply::Json(code, body) => {
                Ok(Response::builder().status(code).body(full(body.to_string())).unwrap())
            }
            Reply::Header(code, name, value) => {
                Ok(Response::builder().status(code).header(name, value).body(full("{}".into())).unwrap())
            }
            Reply::Lines(lines, open) => {
                let lines = lines.into_iter().map(|line| Ok(http_body::Frame::data(Bytes::from(line))));
                let ended = stream::iter(lines);
                let body = if open {
                    StreamBody::new(futures::StreamExt::chain(ended, stream::pending())).boxed_unsync()
                } else {
                    StreamBody::new(ended).boxed_unsync()
                };
                Ok(Response::new(body))
            }
        }
    }

    /// `GET /path?query`, in order.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.0.lock().unwrap().asked.clone()
    }

    /// What was sent with each request.
    pub(crate) fn bodies(&self) -> Vec<Value> {
        self.0.lock().unwrap().bodies.clone()
    }
}

fn full(text: String) -> UnsyncBoxBody<Bytes, Infallible> {
    Full::new(Bytes::from(text)).boxed_unsync()
}

/// A `Status` as a server sends it.
pub(crate) fn status(code: u16, reason: &str, message: &str) -> Reply {
    let body = json!({ "kind": "Status", "code": code, "reason": reason, "message": message });
    Reply::Json(code, body)
}
