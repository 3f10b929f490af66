//! What each step did or waits for: the answer to "why is my job not running?".

use std::fmt;

/// An event to be shown on the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Something the user should look at.
    pub warning: bool,
    /// One word.
    pub reason: String,
    /// One sentence.
    pub message: String,
}

impl Notice {
    /// Something went as it should.
    pub fn normal(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { warning: false, reason: reason.into(), message: message.into() }
    }

    /// Something needs attention.
    pub fn warning(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { warning: true, reason: reason.into(), message: message.into() }
    }
}

/// One line of a [`Report`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Which step speaks.
    pub step: &'static str,
    /// What it did, or what it waits for and why.
    pub text: String,
}

/// What happened in a plan, step by step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// In the order of the steps.
    pub lines: Vec<Line>,
}

impl Report {
    /// Adds a line.
    pub fn say(&mut self, step: &'static str, text: impl Into<String>) {
        self.lines.push(Line { step, text: text.into() });
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, line) in self.lines.iter().enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            write!(f, "{separator}{}: {}", line.step, line.text)?;
        }
        Ok(())
    }
}
