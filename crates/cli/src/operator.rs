//! `trainyard operator`: the operator alone, on a cluster.

mod helpers;
mod logging;
mod own_pod;
mod process;
mod webhooks;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use tokio_util::sync::CancellationToken;
use trainyard_core::{Catalog, GangScheduler};

use crate::connect::Connection;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only jobs of this namespace; all namespaces if left out.
    #[arg(long, env = "KUBEFLOW_NAMESPACE")]
    namespace: Option<String>,
    /// Only these kinds (repeatable, case does not matter); all kinds if left out.
    #[arg(long = "enable-scheme", value_name = "KIND")]
    kinds: Vec<String>,
    #[command(flatten)]
    connection: Connection,
    /// Domain appended to service host names.
    #[arg(long, env = "CUSTOM_CLUSTER_DOMAIN")]
    cluster_domain: Option<String>,
    /// The gang scheduler that pods are handed to: volcano, or the name of one with the coscheduling plugin.
    #[arg(long, default_value = "", value_name = "NAME")]
    gang_scheduler_name: String,
    #[command(flatten)]
    helpers: helpers::Helpers,
    /// Ports of the machines for jobs with `hostNetwork` that ask for them (`trainyard.dev/host-ports`).
    #[arg(long, default_value = crate::ports::USUAL, value_name = "FIRST-LAST")]
    host_ports: String,
    #[command(flatten)]
    webhooks: webhooks::Webhooks,
    #[command(flatten)]
    process: process::Process,
    #[command(flatten)]
    logging: logging::Logging,
    /// Keep pods until what became of them is written down, by a finalizer; see `trainyard uninstall`.
    #[arg(long)]
    track_pods: bool,
    /// Seconds after which a pod that its lost node cannot end is deleted by force; 0 waits for ever.
    #[arg(long, default_value_t = 60)]
    lost_node_seconds: i64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    args.logging.start();
    crate::heap::give_back();
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(operate(args))?;
    Ok(ExitCode::SUCCESS)
}

async fn operate(args: &Args) -> anyhow::Result<()> {
    let catalog = Catalog::default();
    let mut options = options(args, &catalog)?;
    let (client, connections) = trainyard_operator::connect(args.connection.config().await?)?;
    options.connections = connections;
    let version = client.apiserver_version().await.context("the API server does not answer")?;
    tracing::info!(server = version.git_version, "connected");
    args.helpers.settle(&client, &mut options.plan.helpers).await;
    let clock = Arc::clone(&options.clock);
    let mut role = trainyard_host::operator_on(client.clone(), catalog, options)?;
    if let Some(webhooks) = args.webhooks.options() {
        role = role.with_webhooks(client.clone(), catalog, webhooks, Arc::clone(&clock)).await?;
    }
    role = args.process.elect(role, client, clock);
    let health = role.health();
    let shutdown = CancellationToken::new();
    args.process.show(&role, &shutdown).await?;
    let work = role.run(shutdown.clone());
    tokio::pin!(work);
    loop {
        tokio::select! {
            ended = &mut work => return ended.context("the operator ended"),
            signal = crate::signals::stop_signal(), if !shutdown.is_cancelled() => {
                tracing::info!(signal = signal?, "stopping");
                shutdown.cancel();
            }
            () = health.until_ready(), if !health.ready() => tracing::info!("ready"),
        }
    }
}

fn options(args: &Args, catalog: &Catalog) -> anyhow::Result<trainyard_operator::Options> {
    let kinds = enabled(catalog, &args.kinds)?;
    let mut options = trainyard_operator::Options {
        namespace: args.namespace.clone().filter(|namespace| !namespace.is_empty()),
        effort: args.process.effort(kinds.as_ref().map_or(catalog.kinds.len(), BTreeSet::len)),
        kinds,
        ports: Some(crate::ports::range("--host-ports", &args.host_ports)?),
        ..trainyard_operator::Options::default()
    };
    options.plan.cluster_domain = args.cluster_domain.clone();
    options.plan.track_pods = args.track_pods;
    options.plan.lost_node_seconds = args.lost_node_seconds;
    options.plan.gang = GangScheduler::named(&args.gang_scheduler_name);
    options.plan.helpers = args.helpers.options()?;
    Ok(options)
}

/// The kinds to run, by their exact names.
fn enabled(catalog: &Catalog, wanted: &[String]) -> anyhow::Result<Option<BTreeSet<String>>> {
    if wanted.is_empty() {
        return Ok(None);
    }
    let mut names = BTreeSet::new();
    for name in wanted {
        let Some(kind) = catalog.kinds.iter().find(|kind| kind.name.eq_ignore_ascii_case(name)) else {
            bail!("--enable-scheme: scheme {name} is not supported yet");
        };
        names.insert(kind.name.to_owned());
    }
    Ok(Some(names))
}
