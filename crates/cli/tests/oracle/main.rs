//! The training-operator as an oracle: it and Trainyard get the same jobs, their pods meet the same ends, and everything
//! that both wrote into the API is compared field by field.
//!
//! Each side has a control plane of its own, without controllers and nodes: nobody but the operator and this test writes.
//! All cases walk in step. A step changes something in each (`script.rs`, `kubelet.rs`), waits until the operator has nothing left
//! to do (`quiet.rs`), and takes a snapshot (`snapshot.rs`). What differs (`compare.rs`) is a bug, or has a name in
//! `differences.yaml`, from which the table in `docs/differences.md` is written.
//!
//! `TRAINYARD_CASES=NAME,…` runs only these (a `*` stands for anything), for whoever is looking for a bug.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test that meets the unexpected has to fail, and loudly; its figures have to be said"
)]

mod allowed;
mod api;
mod case;
mod change;
mod compare;
mod flat;
mod generated;
mod kubelet;
mod quiet;
mod script;
mod side;
mod snapshot;
mod webhook;

use std::io::Write as _;
use std::path::PathBuf;

use trainyard_cluster::{Cluster, Options, Programs};

use crate::allowed::Allowed;
use crate::case::Case;
use crate::compare::Comparison;
use crate::side::{Operator, Side};
use crate::snapshot::Life;

/// What lies beside this file.
fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/oracle")
}

/// The peer and its sources, if they can be had; where `CI` is set they have to be.
fn peer() -> Option<(PathBuf, PathBuf)> {
    let found = Programs::find(&["training-operator"])
        .and_then(|programs| Ok((programs.path("training-operator"), Programs::peer_sources()?)));
    match found {
        Ok(found) => Some(found),
        Err(error) if std::env::var_os("CI").is_none() => {
            eprintln!("LEFT OUT: the comparison with the training-operator. {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Steps after which ours takes the peer's place.
const CHANGE: usize = 2;

/// Everything that one operator did for these cases, on a control plane of its own.
async fn live(operator: Operator<'_>, cases: &[Case]) -> Option<Vec<Life>> {
    let cluster = Cluster::for_test(&Options::default()).unwrap()?;
    let mut side = Side::start(&cluster, operator, cases).await;
    Some(side.live(cases).await)
}

/// What became of these cases when the peer began and ours went on.
async fn live_with_change(peer: Operator<'_>, cases: &[Case]) -> Vec<Life> {
    let cluster = Cluster::for_test(&Options::default()).unwrap().unwrap();
    let mut side = Side::start(&cluster, peer, cases).await;
    side.live_with_change(cases, &cluster, CHANGE).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_operators_write_the_same() {
    let Some((program, sources)) = peer() else { return };
    let allowed = Allowed::read(&folder().join("differences.yaml"));
    let cases = Case::all(&folder().join("manifests"), &sources);
    let peer = Operator::Peer { program: &program, sources: &sources };
    let Some(theirs) = live(peer, &cases).await else { return };
    let ours = live(Operator::Trainyard { sources: &sources }, &cases).await.unwrap();
    let comparison = Comparison::of(&cases, &theirs, &ours);
    let verdict = allowed.judge(&comparison);
    // Not by a macro, whose words are kept back when all is well.
    writeln!(std::io::stderr(), "{}", verdict.figures()).unwrap();
    let all = std::env::var_os("TRAINYARD_CASES").is_none();
    let problems = verdict.problems(all);
    assert!(problems.is_empty(), "\n{problems}");
    let changed = live_with_change(peer, &cases).await;
    let problems = change::problems(&cases, &allowed, &theirs, &ours, &changed);
    assert!(problems.is_empty(), "\n{problems}");
}
