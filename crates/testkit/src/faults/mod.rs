//! Everything that can go wrong between a client and the API server, by chance and by seed.
//!
//! A layer between `kube::Client` and the server's router. What it does is real in each case: a lost answer was
//! applied, a conflict was not, a cut watch ends where it ends. It never lies about the store in a way that a
//! server could not: a refused create is no "already exists", and a delete is not answered with a conflict.

mod stream;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use kube::client::Body;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceExt};

/// The answers of a faulty server.
pub type Reply = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// How likely each fault is, per request or per watch event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// The request waits before it is sent.
    pub latency: f64,
    /// At most this long.
    pub max_latency: Duration,
    /// A change of an object is refused with 409 and not applied.
    pub conflict: f64,
    /// 429, with a time to wait.
    pub too_many: f64,
    /// 500, not applied.
    pub internal: f64,
    /// The server refuses to store a job's record, or its status, with 422 or 500: this write and all that follow for a
    /// while.
    pub refused: f64,
    /// At most this long.
    pub max_refusal: Duration,
    /// Applied, but the connection breaks before the answer.
    pub lost_answer: f64,
    /// 410 to a watch, as an answer or as its first event, or to a list of an old version.
    pub expired: f64,
    /// After each event: the watch ends.
    pub cut: f64,
    /// After each event: the connection is half open. The watch neither ends nor says anything any more.
    pub half_open: f64,
    /// An event of a watch arrives broken.
    pub garbled: f64,
    /// An event of a watch arrives twice.
    pub duplicated: f64,
    /// An event of a watch, and all behind it, arrives late.
    pub delayed: f64,
    /// At most this late.
    pub max_delay: Duration,
}

impl Rates {
    /// Nothing goes wrong.
    pub const NONE: Self = Self {
        latency: 0.0,
        max_latency: Duration::ZERO,
        conflict: 0.0,
        too_many: 0.0,
        internal: 0.0,
        refused: 0.0,
        max_refusal: Duration::ZERO,
        lost_answer: 0.0,
        expired: 0.0,
        cut: 0.0,
        half_open: 0.0,
        garbled: 0.0,
        duplicated: 0.0,
        delayed: 0.0,
        max_delay: Duration::ZERO,
    };

    /// Every fault with the same probability; those that last for a minute are rarer, or nothing else would happen.
    pub const fn all(rate: f64) -> Self {
        Self {
            latency: rate,
            max_latency: Duration::from_millis(300),
            conflict: rate,
            too_many: rate,
            internal: rate,
            refused: rate / 4.0,
            max_refusal: Duration::from_mins(1),
            lost_answer: rate,
            expired: rate,
            cut: rate,
            half_open: rate / 40.0,
            garbled: rate,
            duplicated: rate,
            delayed: rate,
            max_delay: Duration::from_secs(2),
        }
    }
}

/// A source of faults. Cloning shares it.
#[derive(Clone)]
pub struct Faults {
    shared: Arc<Shared>,
}

struct Shared {
    rates: Rates,
    rng: Mutex<StdRng>,
    /// How many faults may still happen: a run that never heals need never converge.
    left: AtomicU64,
    done: AtomicU64,
    /// By the path of a job, or of its status: until when the server refuses to write it, and how.
    refusals: Mutex<BTreeMap<String, (Instant, StatusCode)>>,
}

impl Faults {
    /// At most `most` faults, chosen by `seed`.
    pub fn new(seed: u64, rates: Rates, most: u64) -> Self {
        let rng = Mutex::new(StdRng::seed_from_u64(seed));
        let (left, done) = (AtomicU64::new(most), AtomicU64::new(0));
        let shared = Shared { rates, rng, left, done, refusals: Mutex::default() };
        Self { shared: Arc::new(shared) }
    }

    /// No faults at all.
    pub fn none() -> Self {
        Self::new(0, Rates::NONE, 0)
    }

    /// Nothing goes wrong from now on.
    pub fn heal(&self) {
        self.shared.left.store(0, Ordering::SeqCst);
        self.refusals().clear();
    }

    /// How many faults there were.
    pub fn count(&self) -> u64 {
        self.shared.done.load(Ordering::SeqCst)
    }

    /// Puts the faults in front of a service.
    pub fn around<S>(&self, inner: S) -> Faulty<S> {
        Faulty { inner, faults: self.clone() }
    }

    fn rates(&self) -> &Rates {
        &self.shared.rates
    }

    /// Whether a fault of this probability happens now.
    fn strikes(&self, rate: f64) -> bool {
        if rate <= 0.0 || self.shared.left.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let strikes = self.roll(|rng| rng.random::<f64>() < rate);
        if strikes {
            let left = self.shared.left.load(Ordering::SeqCst);
            self.shared.left.store(left.saturating_sub(1), Ordering::SeqCst);
            self.shared.done.fetch_add(1, Ordering::SeqCst);
        }
        strikes
    }

    fn roll<T>(&self, draw: impl FnOnce(&mut StdRng) -> T) -> T {
        draw(&mut self.shared.rng.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the server refuses to write to this path now, and how.
    fn refuses(&self, path: &str) -> Option<StatusCode> {
        let now = Instant::now();
        let known = self.refusals().get(path).copied();
        if let Some((_, code)) = known.filter(|(until, _)| now < *until) {
            return Some(code);
        }
        if !self.strikes(self.rates().refused) {
            return None;
        }
        let codes = [StatusCode::UNPROCESSABLE_ENTITY, StatusCode::INTERNAL_SERVER_ERROR];
        let code = if self.roll(|rng| rng.random::<bool>()) { codes[0] } else { codes[1] };
        let until = now + self.up_to(self.rates().max_refusal);
        self.refusals().insert(path.to_owned(), (until, code));
        Some(code)
    }

    fn refusals(&self) -> MutexGuard<'_, BTreeMap<String, (Instant, StatusCode)>> {
        self.shared.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn up_to(&self, most: Duration) -> Duration {
        most.mul_f64(self.roll(|rng| rng.random::<f64>()))
    }
}

/// A service with faults in front of it.
#[derive(Clone)]
pub struct Faulty<S> {
    inner: S,
    faults: Faults,
}

type Answering = Pin<Box<dyn Future<Output = Result<Reply, BoxError>> + Send>>;

impl<S, B> Service<Request<Body>> for Faulty<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Reply;
    type Error = BoxError;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Answering {
        let inner = self.inner.clone();
        let faults = self.faults.clone();
        Box::pin(async move {
            let asked = Asked::of(&request);
            let is_watch = asked.is_watch;
            let loses_answer = match before(&faults, &asked).await {
                Before::Answer(reply) => return Ok(reply),
                Before::Send { loses_answer } => loses_answer,
            };
            let reply = inner.oneshot(request).await.map_err(Into::into)?;
            if loses_answer {
                drop(reply.into_body().collect().await);
                return Err("connection reset by peer (injected)".into());
            }
            let reply = reply.map(|body| body.map_err(Into::into).boxed_unsync());
            Ok(if is_watch { stream::disturb(faults, reply) } else { reply })
        })
    }
}

enum Before {
    Answer(Reply),
    Send { loses_answer: bool },
}

/// What faults depend on.
struct Asked {
    method: Method,
    is_watch: bool,
    /// It names a version that the server may have forgotten.
    may_expire: bool,
    /// The job or the status of a job that it changes: the operator patches a job for its record alone.
    job: Option<String>,
}

impl Asked {
    fn of(request: &Request<Body>) -> Self {
        let query = request.uri().query().unwrap_or_default();
        let has = |key: &str| query.split('&').any(|pair| pair.starts_with(key));
        let reads = request.method() == Method::GET;
        let is_watch = reads && (has("watch=true") || has("watch=1"));
        let may_expire = reads && (is_watch || has("continue=") || has("resourceVersion="));
        let path = request.uri().path();
        let is_job = request.method() == Method::PATCH && path.starts_with("/apis/kubeflow.org/");
        let job = is_job.then(|| path.to_owned());
        Self { method: request.method().clone(), is_watch, may_expire, job }
    }
}

/// Decides what happens to a request before the server sees it.
async fn before(faults: &Faults, asked: &Asked) -> Before {
    let rates = faults.rates();
    if faults.strikes(rates.latency) {
        tokio::time::sleep(faults.up_to(rates.max_latency)).await;
    }
    if faults.strikes(rates.too_many) {
        return Before::Answer(refusal(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"));
    }
    if faults.strikes(rates.internal) {
        return Before::Answer(refusal(StatusCode::INTERNAL_SERVER_ERROR, "InternalError"));
    }
    if asked.may_expire && faults.strikes(rates.expired) {
        let in_stream = asked.is_watch && faults.roll(|rng| rng.random::<bool>());
        return Before::Answer(if in_stream { stream::expired() } else { gone() });
    }
    if let Some(code) = asked.job.as_deref().and_then(|path| faults.refuses(path)) {
        let reason = if code.is_client_error() { "Invalid" } else { "InternalError" };
        return Before::Answer(refusal(code, reason));
    }
    let changes = [Method::PUT, Method::PATCH].contains(&asked.method);
    if changes && faults.strikes(rates.conflict) {
        return Before::Answer(refusal(StatusCode::CONFLICT, "Conflict"));
    }
    let loses_answer = !asked.is_watch && faults.strikes(rates.lost_answer);
    Before::Send { loses_answer }
}

fn gone() -> Reply {
    refusal(StatusCode::GONE, "Expired")
}

/// The `Status` object of a refusal.
fn status(code: StatusCode, reason: &str) -> Value {
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": format!("{reason} (injected)"),
        "reason": reason,
        "code": code.as_u16(),
    })
}

fn refusal(code: StatusCode, reason: &str) -> Reply {
    let mut body = status(code, reason);
    let mut reply = Response::builder().status(code).header(http::header::CONTENT_TYPE, "application/json");
    if code == StatusCode::TOO_MANY_REQUESTS {
        reply = reply.header(http::header::RETRY_AFTER, "1");
        body["details"] = json!({ "retryAfterSeconds": 1 });
    }
    reply.body(full(body.to_string())).expect("a legal answer")
}

fn full(text: String) -> UnsyncBoxBody<Bytes, BoxError> {
    Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync()
}
