//! `trainyard operator`: the operator alone, on a cluster.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use serde_json::Value;
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
    helpers: Helpers,
    /// Ports of the machines for jobs with `hostNetwork` that ask for them (`trainyard.dev/host-ports`).
    #[arg(long, default_value = crate::ports::USUAL, value_name = "FIRST-LAST")]
    host_ports: String,
    #[command(flatten)]
    webhooks: Webhooks,
    /// Keep pods until what became of them is written down, by a finalizer; see `trainyard uninstall`.
    #[arg(long)]
    track_pods: bool,
    /// Seconds after which a pod that its lost node cannot end is deleted by force; 0 waits for ever.
    #[arg(long, default_value_t = 60)]
    lost_node_seconds: i64,
}

/// Containers that are put beside the user's.
#[derive(clap::Args)]
struct Helpers {
    /// Trainyard's own image, of which the containers beside the user's are made [default: of this version].
    #[arg(long, value_name = "IMAGE")]
    helper_image: Option<String>,
    /// Another image for the init container with which PyTorch workers wait for their master; it needs `sh` and `nslookup`.
    #[arg(long, value_name = "IMAGE")]
    pytorch_init_container_image: Option<String>,
    /// How often that container looks for the master.
    #[arg(long, default_value_t = 100, value_name = "TRIES")]
    pytorch_init_container_max_tries: u32,
    /// A file with init containers to be used instead; none if it does not exist.
    #[arg(long, default_value = "/etc/config/initContainer.yaml", value_name = "FILE")]
    pytorch_init_container_template_file: PathBuf,
    /// Another image that brings kubectl to the launchers of MPI jobs.
    #[arg(long, value_name = "IMAGE")]
    mpi_kubectl_delivery_image: Option<String>,
}

/// The webhooks with which jobs are checked before they are stored.
#[derive(clap::Args)]
struct Webhooks {
    /// Port of the admission webhooks, once their configuration is installed (config/webhook); 0 for none.
    #[arg(long, default_value_t = 9443, value_name = "PORT")]
    webhook_server_port: u16,
    /// The Service through which the API server reaches them.
    #[arg(long, default_value = "training-operator", value_name = "NAME")]
    webhook_service_name: String,
    /// The Secret in which their certificates are kept, and renewed.
    #[arg(long, default_value = "training-operator-webhook-cert", value_name = "NAME")]
    webhook_secret_name: String,
    /// The namespace of that Service and that Secret.
    #[arg(long, env = "MY_POD_NAMESPACE", default_value = "kubeflow", value_name = "NAME")]
    webhook_namespace: String,
}

impl Webhooks {
    /// Nothing if there shall be none.
    fn options(&self) -> Option<trainyard_host::Webhooks> {
        // An empty variable is one that is not set.
        let namespace = Some(self.webhook_namespace.as_str()).filter(|name| !name.is_empty());
        (self.webhook_server_port != 0).then(|| trainyard_host::Webhooks {
            port: self.webhook_server_port,
            service: self.webhook_service_name.clone(),
            secret: self.webhook_secret_name.clone(),
            namespace: namespace.unwrap_or("kubeflow").to_owned(),
        })
    }
}

impl Helpers {
    fn options(&self) -> anyhow::Result<trainyard_core::Helpers> {
        let usual = trainyard_core::Helpers::default();
        Ok(trainyard_core::Helpers {
            image: self.helper_image.clone().unwrap_or(usual.image),
            wait_image: self.pytorch_init_container_image.clone(),
            wait_tries: self.pytorch_init_container_max_tries,
            wait_template: template(&self.pytorch_init_container_template_file)?,
            kubectl_image: self.mpi_kubectl_delivery_image.clone(),
            program: usual.program,
        })
    }
}

/// The init containers in a file, if there is one.
fn template(file: &Path) -> anyhow::Result<Option<Vec<Value>>> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    // As they stand its variables are no YAML: they are given names that are plain words.
    let words = trainyard_core::Helpers::VARIABLES.iter();
    let text = words.fold(text, |text, (variable, word)| text.replace(variable, word));
    let containers = serde_saphyr::from_str(&text);
    containers.map(Some).with_context(|| format!("{} is no list of containers", file.display()))
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
        ports: Some(crate::ports::range("--host-ports", &args.host_ports)?),
        ..trainyard_operator::Options::default()
    };
    options.plan.cluster_domain = args.cluster_domain.clone();
    options.plan.track_pods = args.track_pods;
    options.plan.lost_node_seconds = args.lost_node_seconds;
    options.plan.gang = GangScheduler::named(&args.gang_scheduler_name);
    options.plan.helpers = args.helpers.options()?;
    let client = kube::Client::try_from(args.connection.config().await?)?;
    let version = client.apiserver_version().await.context("the API server does not answer")?;
    tracing::info!(server = version.git_version, "connected");
    let clock = std::sync::Arc::clone(&options.clock);
    let mut role = trainyard_host::operator_on(client.clone(), catalog, options)?;
    if let Some(webhooks) = args.webhooks.options() {
        role = role.with_webhooks(client, catalog, webhooks, clock).await?;
    }
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
