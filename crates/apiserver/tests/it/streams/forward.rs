//! Ports: over SPDY, over SPDY in a WebSocket, over channels of a WebSocket.

use bytes::BytesMut;
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio_tungstenite::tungstenite::Message;
use trainyard_apiserver::streams::spdy::frame::{self, Frame};

use super::spdy::Client;
use super::{Bed, ONE, Socket};

/// A connection to a port: the streams for errors and data.
async fn connect<S>(client: &mut Client<S>, port: &str, request: &str) -> (u32, u32)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let error = client.open(&[("streamtype", "error"), ("port", port), ("requestid", request)]).await;
    client.replied(error).await;
    let data = client.open(&[("streamtype", "data"), ("port", port), ("requestid", request)]).await;
    client.replied(data).await;
    (error, data)
}

/// Reads until a stream has said something.
async fn until<S>(client: &mut Client<S>, stream: u32, text: &str)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let mut said = Vec::new();
    while said != text.as_bytes() {
        match client.frame().await.unwrap() {
            Frame::Data { id, data, .. } if id == stream => said.extend_from_slice(&data),
            other => panic!("{other:?} instead of {text:?}, after {:?}", String::from_utf8_lossy(&said)),
        }
    }
}

/// Everything that a stream says, up to its last word.
async fn last<S>(client: &mut Client<S>, stream: u32) -> String
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let mut said = Vec::new();
    loop {
        match client.frame().await.unwrap() {
            Frame::Data { id, fin, data } if id == stream => {
                said.extend_from_slice(&data);
                if fin {
                    return String::from_utf8(said).unwrap();
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

async fn talk<S>(client: &mut Client<S>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let (first_error, first) = connect(client, "80", "0").await;
    until(client, first, "port 80\n").await;
    let (_, second) = connect(client, "81", "1").await;
    until(client, second, "port 81\n").await;
    client.data(second, false, b"two").await;
    until(client, second, "two").await;
    // One that is closed by the client is closed by the pod.
    client.data(first, true, b"one").await;
    until(client, first, "one").await;
    assert_eq!(client.frame().await, Some(Frame::Data { id: first, fin: true, data: Default::default() }));
    assert_eq!(
        client.frame().await,
        Some(Frame::Data { id: first_error, fin: true, data: Default::default() })
    );
    // One that cannot be had says why, and leaves the others alone.
    let error = client.open(&[("streamtype", "error"), ("port", "9")]).await;
    client.replied(error).await;
    let data = client.open(&[("streamtype", "data"), ("port", "9")]).await;
    client.replied(data).await;
    let text = last(client, error).await;
    assert!(text.starts_with("error forwarding port 9 to pod one, uid "), "{text}");
    assert!(text.ends_with(": connection refused"), "{text}");
    assert_eq!(client.frame().await, Some(Frame::Reset { id: data }));
    client.data(second, false, b"still").await;
    until(client, second, "still").await;
    let mut reset = BytesMut::new();
    frame::put_reset(&mut reset, second, frame::CANCEL);
    client.write(&reset).await;
    assert!(matches!(client.frame().await, Some(Frame::Data { fin: true, .. })), "its error stream ends");
    for bad in [
        &[("streamtype", "data")][..],
        &[("streamtype", "data"), ("port", "0")],
        &[("streamtype", "data"), ("port", "x")],
        &[("streamtype", "x"), ("port", "1")],
        &[("port", "1")],
    ] {
        let id = client.open(bad).await;
        assert_eq!(client.frame().await, Some(Frame::Reset { id }), "{bad:?}");
    }
    // Half a pair is not waited for for ever.
    let lonely = client.open(&[("streamtype", "error"), ("port", "80"), ("requestid", "7")]).await;
    client.replied(lonely).await;
    loop {
        match client.frame().await.unwrap() {
            Frame::Ping { .. } => {}
            frame => break assert_eq!(frame, Frame::Reset { id: lonely }),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn ports_are_forwarded_over_spdy() {
    let bed = Bed::new().await;
    let mut client = bed.spdy(&format!("{ONE}/portforward"), "portforward.k8s.io").await.unwrap();
    talk(&mut client).await;
}

#[tokio::test(start_paused = true)]
async fn ports_are_forwarded_over_spdy_in_a_websocket() {
    let bed = Bed::new().await;
    let Socket { socket, headers } =
        bed.socket(&format!("{ONE}/portforward"), "SPDY/3.1+other.k8s.io, SPDY/3.1+portforward.k8s.io").await;
    assert_eq!(headers["sec-websocket-protocol"], "SPDY/3.1+portforward.k8s.io");
    let (inside, outside) = duplex(64 * 1024);
    let (mut sink, mut source) = socket.split();
    let (mut read, mut write) = tokio::io::split(outside);
    tokio::spawn(async move {
        while let Some(Ok(message)) = source.next().await {
            if let Message::Binary(data) = message {
                write.write_all(&data).await.unwrap();
            }
        }
    });
    tokio::spawn(async move {
        let mut buffer = vec![0; 7];
        while let Ok(count @ 1..) = read.read(&mut buffer).await {
            sink.send(Message::binary(buffer[..count].to_vec())).await.unwrap();
        }
    });
    let mut client = Client::new(inside);
    talk(&mut client).await;
}

#[tokio::test(start_paused = true)]
async fn ports_are_forwarded_over_channels() {
    let bed = Bed::new().await;
    let mut socket = bed.socket(&format!("{ONE}/portforward?ports=80&ports=9"), "v4.channel.k8s.io").await;
    let mut heard = Vec::new();
    while heard.len() < 6 {
        heard.push(socket.hear().await.unwrap());
    }
    heard.sort();
    let error = heard.iter().position(|(channel, data)| *channel == 3 && data.len() > 2).unwrap();
    let (_, text) = heard.remove(error);
    assert!(String::from_utf8(text).unwrap().ends_with(": connection refused"));
    assert_eq!(
        heard,
        [(0, vec![80, 0]), (0, b"port 80\n".to_vec()), (1, vec![80, 0]), (2, vec![9, 0]), (3, vec![9, 0])]
    );
    socket.say(0, b"hello").await;
    assert_eq!(socket.hear().await, Some((0, b"hello".to_vec())));
    socket.say(7, b"nobody").await;
    let response = bed.websocket(&format!("{ONE}/portforward"), "v4.channel.k8s.io").await;
    assert_eq!(response.status(), 400);
    let text = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
    assert_eq!(&*text, b"query parameter \"port\" is required\n");
}
