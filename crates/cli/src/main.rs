//! `trainyard`: the one binary. Each subcommand is a role or a question; each is one file.

mod check;
mod client;
mod connect;
mod crds;
mod explain;
mod heap;
mod helpers;
mod local;
mod manifests;
mod operator;
mod ports;
mod signals;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Distributed training jobs on Kubernetes, or on the machine in front of you.
#[derive(Parser)]
#[command(name = "trainyard", version, max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Local(local::Command),
    /// Show what manifests become: the exact pods, services and environment, or every error in them. Offline.
    Explain(explain::Args),
    /// Print the custom resource definitions, for `kubectl apply -f -`.
    Crds,
    /// Run the operator against the current kubeconfig, or inside a cluster.
    Operator(Box<operator::Args>),
    #[command(flatten)]
    Client(client::Command),
    #[command(flatten)]
    Helper(helpers::Command),
}

fn main() -> ExitCode {
    // Before anything else: shims are many, and each is to be small and alone in its process.
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if trainyard_node::shim::is_mode(&words) {
        return trainyard_node::shim::main(&words);
    }
    if helpers::kubectl::is_meant(std::env::args_os().next()) {
        return helpers::kubectl::main(words);
    }
    let outcome = match Args::parse().command {
        Command::Local(command) => local::run(command),
        Command::Explain(args) => explain::run(&args),
        Command::Crds => crds::run(),
        Command::Operator(args) => operator::run(&args),
        Command::Client(command) => client::run(command),
        Command::Helper(command) => helpers::run(command),
    };
    outcome.unwrap_or_else(|error| {
        complain(&format!("{error:#}"));
        ExitCode::FAILURE
    })
}

/// What roles have to say, for whoever set `RUST_LOG`; otherwise from this level on.
fn log_to_stderr(level: &str, as_json: bool) {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| level.into());
    // A log that cannot be written, to a full disk, say, must not panic whoever writes it.
    let builder = tracing_subscriber::fmt().with_env_filter(filter).log_internal_errors(false);
    let builder = builder.with_writer(std::io::stderr);
    if as_json { builder.json().init() } else { builder.init() }
}

/// The one way in which this binary says that something is wrong.
fn complain(message: &str) {
    use std::io::Write as _;
    // Whoever closed the standard error, or filled the disk it goes to, does not want to know.
    let _ = writeln!(std::io::stderr().lock(), "trainyard: {}", harmless(message));
}

/// A message may quote what somebody else wrote: no part of it gets to be a command to the terminal.
fn harmless(message: &str) -> String {
    let shown = |letter: char| letter == '\n' || letter == '\t' || !letter.is_control();
    message
        .chars()
        .map(|letter| if shown(letter) { letter.into() } else { letter.escape_default().to_string() })
        .collect()
}

/// The one way in which this binary writes results. A reader that went away (`| head`) is no error.
fn print(text: &str) -> anyhow::Result<()> {
    print_bytes(text.as_bytes()).map(drop)
}

/// Writes results as they came; says whether anybody still reads them.
fn print_bytes(bytes: &[u8]) -> anyhow::Result<bool> {
    use std::io::Write as _;
    match std::io::stdout().lock().write_all(bytes) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        other => Ok(other.map(|()| true)?),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn messages_are_no_commands_to_the_terminal() {
        assert_eq!(super::harmless("a\u{1b}[31mb\r\n\tc é"), "a\\u{1b}[31mb\\r\n\tc é");
    }
}
