//! How often a replica runs, and how its job ends: exactly as the table says, whoever dies in between.

use std::time::Duration;

use trainyard_testkit::{Crds, Death, Job, Moment, Plane, PodScript, pytorch, tf};

/// Policy, exit code of every run, backoffLimit → runs, condition at the end.
type Row = (&'static str, i32, u32, usize, &'static str);

/// An operator that is replaced at once.
const NONE: Duration = Duration::ZERO;

const FAILED: &str = "Created=T Running=F Failed=T";
const SUCCEEDED: &str = "Created=T Running=F Succeeded=T";

/// `backoffLimit: N` means N restarts for every policy that restarts: N + 1 runs. Under `Always` an end with 0 is an
/// end like any other.
#[rustfmt::skip]
const TABLE: &[Row] = &[
    ("Always",    0,   0, 1, FAILED),
    ("Always",    0,   3, 4, FAILED),
    ("Always",    1,   0, 1, FAILED),
    ("Always",    1,   3, 4, FAILED),
    ("Always",    137, 0, 1, FAILED),
    ("Always",    137, 3, 4, FAILED),
    ("OnFailure", 0,   0, 1, SUCCEEDED),
    ("OnFailure", 0,   3, 1, SUCCEEDED),
    ("OnFailure", 1,   0, 1, FAILED),
    ("OnFailure", 1,   3, 4, FAILED),
    ("OnFailure", 137, 0, 1, FAILED),
    ("OnFailure", 137, 3, 4, FAILED),
    ("Never",     0,   0, 1, SUCCEEDED),
    ("Never",     0,   3, 1, SUCCEEDED),
    ("Never",     1,   0, 1, FAILED),
    ("Never",     1,   3, 1, FAILED),
    ("Never",     137, 0, 1, FAILED),
    ("Never",     137, 3, 1, FAILED),
    ("ExitCode",  0,   0, 1, SUCCEEDED),
    ("ExitCode",  0,   3, 1, SUCCEEDED),
    ("ExitCode",  1,   0, 1, FAILED),
    ("ExitCode",  1,   3, 1, FAILED),
    ("ExitCode",  137, 0, 1, FAILED),
    ("ExitCode",  137, 3, 4, FAILED),
];

#[test]
fn the_documentation_has_the_same_table() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/restarts.md");
    let docs = std::fs::read_to_string(path).unwrap();
    let outcome = |row: &Row| {
        let end = if row.4 == SUCCEEDED { "Succeeded" } else { "Failed" };
        format!("{} run{}, {end}", row.3, if row.3 == 1 { "" } else { "s" })
    };
    for pair in TABLE.chunks(2) {
        let [zero, three] = pair else { unreachable!("rows come in pairs") };
        assert_eq!((zero.0, zero.1, zero.2, three.2), (three.0, three.1, 0, 3), "limits 0 and 3 of one case");
        let line = format!("| {} | {} | {} | {} |", zero.0, zero.1, outcome(zero), outcome(three));
        assert!(docs.contains(&line), "docs/restarts.md lacks: {line}");
    }
}

/// A job of one replica, and the name of its pod.
type Single = (fn() -> Job, &'static str);

const KINDS: [Single; 2] = [(|| pytorch("a").master(), "a-master-0"), (|| tf("a").workers(1), "a-worker-0")];

/// One row under one sequence of deaths. Returns how many operators it took.
async fn check(row: &Row, kind: usize, crds: Crds, deaths: &[Death], down: Duration) -> u64 {
    let (policy, code, limit, runs, end) = *row;
    let (job, pod) = KINDS[kind];
    let builder = Plane::builder().crds(crds).deaths(deaths.iter().copied()).down(down);
    let plane = builder.scripts(move |_| PodScript::exits(code, 5)).start().await;
    // With the default clean-up policy pods stay; the kubelet must not restart them all the same.
    plane.create(job().restart(policy).backoff_limit(limit)).await;
    let world = plane.finished("a").await;
    plane.pass(Duration::from_secs(900)).await;
    let what = format!("{row:?} of {pod} under {deaths:?}");
    assert_eq!(plane.world().shape("a"), world.shape("a"), "the end is the end: {what}");
    // A death may hide Running: it was short, and nobody was there to see it.
    let shape = world.shape("a");
    let ends = end.rsplit(' ').next().unwrap();
    assert!(shape == end || (!deaths.is_empty() && shape.ends_with(ends)), "{shape}: {what}");
    assert_eq!(plane.history().count(pod), runs, "{what}\n{}", plane.world().dump());
    assert!(plane.history().overlaps().is_empty(), "{what}");
    assert_eq!(plane.operator_failure(), None, "{what}");
    plane.operators()
}

async fn table(crds: Crds) {
    for kind in 0..KINDS.len() {
        for row in TABLE {
            assert_eq!(check(row, kind, crds.clone(), &[], NONE).await, 1);
        }
    }
}

crate::under_both!(table);

/// Kills the operator at its first write, at its second, … on either side of it, until it is done before it dies.
async fn dies_everywhere(policy: &str, kind: usize) {
    for row in TABLE.iter().filter(|row| row.0 == policy) {
        for moment in [Moment::Before, Moment::After] {
            for write in 1.. {
                let deaths = [Death { write, moment }];
                if check(row, kind, Crds::Upstream, &deaths, NONE).await == 1 {
                    assert!(write > 5, "an operator that writes so little does nothing");
                    break;
                }
            }
        }
    }
}

/// Kills one operator after the other, each a little later in its life.
async fn dies_again_and_again(policy: &str, kind: usize) {
    for row in TABLE.iter().filter(|row| row.0 == policy) {
        let death =
            |write| Death { write, moment: if write % 2 == 0 { Moment::Before } else { Moment::After } };
        let deaths: Vec<Death> = (1..=12).map(death).collect();
        check(row, kind, Crds::Upstream, &deaths, NONE).await;
    }
}

/// Nobody is there for minutes. The kubelet goes on by itself meanwhile where the policy lets it, so only policies
/// that leave restarts to the operator are exact then.
#[tokio::test(start_paused = true)]
async fn nobody_is_there_for_minutes() {
    for row in TABLE.iter().filter(|row| ["Never", "ExitCode"].contains(&row.0)) {
        for write in [1, 3, 5, 7, 9, 12, 15] {
            let deaths = [Moment::Before, Moment::After].map(|moment| Death { write, moment });
            check(row, 1, Crds::Upstream, &deaths, Duration::from_secs(300)).await;
        }
    }
}

macro_rules! deaths {
    ($($name:ident: $policy:literal, $kind:literal;)*) => {
        $(mod $name {
            #[tokio::test(start_paused = true)]
            async fn everywhere() {
                super::dies_everywhere($policy, $kind).await;
            }

            #[tokio::test(start_paused = true)]
            async fn again_and_again() {
                super::dies_again_and_again($policy, $kind).await;
            }
        })*
    };
}

deaths! {
    pytorch_always: "Always", 0;
    pytorch_on_failure: "OnFailure", 0;
    pytorch_never: "Never", 0;
    pytorch_exit_code: "ExitCode", 0;
    tf_always: "Always", 1;
    tf_on_failure: "OnFailure", 1;
    tf_never: "Never", 1;
    tf_exit_code: "ExitCode", 1;
}
