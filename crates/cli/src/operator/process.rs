//! Flags about the process: what it shows, how hard it works, who of several works. The names are those of the
//! training-operator, so that its arguments can stay as they are.

use std::time::Duration;

use anyhow::Context as _;
use kube::Client;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use trainyard_host::{OperatorRole, admin, listen};
use trainyard_operator::lease::Election;
use trainyard_operator::{Clock, Effort, Rate};

/// Where metrics and probes are served unless somebody says otherwise.
const METRICS: &str = ":8080";
const PROBES: &str = ":8081";

/// The process.
#[derive(clap::Args)]
pub(super) struct Process {
    /// Where /metrics is served; 0 for nowhere [default: :8080, where it is free].
    #[arg(long, value_name = "ADDRESS")]
    metrics_bind_address: Option<String>,
    /// Where /healthz and /readyz are served; 0 for nowhere [default: :8081, where it is free].
    #[arg(long, value_name = "ADDRESS")]
    health_probe_bind_address: Option<String>,
    /// Work only while holding a Lease, so that several replicas can run and one of them works.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true",
          action = clap::ArgAction::Set, value_name = "BOOL")]
    leader_elect: bool,
    /// The name of that Lease; it is in the operator's own namespace.
    #[arg(long, default_value = "1ca428e5.training-operator.kubeflow.org", value_name = "NAME")]
    leader_election_id: String,
    /// The namespace of that Lease [default: that of the operator's pod, or of the kubeconfig].
    #[arg(long, env = "MY_POD_NAMESPACE", value_name = "NAME")]
    leader_election_namespace: Option<String>,
    /// Jobs of one kind that are worked on at once [default: 32 jobs of all kinds].
    #[arg(long, value_name = "NUMBER")]
    controller_threads: Option<usize>,
    /// Requests to the API server in a second, at most [default: as many as it answers quickly].
    #[arg(long, value_name = "NUMBER")]
    kube_api_qps: Option<f64>,
    /// Requests that may come at once after a time of quiet, where they are limited.
    #[arg(long, default_value_t = 30, value_name = "NUMBER")]
    kube_api_burst: u32,
}

impl Process {
    /// How hard to work on so many kinds.
    pub(super) fn effort(&self, kinds: usize) -> Effort {
        let usual = Effort::default();
        let jobs = self.controller_threads.map(|threads| threads.max(1).saturating_mul(kinds));
        Effort { jobs: jobs.unwrap_or(usual.jobs), rate: self.rate(), ..usual }
    }

    /// A limit that is none is no limit, as there.
    fn rate(&self) -> Option<Rate> {
        let qps = self.kube_api_qps.filter(|qps| *qps > 0.0)?;
        let pause = Duration::try_from_secs_f64(1.0 / qps).ok()?;
        Some(Rate { pause, burst: self.kube_api_burst.max(1) })
    }

    /// The role as one of several, if there may be several.
    pub(super) fn elect(&self, role: OperatorRole, client: Client, clock: Clock) -> OperatorRole {
        if !self.leader_elect {
            return role;
        }
        let namespace = self.leader_election_namespace.clone().filter(|name| !name.is_empty());
        let namespace = namespace.unwrap_or_else(|| client.default_namespace().to_owned());
        let id = self.leader_election_id.clone();
        role.with_election(Election::new(client, namespace, id, identity(&clock), clock))
    }

    /// Serves probes and metrics until `shutdown`.
    pub(super) async fn show(&self, role: &OperatorRole, shutdown: &CancellationToken) -> anyhow::Result<()> {
        let pages = [
            (
                open("--metrics-bind-address", self.metrics_bind_address.as_deref(), METRICS).await?,
                admin::metrics(role.health(), role.leadership()),
            ),
            (
                open("--health-probe-bind-address", self.health_probe_bind_address.as_deref(), PROBES)
                    .await?,
                admin::probes(role.health(), role.leadership()),
            ),
        ];
        for (listener, router) in pages {
            if let Some(listener) = listener {
                tokio::spawn(admin::serve(listener, router, shutdown.clone()));
            }
        }
        Ok(())
    }
}

/// A listener where somebody wants one. What nobody asked for must not keep jobs from being worked on.
async fn open(flag: &str, wanted: Option<&str>, usual: &str) -> anyhow::Result<Option<TcpListener>> {
    match wanted {
        Some("" | "0") => Ok(None),
        Some(address) => {
            let listener = listen::bind(address).await;
            listener.map(Some).with_context(|| format!("{flag}: cannot listen on {address}"))
        }
        None => match listen::bind(usual).await {
            Ok(listener) => Ok(Some(listener)),
            Err(error) => {
                tracing::warn!(%error, "nothing is served on {usual}; {flag} chooses another address");
                Ok(None)
            }
        },
    }
}

/// A name that no other candidate has: the pod's, and a time.
fn identity(clock: &Clock) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}_{}_{}", host.trim(), std::process::id(), clock().as_nanosecond())
}
