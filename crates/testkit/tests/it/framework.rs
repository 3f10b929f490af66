//! A framework is one file and one line: this operator knows one more than the program does.

use trainyard_core::{Catalog, Framework, Kind};
use trainyard_testkit::{Job, Plane, PodScript};

use crate::ring::{KIND, Ring};
use crate::support::env;

static KINDS: &[&Kind] = &[&KIND];
static FRAMEWORKS: &[&dyn Framework] = &[&Ring];

fn ring(name: &str) -> Job {
    Job::new("RingJob", "ringReplicaSpecs", "ring", name).set("/apiVersion", "example.com/v1")
}

async fn plane(script: PodScript) -> Plane {
    let catalog = Catalog { kinds: KINDS, frameworks: FRAMEWORKS };
    Plane::builder().catalog(catalog).scripts(move |_| script.clone()).start().await
}

#[tokio::test(start_paused = true)]
async fn a_job_of_an_own_kind_succeeds() {
    let plane = plane(PodScript::exits(0, 60)).await;
    plane.create(ring("a").role("Member", 3)).await;
    plane.until("all run", |w| w.in_phase("a", "Running") == 3).await;
    let pods = plane.pods().await;
    let next: Vec<Option<&str>> = pods.iter().map(|pod| env(pod, "NEXT")).collect();
    assert_eq!(next, [Some("a-member-1:7000"), Some("a-member-2:7000"), Some("a-member-0:7000")]);
    let world = plane.finished("a").await;
    assert_eq!(world.shape("a"), "Created=T Running=F Succeeded=T");
    let succeeded = world.condition("a", "Succeeded").unwrap();
    assert_eq!(succeeded["reason"], "RingJobSucceeded");
    assert_eq!(succeeded["message"], "RingJob a has come full circle.");
}

#[tokio::test(start_paused = true)]
async fn it_is_restarted_suspended_and_limited_like_every_other() {
    let plane = plane(PodScript::exits(137, 10)).await;
    plane.create(ring("a").role("Member", 1).restart("ExitCode").backoff_limit(2)).await;
    assert!(plane.finished("a").await.is("a", "Failed"));
    assert_eq!(plane.history().count("a-member-0"), 3);
    plane.create(ring("b").role("Member", 2).suspended()).await;
    plane.until("it is suspended", |w| w.shape("b") == "Created=T Suspended=T").await;
    plane.create(ring("c").role("Other", 1)).await;
    let world = plane.finished("c").await;
    assert_eq!(world.condition("c", "Failed").unwrap()["reason"], "RingJobInvalidSpec");
}
