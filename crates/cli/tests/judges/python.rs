//! Pythons that have what a test needs, installed by package name. Made once, outside the tree; by one test at a time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::kit::text;

/// What a program in Python needs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Needs {
    /// Packages of PyPI, with their versions: a virtual environment in the user's cache.
    Pip(&'static [&'static str]),
    /// Packages of Debian, and a line of Python that fails unless they are there: the system's own Python.
    Debian(&'static [&'static str], &'static str),
}

/// A Python that has what is needed. What is missing is installed.
pub(crate) fn python(needs: Needs) -> Result<PathBuf, String> {
    match needs {
        Needs::Pip(packages) => virtual_environment(packages),
        Needs::Debian(packages, line) => system(packages, line),
    }
}

fn virtual_environment(packages: &[&str]) -> Result<PathBuf, String> {
    let name = packages.join("+").replace("==", "-");
    let folder = cache()?.join(&name);
    let program = folder.join("bin/python3");
    // Written last: what has none was left half-made. One whose Python has been removed since is no use either.
    let complete = folder.join("complete");
    let is_whole = || complete.is_file() && run(&program, &["-c", ""]).is_ok();
    install_once(&name, is_whole, || {
        let _ = fs::remove_file(&complete);
        run(Path::new("python3"), &["-m", "venv", "--clear", &folder.to_string_lossy()])?;
        run(&program, &[&["-m", "pip", "install", "--quiet"], packages].concat())?;
        fs::write(&complete, "").map_err(|error| error.to_string())
    })?;
    Ok(program)
}

fn system(packages: &[&str], line: &str) -> Result<PathBuf, String> {
    let program = Path::new("/usr/bin/python3");
    let has_it = || run(program, &["-c", line]).is_ok();
    install_once("apt", has_it, || {
        let install = || run(Path::new("apt-get"), &[&APT_INSTALL, packages].concat());
        // A machine that has never asked does not know what there is.
        install().or_else(|_| run(Path::new("apt-get"), &["update", "--quiet"]).and_then(|()| install()))?;
        run(program, &["-c", line])
    })?;
    Ok(program.to_owned())
}

const APT_INSTALL: [&str; 6] =
    ["install", "--yes", "--quiet", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=600"];

/// Installs what is not there yet. Who comes second waits for the first and finds it done.
fn install_once(
    name: &str,
    is_there: impl Fn() -> bool,
    install: impl Fn() -> Result<(), String>,
) -> Result<(), String> {
    if is_there() {
        return Ok(());
    }
    let lock = cache()?.join(format!("{name}.lock"));
    let held = File::create(&lock).map_err(|error| format!("{}: {error}", lock.display()))?;
    held.lock().map_err(|error| format!("{}: {error}", lock.display()))?;
    if is_there() { Ok(()) } else { install() }
}

fn cache() -> Result<PathBuf, String> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache"),
        PathBuf::from,
    );
    let folder = cache.join("trainyard").join("python");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

fn run(program: &Path, args: &[&str]) -> Result<(), String> {
    let what = || format!("{} {}", program.display(), args.join(" "));
    let output = Command::new(program).args(args).env("DEBIAN_FRONTEND", "noninteractive").output();
    let output = output.map_err(|error| format!("{}: {error}", what()))?;
    output.status.success().then_some(()).ok_or_else(|| format!("{}: {}", what(), text(&output.stderr)))
}
