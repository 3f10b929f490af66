//! The end of a container's log, for whoever wants to know why it failed.

use std::time::Duration;

use tracing::debug;
use trainyard_core::{Ask, Resource, Tail};

use crate::api;
use crate::shell::Shell;

/// A plan waits no longer for it: the log is worth a little, the job's end more.
const PATIENCE: Duration = Duration::from_secs(3);
const LINES: usize = 10;
const BYTES: usize = 2048;

/// Reads it; what cannot be read is empty.
pub(crate) async fn read(shell: &Shell, namespace: &str, ask: &Ask) -> Tail {
    let path = format!("{}/log", api::child(&Resource::POD, namespace, &ask.pod));
    let (lines, bytes) = (LINES.to_string(), (4 * BYTES).to_string());
    let pairs = [
        ("container", Some(ask.container.as_str())),
        ("tailLines", Some(lines.as_str())),
        ("limitBytes", Some(bytes.as_str())),
    ];
    let request = api::query(&path, &pairs);
    let answer = tokio::time::timeout(PATIENCE, shell.api.get_aside(&request)).await;
    let lines = match answer {
        Ok(Ok(answer)) if answer.code.is_success() => last_lines(&String::from_utf8_lossy(&answer.body)),
        Ok(Ok(answer)) => {
            debug!(pod = ask.pod, code = %answer.code, "the log cannot be read");
            Vec::new()
        }
        Ok(Err(error)) => {
            debug!(pod = ask.pod, %error, "the log cannot be read");
            Vec::new()
        }
        Err(_) => Vec::new(),
    };
    Tail { uid: ask.uid.clone(), lines }
}

/// As many whole lines from the end as there is room for, fit to be shown anywhere.
fn last_lines(text: &str) -> Vec<String> {
    let mut room = BYTES;
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines().rev().take(LINES) {
        let shown: String = line.chars().filter(|c| !c.is_control()).take(BYTES).collect();
        let Some(left) = room.checked_sub(shown.len()) else { break };
        room = left;
        if !shown.trim().is_empty() {
            lines.push(shown);
        }
    }
    lines.reverse();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_that_fit_are_shown() {
        assert_eq!(last_lines("a\n\n\u{1b}[31mb\r\n"), ["a", "[31mb"]);
        let long = format!("{}\nlast\n", "x".repeat(3000));
        assert_eq!(last_lines(&long), ["last"]);
        let many: String = (0..50).map(|n| format!("{n}\n")).collect();
        assert_eq!(last_lines(&many).first().map(String::as_str), Some("40"));
        assert!(last_lines("").is_empty());
    }
}
