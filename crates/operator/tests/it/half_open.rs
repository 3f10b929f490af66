//! A network in which the other end of a connection may vanish without a word.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::{Body, Bytes};
use futures::StreamExt;
use http::{Request, Response};
use kube::Client;
use tokio::time::{Duration, sleep};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use trainyard_apiserver::Server;
use trainyard_operator::{Catalog, Health, Operator, Options};

use crate::plane::{clock, get, pytorch, send, server};

/// What becomes of requests and of streams that are open.
#[derive(Clone, Default)]
struct Network {
    /// Goes up when all streams that are open stop to deliver.
    cut: Arc<AtomicU64>,
    /// What watches ask is never answered.
    watches_are_lost: Arc<AtomicU64>,
    everything_is_lost: Arc<AtomicU64>,
}

impl Network {
    fn cut(&self) {
        self.cut.fetch_add(1, Ordering::SeqCst);
    }

    fn client(&self, server: &Server) -> Client {
        let (network, router) = (self.clone(), server.router());
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let (network, router) = (network.clone(), router.clone());
            async move { network.carry(router, request).await }
        });
        Client::new(service, "default")
    }

    async fn carry(
        self,
        router: axum::Router,
        request: Request<kube::client::Body>,
    ) -> Result<Response<Body>, Infallible> {
        let follows = |query: &str| query.contains("watch=true") || query.contains("limit=");
        let is_watch = request.uri().query().is_some_and(follows);
        let lost = |flag: &AtomicU64| flag.load(Ordering::SeqCst) > 0;
        if lost(&self.everything_is_lost) || (is_watch && lost(&self.watches_are_lost)) {
            return pending().await;
        }
        let opened = self.cut.load(Ordering::SeqCst);
        let response = router.oneshot(request.map(Body::new)).await?;
        let (cut, at_end) = (Arc::clone(&self.cut), self.cut);
        Ok(response.map(|body| {
            let frames = body.into_data_stream().then(move |frame| {
                let cut = Arc::clone(&cut);
                async move {
                    if cut.load(Ordering::SeqCst) > opened {
                        return pending().await;
                    }
                    frame
                }
            });
            // Nor is the end of a stream told to whoever is cut off.
            let end = futures::stream::once(async move {
                if at_end.load(Ordering::SeqCst) > opened {
                    pending::<()>().await;
                }
            });
            let end = end.filter_map(|()| async { None::<Result<Bytes, axum::Error>> });
            Body::from_stream(frames.chain(end))
        }))
    }
}

struct World {
    network: Network,
    direct: Client,
    health: Health,
    shutdown: CancellationToken,
    _server: Server,
}

impl World {
    async fn start() -> Self {
        let clock = clock();
        let (server, direct) = server(&clock).await;
        let network = Network::default();
        let options = Options { clock, ..Options::default() };
        let operator = Operator::new(network.client(&server), Catalog::default(), options).unwrap();
        let (health, shutdown) = (operator.health(), CancellationToken::new());
        tokio::spawn(operator.run(shutdown.clone()));
        health.until_ready().await;
        Self { network, direct, health, shutdown, _server: server }
    }

    async fn pods(&self) -> usize {
        let pods = get(&self.direct, "/api/v1/namespaces/default/pods").await.unwrap();
        pods["items"].as_array().unwrap().len()
    }
}

#[tokio::test(start_paused = true)]
async fn an_operator_whose_connections_are_half_open_sees_again_within_a_minute() {
    let world = World::start().await;
    world.network.cut();
    let jobs = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs";
    send(&world.direct, http::Method::POST, jobs, &pytorch("j", 1)).await.unwrap();
    sleep(Duration::from_secs(20)).await;
    assert_eq!(world.pods().await, 0, "nothing was told");
    sleep(Duration::from_secs(40)).await;
    assert_eq!(world.pods().await, 2);
    assert!(world.health.ready() && world.health.stuck().is_empty());
    world.shutdown.cancel();
}

#[tokio::test(start_paused = true)]
async fn only_a_server_that_answers_others_makes_a_dead_watch_our_own_fault() {
    let world = World::start().await;
    world.network.watches_are_lost.store(1, Ordering::SeqCst);
    world.network.cut();
    sleep(Duration::from_secs(60)).await;
    assert!(world.health.stuck().is_empty(), "it may be a moment");
    sleep(Duration::from_secs(540)).await;
    assert!(world.health.stuck().iter().any(|name| name == "pods"), "{:?}", world.health.stuck());
    world.network.watches_are_lost.store(0, Ordering::SeqCst);
    sleep(Duration::from_secs(120)).await;
    assert!(world.health.ready() && world.health.stuck().is_empty(), "it recovers by itself");
    world.shutdown.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_makes_the_operator_unready_and_no_more() {
    let world = World::start().await;
    world.network.everything_is_lost.store(1, Ordering::SeqCst);
    world.network.cut();
    for _ in 0..30 {
        sleep(Duration::from_secs(60)).await;
        assert!(world.health.stuck().is_empty(), "a new process would do no better");
    }
    assert!(!world.health.ready());
    world.network.everything_is_lost.store(0, Ordering::SeqCst);
    for _ in 0..12 {
        sleep(Duration::from_secs(10)).await;
        assert!(world.health.stuck().is_empty(), "nor while the watches are taken up again");
    }
    assert!(world.health.ready());
    world.shutdown.cancel();
}
