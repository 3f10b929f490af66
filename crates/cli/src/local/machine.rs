//! What of this machine is offered to jobs.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use trainyard_core::Addressing;
use trainyard_node::runtime::LogRules;
use trainyard_node::{BackOff, Entrypoints, Inventory, Keep, Surroundings};

/// Flags of `run` and `up` about the machine.
#[derive(clap::Args)]
pub(crate) struct MachineArgs {
    /// Processors that jobs may request in all (`4`, `500m`); all of the machine's if left out.
    #[arg(long)]
    cpus: Option<String>,
    /// Memory that jobs may request in all (`16Gi`); all of the machine's if left out.
    #[arg(long)]
    memory: Option<String>,
    /// GPUs that jobs may use: `all`, `none`, or indices and UUIDs (`0,2`).
    #[arg(long)]
    gpus: Option<String>,
    /// Ports that replicas may be given.
    #[arg(long, default_value = crate::ports::USUAL, value_name = "FIRST-LAST")]
    ports: String,
    /// What a container of an image runs if it names no command, as a line of shell; may be given more than once.
    #[arg(long, value_name = "IMAGE=COMMAND")]
    entrypoint: Vec<String>,
    /// A log file that has grown to this size is put aside.
    #[arg(long, default_value = "50Mi", value_name = "SIZE")]
    log_max_size: String,
    /// Log files that are kept of each container.
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    log_max_files: u32,
    /// What deleted pods leave, their logs, is removed after this time.
    #[arg(long, default_value = "168h", value_name = "TIME", value_parser = time)]
    ended_max_age: Duration,
    /// What deleted pods leave may take this much space in all; the oldest is removed first.
    #[arg(long, default_value = "10Gi", value_name = "SIZE")]
    ended_max_size: String,
    /// What deleted pods leave may be this many files and directories in all; the oldest are removed first.
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    ended_max_files: u64,
    /// Seconds before a container that failed again and again is started again the first time; then they double.
    #[arg(long, default_value_t = 10, value_name = "SECONDS", hide = true)]
    back_off_seconds: u32,
}

impl MachineArgs {
    /// What the machine has to give.
    pub(crate) fn inventory(&self, storage: &Path) -> anyhow::Result<Inventory> {
        let whole = Inventory::of_this_machine().with_storage_of(storage);
        let (cpus, memory, gpus) = (self.cpus.as_deref(), self.memory.as_deref(), self.gpus.as_deref());
        whole.restricted(cpus, memory, gpus).map_err(|why| anyhow!("{why}"))
    }

    /// A node in a directory.
    pub(crate) fn node(
        &self,
        name: String,
        root: &Path,
        inventory: Inventory,
        surroundings: Surroundings,
        orphans_after: Option<Duration>,
    ) -> anyhow::Result<trainyard_node::Options> {
        let first = jiff::SignedDuration::from_secs(self.back_off_seconds.into());
        Ok(trainyard_node::Options {
            name: name.clone(),
            root: root.to_owned(),
            inventory: Inventory { host_name: name, ..inventory },
            shim: std::env::current_exe().context("cannot find this program's own file")?,
            lock: trainyard_host::lock_file(root),
            orphans_after,
            surroundings,
            entrypoints: self.entrypoints()?,
            back_off: BackOff { first, ..BackOff::default() },
            open_files: trainyard_node::raise_open_files(),
            log: self.log_rules()?,
            keep: self.keep()?,
            lost_objects: trainyard_host::lost_objects_file(root),
            isolate: None,
            api: None,
            clock: trainyard_operator::system_clock(),
        })
    }

    /// What stands for the programs of images.
    pub(crate) fn entrypoints(&self) -> anyhow::Result<Entrypoints> {
        let mut known = Entrypoints::default();
        for text in &self.entrypoint {
            known.add(text).map_err(|why| anyhow!("--entrypoint: {why}"))?;
        }
        Ok(known)
    }

    fn log_rules(&self) -> anyhow::Result<LogRules> {
        let size = trainyard_node::quantity::parse_units(&self.log_max_size);
        let size = size.map_err(|error| anyhow!("--log-max-size: {error}"))?;
        Ok(LogRules { max_bytes: u64::try_from(size).unwrap_or(0).max(4096), max_files: self.log_max_files })
    }

    fn keep(&self) -> anyhow::Result<Keep> {
        let size = trainyard_node::quantity::parse_units(&self.ended_max_size);
        let size = size.map_err(|error| anyhow!("--ended-max-size: {error}"))?;
        let bytes = u64::try_from(size).map_err(|_| anyhow!("--ended-max-size: must not be negative"))?;
        Ok(Keep { age: self.ended_max_age, bytes, files: self.ended_max_files })
    }

    /// Refuses what makes no sense, before anything is made.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        self.ports()?;
        self.entrypoints()?;
        self.keep()?;
        self.log_rules().map(drop)
    }

    /// An operator that addresses replicas by ports of this machine and tells the node which pods belong together.
    pub(crate) fn operator(&self) -> anyhow::Result<trainyard_operator::Options> {
        let mut options = trainyard_operator::Options { ports: Some(self.ports()?), ..Default::default() };
        options.plan.addressing = Addressing::HostPorts;
        options.plan.gang_on_pods = true;
        options.plan.track_pods = true;
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        options.plan.helpers.program = program.to_string_lossy().into_owned();
        Ok(options)
    }

    fn ports(&self) -> anyhow::Result<(u16, u16)> {
        crate::ports::range("--ports", &self.ports)
    }
}

/// Reads a duration such as `90s`, `1h`, `1h30m`; `never` is none.
pub(crate) fn time_or_never(text: &str) -> Result<Never, String> {
    if text == "never" {
        return Ok(Never(None));
    }
    time(text).map(|time| Never(Some(time))).map_err(|why| format!("{why}, or `never`"))
}

/// Reads a duration such as `90s`, `1h`, `1h30m`.
fn time(text: &str) -> Result<Duration, String> {
    let parsed: Result<jiff::SignedDuration, _> = text.parse();
    let positive = parsed.ok().and_then(|duration| Duration::try_from(duration).ok());
    positive.ok_or_else(|| "write a time such as 90s, 15m or 1h".into())
}

/// A duration, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Never(pub(crate) Option<Duration>);
