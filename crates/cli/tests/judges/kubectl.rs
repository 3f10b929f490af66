//! The real kubectl, on the real server and on the embedded one.

use std::path::{Path, PathBuf};

use crate::servers::{self, Side};
use crate::transcript::Transcript;

/// The custom resources that `up` brings along, for the server that does not.
fn definitions() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/crd/bases")
}

#[tokio::test]
async fn every_command_does_what_it_does_on_a_real_server() {
    let Some(kubectl) = servers::kubectl() else { return };
    let home = tempfile::tempdir().unwrap();
    let record = std::env::var_os("TRAINYARD_RECORD").is_some();
    let transcripts = Transcript::all("transcripts");
    let mut report = String::new();
    if let Some(real) = servers::real() {
        let set_up = Side::new("real", &kubectl, real.kubeconfig(), home.path().join("set-up"));
        let line = format!("kubectl create -f {}", definitions().display());
        assert!(set_up.shell(&line).status().unwrap().success());
        for transcript in &transcripts {
            let scratch = home.path().join("real").join(&transcript.name);
            let seen = transcript.run(&Side::new("real", &kubectl, real.kubeconfig(), scratch));
            if record {
                transcript.record(&seen);
            } else {
                report.push_str(&transcript.differences("the real server", &seen));
            }
        }
    }
    if record {
        return;
    }
    let up = servers::embedded(&home.path().join("up")).await;
    for transcript in transcripts {
        let scratch = home.path().join("embedded").join(&transcript.name);
        let side = Side::new("embedded", &kubectl, &up.dir.join("kubeconfig"), scratch);
        let seen = transcript.run(&side);
        report.push_str(&transcript.differences(side.name, &seen));
    }
    assert!(report.is_empty(), "\n{report}");
}
