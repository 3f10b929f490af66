//! Images without a registry: one layer with busybox and a link for each of its programs, packed as `docker save` does it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::{IMAGE, PAUSE, Places, ctr, run};
use crate::Error;

/// Waits as long as a process can be told to; killing it is how it ends.
const WAIT: &str = r#"["/bin/sleep", "2147483647"]"#;
const SHELL: &str = r#"["/bin/sh"]"#;

/// Makes both images and gives them to containerd.
pub(super) fn import(places: &Places) -> Result<(), Error> {
    let work = tempfile::tempdir_in(&places.root).map_err(Error::at(&places.root))?;
    let work = work.path();
    fill(&work.join("layer"))?;
    pack(&work.join("layer.tar"), &work.join("layer"), &["."])?;
    for (name, command) in [(format!("docker.io/library/{IMAGE}"), SHELL), (PAUSE.to_owned(), WAIT)] {
        let archive = work.join("image.tar");
        write(&work.join("config.json"), &config(&work.join("layer.tar"), command)?)?;
        let manifest =
            format!(r#"[{{"Config": "config.json", "RepoTags": ["{name}"], "Layers": ["layer.tar"]}}]"#);
        write(&work.join("manifest.json"), &manifest)?;
        pack(&archive, work, &["config.json", "layer.tar", "manifest.json"])?;
        run(ctr(places, &["images", "import"]).arg(&archive))?;
    }
    Ok(())
}

/// The file system of a container.
fn fill(layer: &Path) -> Result<(), Error> {
    for folder in ["bin", "etc", "tmp", "root", "proc", "sys", "dev"] {
        fs::create_dir_all(layer.join(folder)).map_err(Error::at(layer))?;
    }
    run(Command::new("chmod").arg("1777").arg(layer.join("tmp")))?;
    run(Command::new("sh")
        .args(["-c", "cp \"$(command -v busybox)\" \"$0\""])
        .arg(layer.join("bin/busybox")))?;
    let list = Command::new("busybox").arg("--list").output().map_err(Error::at("busybox"))?;
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    for program in list.lines().filter(|program| *program != "busybox") {
        symlink("busybox", layer.join("bin").join(program)).map_err(Error::at(layer))?;
    }
    write(&layer.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n")?;
    write(&layer.join("etc/group"), "root:x:0:\n")
}

fn config(layer: &Path, command: &str) -> Result<String, Error> {
    let output = Command::new("sha256sum").arg(layer).output().map_err(Error::at("sha256sum"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let digest = text.split(' ').next().unwrap_or_default();
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    Ok(format!(
        r#"{{"architecture": "{architecture}", "os": "linux", "config": {{"Cmd": {command},
 "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}},
 "rootfs": {{"type": "layers", "diff_ids": ["sha256:{digest}"]}}}}"#
    ))
}

fn pack(archive: &Path, folder: &Path, names: &[&str]) -> Result<(), Error> {
    let mut command = Command::new("tar");
    command.args(["--create", "--numeric-owner", "--owner=0", "--group=0", "--file"]).arg(archive);
    run(command.arg("--directory").arg(folder).args(names))
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(Error::at(path))
}
