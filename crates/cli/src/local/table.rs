//! The rows below the log of a `run` on a terminal: one per replica, kept up to date.
//!
//! A picture is written in one piece, and over the one before it rather than after erasing that, so that nothing flickers.

use std::fmt::Write as _;
use std::io::Write as _;

use console::{Term, measure_text_width, strip_ansi_codes, truncate_str};

use super::display::Verdict;

/// What is shown of a replica.
pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) state: String,
    pub(crate) up: String,
    pub(crate) cpus: String,
    pub(crate) memory: String,
    pub(crate) tail: String,
}

/// The rows, and what is to be written above them.
pub(crate) struct Table {
    terminal: Term,
    colours: bool,
    rows: Vec<Row>,
    /// Lines that wait to be written above the rows.
    above: Vec<u8>,
    /// Lines of the rows that are on the screen, the header included.
    shown: usize,
}

/// More of them wait no longer to be written.
const ENOUGH: usize = 64 * 1024;
/// Rows leave so many lines of the terminal to the log.
const LOG_LINES: usize = 6;
/// When the terminal does not say how large it is.
const SIZE: (u16, u16) = (24, 80);

impl Table {
    /// On standard output, with colours unless the environment says otherwise (<https://no-color.org>).
    pub(crate) fn new() -> Self {
        let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { terminal: Term::stdout(), colours, rows: Vec::new(), above: Vec::new(), shown: 0 }
    }

    /// A line of a log, to be written above the rows.
    pub(crate) fn line(&mut self, label: &str, bytes: &[u8]) {
        let label = self.dim(&format!("[{label}]"));
        self.above(&[label.as_bytes(), b" ", bytes].concat());
    }

    /// Any line, to be written above the rows.
    pub(crate) fn above(&mut self, line: &[u8]) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        self.above.extend_from_slice(line);
        // A program may leave its colours on.
        let reset: &[u8] = if line.contains(&b'\x1b') { b"\x1b[0m\x1b[K\n" } else { b"\x1b[K\n" };
        self.above.extend_from_slice(reset);
        if self.above.len() > ENOUGH {
            self.draw();
        }
    }

    /// Shows these rows from now on.
    pub(crate) fn show(&mut self, rows: Vec<Row>) {
        self.rows = rows;
        self.draw();
    }

    /// Writes what waits.
    pub(crate) fn flush(&mut self) {
        if !self.above.is_empty() {
            self.draw();
        }
    }

    /// The end: these lines take the place of the rows.
    pub(crate) fn close(&mut self, verdicts: &[Verdict]) {
        for verdict in verdicts {
            let state = self.coloured(verdict.state, verdict.state);
            self.above(format!("trainyard: {}: {state} {}", verdict.job, verdict.rest).as_bytes());
        }
        self.rows.clear();
        self.draw();
    }

    fn draw(&mut self) {
        let (height, width) = self.terminal.size_checked().unwrap_or(SIZE);
        let lines = self.lines(usize::from(height), usize::from(width));
        let mut picture = Vec::new();
        if self.shown > 0 {
            picture.extend_from_slice(format!("\x1b[{}A\r", self.shown).as_bytes());
        }
        picture.append(&mut self.above);
        for line in &lines {
            picture.extend_from_slice(line.as_bytes());
            picture.extend_from_slice(b"\x1b[K\n");
        }
        // There were more rows before.
        picture.extend_from_slice(b"\x1b[J");
        self.shown = lines.len();
        let mut out = std::io::stdout().lock();
        // A terminal that went away is no reason to stop the job.
        let _ = out.write_all(&picture).and_then(|()| out.flush());
    }

    fn lines(&self, height: usize, width: usize) -> Vec<String> {
        if self.rows.is_empty() {
            return Vec::new();
        }
        let widest = |text: fn(&Row) -> &str, header: &str| {
            let cells = self.rows.iter().map(|row| measure_text_width(text(row)));
            cells.max().unwrap_or(0).max(header.len())
        };
        let label = widest(|row| &row.label, "REPLICA");
        let state = widest(|row| &row.state, "STATE");
        let header = Row {
            label: "REPLICA".into(),
            state: "STATE".into(),
            up: "UP".into(),
            cpus: "CPU".into(),
            memory: "MEMORY".into(),
            tail: "LAST LINE".into(),
        };
        let room = height.saturating_sub(LOG_LINES + 3).max(1);
        let left_out = self.rows.len().saturating_sub(room);
        let header = self.dim(&text(&header, label, state, width, |_, state| state.to_owned()));
        let mut lines = vec![String::new(), header];
        lines.extend(
            self.rows
                .iter()
                .take(room)
                .map(|row| text(row, label, state, width, |name, padded| self.coloured(name, padded))),
        );
        if left_out > 0 {
            lines.push(self.dim(&format!("and {left_out} more")));
        }
        lines
    }

    fn dim(&self, text: &str) -> String {
        if self.colours { format!("\x1b[90m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// A state in its colour; `state` may say more after a space.
    fn coloured(&self, state: &str, text: &str) -> String {
        let code = match state.split(' ').next().unwrap_or_default() {
            _ if !self.colours => return text.to_owned(),
            "Running" | "Succeeded" => 32,
            "Failed" => 31,
            "Pending" => 90,
            _ => 33,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// One line, no wider than the terminal: a line that wraps would be two, and the next picture in the wrong place.
fn text(row: &Row, label: usize, state: usize, width: usize, paint: impl Fn(&str, &str) -> String) -> String {
    let mut line = pad(&row.label, label);
    let _ = write!(line, "  {}", paint(&row.state, &pad(&row.state, state)));
    let _ = write!(line, "  {:>6}  {:>5}  {:>8}  ", row.up, row.cpus, row.memory);
    // A progress bar writes its line again and again: the newest is the last.
    let plain = strip_ansi_codes(&row.tail);
    let tail = plain.rsplit('\r').find(|part| !part.trim().is_empty()).unwrap_or_default();
    line.extend(tail.chars().map(|c| if c.is_control() { ' ' } else { c }));
    truncate_str(line.trim_end(), width.saturating_sub(1).max(1), "…").into_owned()
}

fn pad(text: &str, width: usize) -> String {
    let gap = width.saturating_sub(measure_text_width(text));
    format!("{text}{}", " ".repeat(gap))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(count: usize, colours: bool) -> Table {
        let row = |n: usize| Row {
            label: format!("worker-{n}"),
            state: if n == 0 { "Running" } else { "CrashLoopBackOff" }.into(),
            up: "7s".into(),
            cpus: "0.98".into(),
            memory: "19 MiB".into(),
            tail: "epoch 2\r\x1b[31mepoch 3\tloss 0.411 ｗｉｄｅ\r".into(),
        };
        Table { colours, rows: (0..count).map(row).collect(), ..Table::new() }
    }

    #[test]
    fn columns_are_aligned_and_fit_the_terminal() {
        assert_eq!(
            table(2, false).lines(24, 80),
            [
                "",
                "REPLICA   STATE                 UP    CPU    MEMORY  LAST LINE",
                "worker-0  Running               7s   0.98    19 MiB  epoch 3 loss 0.411 ｗｉｄ…",
                "worker-1  CrashLoopBackOff      7s   0.98    19 MiB  epoch 3 loss 0.411 ｗｉｄ…",
            ]
        );
        for width in 1..100 {
            for line in table(2, true).lines(24, width) {
                assert!(measure_text_width(&line) < width.max(2), "{width}: {line:?}");
            }
        }
    }

    #[test]
    fn more_replicas_than_lines_are_counted() {
        let lines = table(100, false).lines(12, 80);
        assert_eq!((lines.len(), lines.last().map(String::as_str)), (6, Some("and 97 more")));
    }

    #[test]
    fn only_states_have_colours() {
        let lines = table(1, true).lines(24, 60);
        assert!(lines[2].starts_with("worker-0  \x1b[32mRunning\x1b[0m    "), "{:?}", lines[2]);
        assert!(!table(1, false).lines(24, 60).concat().contains('\x1b'));
    }
}
