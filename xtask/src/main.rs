//! `cargo xtask`: what a build cannot do by itself. Generates files from the types and checks the house rules.
#![expect(clippy::print_stdout, reason = "a command-line tool reports on standard output")]

mod cluster;
mod crd;
mod differences;
mod fuzz;
mod generate;
mod openapi;
mod reference;
mod schema;
mod tidy;
mod webhook;
mod wire;
mod yaml;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "usage: cargo xtask <command>
  generate          write the CRDs, the webhooks and the field reference from the types, and the differences from their list
  generate wire     write the tables of Kubernetes' built-in types (needs Go)
  generate openapi  record what a real server says about built-in types (needs the cluster's programs)
  generate --check  list the generated files that are stale, and fail if there are any
  tidy              check the house rules and print the size statistics
  fuzz [--seconds N] [TARGET...]
                    search for input that breaks a decoder of the API server (needs a C++ compiler)
  cluster up --control-plane|--node [--dir DIR] [--detach]
                    start a real Kubernetes control plane, or one with a node (needs root and containerd);
                    without --detach until Ctrl-C
  cluster kubeconfig [--dir DIR]
                    print where its kubeconfig is
  cluster down [--dir DIR]
                    stop it";

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = root();
    match words.as_slice() {
        ["generate"] => {
            for path in generate::write(&root)? {
                println!("wrote {path}");
            }
            Ok(ExitCode::SUCCESS)
        }
        ["generate", "wire"] => {
            println!("wrote {}", wire::write(&root)?);
            Ok(ExitCode::SUCCESS)
        }
        ["generate", "openapi"] => {
            println!("wrote {}", openapi::write(&root)?);
            Ok(ExitCode::SUCCESS)
        }
        ["generate", "--check"] => {
            let stale = generate::stale(&root)?;
            Ok(report(stale.iter().map(|path| format!("stale, run `cargo xtask generate`: {path}"))))
        }
        ["tidy"] => {
            let (problems, sizes) = tidy::run(&root)?;
            println!("{sizes}");
            Ok(report(problems))
        }
        ["fuzz", rest @ ..] => {
            fuzz::run(&root, rest)?;
            Ok(ExitCode::SUCCESS)
        }
        ["cluster", rest @ ..] => {
            cluster::run(rest)?;
            Ok(ExitCode::SUCCESS)
        }
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        _ => bail!("{USAGE}"),
    }
}

/// The workspace's root, wherever the command was started.
fn root() -> PathBuf {
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.pop();
    root
}

/// Prints what is wrong; nothing wrong is success.
fn report(problems: impl IntoIterator<Item = String>) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for problem in problems {
        println!("{problem}");
        code = ExitCode::FAILURE;
    }
    code
}
