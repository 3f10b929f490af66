//! The lives of the operator: started, stopped in order, killed in the middle of anything, replaced.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use kube::Client;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use trainyard_core::Catalog;
use trainyard_operator::Health;

use crate::faults::Faults;
use crate::gate::{Death, Gate};

/// What every life of the operator is made of.
pub(crate) struct Recipe {
    pub(crate) router: Router,
    pub(crate) faults: Faults,
    pub(crate) catalog: Catalog,
    pub(crate) options: trainyard_operator::Options,
    /// Where each life ends by itself; lives beyond the list go on for ever.
    pub(crate) deaths: Vec<Death>,
    /// How long nobody is there after a death.
    pub(crate) down: Duration,
}

enum Order {
    /// End in order; the next life begins at once if `again`.
    Stop { again: bool },
    /// End now, in the middle of anything.
    Crash { again: bool },
    /// Begin, if nobody is there.
    Start,
}

/// Runs one operator after the other.
pub(crate) struct Lives {
    orders: mpsc::UnboundedSender<(Order, oneshot::Sender<()>)>,
    count: Arc<AtomicU64>,
    writes: Arc<AtomicU64>,
    failed: Arc<Mutex<Option<String>>>,
    health: Arc<Mutex<Option<Health>>>,
    task: JoinHandle<()>,
}

impl Lives {
    pub(crate) fn begin(recipe: Recipe, running: bool) -> Self {
        let (orders, inbox) = mpsc::unbounded_channel();
        let count = Arc::new(AtomicU64::new(0));
        let writes = Arc::new(AtomicU64::new(0));
        let failed = Arc::new(Mutex::new(None));
        let health = Arc::new(Mutex::new(None));
        let supervisor = Supervisor {
            recipe,
            inbox,
            count: Arc::clone(&count),
            writes: Arc::clone(&writes),
            failed: Arc::clone(&failed),
            health: Arc::clone(&health),
        };
        let task = tokio::spawn(supervisor.run(running));
        Self { orders, count, writes, failed, health, task }
    }

    async fn order(&self, order: Order) {
        let (done, wait) = oneshot::channel();
        if self.orders.send((order, done)).is_ok() {
            let _ = wait.await;
        }
    }

    pub(crate) async fn start(&self) {
        self.order(Order::Start).await;
    }

    pub(crate) async fn stop(&self) {
        self.order(Order::Stop { again: false }).await;
    }

    pub(crate) async fn restart(&self) {
        self.order(Order::Stop { again: true }).await;
    }

    pub(crate) async fn crash(&self, again: bool) {
        self.order(Order::Crash { again }).await;
    }

    /// How many lives have begun.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// Writes of all lives that have ended.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(Ordering::SeqCst)
    }

    /// How the latest operator is doing.
    pub(crate) fn health(&self) -> Option<Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why the operator ended by itself, if it did.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Lives {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Supervisor {
    recipe: Recipe,
    inbox: mpsc::UnboundedReceiver<(Order, oneshot::Sender<()>)>,
    count: Arc<AtomicU64>,
    writes: Arc<AtomicU64>,
    failed: Arc<Mutex<Option<String>>>,
    health: Arc<Mutex<Option<Health>>>,
}

/// One running operator. Dropping it kills it.
struct Life {
    gate: Gate,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), trainyard_host::Error>>,
}

impl Drop for Life {
    fn drop(&mut self) {
        self.gate.shut();
        self.task.abort();
    }
}

impl Supervisor {
    async fn run(mut self, running: bool) {
        let mut life = running.then(|| self.born());
        loop {
            let Some(current) = &mut life else {
                let Some((order, done)) = self.inbox.recv().await else { return };
                if matches!(order, Order::Start) {
                    life = Some(self.born());
                }
                let _ = done.send(());
                continue;
            };
            tokio::select! {
                biased;
                () = current.gate.closed() => {
                    self.bury(life.take());
                    tokio::time::sleep(self.recipe.down).await;
                    life = Some(self.born());
                }
                ended = &mut current.task => {
                    let text = match ended {
                        Ok(Ok(())) => "it ended although nobody asked it to".to_owned(),
                        Ok(Err(error)) => format!("{error:?}"),
                        Err(error) => error.to_string(),
                    };
                    *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
                    self.bury(life.take());
                }
                order = self.inbox.recv() => {
                    let Some((order, done)) = order else { return };
                    life = self.obey(order, life.take()).await;
                    let _ = done.send(());
                }
            }
        }
    }

    async fn obey(&mut self, order: Order, life: Option<Life>) -> Option<Life> {
        let again = match order {
            Order::Start => return life,
            Order::Crash { again } => again,
            Order::Stop { again } => {
                if let Some(mut life) = life {
                    life.shutdown.cancel();
                    let _ = (&mut life.task).await;
                    self.bury(Some(life));
                }
                return again.then(|| self.born());
            }
        };
        self.bury(life);
        again.then(|| self.born())
    }

    fn bury(&self, life: Option<Life>) {
        if let Some(life) = life {
            self.writes.fetch_add(life.gate.writes(), Ordering::SeqCst);
        }
    }

    fn born(&self) -> Life {
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        let death = usize::try_from(number).ok().and_then(|at| self.recipe.deaths.get(at)).copied();
        let gate = Gate::dying(death);
        let service = gate.around(self.recipe.faults.around(self.recipe.router.clone()));
        let client = Client::new(service, "default");
        let shutdown = CancellationToken::new();
        let (catalog, options) = (self.recipe.catalog, self.recipe.options.clone());
        let role = trainyard_host::operator_on(client, catalog, options).expect("the options are legal");
        *self.health.lock().unwrap_or_else(PoisonError::into_inner) = Some(role.health());
        let work = role.run(shutdown.clone());
        Life { gate, shutdown, task: tokio::spawn(work) }
    }
}
