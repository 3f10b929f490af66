//! A process over SPDY: a stream for each of its own, and one for how it ended.

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::pipes::{Ends, piece};
use super::spdy::headers::Headers;
use super::spdy::{Gone, SpdyStream, serve};
use super::status::Outcome;
use super::{CREATION, Job, Wanted};

/// Subprotocols, the newest first.
pub(crate) const PROTOCOLS: &[&str] =
    &["v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"];

/// How the subprotocols differ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Protocol {
    /// The end is told as a `Status`.
    status: bool,
    /// A terminal has a stream for its size.
    resizes: bool,
}

impl Protocol {
    pub(crate) fn of(name: &str) -> Self {
        let newest = name == "v4.channel.k8s.io";
        Self { status: newest, resizes: newest || name == "v3.channel.k8s.io" }
    }
}

/// The streams a client has to open.
#[derive(Debug, Default)]
struct Opened {
    error: Option<SpdyStream>,
    stdin: Option<SpdyStream>,
    stdout: Option<SpdyStream>,
    stderr: Option<SpdyStream>,
    resize: Option<SpdyStream>,
}

const KINDS: [&str; 5] = ["error", "stdin", "stdout", "stderr", "resize"];

fn kind(headers: &Headers) -> &str {
    headers.get("streamtype").unwrap_or_default()
}

/// Connects a client and a process until the process ends, or the client goes: then the job is dropped.
pub(crate) async fn run<S>(socket: S, protocol: Protocol, wanted: Wanted, ends: Ends, job: Job)
where
    S: AsyncRead + AsyncWrite + Send,
{
    serve(
        socket,
        |headers| KINDS.contains(&kind(headers)),
        |mut streams| async move {
            let opened = timeout(CREATION, Opened::wait(&mut streams, protocol, wanted)).await;
            if let Ok(Some(opened)) = opened {
                // Further streams have no meaning, and must not keep the connection waiting.
                drop(streams);
                let _client_is_gone = opened.connect(protocol, ends, job).await;
            }
        },
    )
    .await;
}

impl Opened {
    async fn wait(
        streams: &mut mpsc::Receiver<SpdyStream>,
        protocol: Protocol,
        wanted: Wanted,
    ) -> Option<Self> {
        let mut opened = Self::default();
        while !opened.is_complete(protocol, wanted) {
            let stream = streams.recv().await?;
            let slot = match kind(&stream.headers) {
                "error" => &mut opened.error,
                "stdin" => &mut opened.stdin,
                "stdout" => &mut opened.stdout,
                "stderr" => &mut opened.stderr,
                _ => &mut opened.resize,
            };
            *slot = Some(stream);
        }
        Some(opened)
    }

    fn is_complete(&self, protocol: Protocol, wanted: Wanted) -> bool {
        let there = |wanted: bool, stream: &Option<SpdyStream>| !wanted || stream.is_some();
        there(true, &self.error)
            && there(wanted.stdin, &self.stdin)
            && there(wanted.stdout, &self.stdout)
            && there(wanted.stderr, &self.stderr)
            && there(wanted.tty && protocol.resizes, &self.resize)
    }

    async fn connect(self, protocol: Protocol, ends: Ends, job: Job) -> Result<(), Gone> {
        let Self { error, mut stdin, stdout, stderr, mut resize } = self;
        let Ends { stdin: mut input, stdout: output, stderr: errors, mut resizes } = ends;
        let inputs = async {
            let reading = async {
                while let Some(data) = recv(&mut stdin).await {
                    input.put(&data).await;
                }
                input.close();
            };
            let sizes = async {
                while let Some(data) = recv(&mut resize).await {
                    resizes.put(&data).await;
                }
            };
            futures::join!(reading, sizes);
            std::future::pending().await
        };
        let outputs = async {
            let ending = async { Ok(job.await) };
            let (_, _, outcome) =
                futures::try_join!(copy(output, stdout.as_ref()), copy(errors, stderr.as_ref()), ending)?;
            Ok::<_, Gone>(outcome)
        };
        let outcome = tokio::select! {
            outcome = outputs => outcome?,
            never = inputs => never,
        };
        if let Some(error) = error {
            error.sender().finish(told(protocol, &outcome)).await?;
        }
        for stream in [stdin, resize].into_iter().flatten() {
            stream.sender().cancel().await?;
        }
        Ok(())
    }
}

async fn recv(stream: &mut Option<SpdyStream>) -> Option<Bytes> {
    stream.as_mut()?.recv().await
}

/// Sends output to its end.
async fn copy(mut from: Option<DuplexStream>, to: Option<&SpdyStream>) -> Result<(), Gone> {
    let to = to.map(SpdyStream::sender);
    while from.is_some() {
        let Some(data) = piece(&mut from, &[]).await else { break };
        if let Some(to) = &to {
            to.send(data.freeze()).await?;
        }
    }
    match to {
        Some(to) => to.finish(Bytes::new()).await,
        None => Ok(()),
    }
}

fn told(protocol: Protocol, outcome: &Outcome) -> Bytes {
    if protocol.status {
        return outcome.json().to_string().into();
    }
    outcome.text().unwrap_or_default().into()
}
