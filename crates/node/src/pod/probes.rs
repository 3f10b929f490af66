//! Probes: asking a running container whether it has started, is ready, is alive.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::path::PathBuf;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::sight::Health;
use super::status::ADDRESS;
use crate::runtime::Runtime;

/// Asks one run of a container for as long as this value lives.
pub(crate) struct Prober {
    health: Arc<Mutex<Health>>,
    trouble: Arc<Mutex<Option<Trouble>>>,
    _task: AbortOnDropHandle<()>,
}

/// What a probe complained about last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) message: String,
}

/// What a container without an answer yet is taken for.
pub(crate) fn at_start(container: &Container) -> Health {
    let asked = |probe: &Option<Probe>| probe.as_ref().is_some_and(is_askable);
    let started = !asked(&container.startup_probe);
    Health { started, ready: started && !asked(&container.readiness_probe), dead: false }
}

/// True when there is anything to ask.
pub(crate) fn any(container: &Container) -> bool {
    [&container.startup_probe, &container.readiness_probe, &container.liveness_probe]
        .into_iter()
        .flatten()
        .any(is_askable)
}

/// A probe this machine cannot make counts as absent; the pod's events say so.
fn is_askable(probe: &Probe) -> bool {
    let plain = probe.http_get.as_ref().is_some_and(|get| get.scheme.as_deref().unwrap_or("HTTP") == "HTTP");
    probe.exec.is_some() || probe.tcp_socket.is_some() || plain
}

/// A run of a container, as probes need it.
#[derive(Clone)]
pub(crate) struct Subject {
    pub(crate) runtime: Runtime,
    pub(crate) dir: PathBuf,
    pub(crate) container: Container,
    /// For how long it has run when it is asked for the first time.
    pub(crate) age: Duration,
}

impl Prober {
    /// Begins to ask. `health` is what is known from before; `changed` is told when an answer changes it.
    pub(crate) fn start(subject: Subject, health: Health, changed: Arc<Notify>) -> Self {
        let board = Board { health: Arc::new(Mutex::new(health)), trouble: Arc::default(), changed };
        let (shown, trouble) = (Arc::clone(&board.health), Arc::clone(&board.trouble));
        let task = tokio::spawn(ask_all(subject, board));
        Self { health: shown, trouble, _task: AbortOnDropHandle::new(task) }
    }

    pub(crate) fn health(&self) -> Health {
        *self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What went wrong since this was asked last.
    pub(crate) fn take_trouble(&self) -> Option<Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

struct Board {
    health: Arc<Mutex<Health>>,
    trouble: Arc<Mutex<Option<Trouble>>>,
    changed: Arc<Notify>,
}

impl Board {
    fn set(&self, change: impl FnOnce(&mut Health)) {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *health;
        change(&mut health);
        if *health != before {
            self.changed.notify_one();
        }
    }

    fn complain(&self, which: &str, why: String) {
        let message = format!("{which} probe failed: {why}");
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(Trouble { message });
        self.changed.notify_one();
    }
}

async fn ask_all(subject: Subject, board: Board) {
    let container = subject.container.clone();
    let usable = |probe: &Option<Probe>| probe.clone().filter(is_askable);
    let known = *board.health.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(probe) = usable(&container.startup_probe).filter(|_| !known.started) {
        let passed = ask(&subject, &board, "Startup", &probe, false, |_| false).await;
        board.set(|health| if passed { health.started = true } else { health.dead = true });
        if !passed {
            return;
        }
    }
    let readiness = async {
        match usable(&container.readiness_probe) {
            None => board.set(|health| health.ready = true),
            Some(probe) => {
                let go_on = |ready| {
                    board.set(|health| health.ready = ready);
                    true
                };
                ask(&subject, &board, "Readiness", &probe, known.ready, go_on).await;
            }
        }
    };
    let liveness = async {
        if let Some(probe) = usable(&container.liveness_probe) {
            ask(&subject, &board, "Liveness", &probe, true, |alive| alive).await;
            board.set(|health| health.dead = true);
        }
    };
    tokio::join!(readiness, liveness);
}

/// Asks once in every period, after the initial delay. `go_on` hears each verdict, and may end it; the last verdict comes back.
async fn ask(
    subject: &Subject,
    board: &Board,
    which: &str,
    probe: &Probe,
    known: bool,
    go_on: impl Fn(bool) -> bool,
) -> bool {
    let mut tally = Tally::new(probe, known);
    // The delay counts from the start of the container, also when another control plane saw that.
    sleep(initial_delay(probe).saturating_sub(subject.age)).await;
    loop {
        let answer = once(subject, probe).await;
        let good = answer.is_ok();
        if let Err(why) = answer {
            board.complain(which, why);
        }
        if let Some(verdict) = tally.count(good)
            && !go_on(verdict)
        {
            return verdict;
        }
        sleep(period(probe)).await;
    }
}

/// Answers in a row.
struct Tally {
    needed: i32,
    allowed: i32,
    known: bool,
    good: i32,
    bad: i32,
}

impl Tally {
    fn new(probe: &Probe, known: bool) -> Self {
        let needed = probe.success_threshold.unwrap_or(1).max(1);
        let allowed = probe.failure_threshold.unwrap_or(3).max(1);
        Self { needed, allowed, known, good: 0, bad: 0 }
    }

    /// A verdict, when there were `successThreshold` successes or `failureThreshold` failures in a row.
    fn count(&mut self, good: bool) -> Option<bool> {
        (self.good, self.bad) =
            if good { (self.good.saturating_add(1), 0) } else { (0, self.bad.saturating_add(1)) };
        // What is known already is confirmed by each answer.
        let verdict = (self.good >= self.needed || (good && self.known), self.bad >= self.allowed);
        match verdict {
            (true, _) => self.known = true,
            (_, true) => self.known = false,
            _ => return None,
        }
        Some(self.known)
    }
}

fn initial_delay(probe: &Probe) -> Duration {
    seconds(probe.initial_delay_seconds.unwrap_or(0))
}

fn period(probe: &Probe) -> Duration {
    seconds(probe.period_seconds.unwrap_or(10).max(1))
}

fn seconds(seconds: i32) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

/// One question.
async fn once(subject: &Subject, probe: &Probe) -> Result<(), String> {
    let limit = seconds(probe.timeout_seconds.unwrap_or(1).max(1));
    if let Some(exec) = &probe.exec {
        let command = exec.command.clone().unwrap_or_default();
        let outcome = subject.runtime.exec(&subject.dir, &command, limit).await;
        let outcome = outcome.map_err(|error| error.to_string())?;
        return if outcome.code == 0 { Ok(()) } else { Err(outcome.output) };
    }
    let late = |_| format!("no answer within {limit:?}");
    if let Some(tcp) = &probe.tcp_socket {
        let address = address(subject, tcp.host.as_deref(), &tcp.port)?;
        let connected = timeout(limit, TcpStream::connect(&address)).await.map_err(late)?;
        return connected.map(drop).map_err(|error| format!("{address}: {error}"));
    }
    if let Some(get) = &probe.http_get {
        return timeout(limit, http_get(subject, get)).await.map_err(late)?;
    }
    Ok(())
}

fn address(subject: &Subject, host: Option<&str>, port: &IntOrString) -> Result<String, String> {
    let number = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let ports = subject.container.ports.iter().flatten();
            let named = ports.into_iter().find(|port| port.name.as_deref() == Some(name));
            named
                .map(|port| port.container_port)
                .or_else(|| name.parse().ok())
                .ok_or_else(|| format!("container {} has no port named {name:?}", subject.container.name))?
        }
    };
    Ok(format!("{}:{number}", host.unwrap_or(ADDRESS)))
}

/// Any answer from 200 to 399 is a success.
async fn http_get(subject: &Subject, get: &HTTPGetAction) -> Result<(), String> {
    let address = address(subject, get.host.as_deref(), &get.port)?;
    let failed = |error: std::io::Error| format!("GET http://{address}: {error}");
    let mut stream = TcpStream::connect(&address).await.map_err(failed)?;
    let path = get.path.as_deref().unwrap_or_default();
    let path = path.replace(|c: char| c.is_whitespace() || c.is_control(), "%20");
    let path = path.trim_start_matches('/');
    let mut request = format!("GET /{path} HTTP/1.1\r\nConnection: close\r\nUser-Agent: kube-probe/1.36\r\n");
    let headers = get.http_headers.iter().flatten();
    let clean = |text: &str| text.replace(['\r', '\n'], "");
    let mut has_host = false;
    for header in headers {
        has_host |= header.name.eq_ignore_ascii_case("host");
        request.push_str(&format!("{}: {}\r\n", clean(&header.name), clean(&header.value)));
    }
    if !has_host {
        request.push_str(&format!("Host: {address}\r\n"));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await.map_err(failed)?;
    // The first line is enough: not every server closes the connection when it is asked to.
    let mut head = Vec::new();
    BufReader::new(stream.take(1024)).read_until(b'\n', &mut head).await.map_err(failed)?;
    let line = String::from_utf8_lossy(&head);
    let code: u16 = line.split_whitespace().nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    if (200..400).contains(&code) {
        Ok(())
    } else {
        Err(format!("HTTP probe failed with statuscode: {code}"))
    }
}

#[cfg(test)]
mod tests;
