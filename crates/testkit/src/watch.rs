//! A list followed by a watch, for ever: how the kubelet and the test itself see the server.
//!
//! Deliberately not the operator's watch: a fault in that one must not blind the test that looks for it.

use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, StreamExt};
use http::Request;
use kube::Client;
use kube::core::WatchEvent;
use serde_json::Value;

use crate::rest::{Rest, text};

/// A change of a collection.
#[derive(Clone, Debug)]
pub enum Change {
    /// Everything that is there now; what is not in it is gone.
    All(Vec<Value>),
    /// It was added or changed.
    Put(Value),
    /// It is gone; this was its last state.
    Gone(Value),
}

type Events = Pin<Box<dyn Stream<Item = Result<WatchEvent<Value>, kube::Error>> + Send>>;

/// Follows one collection.
pub struct Watch {
    rest: Rest,
    path: String,
    events: Option<Events>,
}

impl Watch {
    /// Follows the collection at `path`.
    pub fn new(client: Client, path: impl Into<String>) -> Self {
        Self { rest: Rest::new(client), path: path.into(), events: None }
    }

    /// The next change. Starts over with [`Change::All`] whenever the stream ends or breaks.
    pub async fn next(&mut self) -> Change {
        loop {
            let Some(events) = &mut self.events else {
                match self.start().await {
                    Ok(change) => return change,
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                }
                continue;
            };
            match events.next().await {
                Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                    return Change::Put(object);
                }
                Some(Ok(WatchEvent::Deleted(object))) => return Change::Gone(object),
                Some(Ok(WatchEvent::Bookmark(_))) => {}
                Some(Ok(WatchEvent::Error(_)) | Err(_)) | None => self.events = None,
            }
        }
    }

    async fn start(&mut self) -> Result<Change, kube::Error> {
        let mut list = self.rest.get(&self.path).await?;
        let version = text(&list, "/metadata/resourceVersion");
        let uri = format!("{}?watch=true&resourceVersion={version}&allowWatchBookmarks=true", self.path);
        let request = Request::get(uri).body(Vec::new()).expect("paths in tests are legal");
        let events = self.rest.client().request_events::<Value>(request).await?;
        self.events = Some(Box::pin(events));
        let items = list.get_mut("items").map(Value::take);
        Ok(Change::All(match items {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        }))
    }
}
