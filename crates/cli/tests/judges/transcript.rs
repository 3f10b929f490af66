//! A transcript: commands, each followed by what the real server made of it.
//!
//! A command begins with `$ `; lines with `> ` go on with it. `#` at the start of a line before a command is a comment.
//! A command that fails ends with a line that tells its exit code.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::normal::normal;
use crate::servers::Side;

/// A command that has not ended by then hangs.
const PATIENCE: Duration = Duration::from_secs(180);

/// A command with what it printed, and the comments before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    comment: String,
    command: String,
    output: String,
}

pub(crate) struct Transcript {
    pub(crate) name: String,
    path: PathBuf,
    steps: Vec<Step>,
}

impl Transcript {
    /// Those of a folder beside this file, or the one that `TRAINYARD_TRANSCRIPT` names.
    pub(crate) fn all(folder: &str) -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/judges").join(folder);
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<PathBuf> = entries.filter(|path| path.is_file()).collect();
        files.sort();
        let only = std::env::var("TRAINYARD_TRANSCRIPT").unwrap_or_default();
        let all = files.iter().map(|file| Self::read(file));
        all.filter(|transcript| only.is_empty() || transcript.name == only).collect()
    }

    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        Self { name, path: path.to_owned(), steps: parse(&text) }
    }

    /// Runs every command on one side and gives back what it printed, in place of what was recorded.
    pub(crate) fn run(&self, side: &Side) -> Vec<Step> {
        let namespace = format!("t-{}", self.name);
        let set_up = format!(
            "kubectl create namespace {namespace} && kubectl config set-context --current --namespace {namespace} && \
             until kubectl get serviceaccount default && kubectl get configmap kube-root-ca.crt; do sleep 0.1; done"
        );
        let made = run(side, &set_up);
        assert!(made.starts_with("namespace/"), "{made}");
        self.steps.iter().map(|step| Step { output: run(side, &step.command), ..step.clone() }).collect()
    }

    /// What differs from the record, as text; empty if nothing does.
    pub(crate) fn differences(&self, side: &str, seen: &[Step]) -> String {
        let mut report = String::new();
        for (recorded, seen) in self.steps.iter().zip(seen).filter(|(recorded, seen)| recorded != seen) {
            let _ = writeln!(report, "--- {}: {side} ---\n$ {}", self.name, recorded.command);
            for line in diff(&recorded.output, &seen.output) {
                let _ = writeln!(report, "{line}");
            }
        }
        report
    }

    pub(crate) fn record(&self, seen: &[Step]) {
        std::fs::write(&self.path, seen.iter().map(Step::write).collect::<String>()).unwrap();
    }
}

impl Step {
    fn write(&self) -> String {
        let command = self.command.replace('\n', "\n> ");
        format!("{}$ {command}\n{}", self.comment, self.output)
    }
}

fn parse(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut comment = String::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step {
                comment: std::mem::take(&mut comment),
                command: command.into(),
                output: String::new(),
            });
        } else if line.starts_with("# ") || (line.is_empty() && !comment.is_empty()) || steps.is_empty() {
            comment.push_str(line);
            comment.push('\n');
        } else if let (Some(step), Some(more)) = (steps.last_mut(), line.strip_prefix("> ")) {
            step.command.push('\n');
            step.command.push_str(more);
        } else if let Some(step) = steps.last_mut() {
            step.output.push_str(line);
            step.output.push('\n');
        }
    }
    steps
}

/// What a command prints on both streams, normalised, and how it ended.
fn run(side: &Side, line: &str) -> String {
    let out = side.scratch.join(".output");
    let file = std::fs::File::create(&out).unwrap();
    let mut command = side.shell(line);
    command.stdout(file.try_clone().unwrap()).stderr(file);
    let mut child = command.spawn().unwrap();
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > PATIENCE {
            child.kill().unwrap();
            break child.wait().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut output = normal(&side.rename(&String::from_utf8_lossy(&std::fs::read(&out).unwrap())));
    if !output.is_empty() && !output.ends_with('\n') {
        output.push('\n');
    }
    if !status.success() {
        let _ = writeln!(
            output,
            "[exit {}]",
            status.code().map_or("by a signal".into(), |code| code.to_string())
        );
    }
    output
}

/// Lines that only one of two texts has, in order.
fn diff(recorded: &str, seen: &str) -> Vec<String> {
    let (left, right): (Vec<&str>, Vec<&str>) = (recorded.lines().collect(), seen.lines().collect());
    // The table of the longest common subsequence; outputs have hundreds of lines at most.
    let mut length = vec![vec![0_usize; right.len() + 1]; left.len() + 1];
    for i in (0..left.len()).rev() {
        for j in (0..right.len()).rev() {
            length[i][j] = if left[i] == right[j] {
                length[i + 1][j + 1] + 1
            } else {
                length[i + 1][j].max(length[i][j + 1])
            };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < left.len() || j < right.len() {
        if i < left.len() && j < right.len() && left[i] == right[j] {
            (i, j) = (i + 1, j + 1);
        } else if j == right.len() || (i < left.len() && length[i + 1][j] >= length[i][j + 1]) {
            lines.push(format!("- {}", left[i]));
            i += 1;
        } else {
            lines.push(format!("+ {}", right[j]));
            j += 1;
        }
    }
    lines
}

#[test]
fn what_is_written_is_read_again() {
    let text = "# first\n$ a <<E\n> b\n> E\nout\n  more\n[exit 1]\n# second\n$ c\n";
    let steps = parse(text);
    assert_eq!(steps.len(), 2);
    assert_eq!(steps[0].command, "a <<E\nb\nE");
    assert_eq!(steps[0].output, "out\n  more\n[exit 1]\n");
    assert_eq!(steps.iter().map(Step::write).collect::<String>(), text);
}

#[test]
fn a_difference_is_shown_and_the_same_is_not() {
    assert_eq!(diff("a\nb\nc", "a\nx\nc\nd"), ["- b", "+ x", "+ d"]);
    assert!(diff("a\nb", "a\nb").is_empty());
}
