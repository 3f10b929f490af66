//! The peer's certificates and webhooks outside of a cluster.
//!
//! It makes its certificates itself, into a Secret, and then waits for them to appear in a folder, where a volume of that
//! Secret would put them: we are the volume. The API server finds it through a Service that is an alias of this machine.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use trainyard_testkit::rest::{Rest, text};

pub(crate) const NAMESPACE: &str = "kubeflow";
const SERVICE: &str = "training-operator";
const SECRET: &str = "/api/v1/namespaces/kubeflow/secrets/training-operator-webhook-cert";
/// Where the peer looks for a file before it goes on. It reads its certificates from the folder for temporary files, and
/// that we choose; this path is fixed in it.
const MARK: &str = "/tmp/k8s-webhook-server/serving-certs";
/// Below the folder for temporary files.
const CERTIFICATES: &str = "k8s-webhook-server/serving-certs";

/// Creates what the peer expects to find, with a webhook on this port.
pub(crate) async fn prepare(rest: &Rest, sources: &Path, port: u16) {
    let namespace = json!({ "metadata": { "name": NAMESPACE } });
    rest.post("/api/v1/namespaces", &namespace).await.unwrap();
    let secret = json!({ "metadata": { "name": "training-operator-webhook-cert" } });
    rest.post("/api/v1/namespaces/kubeflow/secrets", &secret).await.unwrap();
    let service = json!({ "metadata": { "name": SERVICE }, "spec": {
        "type": "ExternalName", "externalName": "localhost", "ports": [{ "port": port }] } });
    rest.post("/api/v1/namespaces/kubeflow/services", &service).await.unwrap();
    let manifest = std::fs::read_to_string(sources.join("manifests/base/webhook/manifests.yaml")).unwrap();
    let mut hooks: Value = serde_saphyr::from_str(&manifest).unwrap();
    hooks["metadata"]["name"] = json!("validator.training-operator.kubeflow.org");
    for hook in hooks["webhooks"].as_array_mut().unwrap() {
        let path = hook["clientConfig"]["service"]["path"].clone();
        hook["clientConfig"]["service"] =
            json!({ "namespace": NAMESPACE, "name": SERVICE, "path": path, "port": port });
    }
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    rest.post(path, &hooks).await.unwrap();
    std::fs::create_dir_all(MARK).unwrap();
    let mark = Path::new(MARK).join("tls.crt");
    if !mark.exists() {
        std::fs::write(mark, "").unwrap();
    }
}

/// Puts the certificates where the peer reads them, if it has made them.
pub(crate) async fn deliver(rest: &Rest, temporary: &Path) -> bool {
    let secret = rest.get(SECRET).await.unwrap();
    let folder = temporary.join(CERTIFICATES);
    std::fs::create_dir_all(&folder).unwrap();
    for file in ["tls.crt", "tls.key"] {
        let Ok(content) = BASE64.decode(text(&secret["data"], &format!("/{file}"))) else { return false };
        if content.is_empty() {
            return false;
        }
        std::fs::write(folder.join(file), content).unwrap();
    }
    true
}
