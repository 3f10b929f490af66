//! The examples train for real: each framework is installed, and `trainyard run` runs its job on this machine.
//!
//! A framework that cannot be installed fails its test. Those that are too large for every day are ignored by name, and
//! `make test-all` runs them too.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets the unexpected has to fail, and loudly"
)]

#[path = "../one_machine/kit.rs"]
#[expect(dead_code, reason = "shared with the tests on one machine, which use more of it")]
mod kit;
#[path = "../judges/python.rs"]
mod python;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use regex::Regex;

use kit::{text, trainyard};
use python::Needs::{Debian, Pip};
use python::{Needs, python};

/// One framework and its job, under `examples/`.
struct Example {
    framework: &'static str,
    job: &'static str,
    ranks: u32,
    needs: Needs,
}

const OPEN_MPI: &str = "import mpi4py.MPI, numpy, shutil; assert shutil.which('mpirun')";

macro_rules! examples {
    ($($(#[$large:meta])? $test:ident: $framework:literal, $job:literal, $ranks:literal, $needs:expr;)+) => {
        $(#[test] $(#[$large])? fn $test() {
            Example { framework: $framework, job: $job, ranks: $ranks, needs: $needs }.trains();
        })+
    };
}

examples! {
    pytorch: "PyTorch", "pytorch/pytorchjob.yaml", 3, Debian(&["python3-torch"], "import torch");
    xgboost: "XGBoost", "xgboost/xgboostjob.yaml", 3, Pip(&["xgboost-cpu==3.2.0"]);
    jax: "JAX", "jax/jaxjob.yaml", 3, Pip(&["jax==0.10.2", "jaxlib==0.10.2"]);
    mpi: "MPI", "mpi/mpijob.yaml", 4, Debian(&["openmpi-bin", "python3-mpi4py", "python3-numpy"], OPEN_MPI);
    #[ignore = "1.5 GB: `make test-all` runs it"]
    tensorflow_mirrored: "TensorFlow, mirrored", "tensorflow/mirrored.yaml", 2, Pip(&["tensorflow-cpu==2.21.0"]);
    #[ignore = "1.5 GB: `make test-all` runs it"]
    tensorflow_servers: "TensorFlow, parameter server", "tensorflow/tfjob.yaml", 2, Pip(&["tensorflow-cpu==2.21.0"]);
    #[ignore = "0.8 GB: `make test-all` runs it"]
    paddle: "Paddle", "paddle/paddlejob.yaml", 2, Pip(&["paddlepaddle==3.3.1"]);
}

impl Example {
    fn trains(&self) {
        let framework = self.framework;
        let python = python(self.needs).unwrap_or_else(|why| panic!("{framework} is not there: {why}"));
        let home = tempfile::tempdir().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut command = trainyard(home.path());
        // As in a shell where the environment was activated.
        let before = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::split_paths(&before);
        let path = std::env::join_paths([python.parent().unwrap().to_owned()].into_iter().chain(path));
        command.env("PATH", path.unwrap()).current_dir(root);
        let output = command.arg("run").arg(format!("examples/{}", self.job)).output().unwrap();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{framework}: {}\n{out}\n{err}", output.status);
        assert!(err.lines().any(|line| line.contains(": Succeeded after ")), "{framework}: {err}");
        let losses = self.losses(&out);
        let everyone: Vec<u32> = losses.keys().copied().collect();
        assert_eq!(
            everyone,
            (0..self.ranks).collect::<Vec<_>>(),
            "{framework}: not every rank says so\n{out}"
        );
        for (first, last) in losses.values() {
            assert!(last < first, "{framework}: loss {first} -> {last}\n{out}");
        }
        let (first, last) = losses[&0];
        // Not by a macro, whose words are kept back when all is well.
        let said = format!("{framework}: {} ranks trained for real, loss {first} -> {last}\n", self.ranks);
        std::io::stdout().write_all(said.as_bytes()).unwrap();
    }

    /// What each rank says of its loss, at first and at last.
    fn losses(&self, out: &str) -> BTreeMap<u32, (f64, f64)> {
        let line = format!(
            r"(?m)^\[\S+\] rank (\d+) of {}: loss (\S+) -> ([^,\s]+), the same model on all ranks$",
            self.ranks
        );
        let line = Regex::new(&line).unwrap();
        let found = line.captures_iter(out).map(|found| found.extract());
        found
            .map(|(_, [rank, first, last])| {
                (rank.parse().unwrap(), (first.parse().unwrap(), last.parse().unwrap()))
            })
            .collect()
    }
}
