//! Places in the text of an expression, and errors drawn under them.
//!
//! A place is the number of characters before it. Errors look as the real server's compiler prints them: the line, and
//! a marker below it.

/// Most errors of one expression that are told.
const MOST: usize = 100;
/// A longer line is not shown.
const LONGEST: usize = 16_384;

/// One thing that is wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(super) at: usize,
    pub(super) message: String,
}

impl Problem {
    pub(super) fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }
}

/// All problems of an expression, in the order of their places.
pub(crate) fn report(text: &str, mut problems: Vec<Problem>) -> String {
    problems.sort_by_key(|problem| problem.at);
    let more = problems.len().saturating_sub(MOST);
    let mut shown: Vec<String> = problems.iter().take(MOST).map(|problem| draw(text, problem)).collect();
    if more > 0 {
        shown.push(format!("{more} more errors were truncated"));
    }
    shown.join("\n")
}

/// The place that a line and a column, both counted from one, stand for.
pub(crate) fn place(text: &str, line: usize, column: usize) -> usize {
    let before: usize =
        text.split('\n').take(line.saturating_sub(1)).map(|line| line.chars().count() + 1).sum();
    before + column.saturating_sub(1)
}

/// A problem found by the parser.
pub(crate) fn found(text: &str, (line, column): (isize, isize), message: &str) -> Problem {
    let at = place(text, usize::try_from(line).unwrap_or(1), usize::try_from(column).unwrap_or(1));
    Problem::new(at, message)
}

fn draw(text: &str, problem: &Problem) -> String {
    let (mut number, mut column, mut line) = (1, problem.at, "");
    for (index, current) in text.split('\n').enumerate() {
        (number, line) = (index + 1, current);
        let length = current.chars().count();
        if column <= length {
            break;
        }
        column -= length + 1;
    }
    let head = format!("ERROR: <input>:{number}:{}: {}", column + 1, problem.message);
    if line.len() > LONGEST {
        return head;
    }
    let line = line.replace('\t', " ");
    // Wide characters get wide dots, so that the marker stands below its place.
    let dots: String =
        line.chars().take(column).map(|c| if c.is_ascii() { '.' } else { '\u{ff0e}' }).collect();
    let marker = if line.chars().nth(column).is_some_and(|c| !c.is_ascii()) { '\u{ff3e}' } else { '^' };
    format!("{head}\n | {line}\n | {dots}{marker}")
}
