//! Faults of a watch that is under way.

use bytes::Bytes;
use futures::stream::{self, StreamExt};
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, BodyStream, StreamBody, combinators::UnsyncBoxBody};
use serde_json::json;
use tower::BoxError;

use super::{Faults, Reply, full, status};

type Inner = BodyStream<UnsyncBoxBody<Bytes, BoxError>>;

struct Disturbed {
    inner: Inner,
    faults: Faults,
    /// What came of the server and is no whole line yet.
    rest: Vec<u8>,
    /// Lines that are due, in order.
    ready: std::collections::VecDeque<Vec<u8>>,
    over: bool,
    /// The connection is half open: nothing arrives any more, not even its end.
    silent: bool,
}

/// Lets the events of a watch suffer.
pub(super) fn disturb(faults: Faults, reply: Reply) -> Reply {
    reply.map(|body| {
        let inner = BodyStream::new(body);
        let (rest, ready) = (Vec::new(), Default::default());
        let state = Disturbed { inner, faults, rest, ready, over: false, silent: false };
        let lines = stream::unfold(state, |mut state| async move {
            let line = state.next().await?;
            Some((line.map(|line| Frame::data(Bytes::from(line))), state))
        });
        StreamBody::new(lines.boxed()).boxed_unsync()
    })
}

/// A watch whose only event says that its version is too old.
pub(super) fn expired() -> Reply {
    let event = json!({ "type": "ERROR", "object": status(StatusCode::GONE, "Expired") });
    let reply = Response::builder().header(http::header::CONTENT_TYPE, "application/json");
    reply.body(full(format!("{event}\n"))).expect("a legal answer")
}

impl Disturbed {
    async fn next(&mut self) -> Option<Result<Vec<u8>, BoxError>> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(Ok(line));
            }
            if self.silent {
                return std::future::pending().await;
            }
            if self.over {
                return None;
            }
            match self.inner.next().await {
                None => self.over = true,
                Some(Err(error)) => {
                    self.over = true;
                    return Some(Err(error));
                }
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.rest.extend_from_slice(&data);
                        self.split().await;
                    }
                }
            }
        }
    }

    async fn split(&mut self) {
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let tail = self.rest.split_off(end + 1);
            let line = std::mem::replace(&mut self.rest, tail);
            self.suffer(line).await;
            if self.over || self.silent {
                return;
            }
        }
    }

    /// One event: perhaps late, twice, broken, or the last, with or without a word.
    async fn suffer(&mut self, line: Vec<u8>) {
        let rates = *self.faults.rates();
        if self.faults.strikes(rates.delayed) {
            tokio::time::sleep(self.faults.up_to(rates.max_delay)).await;
        }
        if self.faults.strikes(rates.garbled) {
            let half = line.get(..line.len() / 2).unwrap_or_default();
            self.ready.push_back([half, b"\x07}\n".as_slice()].concat());
            // Nobody can go on from here without a gap, so a real connection is over too.
            self.over = true;
            return;
        }
        if self.faults.strikes(rates.duplicated) {
            self.ready.push_back(line.clone());
        }
        self.ready.push_back(line);
        if self.faults.strikes(rates.cut) {
            self.over = true;
        }
        self.silent |= self.faults.strikes(rates.half_open);
    }
}
