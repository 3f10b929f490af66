//! The API of a host on a socket, with the client its kubeconfig makes.

use futures::StreamExt;
use futures::TryStreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{
    Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use std::path::Path;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use trainyard_apiserver::auth;
use trainyard_apiserver::serve::serve;
use trainyard_host::pki::Pki;
use trainyard_host::{Error, Host, Options, Socket, kubeconfig, listen};

/// A host without roles, served.
struct Served {
    host: Host,
    dir: TempDir,
    pki: Pki,
    url: String,
    shutdown: CancellationToken,
    ended: JoinHandle<std::io::Result<()>>,
}

#[expect(clippy::disallowed_methods, reason = "certificates are checked against the real time by the client")]
fn now() -> Timestamp {
    Timestamp::now()
}

impl Served {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = Some(Socket { port: 0, dir: dir.path().to_owned() });
        let options = Options { operator: None, crds: Vec::new(), socket, ..Options::local() };
        let host = Host::start(options).await.unwrap();
        let pki = Pki::open(dir.path(), now()).unwrap();
        let listener = listen::bind_loopback(0).await.unwrap();
        let url = format!("https://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let router = auth::require(host.router(), host.guard());
        let shutdown = CancellationToken::new();
        let ended = tokio::spawn(serve(router, listener, pki.server_config(), shutdown.clone()));
        Self { host, dir, pki, url, shutdown, ended }
    }

    async fn client(&self, token: &str) -> Client {
        let path = self.dir.path().join("kubeconfig");
        kubeconfig::write(&path, &self.url, self.pki.ca_pem(), token, "team").unwrap();
        client(&path).await
    }
}

async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    assert_eq!(kubeconfig.current_context.as_deref(), Some("trainyard"));
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    assert_eq!(config.default_namespace, "team");
    Client::try_from(config).unwrap()
}

fn map(name: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta { name: Some(name.into()), ..Default::default() }, ..Default::default() }
}

#[tokio::test]
async fn a_kubeconfig_is_all_a_client_needs() {
    let served = Served::new().await;
    let maps: Api<ConfigMap> = Api::namespaced(served.client(served.pki.token()).await, "default");
    // Every namespace has one with the certificate of the authority.
    let others = "metadata.name!=kube-root-ca.crt";
    let mut watch = maps.watch(&WatchParams::default().fields(others), "0").await.unwrap().boxed();
    maps.create(&PostParams::default(), &map("a")).await.unwrap();
    let patch = json!({"data": {"k": "v"}});
    maps.patch("a", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    assert_eq!(maps.get("a").await.unwrap().data.unwrap()["k"], "v");
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(maps.list(&ListParams::default().fields(others)).await.unwrap().items.is_empty());
    let root = maps.get("kube-root-ca.crt").await.unwrap().data.unwrap();
    assert_eq!(root["ca.crt"], served.pki.ca_pem());
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.push(match watch.try_next().await.unwrap().unwrap() {
            WatchEvent::Added(_) => "added",
            WatchEvent::Modified(_) => "modified",
            WatchEvent::Deleted(_) => "deleted",
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(seen, ["added", "modified", "deleted"]);
    // The same objects are there without a socket, and the end of the socket ends the watch alone.
    served.shutdown.cancel();
    assert!(watch.try_next().await.unwrap().is_none());
    served.ended.await.unwrap().unwrap();
    let inside: Api<ConfigMap> = Api::namespaced(served.host.client(), "default");
    inside.create(&PostParams::default(), &map("b")).await.unwrap();
    served.host.stop().await.unwrap();
}

#[tokio::test]
async fn a_wrong_token_and_a_wrong_authority_are_refused() {
    let served = Served::new().await;
    let maps: Api<ConfigMap> = Api::namespaced(served.client("wrong").await, "default");
    match maps.get("a").await.unwrap_err() {
        kube::Error::Api(status) => {
            assert_eq!((status.code, status.reason.as_str()), (401, "Unauthorized"));
        }
        other => panic!("{other}"),
    }
    let stranger = tempfile::tempdir().unwrap();
    let stranger_pki = Pki::open(stranger.path(), now()).unwrap();
    let path = stranger.path().join("kubeconfig");
    kubeconfig::write(&path, &served.url, stranger_pki.ca_pem(), served.pki.token(), "team").unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client(&path).await, "default");
    assert!(!matches!(maps.get("a").await.unwrap_err(), kube::Error::Api(_)), "no word was spoken");
    served.host.stop().await.unwrap();
}

#[tokio::test]
async fn a_taken_port_is_said_with_what_to_do() {
    let first = listen::bind_loopback(0).await.unwrap();
    let address = first.local_addr().unwrap();
    assert!(address.ip().is_loopback());
    let error = listen::bind_loopback(address.port()).await.unwrap_err();
    assert!(matches!(error, Error::PortTaken(port) if port == address.port()));
    assert_eq!(
        error.to_string(),
        format!(
            "port {} on 127.0.0.1 is taken: choose another with --port, or --port 0 for any free one",
            address.port()
        )
    );
}
