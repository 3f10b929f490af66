//! Every command in the documentation works.
//!
//! Blocks marked `console` hold commands after `$ `. Those of the binary are run in the repository and must end well; those of
//! make must be targets (running them here would run this test again); nothing else may be there.

use std::path::{Path, PathBuf};

use crate::{root, trainyard};

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

#[test]
fn every_command_in_the_docs_works() {
    let mut files = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    markdown(&root().join("docs"), &mut files);
    let makefile = std::fs::read_to_string(root().join("Makefile")).unwrap();
    let mut run = 0;
    for file in files {
        for command in commands(&std::fs::read_to_string(&file).unwrap()) {
            run += 1;
            let words: Vec<&str> = command.split_whitespace().collect();
            match words.as_slice() {
                ["trainyard", args @ ..] => {
                    let said = trainyard(args, "");
                    assert_eq!(said.code, Some(0), "{}: {command}: {}", file.display(), said.err);
                }
                ["make", target] => {
                    let rule = format!("\n{target}:");
                    assert!(makefile.contains(&rule), "{}: {command}: no such target", file.display());
                }
                ["cargo", "bench", "--package", "trainyard-testkit" | "trainyard-apiserver"] => {}
                _ => unreachable!("{}: {command}: teach this test how to check it", file.display()),
            }
        }
    }
    assert!(run > 3, "the documentation has commands");
}
