//! Every command in the documentation works.
//!
//! Blocks marked `console` hold commands after `$ `. Those of the binary are run in the repository, one page after the other in
//! its order, and must end well; those that talk to a server talk to a new one for each page, with an operator, logs and metrics.
//! From `up` to `down` they talk to that one, which is real and has a home and a port of its own. Those of make must be targets
//! (running them here would run this test again); nothing else may be there.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use trainyard_testkit::{PodInfo, PodScript};

use crate::bed::{Bed, Log, said};
use crate::{Said, root};

fn markdown(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            markdown(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

fn commands(text: &str) -> Vec<String> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            inside = !inside && language == "console";
        } else if let Some(command) = line.trim_start().strip_prefix("$ ").filter(|_| inside) {
            found.push(command.to_owned());
        }
    }
    found
}

/// Of the examples, the job that pages wait for ends well; the one they look at goes on.
fn script(pod: &PodInfo) -> PodScript {
    if pod.job == "regression" { PodScript::exits(0, 1) } else { PodScript::runs() }
}

/// One page, with its server and its home.
struct Page {
    bed: Bed,
    home: tempfile::TempDir,
    up: Option<(Child, String)>,
}

impl Page {
    async fn new() -> Self {
        let bed = Bed::with_logs(script, |_, _, _| Log::of(&["2026-01-02T03:04:05Z a line"])).await;
        Self { bed, home: tempfile::tempdir().unwrap(), up: None }
    }

    /// A command with the page's home; `~` is written out, as a shell does.
    fn command(&self, args: &[&str]) -> Command {
        let home = self.home.path().to_str().unwrap();
        let args: Vec<String> = args.iter().map(|arg| self.written_out(arg)).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut command = self.bed.command(&args);
        command.env("HOME", home).env_remove("XDG_DATA_HOME").env_remove("XDG_STATE_HOME");
        if let Some((_, kubeconfig)) = &self.up {
            command.env("KUBECONFIG", kubeconfig);
        }
        command
    }

    fn written_out(&self, word: &str) -> String {
        let home = self.home.path().to_str().unwrap();
        word.strip_prefix('~').map_or_else(|| word.to_owned(), |rest| format!("{home}{rest}"))
    }

    /// Runs a command of the binary.
    async fn run(&mut self, args: &[&str]) -> Said {
        match args {
            ["up", args @ ..] => self.start(args).await,
            ["down", ..] => {
                let answer = said(self.command(args).spawn().unwrap()).await;
                let (mut up, _) = self.up.take().unwrap();
                let ended = tokio::time::timeout(Duration::from_secs(60), up.wait()).await;
                assert!(ended.unwrap().unwrap().success(), "`down` ends `up`");
                answer
            }
            ["logs", ..] if self.up.is_none() => {
                self.bed
                    .plane
                    .until("there are logs", |world| world.in_phase("digits", "Running") == 3)
                    .await;
                said(self.command(args).spawn().unwrap()).await
            }
            _ => said(self.command(args).spawn().unwrap()).await,
        }
    }

    /// Starts `up` in the background, and waits until it says that it is up.
    async fn start(&mut self, args: &[&str]) -> Said {
        assert!(self.up.is_none(), "one `up` at a time");
        let mut up = self.command(&[&["up", "--port", "0"], args].concat()).spawn().unwrap();
        let mut lines = BufReader::new(up.stdout.take().unwrap()).lines();
        let mut out = String::new();
        let kubeconfig = loop {
            let line = tokio::time::timeout(Duration::from_secs(60), lines.next_line()).await;
            let Some(line) = line.unwrap().unwrap() else {
                return said(up).await;
            };
            out.push_str(&line);
            if let Some(kubeconfig) = line.trim().strip_prefix("export KUBECONFIG=") {
                break kubeconfig.to_owned();
            }
        };
        self.up = Some((up, kubeconfig));
        Said { code: Some(0), out, err: String::new() }
    }
}

/// What a page starts does not outlive it, whatever went wrong on it.
impl Drop for Page {
    fn drop(&mut self) {
        if let Some((_, kubeconfig)) = &self.up {
            let dir = Path::new(kubeconfig).parent().unwrap();
            let mut down = std::process::Command::new(env!("CARGO_BIN_EXE_trainyard"));
            let _ = down.args(["down", "--grace-period", "0", "--data-dir"]).arg(dir).output();
        }
    }
}

#[tokio::test]
async fn every_command_in_the_docs_works() {
    let mut files = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    markdown(&root().join("docs"), &mut files);
    let makefile = std::fs::read_to_string(root().join("Makefile")).unwrap();
    let mut run = 0;
    for file in files {
        let mut page = Page::new().await;
        for command in commands(&std::fs::read_to_string(&file).unwrap()) {
            run += 1;
            let words: Vec<&str> = command.split_whitespace().collect();
            match words.as_slice() {
                ["trainyard", args @ ..] => {
                    let said = page.run(args).await;
                    assert_eq!(said.code, Some(0), "{}: {command}: {}{}", file.display(), said.out, said.err);
                }
                ["export", setting] => {
                    let (_, kubeconfig) = page.up.as_ref().unwrap();
                    let path = setting.strip_prefix("KUBECONFIG=").map(|path| page.written_out(path));
                    assert_eq!(path.as_ref(), Some(kubeconfig), "{}: {command}", file.display());
                }
                ["make", target] => {
                    let rule = format!("\n{target}:");
                    assert!(makefile.contains(&rule), "{}: {command}: no such target", file.display());
                }
                ["cargo", "bench", "--package", package, which @ ..] => {
                    let name = package.strip_prefix("trainyard-").unwrap();
                    let benches = root().join("crates").join(name).join("benches");
                    let there = match which {
                        [] => benches.is_dir(),
                        ["--bench", bench] => benches.join(format!("{bench}.rs")).is_file(),
                        _ => false,
                    };
                    assert!(there, "{}: {command}: no such benchmark", file.display());
                }
                _ => unreachable!("{}: {command}: teach this test how to check it", file.display()),
            }
        }
        assert!(page.up.is_none(), "{}: an `up` without a `down`", file.display());
    }
    assert!(run > 3, "the documentation has commands");
}
