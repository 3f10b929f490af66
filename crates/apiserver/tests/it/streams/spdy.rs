//! Processes over SPDY.

use bytes::{Bytes, BytesMut};
use flate2::{Compress, Compression, FlushCompress};
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use trainyard_apiserver::streams::spdy::frame::{self, Decoder, Frame};
use trainyard_apiserver::streams::spdy::headers::Unpacker;

use super::{Bed, ONE, refused};

/// A client's side of a SPDY connection.
pub(super) struct Client<S> {
    io: S,
    packer: Compress,
    unpacker: Unpacker,
    decoder: Decoder,
    buffer: BytesMut,
    next: u32,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(super) fn new(io: S) -> Self {
        let (packer, unpacker) = (Compress::new(Compression::fast(), true), Unpacker::default());
        Self { io, packer, unpacker, decoder: Decoder::default(), buffer: BytesMut::new(), next: 1 }
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) {
        self.io.write_all(bytes).await.unwrap();
        self.io.flush().await.unwrap();
    }

    /// Asks for a stream.
    pub(super) async fn open(&mut self, headers: &[(&str, &str)]) -> u32 {
        let mut plain = u32::try_from(headers.len()).unwrap().to_be_bytes().to_vec();
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            plain.extend_from_slice(&u32::try_from(text.len()).unwrap().to_be_bytes());
            plain.extend_from_slice(text.as_bytes());
        }
        let mut packed = Vec::with_capacity(plain.len() + 100);
        self.packer.compress_vec(&plain, &mut packed, FlushCompress::Sync).unwrap();
        let id = self.next;
        self.next += 2;
        let mut bytes = vec![0x80, 3, 0, 1, 0];
        bytes.extend_from_slice(&u32::try_from(packed.len() + 10).unwrap().to_be_bytes()[1..]);
        bytes.extend_from_slice(&id.to_be_bytes());
        bytes.extend_from_slice(&[0; 6]);
        bytes.extend_from_slice(&packed);
        self.write(&bytes).await;
        id
    }

    pub(super) async fn data(&mut self, id: u32, fin: bool, data: &[u8]) {
        let mut bytes = BytesMut::new();
        frame::put_data(&mut bytes, id, fin, data);
        self.write(&bytes).await;
    }

    /// The next frame; nothing at the end.
    pub(super) async fn frame(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.decoder.decode(&mut self.buffer).unwrap() {
                if let Frame::Headers { block, .. } = &frame {
                    self.unpacker.unpack(block).unwrap();
                }
                return Some(frame);
            }
            match self.io.read_buf(&mut self.buffer).await {
                Ok(count) if count > 0 => {}
                _ => return None,
            }
        }
    }

    /// Reads until a stream is answered, whatever comes before.
    pub(super) async fn replied(&mut self, wanted: u32) {
        loop {
            match self.frame().await.expect("the connection is gone") {
                Frame::Headers { id, .. } if id == wanted => return,
                _ => {}
            }
        }
    }

    /// What each stream says up to the end of the connection, and which are reset.
    pub(super) async fn rest(&mut self) -> (BTreeMap<u32, Vec<u8>>, Vec<u32>) {
        let (mut said, mut reset) = (BTreeMap::<u32, Vec<u8>>::new(), Vec::new());
        while let Some(frame) = self.frame().await {
            match frame {
                Frame::Data { id, data, .. } => said.entry(id).or_default().extend_from_slice(&data),
                Frame::Reset { id } => reset.push(id),
                Frame::GoAway => break,
                _ => {}
            }
        }
        (said, reset)
    }
}

impl Bed {
    pub(super) async fn spdy(&self, path: &str, protocol: &str) -> Result<Client<TokioIo<Upgraded>>, String> {
        let request = Request::post(path)
            .header("connection", "Upgrade")
            .header("upgrade", "SPDY/3.1")
            .header("x-stream-protocol-version", protocol);
        let response = refused(self.send(request.body(Empty::new()).unwrap()).await, 101).await?;
        assert!(protocol.contains(response.headers()["x-stream-protocol-version"].to_str().unwrap()));
        Ok(Client::new(TokioIo::new(hyper::upgrade::on(response).await.unwrap())))
    }
}

async fn kinds<S: AsyncRead + AsyncWrite + Unpin>(client: &mut Client<S>, kinds: &[&str]) -> Vec<u32> {
    let mut ids = Vec::new();
    for kind in kinds {
        let id = client.open(&[("streamtype", kind)]).await;
        client.replied(id).await;
        ids.push(id);
    }
    ids
}

#[tokio::test(start_paused = true)]
async fn a_command_has_a_stream_for_each_of_its_own() {
    let bed = Bed::new().await;
    let path = format!("{ONE}/exec?command=both&stdin=1&stdout=1&stderr=1");
    let mut client = bed.spdy(&path, "v4.channel.k8s.io,v3.channel.k8s.io").await.unwrap();
    let ids = kinds(&mut client, &["error", "stdin", "stdout", "stderr"]).await;
    let (said, reset) = client.rest().await;
    let status: Value = serde_json::from_slice(&said[&ids[0]]).unwrap();
    assert_eq!(status["details"]["causes"], json!([{"reason": "ExitCode", "message": "3"}]));
    assert_eq!((said[&ids[2]].as_slice(), said[&ids[3]].as_slice()), (&b"out"[..], &b"err"[..]));
    assert_eq!(reset, [ids[1]]);

    let mut client = bed.spdy(&path, "v2.channel.k8s.io").await.unwrap();
    let ids = kinds(&mut client, &["stdin", "stderr", "stdout", "error"]).await;
    let (said, _) = client.rest().await;
    assert!(said[&ids[3]].starts_with(b"command terminated with non-zero exit code"));
}

#[tokio::test(start_paused = true)]
async fn input_comes_back_and_can_be_closed() {
    let bed = Bed::new().await;
    let path = format!("{ONE}/exec?command=cat&stdin=1&stdout=1");
    let mut client = bed.spdy(&path, "v4.channel.k8s.io").await.unwrap();
    let ids = kinds(&mut client, &["error", "stdin", "stdout"]).await;
    let mut back = 0;
    for _ in 0..30 {
        client.data(ids[1], false, &[5; 100_000]).await;
        let wanted = back + 100_000;
        while back < wanted {
            if let Frame::Data { id, data, .. } = client.frame().await.unwrap() {
                assert_eq!(id, ids[2]);
                back += data.len();
            }
        }
    }
    client.data(ids[1], true, b"end").await;
    let (said, _) = client.rest().await;
    assert_eq!(said[&ids[2]], b"end");
    assert_eq!(said[&ids[0]], br#"{"metadata":{},"status":"Success"}"#);
}

#[tokio::test(start_paused = true)]
async fn a_terminal_has_a_size() {
    let bed = Bed::new().await;
    let path = format!("{ONE}/exec?command=sizes&stdout=1&tty=1");
    let mut client = bed.spdy(&path, "v4.channel.k8s.io").await.unwrap();
    let ids = kinds(&mut client, &["error", "stdout", "resize"]).await;
    client.data(ids[2], false, br#"{"Width":80,"Height":24}"#).await;
    client.data(ids[2], false, br#"{"Width":81,"Height":25}"#).await;
    let (said, _) = client.rest().await;
    assert_eq!(said[&ids[1]], b"80x24\n81x25\n");
}

#[tokio::test(start_paused = true)]
async fn pings_come_back_and_odd_streams_are_refused() {
    let bed = Bed::new().await;
    let mut client =
        bed.spdy(&format!("{ONE}/exec?command=wait&stdout=1"), "v4.channel.k8s.io").await.unwrap();
    let mut ping = BytesMut::new();
    frame::put_ping(&mut ping, 7);
    client.write(&ping).await;
    assert_eq!(client.frame().await, Some(Frame::Ping { id: 7 }));
    let chat = client.open(&[("streamtype", "chat")]).await;
    assert_eq!(client.frame().await, Some(Frame::Reset { id: chat }));
    kinds(&mut client, &["error"]).await;
    client.next = 1;
    let again = client.open(&[("streamtype", "stdout")]).await;
    assert_eq!(client.frame().await, Some(Frame::Reset { id: again }), "numbers only grow");
    // Data for a stream that is not there, settings, windows: all of no account.
    client.data(99, true, b"x").await;
    client.write(&[0x80, 3, 0, 9, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 9]).await;
    client.next = 9;
    kinds(&mut client, &["stdout"]).await;
    drop(client);
    bed.node.dropped.notified().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_cannot_be_understood_takes_its_command_along() {
    let bed = Bed::new().await;
    for nonsense in [
        &b"\x80\x02\x00\x01\x00\x00\x00\x00"[..],
        b"\x80\x03\x00\x01\x00\xff\xff\xff",
        &[0; 8],
        b"\x80\x03\x00\x01\x00\x00\x00\x0e\x00\x00\x00\x63\x00\x00\x00\x00\x00\x00junk",
    ] {
        let path = format!("{ONE}/exec?command=wait&stdout=1");
        let mut client = bed.spdy(&path, "v4.channel.k8s.io").await.unwrap();
        kinds(&mut client, &["error", "stdout"]).await;
        client.write(nonsense).await;
        bed.node.dropped.notified().await;
    }
    // One that never opens its streams is not waited for.
    let mut client =
        bed.spdy(&format!("{ONE}/exec?command=wait&stdout=1"), "v4.channel.k8s.io").await.unwrap();
    kinds(&mut client, &["error"]).await;
    client.rest().await;
}

#[tokio::test(start_paused = true)]
async fn handshakes_fail_in_a_real_servers_words() {
    let bed = Bed::new().await;
    let path = format!("{ONE}/exec?command=both&stdout=1");
    let refusal = bed.spdy(&path, "v9.channel.k8s.io").await.err().unwrap();
    assert_eq!(
        refusal,
        "403 Forbidden unable to upgrade: unable to negotiate protocol: client supports [v9.channel.k8s.io], server \
         accepts [v4.channel.k8s.io v3.channel.k8s.io v2.channel.k8s.io channel.k8s.io]\n"
    );
    let request = Request::post(&path).header("connection", "Upgrade").header("upgrade", "SPDY/3.1");
    let response = bed.send(request.body(Empty::<Bytes>::new()).unwrap()).await;
    assert_eq!(response.status(), 400);
    let text = response.into_body().collect().await.unwrap().to_bytes();
    assert!(
        text.starts_with(b"unable to upgrade: header X-Stream-Protocol-Version does not exist"),
        "{text:?}"
    );
}
