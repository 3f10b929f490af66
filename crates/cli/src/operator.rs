//! `trainyard operator`: the operator alone, on a cluster.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use tokio_util::sync::CancellationToken;
use trainyard_core::Catalog;

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
    /// Seconds after which a pod that its lost node cannot end is deleted by force; 0 waits for ever.
    #[arg(long, default_value_t = 60)]
    lost_node_seconds: i64,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    crate::log_to_stderr("info");
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(operate(args))?;
    Ok(ExitCode::SUCCESS)
}

async fn operate(args: Args) -> anyhow::Result<()> {
    let catalog = Catalog::default();
    let mut options = trainyard_operator::Options {
        namespace: args.namespace.clone().filter(|namespace| !namespace.is_empty()),
        kinds: enabled(&catalog, &args.kinds)?,
        ..trainyard_operator::Options::default()
    };
    options.plan.cluster_domain = args.cluster_domain.clone();
    options.plan.lost_node_seconds = args.lost_node_seconds;
    let client = kube::Client::try_from(args.connection.config().await?)?;
    let version = client.apiserver_version().await.context("the API server does not answer")?;
    tracing::info!(server = version.git_version, "connected");
    let role = trainyard_host::operator_on(client, catalog, options)?;
    let health = role.health();
    let shutdown = CancellationToken::new();
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
