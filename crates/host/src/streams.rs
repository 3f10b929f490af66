//! The node's processes and ports as part of the API: exec, attach, port-forward.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use trainyard_apiserver::streams::{Connection, Place, PodStreams, StreamError, Streams};
use trainyard_node::NodeStreams;
use trainyard_node::runtime::{self, RuntimeError, WindowSize};

use crate::machine::{Machine, text};

fn not_yet() -> StreamError {
    StreamError("the node has not started yet".into())
}

/// All containers of a pod.
fn containers(pod: &Value) -> impl Iterator<Item = &str> {
    let lists = ["containers", "initContainers"].map(|list| pod.pointer(&format!("/spec/{list}")));
    let all = lists.into_iter().flatten().filter_map(Value::as_array).flatten();
    all.filter_map(|container| container.get("name")?.as_str())
}

fn is_up(streams: &NodeStreams, place: &Place) -> Result<(), StreamError> {
    let uid = text(&place.pod, "uid");
    let (up, what) = if place.container.is_empty() {
        let any = containers(&place.pod).any(|container| streams.find(&uid, container).is_some());
        let name = format!("{}_{}", text(&place.pod, "name"), place.namespace);
        (any, format!("pod not found ({name:?})"))
    } else {
        let up = streams.find(&uid, &place.container).is_some();
        (up, format!("container not found ({:?})", place.container))
    };
    if up { Ok(()) } else { Err(StreamError(what)) }
}

/// The same streams in the node's words. The sizes are passed on until nobody listens.
fn translate(streams: Streams) -> runtime::Streams {
    let Streams { stdin, stdout, stderr, tty, mut sizes } = streams;
    let (to, translated) = mpsc::channel(1);
    tokio::spawn(async move {
        while let Some(size) = sizes.recv().await {
            let size = WindowSize { columns: size.columns, rows: size.rows };
            if to.send(size).await.is_err() {
                return;
            }
        }
    });
    runtime::Streams { stdin, stdout, stderr, tty, sizes: translated }
}

/// Why a command was not run, as containerd and runc say it: clients look for these words.
fn why(error: &RuntimeError) -> String {
    match error {
        RuntimeError::CannotRun(why) => {
            let id: String = rand::random::<[u8; 32]>().iter().map(|byte| format!("{byte:02x}")).collect();
            format!(
                "failed to start exec {id:?}: OCI runtime exec failed: exec failed: \
                 unable to start container process: {why}: unknown"
            )
        }
        other => other.to_string(),
    }
}

impl PodStreams for Machine {
    fn check(&self, place: &Place) -> Result<(), StreamError> {
        is_up(&self.streams().ok_or_else(not_yet)?, place)
    }

    fn exec(
        &self,
        place: Place,
        command: Vec<String>,
        streams: Streams,
    ) -> BoxFuture<'static, Result<i32, StreamError>> {
        let node = self.streams();
        async move {
            let node = node.ok_or_else(not_yet)?;
            let uid = text(&place.pod, "uid");
            let code = node.exec(&uid, &place.container, &command, translate(streams)).await;
            code.map_err(|error| StreamError(format!("failed to exec in container: {}", why(&error))))
        }
        .boxed()
    }

    fn attach(&self, place: Place, streams: Streams) -> BoxFuture<'static, Result<(), StreamError>> {
        let node = self.streams();
        async move {
            let node = node.ok_or_else(not_yet)?;
            let uid = text(&place.pod, "uid");
            let joined = node.attach(&uid, &place.container, translate(streams)).await;
            joined.map_err(|error| StreamError(error.to_string()))
        }
        .boxed()
    }

    fn connect(
        &self,
        place: Place,
        port: u16,
    ) -> BoxFuture<'static, Result<Box<dyn Connection>, StreamError>> {
        let node = self.streams();
        async move {
            let node = node.ok_or_else(not_yet)?;
            let looking = spawn_blocking({
                let node = node.clone();
                move || is_up(&node, &place)
            });
            looking.await.map_err(|error| StreamError(error.to_string()))??;
            let connection = node.connect(port).await.map_err(StreamError)?;
            // Somebody may sit at a keyboard behind it.
            let _slower_at_worst = connection.set_nodelay(true);
            Ok(Box::new(connection) as _)
        }
        .boxed()
    }
}
