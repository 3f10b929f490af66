//! `trainyard up`: a cluster of one machine.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;
use trainyard_host::{DataDir, Host, Socket, Store};
use trainyard_node::Surroundings;

use super::machine::{MachineArgs, Never, time_or_never};
use super::users::UserArgs;
use super::{places, runtime};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where everything is kept [default: $XDG_DATA_HOME/trainyard, ~/.local/share/trainyard].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Port on 127.0.0.1 for the API; 0 is any free one.
    #[arg(long, default_value_t = 7443)]
    port: u16,
    /// Leave out roles, for those who bring their own: `operator`, `node`, `controllers`.
    #[arg(long, value_delimiter = ',', value_name = "ROLE")]
    without: Vec<Role>,
    /// How long processes go on when this program was killed: `90s`, `15m`, `1h`, `never` ends them only by `down`.
    #[arg(long, default_value = "1h", value_name = "TIME", value_parser = time_or_never)]
    orphans_after: Never,
    /// A variable for every container that does not set it itself. `$(NAME)` in it is what a variable was before:
    /// `PATH=/opt/venv/bin:$(PATH)`. May be given more than once.
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// If objects in the data directory are damaged, go on with those that can be read, and list what cannot. The damaged
    /// files are kept. Containers whose pods are lost go on.
    #[arg(long)]
    salvage: bool,
    #[command(flatten)]
    users: UserArgs,
    #[command(flatten)]
    machine: MachineArgs,
}

/// What the operator has begun when `up` is stopped gets this long. What it does not finish, the next one does.
const FAREWELL: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Role {
    Operator,
    Node,
    /// Of deployments, jobs and services.
    Controllers,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    crate::log_to_stderr("warn", false);
    runtime::run(up(args))?;
    Ok(ExitCode::SUCCESS)
}

async fn up(args: Args) -> anyhow::Result<()> {
    args.machine.check()?;
    let has = |role| !args.without.contains(&role);
    let has_node = has(Role::Node);
    let isolate = args.users.isolation(has_node)?;
    let path = places::data_dir(args.data_dir.clone())?;
    let dir = DataDir::open(&path)?;
    if args.salvage {
        salvage(&dir)?;
    }
    let path = dir.path().to_owned();
    let socket = Socket { port: args.port, dir: path.clone() };
    let kubeconfig = socket.kubeconfig();
    let mut operator = args.machine.operator()?;
    if isolate.is_some() {
        // Where this program itself lies may be closed to the users of namespaces.
        operator.plan.helpers.program = trainyard_node::HELPER.to_owned();
    }
    if !has_node {
        // Somebody else's node knows neither our ports nor our gangs.
        operator = trainyard_operator::Options::default();
    }
    operator.effort.farewell = FAREWELL;
    let node = if has_node {
        let inventory = args.machine.inventory(&path)?;
        let name = dir.node_name(&inventory.host_name)?;
        let around = Surroundings::Clean { env: args.env };
        let node = args.machine.node(name, &path, inventory, around, args.orphans_after.0)?;
        Some(trainyard_node::Options { isolate, ..node })
    } else {
        None
    };
    let host = Host::start(trainyard_host::Options {
        store: Store::In(dir),
        operator: has(Role::Operator).then_some(operator),
        node,
        socket: Some(socket),
        // Whoever brings another operator brings its rules.
        admission: has(Role::Operator),
        controllers: has(Role::Controllers),
        ..trainyard_host::Options::local()
    })
    .await?;
    let address = host.address().context("the API has no address")?;
    let failing = host.shutdown();
    tokio::select! {
        () = host.ready() => {}
        // A role that failed ends the others; why is what waiting for the host returns.
        () = failing.cancelled() => return Ok(host.wait().await?),
    }
    greet(address, &path, &kubeconfig)?;
    if let Some(warning) = args.users.warning(has_node, &path)? {
        crate::complain(&warning);
    }
    stop_at_a_signal(host.shutdown());
    host.wait().await?;
    say_what_goes_on(&path, args.orphans_after);
    Ok(())
}

/// Brings back what can be read, and says what cannot.
fn salvage(dir: &DataDir) -> anyhow::Result<()> {
    let Some(salvaged) = dir.salvage()? else {
        return crate::print("nothing in the data directory is damaged\n");
    };
    let kept = salvaged.kept_in.display();
    let mut text = format!("brought back {} object(s); the damaged files are in {kept}\n", salvaged.objects);
    if salvaged.lost.is_empty() {
        text.push_str("nothing was lost\n");
    }
    for lost in &salvaged.lost {
        text.push_str(&format!("lost: {lost}\n"));
    }
    crate::print(&text)
}

fn greet(address: SocketAddr, path: &Path, kubeconfig: &Path) -> anyhow::Result<()> {
    crate::print(&format!(
        "trainyard is up at https://{address}; data in {}\nuse it:\n  export KUBECONFIG={}\n  trainyard list\n",
        path.display(),
        kubeconfig.display(),
    ))
}

fn stop_at_a_signal(shutdown: CancellationToken) {
    tokio::spawn(async move {
        if let Ok(signal) = crate::signals::stop_signal().await {
            tracing::info!(signal, "stopping");
        }
        shutdown.cancel();
    });
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".into()),
    }
}

/// Whoever stops `up` learns that processes go on, and how to end them.
fn say_what_goes_on(path: &Path, orphans_after: Never) {
    let running = trainyard_node::runtime::running_under(&path.join("pods")).len();
    if running > 0 {
        let until = orphans_after.0.map_or_else(String::new, |time| {
            format!(" for {:#}", jiff::SignedDuration::try_from(time).unwrap_or_default())
        });
        crate::complain(&format!(
            "{running} container(s) go on{until}: `trainyard up` takes them back, `trainyard down` ends them"
        ));
    }
}
