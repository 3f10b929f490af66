//! The real kubectl at pods that run: on a node of a real cluster, and on the one inside `up`.
//!
//! A real node needs root and containerd, so `TRAINYARD_NODE=1` asks for it. What it answered is checked in, and the
//! embedded one has to answer the same everywhere.

use std::path::Path;

use crate::servers::{self, Side};
use crate::transcript::{Step, Transcript};

/// The name of the only node, once it is there.
fn name_of_node(side: &Side) -> String {
    let line = "until kubectl get nodes -o name 2>/dev/null | grep -q .; do sleep 0.1; done; \
                kubectl get nodes -o jsonpath='{.items[0].metadata.name}'";
    String::from_utf8(side.shell(line).output().unwrap().stdout).unwrap()
}

/// Closes the node to new pods, so it has the node for itself.
const ALONE: &str = "cordon";

/// Runs every transcript on one server, at the same time where they do not meet.
fn run(name: &'static str, kubectl: &Path, kubeconfig: &Path, home: &Path) -> Vec<(Transcript, Vec<Step>)> {
    let node = name_of_node(&Side::new(name, kubectl, kubeconfig, home.join("set-up")));
    let one = |transcript: Transcript| {
        let side = Side::new(name, kubectl, kubeconfig, home.join(&transcript.name)).with_node(&node);
        let seen = transcript.run(&side);
        (transcript, seen)
    };
    let all = Transcript::all("transcripts/node").into_iter();
    let (alone, together): (Vec<_>, Vec<_>) = all.partition(|transcript| transcript.name == ALONE);
    let mut done: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> =
            together.into_iter().map(|transcript| scope.spawn(|| one(transcript))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    done.extend(alone.into_iter().map(one));
    done
}

#[tokio::test]
async fn commands_to_running_pods_do_what_they_do_on_a_real_node() {
    let Some(kubectl) = servers::kubectl() else { return };
    let home = tempfile::tempdir().unwrap();
    let record = std::env::var_os("TRAINYARD_RECORD").is_some();
    let mut report = String::new();
    if (record || std::env::var_os("TRAINYARD_NODE").is_some())
        && let Some(real) = servers::real_node()
    {
        for (transcript, seen) in run("real", &kubectl, real.kubeconfig(), &home.path().join("real")) {
            if record {
                transcript.record(&seen);
            } else {
                report.push_str(&transcript.differences("the real node", &seen));
            }
        }
    }
    if record {
        return;
    }
    let up = servers::embedded_node(&home.path().join("up")).await;
    let kubeconfig = up.dir.join("kubeconfig");
    for (transcript, seen) in run("embedded", &kubectl, &kubeconfig, &home.path().join("embedded")) {
        report.push_str(&transcript.differences("the embedded node", &seen));
    }
    assert!(report.is_empty(), "\n{report}");
}
