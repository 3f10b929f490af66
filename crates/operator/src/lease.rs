//! One of several operators works, the others stand by: who holds a Lease.
//!
//! A holder renews it every few seconds. Whoever waits takes it when it was not renewed for its whole time, by the
//! waiter's own clock: clocks of two machines are never compared. A holder that cannot renew in time gives up before
//! anybody else may begin.

use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{info, warn};

use crate::options::Clock;
use crate::rest;

/// How long what takes. The defaults are those of Kubernetes' own controllers.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Others wait this long after the last renewal that they saw.
    pub lease: Duration,
    /// A holder that has not renewed for this long gives up. It has to be shorter.
    pub renew: Duration,
    /// Between two tries.
    pub retry: Duration,
}

impl Default for Times {
    fn default() -> Self {
        let [lease, renew, retry] = [15, 10, 2].map(Duration::from_secs);
        Self { lease, renew, retry }
    }
}

/// A candidate for a Lease.
pub struct Election {
    client: Client,
    namespace: String,
    name: String,
    identity: String,
    clock: Clock,
    times: Times,
    /// The Lease as it was last seen to change, and when that was.
    seen: Option<(Value, Instant)>,
}

impl std::fmt::Debug for Election {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { namespace, name, identity, .. } = self;
        write!(f, "{identity} for {namespace}/{name}")
    }
}

/// How one try went.
#[derive(Debug, PartialEq, Eq)]
enum Try {
    Ours,
    /// Somebody else's.
    Theirs(String),
}

impl Election {
    /// `identity` has to be one that no other candidate has.
    pub fn new(client: Client, namespace: String, name: String, identity: String, clock: Clock) -> Self {
        Self { client, namespace, name, identity, clock, times: Times::default(), seen: None }
    }

    /// The same with other times.
    #[must_use]
    pub fn with_times(self, times: Times) -> Self {
        Self { times, ..self }
    }

    /// The name of the Lease.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits until the Lease is ours.
    pub async fn win(&mut self) {
        let mut told = None;
        loop {
            match timeout_at(Instant::now() + self.times.renew, self.attempt()).await {
                Ok(Ok(Try::Ours)) => return info!(candidate = ?self, "this replica leads"),
                Ok(Ok(Try::Theirs(holder))) => {
                    if told.as_ref() != Some(&holder) {
                        info!(candidate = ?self, holder, "another replica leads; standing by");
                        told = Some(holder);
                    }
                }
                Ok(Err(error)) => self.complain(&error),
                Err(_) => {
                    warn!(candidate = ?self, "the API server does not answer about the Lease; trying again")
                }
            }
            sleep(self.times.retry).await;
        }
    }

    /// Keeps the Lease for as long as it can. Returns why it could not any more.
    pub async fn keep(&mut self) -> String {
        let mut renewed = Instant::now();
        loop {
            sleep(self.times.retry).await;
            let (begun, deadline) = (Instant::now(), renewed + self.times.renew);
            match timeout_at(deadline, self.attempt()).await {
                Ok(Ok(Try::Ours)) => renewed = begun,
                Ok(Ok(Try::Theirs(holder))) => return format!("{holder} has taken it"),
                Ok(Err(error)) => self.complain(&error),
                Err(_) => return format!("it could not be renewed for {} s", self.times.renew.as_secs()),
            }
        }
    }

    /// Leaves the Lease to whoever comes first.
    pub async fn resign(&mut self) {
        let left = async {
            if let Some(lease) = self.get().await?.filter(|lease| holder(lease) == self.identity) {
                let mut spec = self.spec(at(&lease, "/spec"));
                if let Some(spec) = spec.as_object_mut() {
                    spec.insert("holderIdentity".into(), json!(""));
                    spec.insert("leaseDurationSeconds".into(), json!(1));
                }
                self.send(Method::PUT, &self.path(), &self.lease(&lease, &spec)).await?;
            }
            Ok::<(), kube::Error>(())
        };
        if timeout_at(Instant::now() + self.times.retry, left).await.is_err() {
            warn!(candidate = ?self, "the Lease could not be given back; others wait until its time is over");
        }
    }

    /// Takes the Lease, or renews it, if it is ours or nobody's.
    async fn attempt(&mut self) -> Result<Try, kube::Error> {
        let Some(lease) = self.get().await? else {
            let new = self.lease(&Value::Null, &self.spec(&Value::Null));
            self.send(Method::POST, &self.collection(), &new).await?;
            return Ok(Try::Ours);
        };
        let (holder, spec) = (holder(&lease), at(&lease, "/spec"));
        if self.seen.as_ref().is_none_or(|(before, _)| before != spec) {
            self.seen = Some((spec.clone(), Instant::now()));
        }
        let fresh = self.seen.as_ref().is_some_and(|(_, since)| since.elapsed() < self.times.lease);
        if holder != self.identity && !holder.is_empty() && fresh {
            return Ok(Try::Theirs(holder.to_owned()));
        }
        // On condition of the version that was read: of two candidates one gets a conflict.
        self.send(Method::PUT, &self.path(), &self.lease(&lease, &self.spec(spec))).await?;
        Ok(Try::Ours)
    }

    /// The object: what was read with another spec, or a new one.
    fn lease(&self, read: &Value, spec: &Value) -> Value {
        let new = || json!({ "name": self.name, "namespace": self.namespace });
        let metadata = read.get("metadata").cloned().unwrap_or_else(new);
        json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec })
    }

    /// What it says when it is ours, now.
    fn spec(&self, before: &Value) -> Value {
        let now = json!(stamp((self.clock)()));
        let ours = at(before, "/holderIdentity") == &json!(self.identity);
        let terms = at(before, "/leaseTransitions").as_i64();
        json!({
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self.times.lease.as_secs(),
            "acquireTime": if ours { at(before, "/acquireTime") } else { &now },
            "renewTime": now,
            "leaseTransitions": terms.map_or(0, |terms| terms.saturating_add(i64::from(!ours))),
        })
    }

    fn complain(&self, error: &kube::Error) {
        match error {
            kube::Error::Api(status) if status.code == 409 => {}
            kube::Error::Api(status) if status.code == 403 => warn!(
                candidate = ?self, %error,
                "the Lease may not be used: the role needs get, create and update on leases of coordination.k8s.io"
            ),
            error => warn!(candidate = ?self, %error, "the Lease could not be used; trying again"),
        }
    }

    async fn get(&self) -> Result<Option<Value>, kube::Error> {
        match self.send(Method::GET, &self.path(), &Value::Null).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            other => other.map(Some),
        }
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Result<Value, kube::Error> {
        rest::send(&self.client, method, path, body).await
    }

    fn collection(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace)
    }

    fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.name)
    }
}

fn holder(lease: &Value) -> &str {
    at(lease, "/spec/holderIdentity").as_str().unwrap_or_default()
}

fn at<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    value.pointer(pointer).unwrap_or(&Value::Null)
}

/// As the API wants it: six digits.
fn stamp(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
