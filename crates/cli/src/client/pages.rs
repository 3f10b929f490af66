//! Lists page by page. The next page is on its way while one is read, and no list is held as a whole.

use kube::Client;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio_util::task::AbortOnDropHandle;

use super::cluster::Cluster;
use super::resource::{Resource, encode};

/// Objects per page.
const PAGE: u32 = 500;

/// Which objects are listed.
#[derive(Clone, Copy)]
pub(crate) struct Listed<'a> {
    pub(crate) resource: &'a Resource,
    /// All namespaces if there is none.
    pub(crate) namespace: Option<&'a str>,
    /// A label selector; all objects if it is empty.
    pub(crate) selector: &'a str,
}

/// A list that is being read.
pub(crate) struct Pages {
    cluster: Cluster,
    base: String,
    revision: String,
    next: Option<AbortOnDropHandle<Result<Page, kube::Error>>>,
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMeta,
    items: Option<Vec<Box<RawValue>>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMeta {
    r#continue: Option<String>,
    remaining_item_count: Option<usize>,
    resource_version: Option<String>,
}

impl Pages {
    /// Begins to read a list.
    pub(crate) fn of(cluster: &Cluster, listed: Listed<'_>) -> Self {
        let Listed { resource, namespace, selector } = listed;
        let mut base = format!("{}?limit={PAGE}", resource.collection(namespace));
        if !selector.is_empty() {
            base.push_str(&format!("&labelSelector={}", encode(selector)));
        }
        let next = Some(ask(cluster.client(), base.clone()));
        Self { cluster: cluster.clone(), base, revision: String::new(), next }
    }

    /// The objects of the next page, as text; nothing after the last.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<Vec<Box<RawValue>>>> {
        while let Some(page) = self.next.take() {
            let page = match page.await? {
                Ok(page) => page,
                Err(error) => {
                    // The state that is listed is forgotten by now. The server says how to go on with a newer one.
                    let Some(token) = renewed(&error) else { return Err(self.cluster.explain(error)) };
                    self.request(&token);
                    continue;
                }
            };
            if let Some(token) = page.metadata.r#continue.filter(|token| !token.is_empty()) {
                self.request(&token);
            }
            self.revision = page.metadata.resource_version.unwrap_or_default();
            return Ok(Some(page.items.unwrap_or_default()));
        }
        Ok(None)
    }

    /// The version of the state that the last page shows, from which a watch may begin.
    pub(crate) fn revision(&self) -> &str {
        &self.revision
    }

    fn request(&mut self, token: &str) {
        let path = format!("{}&continue={}", self.base, encode(token));
        self.next = Some(ask(self.cluster.client(), path));
    }
}

/// The first objects of a list, and how many there are beyond them.
pub(crate) async fn first(
    cluster: &Cluster,
    listed: Listed<'_>,
    limit: usize,
) -> anyhow::Result<(Vec<Box<RawValue>>, usize)> {
    let path = format!("{}?limit={limit}", listed.resource.collection(listed.namespace));
    let page = ask(cluster.client(), path).await?.map_err(|error| cluster.explain(error))?;
    Ok((page.items.unwrap_or_default(), page.metadata.remaining_item_count.unwrap_or_default()))
}

fn ask(client: Client, path: String) -> AbortOnDropHandle<Result<Page, kube::Error>> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let request = http::Request::get(path).header(http::header::ACCEPT, "application/json");
        let text = client.request_text(request.body(Vec::new()).map_err(kube::Error::HttpError)?).await?;
        serde_json::from_str(&text).map_err(kube::Error::SerdeError)
    }))
}

/// Where an expired list goes on.
fn renewed(error: &kube::Error) -> Option<String> {
    match error {
        kube::Error::Api(status) if status.code == 410 => {
            status.metadata.as_ref()?.continue_.clone().filter(|token| !token.is_empty())
        }
        _ => None,
    }
}
