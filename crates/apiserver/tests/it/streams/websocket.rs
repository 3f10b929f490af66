//! Processes over WebSockets.

use futures::SinkExt;
use http::Request;
use http_body_util::{BodyExt, Empty};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use tokio_tungstenite::tungstenite::Message;

use super::{Bed, ONE, TWO};
use crate::harness::Row;
use crate::rbac::send_as;

const V5: &str = "v5.channel.k8s.io";
const V4: &str = "v4.channel.k8s.io";

#[tokio::test(start_paused = true)]
async fn a_command_gets_its_streams_and_its_end_is_told() {
    let bed = Bed::new().await;
    let path = format!("{ONE}/exec?command=both&command=a+b&stdout=1&stderr=1&stdin=");
    for (protocols, chosen) in [("v4.channel.k8s.io, v5.channel.k8s.io", V5), (V4, V4)] {
        let mut socket = bed.socket(&path, protocols).await;
        assert_eq!(socket.headers["sec-websocket-protocol"], chosen);
        assert_eq!(socket.hear().await, Some((1, Vec::new())), "the connection stands");
        let (out, err, status) = socket.rest().await;
        assert_eq!((out.as_slice(), err.as_slice()), (&b"out"[..], &b"err"[..]));
        assert_eq!(status["status"], "Failure");
        assert_eq!(status["reason"], "NonZeroExitCode");
        assert_eq!(status["details"]["causes"], json!([{"reason": "ExitCode", "message": "3"}]));
    }
    let asked = bed.node.asked.lock().unwrap().last().cloned().unwrap();
    assert_eq!(asked, ("main".into(), vec!["both".into(), "a b".into()], false));
}

#[tokio::test(start_paused = true)]
async fn older_protocols_tell_failures_as_text() {
    let bed = Bed::new().await;
    for protocol in ["channel.k8s.io", ""] {
        let mut socket = bed.socket(&format!("{ONE}/exec?command=both&stdout=1&stderr=1"), protocol).await;
        let (.., status) = socket.rest().await;
        assert!(
            status.as_str().unwrap().starts_with("command terminated with non-zero exit code"),
            "{status}"
        );
        assert_eq!(socket.headers.contains_key("sec-websocket-protocol"), !protocol.is_empty());
    }
    let mut socket =
        bed.socket(&format!("{ONE}/exec?command=both&stdout=1&stderr=1"), "base64.channel.k8s.io").await;
    assert_eq!(socket.hear().await, Some((b'1', Vec::new())));
    let mut heard = vec![socket.hear().await.unwrap(), socket.hear().await.unwrap()];
    heard.sort();
    assert_eq!(heard, [(b'1', b"b3V0".to_vec()), (b'2', b"ZXJy".to_vec())]);
}

#[tokio::test(start_paused = true)]
async fn input_comes_back_and_can_be_closed() {
    let bed = Bed::new().await;
    let mut socket = bed.socket(&format!("{ONE}/exec?command=cat&stdin=true&stdout=true"), V5).await;
    let (mut sent, mut back) = (Vec::new(), Vec::new());
    for round in 0..50u8 {
        let piece = vec![round; 10_000];
        socket.say(0, &piece).await;
        sent.extend_from_slice(&piece);
        while back.len() < sent.len() {
            let (channel, data) = socket.hear().await.unwrap();
            assert_eq!(channel, 1);
            back.extend_from_slice(&data);
        }
    }
    // Nobody listens on these.
    socket.say(1, b"x").await;
    socket.say(77, b"x").await;
    socket.socket.send(Message::binary(Vec::new())).await.unwrap();
    socket.say(255, &[0]).await;
    let (rest, _, status) = socket.rest().await;
    assert!(rest.is_empty() && sent == back);
    assert_eq!(status, json!({"metadata": {}, "status": "Success"}));
}

#[tokio::test(start_paused = true)]
async fn a_terminal_has_one_output_and_a_size() {
    let bed = Bed::new().await;
    let path = format!("{ONE}/exec?command=sizes&stdin=1&stdout=1&stderr=1&tty=1");
    let mut socket = bed.socket(&path, V5).await;
    socket.say(4, br#"{"Width":80,"Height":24}"#).await;
    socket.say(4, br#"{"Width":132,"#).await;
    socket.say(4, br#""Height":50}"#).await;
    let (out, err, status) = socket.rest().await;
    assert_eq!(String::from_utf8(out).unwrap(), "80x24\n132x50\n");
    assert!(err.is_empty());
    assert_eq!(status["status"], "Success");
    assert!(bed.node.asked.lock().unwrap().last().unwrap().2, "it was told about the terminal");
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_run_is_told() {
    let bed = Bed::new().await;
    let mut socket = bed.socket(&format!("{ONE}/exec?command=fail&stdout=1"), V5).await;
    let (.., status) = socket.rest().await;
    assert_eq!(status["reason"], "InternalError");
    assert_eq!(
        status["message"],
        "Internal error occurred: Internal error occurred: error executing command in container: no such program"
    );
    let mut socket = bed.socket(&format!("{TWO}/attach?container=a&stdout=1"), V5).await;
    let (out, _, status) = socket.rest().await;
    assert_eq!(String::from_utf8(out).unwrap(), "attached to a\n");
    assert_eq!(status["status"], "Success");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_takes_its_command_along() {
    let bed = Bed::new().await;
    let path = format!("{ONE}/exec?command=wait&stdin=1&stdout=1");
    // It vanishes.
    drop(bed.socket(&path, V5).await);
    bed.node.dropped.notified().await;
    // It says goodbye.
    let mut socket = bed.socket(&path, V5).await;
    socket.socket.send(Message::Close(None)).await.unwrap();
    bed.node.dropped.notified().await;
    // It talks nonsense: a close signal for no channel, one for a channel that is not there, a frame without a mask.
    for nonsense in [&[255][..], &[255, 9], &[255, 0, 0]] {
        let mut socket = bed.socket(&path, V5).await;
        socket.socket.send(Message::binary(nonsense.to_vec())).await.unwrap();
        bed.node.dropped.notified().await;
    }
    // It sends more than anybody takes.
    let mut socket = bed.socket(&path, V5).await;
    let huge = Message::binary(vec![0; (32 << 20) + 1]);
    let _cut_off = socket.socket.send(huge).await;
    bed.node.dropped.notified().await;
    // It says nothing for too long.
    let _silent = bed.socket(&path, V5).await;
    bed.node.dropped.notified().await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_server_ends_them() {
    let bed = Bed::new().await;
    let mut socket = bed.socket(&format!("{ONE}/exec?command=wait&stdout=1"), V5).await;
    assert_eq!(socket.hear().await, Some((1, Vec::new())));
    let Bed { api, node } = bed;
    drop(api.router);
    api.server.shutdown().await;
    node.dropped.notified().await;
    assert_eq!(socket.hear().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_slow_client_slows_the_command_down() {
    let bed = Bed::new().await;
    let mut socket = bed.socket(&format!("{ONE}/exec?command=flood&stdout=1"), V5).await;
    // Virtual time moves on only once every task waits for something.
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    let flooded = bed.node.flooded.load(Ordering::SeqCst);
    assert!(flooded > 0 && flooded < 2 << 20, "{flooded} bytes lie between");
    let mut heard = 0;
    while heard < 4 << 20 {
        heard += socket.hear().await.unwrap().1.len();
    }
    assert!(bed.node.flooded.load(Ordering::SeqCst) > flooded);
}

#[tokio::test(start_paused = true)]
async fn input_for_a_command_that_does_not_read_is_dropped() {
    let bed = Bed::new().await;
    let mut socket = bed.socket(&format!("{ONE}/exec?command=deaf&stdin=1&stdout=1"), V5).await;
    assert_eq!(socket.hear().await, Some((1, Vec::new())));
    assert_eq!(socket.hear().await, Some((1, b"deaf".to_vec())));
    for _ in 0..100 {
        socket.say(0, &[0; 10_000]).await;
    }
    socket.socket.send(Message::Ping("x".into())).await.unwrap();
    loop {
        let message = futures::StreamExt::next(&mut socket.socket).await.unwrap().unwrap();
        if message == Message::Pong("x".into()) {
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn wrong_requests_get_a_real_servers_words() {
    let bed = Bed::new().await;
    let bad = |path: &'static str, code: u16, message: &str| -> Row {
        ("GET", path, Value::Null, code, json!({"message": message}))
    };
    bed.api
        .rows(&[
            bad(
                "/api/v1/namespaces/default/pods/none/exec?command=a&stdout=1",
                404,
                "pods \"none\" not found",
            ),
            bad(
                "/api/v1/namespaces/default/pods/two/exec?command=a&stdout=1",
                400,
                "a container name must be specified for pod two, choose one of: [prepare a stopped]",
            ),
            bad(
                "/api/v1/namespaces/default/pods/two/attach?container=c&stdout=1",
                400,
                "container c is not valid for pod two",
            ),
            bad(
                "/api/v1/namespaces/default/pods/unplaced/exec?command=a&stdout=1",
                400,
                "pod unplaced does not have a host assigned",
            ),
            bad(
                "/api/v1/namespaces/default/pods/unplaced/portforward",
                400,
                "pod unplaced does not have a host assigned",
            ),
            bad(
                "/api/v1/namespaces/default/pods/one/exec?command=a&stdout=1",
                400,
                "Upgrade request required",
            ),
            ("PUT", "/api/v1/namespaces/default/pods/one/exec", Value::Null, 405, Value::Null),
            ("GET", "/api/v1/namespaces/default/configmaps/one/exec", Value::Null, 404, Value::Null),
        ])
        .await;
    let list = bed.api.ok("GET", "/api/v1", Value::Null).await;
    for name in ["pods/exec", "pods/attach", "pods/portforward"] {
        let listed = list["resources"].as_array().unwrap().iter().find(|r| r["name"] == name).unwrap();
        assert_eq!(listed["verbs"], json!(["create", "get"]), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn handshakes_fail_in_a_real_servers_words() {
    let bed = Bed::new().await;
    for (path, protocol, answer) in [
        (
            format!("{ONE}/exec?command=a"),
            V5,
            "400 Bad Request you must specify at least 1 of stdin, stdout, stderr\n",
        ),
        (
            format!("{ONE}/exec?stdout=1"),
            V5,
            "400 Bad Request you must specify at least one command for the container\n",
        ),
        (
            format!("{TWO}/exec?container=stopped&command=a&stdout=1"),
            V5,
            "500 Internal Server Error container not found (\"stopped\")\n",
        ),
        (
            format!("{ONE}/exec?command=a&stdout=1"),
            "chat",
            "403 Forbidden the subprotocols that were asked for are not served\n",
        ),
    ] {
        let response = bed.websocket(&path, protocol).await;
        let status = response.status();
        let text = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(format!("{status} {}", String::from_utf8_lossy(&text)), answer, "{path}");
    }
    let request = Request::get(format!("{ONE}/exec?command=a&stdout=1"))
        .header("connection", "keep-alive, upgrade")
        .header("upgrade", "WebSocket")
        .header("sec-websocket-version", "8");
    let response = bed.send(request.body(Empty::new()).unwrap()).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["sec-websocket-version"]),
        (400, &"13".parse().unwrap())
    );
}

#[tokio::test(start_paused = true)]
async fn reading_a_pod_is_not_enough_to_reach_into_it() {
    let bed = Bed::new().await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let role = |verbs: Value| json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": verbs}]});
    let subjects = json!([{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "eve"}]);
    let binding = json!({
        "metadata": {"name": "r"}, "subjects": subjects,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
    });
    bed.api.ok("POST", &format!("{rbac}/roles"), role(json!(["get"]))).await;
    bed.api.ok("POST", &format!("{rbac}/rolebindings"), binding).await;
    let path = format!("{ONE}/exec?command=a&stdout=1");
    let refused = send_as(&bed.api, "eve", "GET", &path, Value::Null).await;
    assert_eq!(
        (refused.code, &refused.json()["message"]),
        (
            403,
            &json!(
                "pods \"one\" is forbidden: User \"eve\" cannot create resource \"pods/exec\" in API group \"\" in the namespace \"default\""
            )
        )
    );
    bed.api.ok("PUT", &format!("{rbac}/roles/r"), role(json!(["get", "create"]))).await;
    let passed = send_as(&bed.api, "eve", "GET", &path, Value::Null).await;
    assert_eq!(passed.json()["message"], "Upgrade request required");
}
