//! `kubectl exec POD -- COMMAND`: what a launcher calls to start a process in one of its workers.
//!
//! The binary takes this part when it is called `kubectl`. It knows no other command: a launcher may not do more.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::{Parser, Subcommand};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::Api;
use kube::api::{AttachParams, AttachedProcess};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

/// Whether the binary was called by this name.
pub(crate) fn is_meant(program: Option<OsString>) -> bool {
    program.is_some_and(|program| Path::new(&program).file_name() == Some("kubectl".as_ref()))
}

/// Trainyard in the place of kubectl: it can exec, and nothing else.
#[derive(Parser)]
#[command(name = "kubectl")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a command in a container.
    Exec(Exec),
}

#[derive(clap::Args, Debug)]
struct Exec {
    /// The pod.
    pod: String,
    /// Its container; the first if left out.
    #[arg(short, long)]
    container: Option<String>,
    /// The pod's namespace; this pod's own if left out.
    #[arg(short, long)]
    namespace: Option<String>,
    /// Pass the standard input on.
    #[arg(short = 'i', long)]
    stdin: bool,
    /// The command.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

pub(crate) fn main(words: Vec<OsString>) -> ExitCode {
    let Command::Exec(exec) = Args::parse_from([OsString::from("kubectl")].into_iter().chain(words)).command;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = runtime.context("cannot start the runtime").and_then(|runtime| runtime.block_on(run(exec)));
    outcome.unwrap_or_else(|error| {
        crate::complain(&format!("{error:#}"));
        ExitCode::FAILURE
    })
}

async fn run(exec: Exec) -> anyhow::Result<ExitCode> {
    let client = super::client().await?;
    let pods: Api<Pod> = match &exec.namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::default_namespaced(client),
    };
    let container = match exec.container {
        Some(container) => Some(container),
        None => first_container(&pods.get(&exec.pod).await.map_err(plain)?),
    };
    let how = AttachParams { container, ..AttachParams::default() };
    let how = how.stdin(exec.stdin).stdout(true).stderr(true);
    let process = pods.exec(&exec.pod, exec.command, &how).await.map_err(plain)?;
    follow(process, exec.stdin).await
}

/// What the server says, without the object around it.
fn plain(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => anyhow::anyhow!(status.message),
        other => other.into(),
    }
}

/// Where a pod has several the server asks to choose; kubectl chooses the first.
fn first_container(pod: &Pod) -> Option<String> {
    let marked = pod.metadata.annotations.as_ref();
    let marked = marked.and_then(|map| map.get("kubectl.kubernetes.io/default-container"));
    let first = || pod.spec.as_ref()?.containers.first().map(|container| container.name.clone());
    marked.cloned().or_else(first)
}

async fn follow(mut process: AttachedProcess, stdin: bool) -> anyhow::Result<ExitCode> {
    let status = process.take_status();
    let (out, err, input) = (process.stdout(), process.stderr(), process.stdin());
    let feed = async {
        if let (true, Some(input)) = (stdin, input) {
            pass(Some(tokio::io::stdin()), input).await;
        } else {
            std::future::pending::<()>().await;
        }
    };
    let show = async {
        tokio::join!(pass(out, tokio::io::stdout()), pass(err, tokio::io::stderr()));
    };
    tokio::pin!(feed, show);
    tokio::select! {
        () = &mut show => {}
        () = &mut feed => show.await,
    }
    let status = match status {
        Some(status) => status.await,
        None => None,
    };
    exit_code(status)
}

/// Copies until either side ends.
async fn pass(from: Option<impl AsyncRead + Unpin>, mut to: impl AsyncWrite + Unpin) {
    if let Some(mut from) = from {
        // Whoever reads the output may have gone; the command goes on.
        let _ = tokio::io::copy(&mut from, &mut to).await;
        let _ = to.flush().await;
    }
}

/// The command's own exit code.
fn exit_code(status: Option<Status>) -> anyhow::Result<ExitCode> {
    let Some(status) = status else {
        bail!("the connection to the container was lost");
    };
    if status.status.as_deref() == Some("Success") {
        return Ok(ExitCode::SUCCESS);
    }
    let message = status.message.unwrap_or_else(|| "the command failed".into());
    let causes = status.details.and_then(|details| details.causes).unwrap_or_default();
    let code = causes.into_iter().find(|cause| cause.reason.as_deref() == Some("ExitCode"));
    let code = code.and_then(|cause| cause.message).and_then(|code| code.parse::<u8>().ok());
    crate::complain(&message);
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parsed(words: &[&str]) -> Exec {
        let Command::Exec(exec) = Args::try_parse_from([&["kubectl"], words].concat()).unwrap().command;
        exec
    }

    #[test]
    fn the_script_of_a_launcher_is_understood() {
        let exec =
            parsed(&["exec", "a-worker-0", "--container", "mpi", "--", "/bin/sh", "-c", "orted -mca x"]);
        assert_eq!((exec.pod.as_str(), exec.container.as_deref()), ("a-worker-0", Some("mpi")));
        assert_eq!(exec.command, ["/bin/sh", "-c", "orted -mca x"]);
        assert!(Args::try_parse_from(["kubectl", "delete", "pods", "--all"]).is_err());
    }

    #[test]
    fn it_is_known_by_its_name() {
        assert!(is_meant(Some("/opt/kube/kubectl".into())));
        assert!(!is_meant(Some("/usr/bin/trainyard".into())) && !is_meant(None));
    }

    #[test]
    fn the_exit_code_of_the_command_is_passed_on() {
        let status = |value| serde_json::from_value::<Status>(value).unwrap();
        let ended = |value| exit_code(Some(status(value))).unwrap();
        assert_eq!(ended(json!({ "status": "Success" })), ExitCode::SUCCESS);
        let causes = json!([{ "reason": "ExitCode", "message": "7" }]);
        let failure = json!({ "status": "Failure", "details": { "causes": causes } });
        assert_eq!(ended(failure), ExitCode::from(7));
        assert_eq!(ended(json!({ "status": "Failure" })), ExitCode::FAILURE);
        assert!(exit_code(None).is_err());
    }
}
