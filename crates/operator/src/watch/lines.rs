//! The lines of a watch, whatever frames they come in.

use std::borrow::Cow;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use kube::client::Body;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

use super::Error;

/// No object is larger; a line that is means that the end of a line was lost.
const LONGEST: usize = 64 << 20;

/// One event of a watch, its object left as text.
#[derive(Debug, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) type_: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) object: &'a RawValue,
}

/// Splits a body into lines.
#[derive(Debug)]
pub(super) struct Lines {
    body: Body,
    buffer: BytesMut,
    /// Bytes of the buffer that were searched already.
    searched: usize,
    end: Instant,
    slack: Duration,
    heard: Instant,
}

impl Lines {
    /// Gives up when the body has not ended at `end`, unless something came within the last `slack`.
    pub(super) fn new(body: Body, end: Instant, slack: Duration) -> Self {
        Self { body, buffer: BytesMut::new(), searched: 0, end, slack, heard: Instant::now() }
    }

    /// The next line that is not empty; nothing at the end. What comes after the last line's end is half a line of
    /// a connection that broke, and is dropped: it will come again.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if let Some(line) = self.take() {
                if line.trim_ascii().is_empty() {
                    continue;
                }
                return Ok(Some(line));
            }
            if self.buffer.len() > LONGEST {
                return Err(Error::Garbled);
            }
            // A server that does not end its watches is believed for as long as it says something.
            let patience = self.end.max(self.heard + self.slack);
            let frame = timeout_at(patience, self.body.frame()).await.map_err(|_| Error::Silent)?;
            let Some(frame) = frame else { return Ok(None) };
            self.heard = Instant::now();
            if let Ok(data) = frame.map_err(|error| Error::Stream(Box::new(error)))?.into_data() {
                self.buffer.extend_from_slice(&data);
            }
        }
    }

    fn take(&mut self) -> Option<Bytes> {
        let rest = self.buffer.get(self.searched..)?;
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.buffer.len();
            return None;
        };
        let line = self.buffer.split_to(self.searched + end + 1);
        self.searched = 0;
        Some(line.freeze())
    }
}
