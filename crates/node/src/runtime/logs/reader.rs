//! A reader of a log: where it is, and what it holds of lines that have not ended.

use std::collections::VecDeque;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::parts::{Part, parts};
use super::record::Record;
use super::tail;
use super::{LogQuery, LogSource};
use crate::lock;
use crate::runtime::files::{CLAIM, LOCK};
use crate::runtime::state::State;

const CHUNK: usize = 64 * 1024;
/// A line that is longer is handed on in pieces.
const LONGEST: usize = 1024 * 1024;

/// What a reader has to say.
#[derive(Debug)]
pub(super) enum Step {
    /// More of the log.
    Text(Bytes),
    /// Nothing yet; there may be more later.
    Wait,
    /// Nothing any more.
    Over,
}

#[derive(Debug)]
pub(super) struct Reader {
    dir: PathBuf,
    query: LogQuery,
    begun: bool,
    since: Option<String>,
    current: Option<Part>,
    newer: VecDeque<Part>,
    /// There is a newer file: what the current one holds now is all it will ever hold.
    settled: bool,
    /// The run was over before the last read.
    over: bool,
    /// What the log could not be told at its end was said.
    told: bool,
    /// Half a record.
    carry: Vec<u8>,
    /// Lines that have not ended, of stdout and stderr.
    open: [Open; 2],
    left: u64,
}

#[derive(Debug, Default)]
struct Open {
    text: Vec<u8>,
    /// Its beginning has been handed on already.
    begun: bool,
}

impl Reader {
    pub(super) fn new(dir: PathBuf, query: LogQuery) -> Self {
        Self {
            dir,
            begun: false,
            since: query.since.map(|since| format!("{since:.9}")),
            current: None,
            newer: VecDeque::new(),
            settled: false,
            over: false,
            told: false,
            carry: Vec::new(),
            open: <[Open; 2]>::default(),
            left: query.limit_bytes.unwrap_or(u64::MAX),
            query,
        }
    }

    /// Reads on.
    pub(super) fn step(&mut self) -> io::Result<Step> {
        if !self.begun {
            self.begin()?;
        }
        let mut chunk = vec![0; CHUNK];
        loop {
            if self.left == 0 {
                return Ok(Step::Over);
            }
            let count = self.current.as_mut().map_or(Ok(0), |part| part.file.read(&mut chunk))?;
            if count > 0 {
                let text = self.translate(chunk.get(..count).unwrap_or_default());
                if !text.is_empty() {
                    return Ok(Step::Text(self.cut(text)));
                }
                continue;
            }
            if let Some(step) = self.turn_page()? {
                return Ok(step);
            }
        }
    }

    /// Somebody waits for every word.
    pub(super) fn is_attended(&self) -> bool {
        self.query.parts
    }

    /// Finds where to begin.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        self.begun = true;
        let mut found = parts(&self.dir)?;
        let (first, at) = match self.query.tail_lines {
            Some(lines) => tail::begin(&found, lines)?,
            None => (0, 0),
        };
        self.newer = found.drain(first.min(found.len())..).collect();
        self.current = self.newer.pop_front();
        if let Some(part) = &mut self.current {
            part.file.seek(SeekFrom::Start(at))?;
        }
        Ok(())
    }

    /// At the end of a file: whether there is another one, or will be. Nothing if there is something to read.
    fn turn_page(&mut self) -> io::Result<Option<Step>> {
        if self.settled || self.current.is_none() {
            self.settled = false;
            if let Some(next) = self.newer.pop_front() {
                self.carry.clear();
                self.current = Some(next);
                return Ok(None);
            }
        }
        if self.newer.is_empty() && self.query.follow {
            self.newer = self.newer_parts()?;
        }
        if !self.newer.is_empty() {
            // It may have grown between its end and the look at its successors.
            self.settled = true;
            return Ok(None);
        }
        if self.query.follow && !self.over {
            self.over = is_over(&self.dir);
            return Ok(if self.over { None } else { Some(Step::Wait) });
        }
        let rest = self.rest();
        Ok(Some(if rest.is_empty() { Step::Over } else { Step::Text(self.cut(rest)) }))
    }

    fn newer_parts(&self) -> io::Result<VecDeque<Part>> {
        let mut found = parts(&self.dir)?;
        let own = self.current.as_ref().and_then(|own| found.iter().position(|part| part.inode == own.inode));
        Ok(found.drain(own.map_or(0, |own| own + 1)..).collect())
    }

    fn translate(&mut self, chunk: &[u8]) -> Vec<u8> {
        let mut text = Vec::with_capacity(chunk.len());
        self.carry.extend_from_slice(chunk);
        let carry = std::mem::take(&mut self.carry);
        let mut rest = carry.as_slice();
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            let (line, behind) = rest.split_at(end);
            rest = behind.get(1..).unwrap_or_default();
            if let Some(record) = Record::parse(line) {
                self.put(record, &mut text);
            }
        }
        self.carry = rest.to_vec();
        text
    }

    fn put(&mut self, record: Record<'_>, text: &mut Vec<u8>) {
        if self.since.as_ref().is_some_and(|since| record.time < since.as_bytes()) {
            return;
        }
        let source = if record.stderr { LogSource::Stderr } else { LogSource::Stdout };
        if self.query.source.is_some_and(|wanted| wanted != source) {
            return;
        }
        let [stdout, stderr] = &mut self.open;
        let open = if record.stderr { stderr } else { stdout };
        if self.query.timestamps && open.text.is_empty() && !open.begun {
            open.text.extend_from_slice(record.time);
            open.text.push(b' ');
        }
        open.text.extend_from_slice(record.text);
        if record.whole {
            open.text.push(b'\n');
        }
        if record.whole || self.query.parts || open.text.len() > LONGEST {
            open.begun = !record.whole;
            text.append(&mut open.text);
        }
    }

    /// Lines that never ended, and what a full disk did not let into the log.
    fn rest(&mut self) -> Vec<u8> {
        let mut rest: Vec<u8> =
            self.open.iter_mut().flat_map(|open| std::mem::take(&mut open.text)).collect();
        if std::mem::replace(&mut self.told, true) {
            return rest;
        }
        if let Ok(Some(State::Ended { exit, lost: Some(lost) })) = State::read(&self.dir) {
            let (time, mut text) = (format!("{:.9}", exit.finished_at), Vec::new());
            let record = Record { time: time.as_bytes(), stderr: true, whole: true, text: lost.as_bytes() };
            self.put(record, &mut text);
            if rest.last().is_some_and(|&byte| byte != b'\n') && !text.is_empty() {
                rest.push(b'\n');
            }
            rest.append(&mut text);
        }
        rest
    }

    fn cut(&mut self, mut text: Vec<u8>) -> Bytes {
        text.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= text.len() as u64;
        Bytes::from(text)
    }
}

/// Nobody will write to this log any more.
fn is_over(dir: &Path) -> bool {
    let claimed = dir.join(CLAIM).exists();
    let ended = State::read(dir).is_ok_and(|state| matches!(state, Some(State::Ended { .. })));
    ended || (claimed && !lock::is_held(&dir.join(LOCK)))
}
