//! Reading a container's log: while it runs or afterwards, across the files it was put aside in.

mod parts;
mod reader;
mod record;
mod tail;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use futures::stream::unfold;
use jiff::Timestamp;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use self::reader::{Reader, Step};

/// How often a log that is followed is looked at, and how often by somebody who waits for an answer.
const PAUSE: Duration = Duration::from_millis(50);
const SHORT_PAUSE: Duration = Duration::from_millis(10);
/// The longest last line anybody is told.
const LINE: usize = 16 * 1024;

/// Which part of a log is wanted, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// Goes on until the run is over and everything was read.
    pub follow: bool,
    /// Begins with the last so many lines.
    pub tail_lines: Option<u64>,
    /// Leaves out what was written before.
    pub since: Option<Timestamp>,
    /// Ends after so many bytes.
    pub limit_bytes: Option<u64>,
    /// Puts the time before each line.
    pub timestamps: bool,
    /// Only what came from here; everything if absent.
    pub source: Option<LogSource>,
    /// Hands on what there is of a line without waiting for its end.
    pub parts: bool,
}

/// Where a container's output comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSource {
    /// Its standard output.
    Stdout,
    /// Its standard error.
    Stderr,
}

/// Reads a log, oldest line first. Nothing is held in memory but the piece under way.
pub fn read(dir: PathBuf, query: LogQuery) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    follow(Reader::new(dir, query))
}

/// Reads what comes from now on: what is written after this returned is in it.
///
/// # Errors
/// When the log cannot be read.
pub(crate) async fn from_now_on(
    dir: PathBuf,
    source: LogSource,
) -> io::Result<impl Stream<Item = io::Result<Bytes>> + Send + 'static> {
    let query = LogQuery {
        follow: true,
        tail_lines: Some(0),
        source: Some(source),
        parts: true,
        ..LogQuery::default()
    };
    let begun = spawn_blocking(move || {
        let mut reader = Reader::new(dir, query);
        reader.begin().map(|()| reader)
    });
    Ok(follow(begun.await.map_err(io::Error::other)??))
}

fn follow(reader: Reader) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let pause = if reader.is_attended() { SHORT_PAUSE } else { PAUSE };
    unfold(Some(reader), move |reader| async move {
        let mut reader = reader?;
        loop {
            let done = spawn_blocking(move || {
                let step = reader.step();
                (reader, step)
            });
            match done.await {
                Ok((back, Ok(Step::Text(text)))) => return Some((Ok(text), Some(back))),
                Ok((_, Ok(Step::Over))) => return None,
                Ok((_, Err(error))) => return Some((Err(error), None)),
                Ok((back, Ok(Step::Wait))) => reader = back,
                Err(error) => return Some((Err(io::Error::other(error)), None)),
            }
            sleep(pause).await;
        }
    })
}

/// The last line, for a status: without its end, and not more than anybody would read.
pub fn last_line(dir: &Path) -> Option<String> {
    let text = tail_bytes(dir, 1, LINE);
    let line = text.trim_end_matches(['\n', '\r']);
    (!line.is_empty()).then(|| line.to_owned())
}

/// The end of the log: at most so many lines and so many bytes, as a termination message wants it.
pub fn tail_bytes(dir: &Path, max_lines: u64, max_bytes: usize) -> String {
    let query = LogQuery { tail_lines: Some(max_lines), ..LogQuery::default() };
    let mut reader = Reader::new(dir.to_owned(), query);
    let mut kept: Vec<u8> = Vec::new();
    while let Ok(Step::Text(text)) = reader.step() {
        kept.extend_from_slice(&text);
        let over = kept.len().saturating_sub(max_bytes);
        kept.drain(..over);
    }
    let mut text = String::from_utf8_lossy(&kept).into_owned();
    // A character that was cut in two is replaced by a longer one.
    while text.len() > max_bytes {
        text.remove(0);
    }
    text
}
