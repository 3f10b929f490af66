//! `trainyard logs`.

use std::time::Duration;

use trainyard_testkit::{PodInfo, PodScript, pytorch, tf};

use crate::bed::{Bed, Log, bed, said};

fn runs(_: &PodInfo) -> PodScript {
    PodScript::runs()
}

fn at(second: u32, text: &str) -> String {
    format!("2026-01-02T03:04:{second:02}.5Z {text}")
}

fn log(lines: &[String]) -> Log {
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    Log::of(&lines)
}

#[tokio::test]
async fn the_replica_that_decides_is_shown() {
    let bed = Bed::with_logs(runs, |pod, _, _| log(&[at(1, &format!("I am {pod}")), at(2, "bye")])).await;
    bed.plane.create(pytorch("a").master().workers(1)).await;
    bed.plane.create(tf("w").workers(2)).await;
    bed.plane
        .until("they run", |world| world.in_phase("a", "Running") == 2 && world.in_phase("w", "Running") == 2)
        .await;
    assert_eq!(bed.ok(&["logs", "a"]).await, "I am a-master-0\nbye\n");
    assert_eq!(bed.ok(&["logs", "w"]).await, "I am w-worker-0\nbye\n");
    assert_eq!(bed.ok(&["logs", "w", "--replica", "worker-1"]).await, "I am w-worker-1\nbye\n");
    assert_eq!(bed.ok(&["logs", "pod/a-worker-0"]).await, "I am a-worker-0\nbye\n");
    assert_eq!(
        bed.ok(&["logs", "a", "--timestamps"]).await,
        "2026-01-02T03:04:01.5Z I am a-master-0\n2026-01-02T03:04:02.5Z bye\n"
    );
    bed.ok(&["logs", "a", "-c", "pytorch", "--previous", "--tail=7", "--since=2026-01-01T00:00:00Z"]).await;
    let asked = bed.asked("a-master-0").pop().unwrap();
    for part in ["container=pytorch", "previous=true", "tailLines=7", "sinceTime=2026-01-01T00%3A00%3A00Z"] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_said() {
    let bed = Bed::with_logs(
        |_| PodScript::never_starts(),
        |_, _, _| Log::refused("container \"pytorch\" is waiting to start"),
    )
    .await;
    bed.plane.create(pytorch("a").workers(2)).await;
    bed.plane.create(pytorch("held").workers(1).suspended()).await;
    bed.plane
        .until("pods are there", |world| world.pods("a").len() == 2 && world.is("held", "Suspended"))
        .await;
    let cases: [(&[&str], &str); 7] = [
        (&["a"], "pod a-worker-0 has no log yet: node-0 has not started it yet; -f waits for it"),
        (&["held"], "pod held-worker-0 is not there: the job is Suspended; -f waits for it"),
        (&["a", "--replica", "ps-0"], "has no replica \"ps-0\", it has worker-0, worker-1"),
        (&["a", "-c", "x"], "pod a-worker-0 has no container \"x\", it has pytorch"),
        (&["pod/x"], "no pod x in namespace default"),
        (&["a", "--all-ranks"], "no replica has a log to show"),
        (&["a", "--previous"], "is waiting to start"),
    ];
    for (args, part) in cases {
        let error = bed.fails(&[&["logs"], args].concat()).await;
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[tokio::test]
async fn all_ranks_are_merged_by_time() {
    let bed = Bed::with_logs(runs, |pod, _, _| match pod {
        "a-master-0" => log(&[at(1, "one"), at(4, "four"), "no stamp".to_owned(), at(6, "six")]),
        "a-worker-0" => log(&[at(2, "two"), at(5, "five")]),
        _ => log(&[at(3, "three"), at(1, "late")]),
    })
    .await;
    bed.plane.create(pytorch("a").master().workers(2)).await;
    bed.plane.until("it runs", |world| world.in_phase("a", "Running") == 3).await;
    let expected = "[master-0] one\n[worker-0] two\n[worker-1] three\n[worker-1] late\n[master-0] four\n\
                    [master-0] no stamp\n[worker-0] five\n[master-0] six\n";
    assert_eq!(bed.ok(&["logs", "a", "--all-ranks"]).await, expected);
}

#[tokio::test]
async fn following_waits_for_the_pod_and_ends_with_the_job() {
    let scripts = |_: &PodInfo| PodScript::exits(0, 1).starts_after(1);
    let bed = Bed::with_logs(scripts, |_, query, _| {
        if query.contains("follow") {
            Log {
                parts: vec![(Duration::ZERO, at(1, "one\n")), (Duration::from_millis(200), at(2, "two\n"))],
                ..Log::default()
            }
        } else {
            log(&[at(1, "one"), at(2, "two"), at(3, "last words")])
        }
    })
    .await;
    bed.plane.create(pytorch("a").workers(1).suspended()).await;
    bed.plane.until("it is suspended", |world| world.is("a", "Suspended")).await;
    let child = bed.spawn(&["logs", "-f", "a"]);
    tokio::time::sleep(Duration::from_millis(700)).await;
    bed.plane.suspend("PyTorchJob", "a", false).await;
    let done = said(child).await;
    assert_eq!((done.code, done.out.as_str()), (Some(0), "one\ntwo\nlast words\n"), "{}", done.err);
    assert!(done.err.contains("waiting for pod a-worker-0: the job is Suspended"), "{}", done.err);
    assert!(done.err.contains("waiting for pod a-worker-0: node-0 has not started it yet"), "{}", done.err);
}

#[tokio::test]
async fn a_broken_stream_is_taken_up_without_repeating_or_losing() {
    let scripts = |_: &PodInfo| PodScript::exits(0, 6);
    let bed = Bed::with_logs(scripts, |_, query, before| match before {
        0 => log(&[at(1, "one"), at(2, "two"), at(2, "two")]).breaks(),
        1 => {
            assert!(query.contains("sinceTime=2026-01-02T03%3A04%3A01Z"), "{query}");
            log(&[at(1, "one"), at(2, "two"), at(2, "two"), at(2, "two"), at(3, "three")]).breaks()
        }
        2 => Log::refused("try later"),
        _ => log(&[at(2, "two"), at(2, "two"), at(2, "two"), at(3, "three"), at(4, "four")]),
    })
    .await;
    bed.plane.create(pytorch("a").workers(1)).await;
    let done = said(bed.spawn(&["logs", "-f", "a"])).await;
    assert_eq!(
        (done.code, done.out.as_str()),
        (Some(0), "one\ntwo\ntwo\ntwo\nthree\nfour\n"),
        "{}",
        done.err
    );
    assert!(bed.asked("a-worker-0").len() > 3);
}

#[tokio::test]
async fn following_goes_on_over_restarts_in_place_and_replaced_pods() {
    let scripts = |pod: &PodInfo| match pod.job.as_str() {
        "inplace" => PodScript::exits_in_turn(&[1, 0]),
        _ if pod.earlier == 0 => PodScript::exits(137, 1),
        _ => PodScript::exits(0, 1),
    };
    let bed = Bed::with_logs(scripts, |pod, query, before| {
        let run = if before == 0 || query.contains("previous") { "first" } else { "second" };
        log(&[at(1, &format!("{run} run of {pod}"))])
    })
    .await;
    bed.plane.create(pytorch("inplace").workers(1).restart("OnFailure")).await;
    let out = said(bed.spawn(&["logs", "-f", "inplace"])).await;
    assert!(out.out.starts_with("first run of inplace-worker-0\n"), "{}{}", out.out, out.err);
    assert!(out.out.ends_with("second run of inplace-worker-0\n"), "{}{}", out.out, out.err);
    bed.plane.create(pytorch("replaced").workers(1).restart("ExitCode")).await;
    let out = said(bed.spawn(&["logs", "-f", "replaced"])).await;
    assert!(out.out.ends_with("second run of replaced-worker-0\n"), "{}{}", out.out, out.err);
}

#[tokio::test]
async fn all_ranks_are_followed_and_a_server_that_never_ends_ends_with_the_job() {
    let scripts = |pod: &PodInfo| if pod.role == "ps" { PodScript::runs() } else { PodScript::exits(0, 2) };
    let bed = Bed::with_logs(scripts, |pod, _, _| {
        let said = log(&[at(1, &format!("I am {pod}"))]);
        if pod.contains("-ps-") { said.hangs() } else { said }
    })
    .await;
    bed.plane.create(tf("a").chief().ps(1).workers(1)).await;
    let done = said(bed.spawn(&["logs", "-f", "a", "--all-ranks"])).await;
    let mut lines: Vec<&str> = done.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        ["[chief-0] I am a-chief-0", "[ps-0] I am a-ps-0", "[worker-0] I am a-worker-0"],
        "{}",
        done.err
    );
    assert_eq!(done.code, Some(0));
}

#[tokio::test]
async fn a_reader_that_went_away_ends_the_following() {
    let bed = Bed::with_logs(runs, |_, _, _| {
        let parts = (0..100).map(|i| (Duration::from_millis(50), at(1, &format!("{i}\n")))).collect();
        Log { parts, ..Log::default() }.hangs()
    })
    .await;
    bed.plane.create(pytorch("a").workers(1)).await;
    let mut child = bed.spawn(&["logs", "-f", "a"]);
    drop(child.stdout.take());
    let done = tokio::time::timeout(Duration::from_secs(20), child.wait()).await.expect("it ends").unwrap();
    assert_eq!(done.code(), Some(0));
}

#[tokio::test]
async fn a_job_that_never_had_pods_has_nothing_to_follow() {
    let bed = bed(runs).await;
    bed.plane.create(pytorch("a").workers(1)).await;
    bed.plane.until("it runs", |world| world.is("a", "Running")).await;
    let child = bed.spawn(&["logs", "-f", "a"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    bed.plane.delete("PyTorchJob", "a").await;
    let done = said(child).await;
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.err.contains("trying again"), "a server without logs is said to be one: {}", done.err);
}
