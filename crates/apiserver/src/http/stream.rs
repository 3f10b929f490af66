//! `pods/x/exec`, `attach` and `portforward`: from a request to a connection that is no longer HTTP.

use axum::response::Response;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderMap, StatusCode};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use std::sync::Arc;
use tokio::task::spawn_blocking;

use super::body::Input;
use super::{Call, access};
use crate::auth::rbac::Ask;
use crate::failure::Failure;
use crate::rules::{log, stream};
use crate::serve::Guests;
use crate::streams::channels::{Dialect, EXEC, FORWARD};
use crate::streams::pipes::{Ends, pipes};
use crate::streams::status::Outcome;
use crate::streams::upgrade::{Asked, Refused, accept_spdy, accept_websocket, offered, websocket};
use crate::streams::{Job, Place, PodStreams, StreamError, Wanted};
use crate::streams::{spdy_exec, spdy_forward, tunnel, ws_exec, ws_forward};

/// A subprotocol that is SPDY inside a WebSocket.
const TUNNEL: &str = "SPDY/3.1+";

/// Why a connection is not taken over: in the words of a server, or of a kubelet.
pub(crate) enum Refusal {
    Status(Failure),
    Plain(Box<Response>),
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Status(failure)
    }
}

impl From<Refused> for Refusal {
    fn from(Refused(response): Refused) -> Self {
        Self::Plain(response)
    }
}

/// A node refuses as a kubelet does.
impl From<StreamError> for Refusal {
    fn from(StreamError(why): StreamError) -> Self {
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, &why).into()
    }
}

fn bad_request(why: &str) -> Refusal {
    Refused::new(StatusCode::BAD_REQUEST, why).into()
}

/// The answer, whichever it is.
pub(crate) fn answered(result: Result<Response, Refusal>) -> Result<Response, Failure> {
    match result {
        Ok(response) => Ok(response),
        Err(Refusal::Plain(response)) => Ok(*response),
        Err(Refusal::Status(failure)) => Err(failure),
    }
}

/// `pods/x/exec`: runs a command.
pub(crate) async fn exec(call: &Call, input: Input) -> Result<Response, Refusal> {
    let command: Vec<String> = call.query.all("command").map(str::to_owned).collect();
    let target = Target::of(call, &input, "exec")?;
    let wanted = wanted(call)?;
    if command.is_empty() {
        return Err(bad_request("you must specify at least one command for the container"));
    }
    let begin = move |source: Arc<dyn PodStreams>, place, streams| -> Job {
        async move { Outcome::of_exec(source.exec(place, command, streams).await) }.boxed()
    };
    target.process(call, input, wanted, begin).await
}

/// `pods/x/attach`: joins the program of a container.
pub(crate) async fn attach(call: &Call, input: Input) -> Result<Response, Refusal> {
    let target = Target::of(call, &input, "attach")?;
    let begin = move |source: Arc<dyn PodStreams>, place, streams| -> Job {
        async move { Outcome::of_attach(source.attach(place, streams).await) }.boxed()
    };
    target.process(call, input, wanted(call)?, begin).await
}

/// `pods/x/portforward`: reaches ports.
pub(crate) async fn forward(call: &Call, input: Input) -> Result<Response, Refusal> {
    let target = Target::of(call, &input, "portforward")?;
    let names = offered(&input.headers);
    let tunnelled: Vec<&str> = names.iter().filter_map(|name| name.strip_prefix(TUNNEL)).collect();
    let is_spdy = Asked::of(&input.headers) == Asked::Spdy;
    if !is_spdy && tunnelled.is_empty() {
        return target.forward_channels(call, input).await;
    }
    target.check().await?;
    let Target { place, source } = target;
    if is_spdy {
        let (answer, _) = accept_spdy(&input.headers, spdy_forward::PROTOCOLS)?;
        return converse(call, input, answer, move |io| {
            spdy_forward::run(TokioIo::new(io), source, place).boxed()
        });
    }
    let shared = spdy_forward::PROTOCOLS.iter().find(|name| tunnelled.contains(name));
    let shared = shared.ok_or_else(|| {
        let message = format!(
            "unable to upgrade: unable to negotiate protocol: client supports [{}], server accepts [{}]",
            tunnelled.join(" "),
            spdy_forward::PROTOCOLS.join(" ")
        );
        Refused::new(StatusCode::FORBIDDEN, &message)
    })?;
    let answer = accept_websocket(&input.headers, Some(&format!("{TUNNEL}{shared}")))?;
    converse(call, input, answer, move |io| {
        let talk = async move {
            let (inside, carry) = tunnel::tunnel(websocket(io).await);
            futures::join!(spdy_forward::run(inside, source, place), carry);
        };
        talk.boxed()
    })
}

/// A WebSocket begins with GET, but reading a pod is not enough to reach into it.
fn may_connect(call: &Call, subresource: &str) -> Result<(), Failure> {
    if call.identity.is_master() {
        return Ok(());
    }
    let ask = Ask {
        verb: "create".into(),
        group: String::new(),
        resource: "pods".into(),
        subresource: subresource.into(),
        namespace: call.namespace.clone(),
        name: call.name.clone(),
        path: None,
    };
    access::check(&call.app, &call.identity, &ask)
}

/// What a request is about, and who can do it.
struct Target {
    place: Place,
    source: Arc<dyn PodStreams>,
}

impl Target {
    fn of(call: &Call, input: &Input, subresource: &str) -> Result<Self, Failure> {
        may_connect(call, subresource)?;
        let stored =
            call.app.store.get(&call.key()).ok_or_else(|| Failure::not_found(&call.served, &call.name))?;
        let pod = stored.value().map_err(Failure::internal)?;
        let container = match subresource {
            "portforward" => String::new(),
            _ => log::container(&pod, call.query.get("container"))?.to_owned(),
        };
        stream::is_placed(&pod)?;
        if Asked::of(&input.headers) == Asked::Nothing {
            return Err(Failure::bad_request("Upgrade request required"));
        }
        let source = call.app.pod_streams.clone().ok_or_else(|| {
            Failure::not_implemented("this server cannot reach into pods: it runs without a node")
        })?;
        let place = Place { namespace: call.namespace.clone(), pod: Arc::new(pod), container };
        Ok(Self { place, source })
    }

    /// Whoever has the processes looks at files for it, which may take its time.
    async fn check(&self) -> Result<(), Refusal> {
        let (source, place) = (Arc::clone(&self.source), self.place.clone());
        let asking = spawn_blocking(move || source.check(&place));
        Ok(asking.await.map_err(Failure::internal)??)
    }

    async fn process(
        self,
        call: &Call,
        input: Input,
        wanted: Wanted,
        begin: impl FnOnce(Arc<dyn PodStreams>, Place, crate::streams::Streams) -> Job + Send + 'static,
    ) -> Result<Response, Refusal> {
        self.check().await?;
        let Self { place, source } = self;
        let start = move || -> (Ends, Job) {
            let (streams, ends) = pipes(wanted);
            (ends, begin(source, place, streams))
        };
        if Asked::of(&input.headers) == Asked::WebSocket {
            let (dialect, answer) = channels(&input.headers, EXEC)?;
            return converse(call, input, answer, move |io| {
                let talk = async move {
                    let socket = websocket(io).await;
                    let (ends, job) = start();
                    ws_exec::run(socket, dialect, ends, job).await;
                };
                talk.boxed()
            });
        }
        let (answer, name) = accept_spdy(&input.headers, spdy_exec::PROTOCOLS)?;
        converse(call, input, answer, move |io| {
            let (ends, job) = start();
            spdy_exec::run(TokioIo::new(io), spdy_exec::Protocol::of(name), wanted, ends, job).boxed()
        })
    }

    /// The older way to forward ports through a WebSocket.
    async fn forward_channels(self, call: &Call, input: Input) -> Result<Response, Refusal> {
        let ports = stream::ports(call.query.all("ports")).map_err(|why| bad_request(&why))?;
        self.check().await?;
        let Self { place, source } = self;
        let (dialect, answer) = channels(&input.headers, FORWARD)?;
        converse(call, input, answer, move |io| {
            let talk = async move {
                let socket = websocket(io).await;
                ws_forward::run(socket, dialect, source, place, ports).await;
            };
            talk.boxed()
        })
    }
}

/// The dialect that client and server share, and the answer that says so.
fn channels(headers: &HeaderMap, served: &[Dialect]) -> Result<(Dialect, Response), Refused> {
    let dialect = Dialect::choose(&offered(headers), served).ok_or_else(|| {
        Refused::new(StatusCode::FORBIDDEN, "the subprotocols that were asked for are not served")
    })?;
    let name = Some(dialect.name).filter(|name| !name.is_empty());
    Ok((dialect, accept_websocket(headers, name)?))
}

/// Which streams are asked for, in the words of a kubelet if there are none.
fn wanted(call: &Call) -> Result<Wanted, Refusal> {
    let [stdin, stdout, stderr, tty] =
        ["stdin", "stdout", "stderr", "tty"].map(|name| call.query.switch(name));
    // A terminal has one output.
    let stderr = stderr && !tty;
    match stdin || stdout || stderr {
        true => Ok(Wanted { stdin, stdout, stderr, tty }),
        false => Err(bad_request("you must specify at least 1 of stdin, stdout, stderr")),
    }
}

/// Gives the answer, and then the connection to `talk`.
fn converse(
    call: &Call,
    mut input: Input,
    answer: Response,
    talk: impl FnOnce(Upgraded) -> BoxFuture<'static, ()> + Send + 'static,
) -> Result<Response, Refusal> {
    let upgrade = input.extensions.remove::<OnUpgrade>().ok_or_else(|| {
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "unable to upgrade: unable to hijack response")
    })?;
    let full = || Failure::too_many_requests("too many streams are open, please try again later");
    let part = call.app.stream_shares.take(&call.identity, 1).ok_or_else(full)?;
    let place = Arc::clone(&call.app.stream_places).try_acquire_owned().map_err(|_| full())?;
    let mut stop = call.app.stop.clone();
    let talking = async move {
        let conversation = async move {
            match upgrade.await {
                Ok(io) => talk(io).await,
                Err(error) => tracing::debug!(%error, "a connection was not taken over"),
            }
        };
        tokio::select! {
            // Nothing is ever sent: the channel closes.
            _closed = stop.changed() => {}
            () = conversation => {}
        }
        drop((place, part));
    };
    match input.extensions.remove::<Guests>() {
        Some(guests) => guests.spawn(talking),
        None => drop(tokio::spawn(talking)),
    }
    Ok(answer)
}
