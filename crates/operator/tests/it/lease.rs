//! Several candidates for one Lease, in virtual time.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Request;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tokio::time::{Duration, Instant, sleep, timeout};
use tower::ServiceExt as _;
use trainyard_operator::Clock;
use trainyard_operator::lease::Election;

use crate::plane::{clock, get, server};

/// A way to the server that can be cut: requests are then never answered.
fn way(router: axum::Router) -> (Client, Arc<AtomicBool>) {
    let cut = Arc::new(AtomicBool::new(false));
    let is_cut = Arc::clone(&cut);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (router, is_cut) = (router.clone(), Arc::clone(&is_cut));
        async move {
            if is_cut.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            let answer = router.oneshot(request.map(axum::body::Body::new)).await;
            Ok::<_, Infallible>(answer.unwrap_or_default())
        }
    });
    (Client::new(service, "default"), cut)
}

fn candidate(client: &Client, name: &str, clock: &Clock) -> Election {
    Election::new(client.clone(), "default".into(), "lease".into(), name.into(), Arc::clone(clock))
}

async fn holder(client: &Client) -> Value {
    let lease = get(client, "/apis/coordination.k8s.io/v1/namespaces/default/leases/lease").await.unwrap();
    lease["spec"].clone()
}

#[tokio::test(start_paused = true)]
async fn one_holds_it_until_it_dies_and_then_the_next() {
    let clock = clock();
    let (server, client) = server(&clock).await;
    let mut first = candidate(&client, "first", &clock);
    first.win().await;
    let keeping = tokio::spawn(async move { first.keep().await });
    let mut second = candidate(&client, "second", &clock);
    let waited = timeout(Duration::from_secs(3600), second.win()).await;
    assert!(waited.is_err(), "it is renewed for as long as its holder lives");
    keeping.abort();
    let begun = Instant::now();
    second.win().await;
    assert!(begun.elapsed() > Duration::from_secs(12), "{:?}", begun.elapsed());
    let lease = holder(&client).await;
    assert_eq!((&lease["holderIdentity"], &lease["leaseTransitions"]), (&"second".into(), &1.into()));
    drop(server);
}

#[tokio::test(start_paused = true)]
async fn a_holder_without_a_connection_gives_up_before_anybody_else_begins() {
    let clock = clock();
    let (server, client) = server(&clock).await;
    let (shaky, cut) = way(server.router());
    let mut first = candidate(&shaky, "first", &clock);
    first.win().await;
    let keeping = tokio::spawn(async move {
        let why = first.keep().await;
        (Instant::now(), why)
    });
    let mut second = candidate(&client, "second", &clock);
    let winning = tokio::spawn(async move {
        second.win().await;
        Instant::now()
    });
    sleep(Duration::from_secs(61)).await;
    cut.store(true, Ordering::Relaxed);
    let ((gave_up, why), began) = (keeping.await.unwrap(), winning.await.unwrap());
    assert_eq!(why, "it could not be renewed for 10 s");
    assert!(gave_up < began, "{:?}", began.duration_since(gave_up));
    drop(server);
}

#[tokio::test(start_paused = true)]
async fn who_resigns_is_followed_at_once_and_of_two_one_wins() {
    let clock = clock();
    let (server, client) = server(&clock).await;
    let mut first = candidate(&client, "first", &clock);
    first.win().await;
    first.resign().await;
    let (mut second, mut third) = (candidate(&client, "second", &clock), candidate(&client, "third", &clock));
    let begun = Instant::now();
    let winner = tokio::select! {
        () = second.win() => "second",
        () = third.win() => "third",
    };
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(holder(&client).await["holderIdentity"], winner);
    first.resign().await;
    assert_eq!(holder(&client).await["holderIdentity"], winner, "nobody gives away what is another's");
    drop(server);
}
