//! The server as the commands see it: verbs on paths, JSON as it comes, and errors that say what to do.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::anyhow;
use futures::AsyncBufReadExt as _;
use futures::io::AsyncBufRead;
use http::{Method, Request};
use serde_json::Value;
use trainyard_core::{Catalog, Kind};

use super::fields::{items, text};
use super::pages::{Listed, Pages};
use super::resource::{Resource, root};
use crate::connect::Connection;

/// The options of every command that talks to a server.
#[derive(clap::Args, Clone)]
pub(crate) struct Reach {
    #[command(flatten)]
    connection: Connection,
    /// Namespace; that of the context if left out.
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
}

impl Reach {
    /// Prepares to talk. Nothing is sent yet.
    pub(crate) async fn open(&self) -> anyhow::Result<Cluster> {
        let mut config = self.connection.config().await?;
        // Logs and watches are silent for as long as nothing happens.
        config.read_timeout = None;
        let url = config.cluster_url.to_string();
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = kube::Client::try_from(config)?;
        let catalog = Catalog::default();
        let served = Arc::default();
        Ok(Cluster { client, url, namespace, chosen: self.namespace.is_some(), catalog, served })
    }
}

/// A server, and where on it the user is.
#[derive(Clone)]
pub(crate) struct Cluster {
    client: kube::Client,
    url: String,
    /// The namespace that is meant where none is said.
    pub(crate) namespace: String,
    /// True when the user chose it on the command line.
    pub(crate) chosen: bool,
    /// The job kinds this binary knows.
    pub(crate) catalog: Catalog,
    /// What the server serves, as far as it was asked: a command about many objects asks once.
    served: Arc<Mutex<BTreeMap<String, Arc<Value>>>>,
}

/// The lines of a stream.
pub(crate) struct Lines {
    stream: Pin<Box<dyn AsyncBufRead + Send>>,
    /// What came of the next line. Kept here, so that nothing is lost when somebody stops waiting for the rest.
    begun: Vec<u8>,
}

impl Lines {
    /// The next line with its end, if it has one. May be cancelled and called again.
    pub(crate) async fn next(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        self.stream.read_until(b'\n', &mut self.begun).await?;
        Ok((!self.begun.is_empty()).then(|| std::mem::take(&mut self.begun)))
    }
}

#[cfg(test)]
impl Cluster {
    /// A server behind a client, for tests.
    pub(crate) fn of(client: kube::Client, namespace: &str) -> Self {
        Self {
            client,
            url: "http://test".into(),
            namespace: namespace.into(),
            chosen: false,
            catalog: Catalog::default(),
            served: Arc::default(),
        }
    }
}

impl Cluster {
    /// What sends the requests.
    pub(crate) fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// Reads an object; nothing if there is none.
    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Option<Value>> {
        match self.send(Method::GET, path, None).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if code(&error) == 404 => Ok(None),
            Err(error) => Err(self.explain(error)),
        }
    }

    /// All objects of a resource that a label selector selects. For lists that are shown as a whole; [`Pages`] holds none.
    pub(crate) async fn list(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        selector: &str,
    ) -> anyhow::Result<Vec<Value>> {
        let mut pages = Pages::of(self, Listed { resource, namespace, selector });
        let mut all: Vec<Value> = Vec::new();
        while let Some(page) = pages.next().await? {
            for object in page {
                all.push(serde_json::from_str(object.get())?);
            }
        }
        for object in &mut all {
            name_kind(object, resource);
        }
        Ok(all)
    }

    /// Creates an object.
    pub(crate) async fn create(&self, path: &str, body: &Value) -> Result<Value, kube::Error> {
        let path = format!("{path}?fieldManager=trainyard&fieldValidation=Strict");
        self.send(Method::POST, &path, Some(("application/json", body))).await
    }

    /// Changes an object by merge patch.
    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Result<Value, kube::Error> {
        let path = format!("{path}?fieldManager=trainyard&fieldValidation=Strict");
        self.send(Method::PATCH, &path, Some(("application/merge-patch+json", body))).await
    }

    /// Changes an object by strategic merge patch: lists are merged, not replaced.
    pub(crate) async fn strategic_patch(&self, path: &str, body: &Value) -> Result<Value, kube::Error> {
        let path = format!("{path}?fieldManager=trainyard");
        self.send(Method::PATCH, &path, Some(("application/strategic-merge-patch+json", body))).await
    }

    /// Deletes an object with these `DeleteOptions`.
    pub(crate) async fn delete(&self, path: &str, options: &Value) -> Result<Value, kube::Error> {
        self.send(Method::DELETE, path, Some(("application/json", options))).await
    }

    /// Opens a stream of lines.
    pub(crate) async fn lines(&self, path: &str) -> Result<Lines, kube::Error> {
        let request = Request::get(path).header(http::header::ACCEPT_ENCODING, "identity").body(Vec::new());
        let stream = self.client.request_stream(request.map_err(kube::Error::HttpError)?).await?;
        Ok(Lines { stream: Box::pin(stream), begun: Vec::new() })
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Value, kube::Error> {
        let mut request =
            Request::builder().method(method).uri(path).header(http::header::ACCEPT, "application/json");
        if let Some((content, _)) = body {
            request = request.header(http::header::CONTENT_TYPE, content);
        }
        let bytes = body.map(|(_, value)| value.to_string().into_bytes()).unwrap_or_default();
        self.client.request(request.body(bytes).map_err(kube::Error::HttpError)?).await
    }

    /// What a failed request means to the user.
    pub(crate) fn explain(&self, error: kube::Error) -> anyhow::Error {
        let url = &self.url;
        match error {
            kube::Error::Api(status) if status.code == 401 => {
                anyhow!("{url} does not know you: {}: look at `users` in your kubeconfig", status.message)
            }
            kube::Error::Api(status) if status.message.is_empty() => {
                anyhow!("{url} answered {} {}", status.code, status.reason)
            }
            kube::Error::Api(status) => anyhow!("{}", status.message),
            kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => anyhow::Error::new(error).context(format!(
                "{url} answered, but not as a Kubernetes API server does: look at `clusters` in your kubeconfig"
            )),
            other => anyhow::Error::new(other).context(format!("no answer from {url}: does it run?")),
        }
    }

    /// The resources of one API version; none if the server does not serve it.
    pub(crate) async fn served(&self, group: &str, version: &str) -> anyhow::Result<Vec<Resource>> {
        let list = self.discovered(&root(group, version)).await?;
        Ok(list.map(|list| Resource::read(group, version, &list)).unwrap_or_default())
    }

    /// A document of the server's discovery, read once.
    async fn discovered(&self, path: &str) -> anyhow::Result<Option<Arc<Value>>> {
        let known = || self.served.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(document) = known().get(path) {
            return Ok(Some(Arc::clone(document)));
        }
        let Some(document) = self.get(path).await?.map(Arc::new) else { return Ok(None) };
        known().insert(path.to_owned(), Arc::clone(&document));
        Ok(Some(document))
    }

    /// The job kinds of the catalogue that the server serves.
    pub(crate) async fn job_kinds(&self) -> anyhow::Result<Vec<(&'static Kind, Resource)>> {
        let mut versions: Vec<(&str, &str)> =
            self.catalog.kinds.iter().map(|kind| (kind.group, kind.version)).collect();
        versions.sort_unstable();
        versions.dedup();
        let mut found = Vec::new();
        for (group, version) in versions {
            for resource in self.served(group, version).await? {
                let known = self.catalog.kinds.iter().find(|kind| is(kind, &resource));
                found.extend(known.map(|kind| (*kind, resource)));
            }
        }
        if found.is_empty() {
            let url = &self.url;
            anyhow::bail!(
                "{url} serves no job kind: install the definitions with `trainyard crds | trainyard apply -f -`"
            );
        }
        Ok(found)
    }

    /// The resource a user means by a word. The core and the jobs come first: they are meant most of the time.
    pub(crate) async fn resource(&self, word: &str) -> anyhow::Result<Resource> {
        let core = self.served("", "v1").await?;
        let pick = |all: Vec<Resource>| all.into_iter().find(|resource| resource.is_called(word));
        if let Some(found) = pick(core.clone()) {
            return Ok(found);
        }
        let groups = self.discovered("/apis").await?.unwrap_or_default();
        let mut ours: Vec<(&str, &str)> =
            self.catalog.kinds.iter().map(|kind| (kind.group, kind.version)).collect();
        ours.dedup();
        let others = items(&groups, "/groups").iter();
        let others = others.map(|group| (text(group, "/name"), text(group, "/preferredVersion/version")));
        let mut known: Vec<String> = core.into_iter().map(|resource| resource.plural).collect();
        for (group, version) in ours.into_iter().chain(others) {
            let served = self.served(group, version).await?;
            known.extend(served.iter().map(Resource::qualified));
            if let Some(found) = pick(served) {
                return Ok(found);
            }
        }
        known.sort();
        known.dedup();
        anyhow::bail!("the server knows no kind {word:?}: it knows {}", known.join(", "))
    }

    /// The job kind of a resource, if it is one.
    pub(crate) fn job_kind(&self, resource: &Resource) -> Option<&'static Kind> {
        self.catalog.kinds.iter().copied().find(|kind| is(kind, resource))
    }
}

fn is(kind: &Kind, resource: &Resource) -> bool {
    kind.group == resource.group && kind.name == resource.kind
}

/// Items of a list do not say what they are, on most servers.
pub(crate) fn name_kind(object: &mut Value, resource: &Resource) {
    let version = match resource.group.as_str() {
        "" => resource.version.clone(),
        group => format!("{group}/{}", resource.version),
    };
    if let Some(fields) = object.as_object_mut() {
        fields.entry("apiVersion").or_insert_with(|| version.into());
        fields.entry("kind").or_insert_with(|| resource.kind.as_str().into());
    }
}

/// The HTTP status of a refusal; 0 for a request that was not answered.
pub(crate) fn code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        _ => 0,
    }
}
