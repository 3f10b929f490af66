//! The API on a socket: TLS, HTTP/1.1 and HTTP/2, and an end that closes watches and lets the rest finish.
//!
//! Everything a client can be slow at has its own task and its own limit, so that one client never holds up another:
//! accepting waits for nobody.

mod room;
#[cfg(test)]
mod tests;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::{BoxError, Extension, Router};
use futures::StreamExt;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use self::room::Place;
use self::room::{Limits, Room};
use crate::auth::certificate::PeerCertificates;

/// A client that has not finished its handshake by then is no client.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// For the first byte after the handshake: nobody connects to this server long before there is something to ask.
const FIRST: Duration = Duration::from_secs(10);
/// For the head of a request, and between two requests of one HTTP/1.1 connection.
const HEAD: Duration = Duration::from_secs(60);
/// What a connection may keep of what it reads and writes; a head has to fit into it. A watch that began with many
/// objects keeps as much as it ever needed.
const BUFFER: usize = 64 << 10;
/// How often a silent HTTP/2 connection is asked whether it is still there, and how long it may take to say so.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(20);
/// Requests at once on one HTTP/2 connection. Clients that keep one connection put every watch on it, and one that
/// reached the limit would wait for ever; a watch costs little here.
const STREAMS: u32 = 1000;
/// How long requests may go on after the end was asked for: those that wait for a webhook are not worth more of the two
/// seconds that an end may take.
const GRACE: Duration = Duration::from_secs(1);
/// Pauses after a failed accept: without them a process out of file descriptors would spin.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A response with this extension has no end of its own (a watch, a followed log). [`serve`] ends it cleanly on
/// shutdown; any other response may finish.
#[derive(Clone, Copy, Debug)]
pub struct Endless;

/// Serves a router until `shutdown`, then closes what is [`Endless`], lets other requests finish for a few seconds, and
/// returns when all connections are gone. Dropping the future closes them at once.
///
/// # Errors
/// When the listener itself is unusable. Clients that misbehave, and a machine short of file descriptors, are not errors.
pub async fn serve(
    router: Router,
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    shutdown: CancellationToken,
) -> io::Result<()> {
    serve_within(Limits::default(), router, listener, tls, shutdown).await
}

async fn serve_within(
    limits: Limits,
    router: Router,
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    shutdown: CancellationToken,
) -> io::Result<()> {
    // Ours to cancel: a listener that fails ends these connections, not the caller's other work.
    let shutdown = shutdown.child_token();
    let tracker = TaskTracker::new();
    let kill = CancellationToken::new();
    let _killed_on_drop = kill.clone().drop_guard();
    let guests = Guests { tracker: tracker.clone(), shutdown: shutdown.clone(), kill: kill.clone() };
    let peer = Peer {
        router: router.layer(middleware::from_fn_with_state(guests, close_endless)),
        tls: TlsAcceptor::from(tls),
        shutdown: shutdown.clone(),
        kill: kill.clone(),
    };
    let room = Room::new(limits);
    let result = tokio::select! {
        () = shutdown.cancelled() => Ok(()),
        result = accept(&listener, &peer, &tracker, &room) => result,
    };
    // New clients learn at once that nobody is here any more.
    drop(listener);
    shutdown.cancel();
    tracker.close();
    if tokio::time::timeout(GRACE, tracker.wait()).await.is_err() {
        tracing::warn!(connections = tracker.len(), "closing connections with unfinished requests");
        kill.cancel();
        tracker.wait().await;
    }
    result
}

async fn accept(
    listener: &TcpListener,
    peer: &Peer,
    tracker: &TaskTracker,
    room: &Arc<Room>,
) -> io::Result<()> {
    let mut pause = FIRST_PAUSE;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                pause = FIRST_PAUSE;
                tracker.spawn(peer.clone().run(stream, Arc::new(room.enter())));
            }
            Err(error) if is_of_the_client(&error) => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Err(error),
            Err(error) => {
                tracing::warn!(%error, ?pause, "cannot accept a connection; trying again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// Whether only the one connection is affected.
fn is_of_the_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

/// Connections that became something else than HTTP: they end with the others.
#[derive(Clone, Debug)]
pub(crate) struct Guests {
    tracker: TaskTracker,
    shutdown: CancellationToken,
    kill: CancellationToken,
}

impl Guests {
    /// Talks to a client beside everything else, until the end.
    pub(crate) fn spawn(&self, talk: impl Future<Output = ()> + Send + 'static) {
        let (shutdown, kill) = (self.shutdown.clone(), self.kill.clone());
        self.tracker.spawn(async move {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = kill.cancelled() => {}
                () = talk => {}
            }
        });
    }
}

/// Ends the bodies that do not end by themselves.
async fn close_endless(State(guests): State<Guests>, mut request: Request, next: Next) -> Response {
    let shutdown = guests.shutdown.clone();
    request.extensions_mut().insert(guests);
    let response = next.run(request).await;
    if response.extensions().get::<Endless>().is_none() {
        return response;
    }
    response.map(|body| Body::from_stream(body.into_data_stream().take_until(shutdown.cancelled_owned())))
}

/// What every connection needs.
#[derive(Clone)]
struct Peer {
    router: Router,
    tls: TlsAcceptor,
    shutdown: CancellationToken,
    kill: CancellationToken,
}

impl Peer {
    /// One connection, from its handshake to its end. It holds its place until then.
    async fn run(self, stream: TcpStream, place: Arc<Place>) {
        let kill = self.kill.clone();
        tokio::select! {
            () = kill.cancelled() => {}
            () = place.lost() => {}
            () = self.talk(stream, Arc::clone(&place)) => {}
        }
    }

    async fn talk(self, stream: TcpStream, place: Arc<Place>) {
        // Watch events are small and each should leave at once.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot switch off Nagle's algorithm");
        }
        let stream = tokio::select! {
            () = self.shutdown.cancelled() => return,
            shaken = tokio::time::timeout(HANDSHAKE, self.tls.accept(stream)) => match shaken {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
                Err(_) => return tracing::debug!("a TLS handshake took too long"),
            },
        };
        if let Err(error) = self.converse(stream, place).await {
            tracing::debug!(error = &*error, "a connection ended early");
        }
    }

    /// Speaks the protocol that the handshake settled.
    ///
    /// Not through `hyper_util::server::conn::auto`: with upgrades it guesses the protocol from the first bytes, and
    /// waits for them without a limit.
    async fn converse(self, mut stream: TlsStream<TcpStream>, place: Arc<Place>) -> Result<(), BoxError> {
        let spoken = tokio::select! {
            () = self.shutdown.cancelled() => return bye(stream).await,
            spoken = tokio::time::timeout(FIRST, stream.fill_buf()) => spoken,
        };
        if !matches!(spoken, Ok(Ok(bytes)) if !bytes.is_empty()) {
            return bye(stream).await;
        }
        let is_two = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let router = self.router.layer(Extension(place));
        let router = match stream.get_ref().1.peer_certificates() {
            Some(chain) => router.layer(Extension(Arc::new(PeerCertificates::new(chain)))),
            None => router,
        };
        let (io, service) = (TokioIo::new(stream), TowerToHyperService::new(router));
        if is_two {
            let mut http = http2::Builder::new(TokioExecutor::new());
            http.timer(TokioTimer::new()).max_concurrent_streams(STREAMS);
            http.keep_alive_interval(PING).keep_alive_timeout(PONG);
            let mut connection = pin!(http.serve_connection(io, service));
            if let Some(result) = before(&self.shutdown, connection.as_mut()).await {
                return Ok(result?);
            }
            connection.as_mut().graceful_shutdown();
            return Ok(connection.await?);
        }
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(BUFFER);
        let mut connection = pin!(http.serve_connection(io, service).with_upgrades());
        if let Some(result) = before(&self.shutdown, connection.as_mut()).await {
            return Ok(result?);
        }
        connection.as_mut().graceful_shutdown();
        Ok(connection.await?)
    }
}

/// What a future gives, unless the shutdown comes before.
async fn before<F: Future>(shutdown: &CancellationToken, future: F) -> Option<F::Output> {
    tokio::select! {
        output = future => Some(output),
        () = shutdown.cancelled() => None,
    }
}

/// Ends a connection on which nothing was said as TLS wants it, so that the client need not think of an attack.
async fn bye(mut stream: TlsStream<TcpStream>) -> Result<(), BoxError> {
    Ok(stream.shutdown().await?)
}
