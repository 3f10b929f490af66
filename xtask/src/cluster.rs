//! `cargo xtask cluster`: the control plane of the tests, for people who want to look at a real one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use trainyard_cluster::{Cluster, Options, default_directory, is_used};

/// A file that asks whoever runs in the folder to end.
const STOP: &str = "stop";
const PAUSE: Duration = Duration::from_millis(100);

/// Runs `up`, `down` or `kubeconfig`.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    match words.split_first() {
        Some((&"up", rest)) => {
            let asked = Asked::read(rest)?;
            ensure!(
                asked.control_plane || asked.node,
                "say what to start: `--control-plane`, or `--node` for one with a node"
            );
            if asked.detach { detach(&asked.folder()?, asked.node) } else { up(&asked.folder()?, asked.node) }
        }
        Some((&"down", rest)) => down(&Asked::read(rest)?.folder()?),
        Some((&"kubeconfig", rest)) => {
            let folder = Asked::read(rest)?.folder()?;
            ensure!(is_used(&folder), "no control plane runs in {}", folder.display());
            println!("{}", folder.join("kubeconfig").display());
            Ok(())
        }
        _ => bail!("say `cluster up`, `cluster kubeconfig` or `cluster down`"),
    }
}

/// What stands behind the command.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    control_plane: bool,
    node: bool,
    detach: bool,
    directory: Option<PathBuf>,
}

impl Asked {
    fn read(words: &[&str]) -> Result<Self> {
        let mut asked = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--control-plane" => asked.control_plane = true,
                "--node" => asked.node = true,
                "--detach" => asked.detach = true,
                "--dir" => asked.directory = Some(words.next().context("--dir needs a folder")?.into()),
                other => bail!("unknown option {other}"),
            }
        }
        Ok(asked)
    }

    fn folder(&self) -> Result<PathBuf> {
        let folder = match &self.directory {
            Some(path) => path.clone(),
            None => default_directory()?,
        };
        std::path::absolute(&folder).with_context(|| format!("{}", folder.display()))
    }
}

/// Runs it until somebody asks for the end. Ctrl-C needs no handling: the programs end with this process.
fn up(folder: &Path, node: bool) -> Result<()> {
    fs::create_dir_all(folder)?;
    let stop = folder.join(STOP);
    let options =
        Options { controllers: true, node, directory: Some(folder.to_owned()), ..Options::default() };
    let cluster = Cluster::start(&options)?;
    let _none_before = fs::remove_file(&stop);
    println!("{} is ready\nexport KUBECONFIG={}", cluster.url(), cluster.kubeconfig().display());
    while !stop.exists() {
        thread::sleep(PAUSE);
    }
    drop(cluster);
    fs::remove_file(stop)?;
    Ok(())
}

/// Starts `up` again as a process of its own, and waits until it is ready.
fn detach(folder: &Path, node: bool) -> Result<()> {
    use std::os::unix::process::CommandExt;
    ensure!(!is_used(folder), "a control plane already runs in {}", folder.display());
    fs::create_dir_all(folder)?;
    let log = fs::File::create(folder.join("up.log"))?;
    let kubeconfig = folder.join("kubeconfig");
    let _of_an_earlier_one = fs::remove_file(&kubeconfig);
    let mut child = Command::new(std::env::current_exe()?)
        .args(["cluster", "up", if node { "--node" } else { "--control-plane" }, "--dir"])
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()?;
    while !kubeconfig.exists() {
        if let Some(status) = child.try_wait()? {
            let log = fs::read_to_string(folder.join("up.log")).unwrap_or_default();
            bail!("it ended with {status}:\n{log}");
        }
        thread::sleep(PAUSE);
    }
    println!("export KUBECONFIG={}", kubeconfig.display());
    Ok(())
}

fn down(folder: &Path) -> Result<()> {
    ensure!(is_used(folder), "no control plane runs in {}", folder.display());
    fs::write(folder.join(STOP), "")?;
    while is_used(folder) {
        thread::sleep(PAUSE);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_in_any_order() {
        let asked = Asked::read(&["--dir", "/a", "--control-plane"]).unwrap();
        assert_eq!(asked, Asked { control_plane: true, directory: Some("/a".into()), ..Asked::default() });
        assert!(Asked::read(&["--node"]).unwrap().node);
        assert!(Asked::read(&["--dir"]).is_err());
        assert!(Asked::read(&["--nodes"]).is_err());
        assert!(run(&["up"]).unwrap_err().to_string().contains("--control-plane"));
    }

    #[test]
    fn nothing_is_stopped_where_nothing_runs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        assert!(run(&["down", "--dir", path]).unwrap_err().to_string().contains("no control plane runs"));
        assert!(run(&["kubeconfig", "--dir", path]).is_err());
    }
}
