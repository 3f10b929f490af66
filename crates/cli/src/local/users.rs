//! Whom jobs run as under `up`.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use trainyard_node::UidRange;
use trainyard_node::runtime::Runtime;

/// Far from the users that systems and people make, and from those of containers.
const USUAL: &str = "2000000000-2000065535";

/// Flags of `up` about users.
#[derive(clap::Args)]
pub(crate) struct UserArgs {
    /// Run the jobs of each namespace as a user of its own, who cannot read what others have. Needs root.
    #[arg(long)]
    isolate_namespaces: bool,
    /// User and group numbers for namespaces, with `--isolate-namespaces`. No number is ever given twice.
    #[arg(long, default_value = USUAL, value_name = "FIRST-LAST")]
    uids: String,
}

impl UserArgs {
    /// The numbers for namespaces, if each is to have its own.
    pub(crate) fn isolation(&self, has_node: bool) -> anyhow::Result<Option<UidRange>> {
        let range = UidRange::parse(&self.uids).map_err(|why| anyhow!("--uids: {why}"))?;
        if !self.isolate_namespaces || !has_node {
            return Ok(None);
        }
        if !is_root()? {
            bail!(
                "--isolate-namespaces needs root, since only root can run programs as other users: start `up` as root, or \
                 leave the flag out"
            );
        }
        range.check_machine().map_err(|why| anyhow!("--uids: {why}"))?;
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mounts = Runtime::new(program, trainyard_operator::system_clock()).can_mount();
        mounts.map_err(|why| {
            anyhow!("--isolate-namespaces needs mounts for directories and secrets of jobs: {why}")
        })?;
        Ok(Some(range))
    }

    /// What whoever starts `up` has to know.
    pub(crate) fn warning(&self, has_node: bool, data: &Path) -> anyhow::Result<Option<String>> {
        let told = has_node && !self.isolate_namespaces && is_root()?;
        Ok(told.then(|| {
            format!(
                "every job runs as root: it can read all files of this machine, the token in {} too, and end every process. \
                 Start `up` as another user, or with --isolate-namespaces, which runs each namespace as a user of its own",
                data.join("pki").display()
            )
        }))
    }
}

fn is_root() -> anyhow::Result<bool> {
    let own = std::fs::metadata("/proc/self").context("cannot tell which user this is: /proc")?;
    Ok(own.uid() == 0)
}
