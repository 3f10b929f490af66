//! `trainyard`: the one binary. Each subcommand is a role or a question; each is one file.

mod crds;
mod explain;
mod manifests;
mod operator;

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
    /// Show what manifests become: the exact pods, services and environment, or every error in them. Offline.
    Explain(explain::Args),
    /// Print the custom resource definitions, for `kubectl apply -f -`.
    Crds,
    /// Run the operator against the current kubeconfig, or inside a cluster.
    Operator(operator::Args),
}

fn main() -> ExitCode {
    let outcome = match Args::parse().command {
        Command::Explain(args) => explain::run(&args),
        Command::Crds => crds::run(),
        Command::Operator(args) => operator::run(args),
    };
    outcome.unwrap_or_else(|error| {
        complain(&format!("{error:#}"));
        ExitCode::FAILURE
    })
}

/// The one way in which this binary says that something is wrong.
fn complain(message: &str) {
    #[expect(clippy::print_stderr, reason = "errors of a command line tool go to its standard error")]
    {
        eprintln!("trainyard: {message}");
    }
}

/// The one way in which this binary writes results. A reader that went away (`| head`) is no error.
fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}
