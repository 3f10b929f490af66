//! Builds the programs from the pinned Go modules. Two tests that need the same program build it once.

use std::env::consts::{ARCH, OS};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::programs::{KUBERNETES, is_built};
use crate::{ETCD, Error};

/// A Go module of ours: its folder's name and its files.
struct Module {
    name: &'static str,
    files: [(&'static str, &'static str); 3],
}

const MODULES: [Module; 2] = [
    Module {
        name: "kubernetes",
        files: [
            ("go.mod", include_str!("../go/kubernetes/go.mod")),
            ("go.sum", include_str!("../go/kubernetes/go.sum")),
            ("tools.go", include_str!("../go/kubernetes/tools.go")),
        ],
    },
    Module {
        name: "etcd",
        files: [
            ("go.mod", include_str!("../go/etcd/go.mod")),
            ("go.sum", include_str!("../go/etcd/go.sum")),
            ("tools.go", include_str!("../go/etcd/tools.go")),
        ],
    },
];

/// How many lines of Go's complaints are shown.
const TAIL: usize = 15;

/// Names what is built: versions, platform, and everything else that decides what comes out.
pub(crate) fn key() -> String {
    let texts = MODULES.iter().flat_map(|module| module.files.iter().map(|(_, text)| *text));
    let hash = fnv(texts.chain([flags("kubectl").as_str()]));
    format!("kubernetes-{KUBERNETES}-etcd-{ETCD}-{OS}-{ARCH}-{hash:016x}")
}

/// A hash that stays the same from one compiler to the next.
fn fnv<'a>(texts: impl Iterator<Item = &'a str>) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    texts.flat_map(|text| text.bytes().chain([0])).fold(0xcbf2_9ce4_8422_2325, step)
}

/// Builds what is missing of these programs in `folder/bin`.
pub(crate) fn all(folder: &Path, names: &[&str]) -> Result<(), Error> {
    if names.iter().all(|name| is_built(folder, name)) {
        return Ok(());
    }
    fs::create_dir_all(folder.join("bin")).map_err(Error::at(folder))?;
    let lock = folder.join("lock");
    let held = File::create(&lock).map_err(Error::at(&lock))?;
    held.lock().map_err(Error::at(&lock))?;
    for name in names {
        // Somebody may have built it while we waited.
        if !is_built(folder, name) {
            one(folder, name)?;
        }
    }
    Ok(())
}

#[expect(clippy::print_stderr, reason = "minutes of silence would look like a test that hangs")]
fn one(folder: &Path, name: &str) -> Result<(), Error> {
    let module = unpack(folder, if name == "etcd" { "etcd" } else { "kubernetes" })?;
    let package = match name {
        "etcd" => "go.etcd.io/etcd/server/v3".to_owned(),
        name => format!("k8s.io/kubernetes/cmd/{name}"),
    };
    eprintln!("building {name} from {package}: minutes the first time, never again");
    let made = tempfile::Builder::new().prefix(".building").tempdir_in(folder).map_err(Error::at(folder))?;
    let made = made.path().join(name);
    let output = Command::new("go")
        .current_dir(&module)
        .args(["build", "-trimpath", "-mod=readonly", "-buildvcs=false", "-ldflags", &flags(name), "-o"])
        .arg(&made)
        .arg(package)
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        .env_remove("GOFLAGS")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                Error::Missing { why: format!("{name} is not built and there is no `go`") }
            }
            _ => error.into(),
        })?;
    if !output.status.success() {
        let why = tail(&String::from_utf8_lossy(&output.stderr), TAIL);
        return Err(Error::Build { program: name.to_owned(), why });
    }
    let place = folder.join("bin").join(name);
    fs::rename(&made, &place).map_err(Error::at(place))
}

/// Writes the module to where Go can read it.
fn unpack(folder: &Path, name: &str) -> Result<std::path::PathBuf, Error> {
    let place = folder.join("modules").join(name);
    fs::create_dir_all(&place).map_err(Error::at(&place))?;
    for (file, text) in MODULES.iter().filter(|module| module.name == name).flat_map(|module| module.files) {
        let path = place.join(file);
        fs::write(&path, text).map_err(Error::at(path))?;
    }
    Ok(place)
}

/// The version is not in the sources but set by the linker; without it programs call themselves v0.0.0.
fn flags(name: &str) -> String {
    if name == "etcd" {
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
        let text = |module: usize| MODULES[module].files[0].1;
        assert!(text(0).contains(&format!("require k8s.io/kubernetes v{KUBERNETES}\n")));
        assert!(text(1).contains(&format!("require go.etcd.io/etcd/server/v3 v{ETCD}\n")));
    }

    #[test]
    fn the_key_is_the_same_every_time_and_differs_with_the_text() {
        assert_eq!(key(), key());
        assert_eq!(fnv(["a"].into_iter()), 0x089b_e207_b544_f1e4);
        assert_ne!(fnv(["a", "b"].into_iter()), fnv(["ab"].into_iter()));
    }

    #[test]
    fn the_end_of_a_text_is_shown() {
        assert_eq!(tail("a\nb\nc", 2), "b\nc");
        assert_eq!(tail("a", 2), "a");
    }
}
