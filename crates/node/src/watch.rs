//! The pods of the API server, as they come and go, and what is decided about this node.

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::watcher::{self, Config};
use kube::runtime::{WatchStreamExt as _, watcher as watch};
use kube::{Api, Client};

/// What happened to a pod.
#[derive(Debug)]
pub(crate) enum Seen {
    /// A list of all pods begins: what does not come until [`Seen::Listed`] is gone.
    Listing,
    /// A pod is there, new or changed.
    There(Box<Pod>),
    /// Something is there that is no pod one can read.
    Odd(Odd),
    /// The list is complete.
    Listed,
    /// A pod is gone.
    Gone(String),
}

/// A pod that cannot be read, and why.
#[derive(Debug)]
pub(crate) struct Odd {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) why: String,
}

/// All pods, for ever. An object that is no pod touches no other.
pub(crate) fn pods(client: Client) -> impl Stream<Item = Seen> + Send {
    let resource = ApiResource::erase::<Pod>(&());
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    watch(api, Config::default()).default_backoff().filter_map(async |event| match event {
        Ok(watcher::Event::Init) => Some(Seen::Listing),
        Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) => Some(decode(object)),
        Ok(watcher::Event::InitDone) => Some(Seen::Listed),
        Ok(watcher::Event::Delete(object)) => object.metadata.uid.map(Seen::Gone),
        Err(error) => {
            tracing::warn!(%error, "cannot watch pods; will retry");
            None
        }
    })
}

/// Whether the node takes no new pods (`kubectl cordon`), for ever.
pub(crate) fn is_closed(client: Client, name: &str) -> impl Stream<Item = bool> + Send + use<> {
    let config = Config::default().fields(&format!("metadata.name={name}"));
    watch(Api::<Node>::all(client), config).default_backoff().filter_map(async |event| match event {
        Ok(watcher::Event::InitApply(node) | watcher::Event::Apply(node)) => {
            Some(node.spec.and_then(|spec| spec.unschedulable).unwrap_or(false))
        }
        Ok(_) => None,
        Err(error) => {
            tracing::warn!(%error, "cannot watch this node; will retry");
            None
        }
    })
}

fn decode(object: DynamicObject) -> Seen {
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    let meta = &object.metadata;
    let (namespace, name, uid) = (text(&meta.namespace), text(&meta.name), text(&meta.uid));
    match serde_json::to_value(object).and_then(serde_json::from_value::<Pod>) {
        Ok(pod) => Seen::There(Box::new(pod)),
        Err(error) => Seen::Odd(Odd { namespace, name, uid, why: error.to_string() }),
    }
}
