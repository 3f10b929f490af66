//! Builds the programs from the pinned Go modules. Two tests that need the same program build it once.

use std::env::consts::{ARCH, OS};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::programs::is_built;
use crate::{ETCD, Error, KUBERNETES, TRAINING_OPERATOR};

/// A Go module of ours: what it is for, and its files.
pub(crate) struct Module {
    name: &'static str,
    /// Of what its programs are built from.
    version: &'static str,
    files: &'static [(&'static str, &'static str)],
    /// Programs and the packages they are built from.
    programs: &'static [(&'static str, &'static str)],
}

macro_rules! files {
    ($($path:literal),+) => { &[$(($path, include_str!(concat!("../go/", $path)))),+] };
}

const MODULES: [Module; 5] = [
    Module {
        name: "kubernetes",
        version: KUBERNETES,
        files: files!["kubernetes/go.mod", "kubernetes/go.sum", "kubernetes/tools.go"],
        programs: &[
            ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
            ("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
            ("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
            ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
        ],
    },
    Module {
        name: "kubelet",
        version: KUBERNETES,
        files: files!["kubelet/go.mod", "kubelet/go.sum", "kubelet/tools.go"],
        programs: &[("kubelet", "k8s.io/kubernetes/cmd/kubelet")],
    },
    Module {
        name: "etcd",
        version: ETCD,
        files: files!["etcd/go.mod", "etcd/go.sum", "etcd/tools.go"],
        programs: &[("etcd", "go.etcd.io/etcd/server/v3")],
    },
    Module {
        name: "training-operator",
        version: TRAINING_OPERATOR,
        files: files!["training-operator/go.mod", "training-operator/go.sum", "training-operator/tools.go"],
        programs: &[("training-operator", "github.com/kubeflow/training-operator/cmd/training-operator.v1")],
    },
    Module {
        name: "clients",
        version: KUBERNETES,
        files: files![
            "clients/go.mod",
            "clients/go.sum",
            "clients/main.go",
            "clients/kit.go",
            "clients/typed.go",
            "clients/watching.go",
            "clients/dynamic.go",
            "clients/controllers.go"
        ],
        programs: &[("clients", ".")],
    },
];

impl Module {
    /// The module that a program is built from.
    pub(crate) fn of(program: &str) -> Option<&'static Self> {
        MODULES.iter().find(|module| module.package(program).is_some())
    }

    fn package(&self, program: &str) -> Option<&'static str> {
        self.programs.iter().find(|(name, _)| *name == program).map(|(_, package)| *package)
    }

    /// Whether its programs are what others ship ready-made.
    pub(crate) fn is_of_a_control_plane(&self) -> bool {
        ["kubernetes", "etcd"].contains(&self.name)
    }

    /// Names what is built: the version, the platform, and everything else that decides what comes out.
    pub(crate) fn key(&self) -> String {
        let texts = self.files.iter().map(|(_, text)| *text);
        let hash = fnv(texts.chain([flags(self.name).as_str()]));
        format!("{}-{}-{OS}-{ARCH}-{hash:016x}", self.name, self.version)
    }
}

/// How many lines of Go's complaints are shown.
const TAIL: usize = 15;

/// A hash that stays the same from one compiler to the next.
fn fnv<'a>(texts: impl Iterator<Item = &'a str>) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    texts.flat_map(|text| text.bytes().chain([0])).fold(0xcbf2_9ce4_8422_2325, step)
}

/// Builds a program in `folder/bin`, unless it is there.
pub(crate) fn one(module: &Module, folder: &Path, name: &str) -> Result<(), Error> {
    if is_built(folder, name) {
        return Ok(());
    }
    fs::create_dir_all(folder.join("bin")).map_err(Error::at(folder))?;
    let lock = folder.join("lock");
    let held = File::create(&lock).map_err(Error::at(&lock))?;
    held.lock().map_err(Error::at(&lock))?;
    // Somebody may have built it while we waited.
    if is_built(folder, name) { Ok(()) } else { compile(module, folder, name) }
}

#[expect(clippy::print_stderr, reason = "minutes of silence would look like a test that hangs")]
fn compile(module: &Module, folder: &Path, name: &str) -> Result<(), Error> {
    let package = module.package(name).unwrap_or(name);
    let sources = unpack(module, folder)?;
    eprintln!("building {name} of {}: minutes the first time, never again", module.name);
    let made = tempfile::Builder::new().prefix(".building").tempdir_in(folder).map_err(Error::at(folder))?;
    let made = made.path().join(name);
    let mut command = go(&sources);
    let flags = flags(module.name);
    command.args(["build", "-trimpath", "-mod=readonly", "-buildvcs=false", "-ldflags", &flags, "-o"]);
    run(name, command.arg(&made).arg(package))?;
    let place = folder.join("bin").join(name);
    fs::rename(&made, &place).map_err(Error::at(place))
}

/// Go, in the folder of a module.
fn go(sources: &Path) -> Command {
    let mut command = Command::new("go");
    command.current_dir(sources).env("CGO_ENABLED", "0").env("GOWORK", "off").env_remove("GOFLAGS");
    command.stdin(Stdio::null());
    command
}

fn run(name: &str, command: &mut Command) -> Result<String, Error> {
    let output = command.output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::Missing { why: format!("{name} is not built and there is no `go`") },
        _ => error.into(),
    })?;
    if !output.status.success() {
        let why = tail(&String::from_utf8_lossy(&output.stderr), TAIL);
        return Err(Error::Build { program: name.to_owned(), why });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Where Go keeps the sources of a program's module: manifests and examples lie beside them.
pub(crate) fn sources(module: &Module, folder: &Path, path: &str) -> Result<PathBuf, Error> {
    let place = unpack(module, folder)?;
    let found = run(path, go(&place).args(["mod", "download", "-json", path]))?;
    let line = found.lines().find_map(|line| line.trim().strip_prefix("\"Dir\": \"")?.strip_suffix("\","));
    line.map(PathBuf::from).ok_or_else(|| Error::Missing { why: format!("Go does not say where {path} is") })
}

/// Writes the module to where Go can read it.
fn unpack(module: &Module, folder: &Path) -> Result<PathBuf, Error> {
    let modules = folder.join("modules");
    let place = modules.join(module.name);
    fs::create_dir_all(&place).map_err(Error::at(&place))?;
    for (file, text) in module.files {
        let path = modules.join(file);
        fs::write(&path, text).map_err(Error::at(path))?;
    }
    Ok(place)
}

/// The version is not in the sources but set by the linker; without it programs call themselves v0.0.0.
fn flags(module: &str) -> String {
    if !["kubernetes", "kubelet"].contains(&module) {
        return "-s -w".into();
    }
    let mut parts = KUBERNETES.split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let set = |field: &str, value: &str| format!(" -X k8s.io/component-base/version.{field}={value}");
    let version = set("gitVersion", &format!("v{KUBERNETES}"));
    format!("-s -w{version}{}{}", set("gitMajor", major), set("gitMinor", minor))
}

/// The last lines of a text.
pub(crate) fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all.get(all.len().saturating_sub(lines)..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modules_pin_the_versions_we_say() {
        for (program, path, version) in [
            ("kube-apiserver", "k8s.io/kubernetes", KUBERNETES),
            ("kubelet", "k8s.io/kubernetes", KUBERNETES),
            ("etcd", "go.etcd.io/etcd/server/v3", ETCD),
            ("training-operator", "github.com/kubeflow/training-operator", TRAINING_OPERATOR),
        ] {
            let text = Module::of(program).unwrap().files[0].1;
            assert!(text.contains(&format!("require {path} v{version}\n")), "{program}");
        }
    }

    #[test]
    fn the_key_is_the_same_every_time_and_differs_with_the_text() {
        let keys: Vec<String> = MODULES.iter().map(Module::key).collect();
        assert_eq!(keys, MODULES.iter().map(Module::key).collect::<Vec<_>>());
        assert!(keys.iter().all(|key| keys.iter().filter(|other| *other == key).count() == 1));
        assert_eq!(fnv(["a"].into_iter()), 0x089b_e207_b544_f1e4);
        assert_ne!(fnv(["a", "b"].into_iter()), fnv(["ab"].into_iter()));
    }

    #[test]
    fn the_end_of_a_text_is_shown() {
        assert_eq!(tail("a\nb\nc", 2), "b\nc");
        assert_eq!(tail("a", 2), "a");
    }
}
