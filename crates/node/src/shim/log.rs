//! The log of a container: output in, dated lines out, in files of a limited size.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::now;
use crate::runtime::LogRules;
use crate::runtime::files::LOG;

/// Longer lines are cut into parts, so that neither writer nor reader needs to hold a line of any length.
const LONGEST: usize = 16 * 1024;
/// Output is collected up to this size before it is written.
const BATCH: usize = 128 * 1024;

/// Where output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Stdout,
    Stderr,
}

/// The log files of one run.
#[derive(Debug)]
pub(super) struct Log {
    dir: PathBuf,
    rules: LogRules,
    file: Option<File>,
    /// What the current file holds.
    size: u64,
    /// Whole records that are not written yet.
    batch: Vec<u8>,
    /// Beginnings of lines whose end has not come yet.
    open: [Vec<u8>; 2],
    /// Lines that could not be written, and why.
    lost: u64,
    cause: String,
}

impl Log {
    pub(super) fn new(dir: &Path, rules: LogRules) -> Self {
        let mut log = Self {
            dir: dir.to_owned(),
            rules,
            file: None,
            size: 0,
            batch: Vec::new(),
            open: [Vec::new(), Vec::new()],
            lost: 0,
            cause: String::new(),
        };
        let _tried_again_with_the_first_line = log.reopen();
        log
    }

    /// Takes output as it comes; all of it that makes whole lines is in the file afterwards.
    pub(super) fn take(&mut self, source: Source, mut bytes: &[u8]) {
        let stamp = format!("{:.9}", now());
        let mut open = std::mem::take(self.open_line(source));
        while !bytes.is_empty() {
            let room = LONGEST - open.len();
            let piece = bytes.get(..room.min(bytes.len())).unwrap_or_default();
            let end = piece.iter().position(|&byte| byte == b'\n');
            let (line, used) = match end {
                Some(end) => (piece.get(..end).unwrap_or_default(), end + 1),
                None => (piece, piece.len()),
            };
            bytes = bytes.get(used..).unwrap_or_default();
            if end.is_some() || open.len() + line.len() == LONGEST {
                self.record(&stamp, source, end.is_some(), &open, line);
                open.clear();
            } else {
                open.extend_from_slice(line);
            }
        }
        *self.open_line(source) = open;
        self.flush();
    }

    /// A last line without an end is written as a part: whoever reads the log gets exactly what was written.
    pub(super) fn close(&mut self, source: Source) {
        let open = std::mem::take(self.open_line(source));
        if !open.is_empty() {
            self.record(&format!("{:.9}", now()), source, false, &open, &[]);
        }
        self.flush();
    }

    /// Writes what there is of lines that have not ended: somebody may wait for a prompt.
    pub(super) fn show_open_lines(&mut self) {
        self.close(Source::Stdout);
        self.close(Source::Stderr);
    }

    /// What could not be written, if there is something: it is said with the next line that can be.
    pub(super) fn unsaid(&self) -> Option<String> {
        (self.lost > 0).then(|| format!("… {} lines lost: {}", self.lost, self.cause))
    }

    fn open_line(&mut self, source: Source) -> &mut Vec<u8> {
        let [stdout, stderr] = &mut self.open;
        match source {
            Source::Stdout => stdout,
            Source::Stderr => stderr,
        }
    }

    fn record(&mut self, stamp: &str, source: Source, whole: bool, head: &[u8], tail: &[u8]) {
        let full = self.size + self.batch.len() as u64 >= self.rules.max_bytes;
        if full || self.batch.len() >= BATCH {
            self.flush();
        }
        if full && self.size > 0 {
            self.rotate();
        }
        put(&mut self.batch, stamp, source, whole, head, tail);
    }

    /// Writes what was collected. What does not fit on the disk is counted, never waited for: a full disk must not end
    /// a training run.
    fn flush(&mut self) {
        if self.batch.is_empty() && self.lost == 0 {
            return;
        }
        let mut batch = std::mem::take(&mut self.batch);
        let told = self.lost;
        if let Some(text) = self.unsaid() {
            let mut with_note = Vec::with_capacity(batch.len() + 128);
            put(&mut with_note, &format!("{:.9}", now()), Source::Stderr, true, text.as_bytes(), &[]);
            with_note.extend_from_slice(&batch);
            batch = with_note;
        }
        match self.write(&batch) {
            Ok(()) => self.lost = 0,
            Err((written, error)) => {
                let count = |part: Option<&[u8]>| lines(part.unwrap_or_default());
                let kept = count(batch.get(..written));
                // The note itself is the first record of the batch.
                let note = u64::from(told > 0);
                self.lost = if kept >= note && note > 0 { 0 } else { told };
                self.lost += count(batch.get(written..)) - if kept == 0 { note } else { 0 };
                self.cause = error.to_string();
            }
        }
        batch.clear();
        self.batch = batch;
    }

    /// Writes all, or whole records up to the returned position.
    fn write(&mut self, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
        if self.file.is_none() {
            self.reopen().map_err(|error| (0, error))?;
        }
        let Some(file) = self.file.as_mut() else { return Ok(()) };
        let mut written = 0;
        while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
            match file.write(rest) {
                Ok(count) if count > 0 => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => {
                    let error = other.err().unwrap_or_else(|| io::ErrorKind::WriteZero.into());
                    let part = bytes.get(..written).unwrap_or_default();
                    let whole = part.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
                    self.size += whole as u64;
                    let _half_a_record_at_worst = file.set_len(self.size);
                    return Err((whole, error));
                }
            }
        }
        self.size += written as u64;
        Ok(())
    }

    fn rotate(&mut self) {
        let name = |n: u32| match n {
            0 => self.dir.join(LOG),
            n => self.dir.join(format!("{LOG}.{n}")),
        };
        let kept = self.rules.max_files.max(1);
        let _none_before = fs::remove_file(name(kept - 1));
        for n in (1..kept).rev() {
            let _gap = fs::rename(name(n - 1), name(n));
        }
        self.file = None;
        let _tried_again_with_the_next_line = self.reopen();
    }

    fn reopen(&mut self) -> io::Result<()> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(self.dir.join(LOG))?;
        self.size = file.metadata()?.len();
        self.file = Some(file);
        Ok(())
    }
}

fn put(batch: &mut Vec<u8>, stamp: &str, source: Source, whole: bool, head: &[u8], tail: &[u8]) {
    batch.extend_from_slice(stamp.as_bytes());
    batch.extend_from_slice(match source {
        Source::Stdout => b" stdout ",
        Source::Stderr => b" stderr ",
    });
    batch.extend_from_slice(if whole { b"F " } else { b"P " });
    batch.extend_from_slice(head);
    batch.extend_from_slice(tail);
    batch.push(b'\n');
}

fn lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte == b'\n').count() as u64
}
