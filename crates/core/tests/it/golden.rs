//! Golden files: for each framework, manifests and exactly what they become.
//!
//! `fixtures/<framework>/<case>.yaml` becomes `<case>.golden`. `UPDATE_GOLDEN=1 cargo test` writes the latter; review
//! the difference. Lines `# option: key=value` at the top of a manifest set options of the operator.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use trainyard_core::explain::{Explanation, explain};
use trainyard_core::*;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn options(manifest: &str) -> Options {
    let mut options = Options::default();
    options.helpers.image = "trainyard/trainyard:test".into();
    for line in manifest.lines().filter_map(|line| line.strip_prefix("# option: ")) {
        match line.split_once('=') {
            Some(("clusterDomain", domain)) => options.cluster_domain = Some(domain.into()),
            Some(("gangOnPods", "true")) => options.gang_on_pods = true,
            Some(("hostPorts", "true")) => options.addressing = Addressing::HostPorts,
            Some(("trackPods", "true")) => options.track_pods = true,
            Some(("gang", name)) => options.gang = GangScheduler::named(name),
            Some(("waitImage", image)) => options.helpers.wait_image = Some(image.into()),
            Some(("kubectlImage", image)) => options.helpers.kubectl_image = Some(image.into()),
            _ => panic!("unknown option line: {line}"),
        }
    }
    options
}

fn render(manifest: &str) -> String {
    let object: Value = serde_saphyr::from_str(manifest).unwrap();
    let catalog = Catalog::default();
    let kind = catalog.kind(object["kind"].as_str().unwrap()).unwrap();
    let options = options(manifest);
    let Explanation { errors, children, .. } = explain(&catalog, kind, &object, &options);
    let mut text = String::new();
    for error in &errors {
        writeln!(text, "error: {error}").unwrap();
    }
    for child in &children {
        writeln!(text, "--- {} {}", child.what.kind, child.name).unwrap();
        text += &serde_saphyr::to_string(&child.body).unwrap();
    }
    text
}

#[test]
fn manifests_become_exactly_this() {
    let mut stale = Vec::new();
    for framework in frameworks::ALL {
        let folder = fixtures().join(framework.facts().name);
        let mut cases = 0;
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "yaml") {
                continue;
            }
            cases += 1;
            let text = render(&std::fs::read_to_string(&path).unwrap());
            let golden = path.with_extension("golden");
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                std::fs::write(&golden, &text).unwrap();
            } else if std::fs::read_to_string(&golden).unwrap_or_default() != text {
                stale.push(format!("{} is now:\n{text}", golden.display()));
            }
        }
        assert!(cases > 0, "{} has no fixtures", framework.facts().name);
    }
    assert!(stale.is_empty(), "{}", stale.join("\n"));
}
