//! Which API server is meant, by kubectl's rules.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};

/// What to do when there is nothing to connect to. Most who read it have not started anything yet.
const NONE: &str = "no kubeconfig was found, and this is no pod in a cluster: start `trainyard up`, which prints the path \
                    of one, then `export KUBECONFIG=<that path>`; or pass --kubeconfig FILE";

/// The options that every command with a server has.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Connection {
    /// Kubeconfig file; $KUBECONFIG, ~/.kube/config or the cluster's own if left out.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

impl Connection {
    /// How to reach the server.
    pub(crate) async fn config(&self) -> anyhow::Result<kube::Config> {
        let choice = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        match self.file()? {
            Some((file, origin)) => {
                let known: Vec<&str> = file.contexts.iter().map(|context| context.name.as_str()).collect();
                if let Some(wanted) = self.context.as_deref().filter(|wanted| !known.contains(wanted)) {
                    bail!("--context: {origin} has no context {wanted:?}, it has {known:?}");
                }
                if self.context.is_none() && file.current_context.as_deref().is_none_or(str::is_empty) {
                    bail!(
                        "{origin}: current-context: Required value: set it, or pass --context with one of {known:?}"
                    );
                }
                let config = kube::Config::from_custom_kubeconfig(file, &choice).await;
                config.with_context(|| format!("{origin} cannot be used"))
            }
            None if self.context.is_some() => bail!("--context: {NONE}"),
            None => kube::Config::incluster().map_err(|_| anyhow::anyhow!(NONE)),
        }
    }

    /// The kubeconfig that counts, and where it stands.
    fn file(&self) -> anyhow::Result<Option<(Kubeconfig, String)>> {
        if let Some(path) = &self.kubeconfig {
            return Ok(Some((read(path)?, path.display().to_string())));
        }
        let listed: Vec<PathBuf> = std::env::var_os("KUBECONFIG")
            .map(|value| std::env::split_paths(&value).filter(|path| !path.as_os_str().is_empty()).collect())
            .unwrap_or_default();
        if !listed.is_empty() {
            return merged(&listed).map(Some);
        }
        let home = std::env::home_dir().map(|home| home.join(".kube/config"));
        match home.filter(|path| path.exists()) {
            Some(path) => Ok(Some((read(&path)?, path.display().to_string()))),
            None => Ok(None),
        }
    }
}

/// Several files are one; those that do not exist are left out, as kubectl does. None at all is a slip.
fn merged(paths: &[PathBuf]) -> anyhow::Result<(Kubeconfig, String)> {
    let there: Vec<&PathBuf> = paths.iter().filter(|path| path.exists()).collect();
    let mut whole = Kubeconfig::default();
    for path in &there {
        whole = whole.merge(read(path)?).with_context(|| format!("cannot merge {}", path.display()))?;
    }
    let names = |paths: &mut dyn Iterator<Item = &PathBuf>| {
        paths.map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    };
    if there.is_empty() {
        bail!("$KUBECONFIG names {}, which does not exist: {NONE}", names(&mut paths.iter()));
    }
    Ok((whole, names(&mut there.into_iter())))
}

fn read(path: &PathBuf) -> anyhow::Result<Kubeconfig> {
    Kubeconfig::read_from(path).with_context(|| format!("cannot read {}", path.display()))
}
