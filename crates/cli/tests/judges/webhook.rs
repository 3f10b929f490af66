//! A real API server asks the webhooks of `trainyard operator`, which has the rights that the training-operator is given
//! and not one more.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use trainyard_cluster::{Cluster, Options, Programs, free_port};
use trainyard_core::{Catalog, Kind};
use trainyard_testkit::rest::{Rest, text};

use crate::kit::{BIN, eventually};

const SECRETS: &str = "/api/v1/namespaces/kubeflow/secrets";
const SECRET: &str = "/api/v1/namespaces/kubeflow/secrets/training-operator-webhook-cert";
const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1";

/// What each kind says of a container without an image.
const DENIED: [(&str, &str, &str); 6] = [
    (
        "jaxjobs",
        "Worker",
        "spec.jaxReplicaSpecs[Worker].template.spec.containers[0].image: Required value: must be required",
    ),
    (
        "mpijobs",
        "Launcher",
        "spec.mpiReplicaSpecs[Launcher].template.spec.containers[0].image: Required value: must be required",
    ),
    (
        "paddlejobs",
        "Worker",
        "spec.paddleReplicaSpecs[Worker].template.spec.containers[0].image: Required value: must be required",
    ),
    (
        "pytorchjobs",
        "Worker",
        "spec.pytorchReplicaSpecs[Worker].template.spec.containers[0].image: Required value: must be required",
    ),
    (
        "tfjobs",
        "Worker",
        "spec.tfReplicaSpecs[Worker].template.spec.containers[0].image: Required value: must be required",
    ),
    (
        "xgboostjobs",
        "Master",
        "spec.xgbReplicaSpecs[Master].template.spec.containers[0].image: Required value: must be required",
    ),
];

/// A real API server as an administrator of the training-operator leaves it, but for the operator.
struct World {
    cluster: Cluster,
    rest: Rest,
    home: tempfile::TempDir,
    ports: [u16; 2],
}

impl World {
    async fn start() -> Option<Self> {
        let cluster = Cluster::for_test(&Options::default()).unwrap()?;
        let sources = match Programs::peer_sources() {
            Ok(sources) => sources,
            Err(error) if std::env::var_os("CI").is_none() => {
                eprintln!("LEFT OUT: webhooks on a real server. {error}");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        let file = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
        let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
        let client = Client::try_from(config).unwrap();
        trainyard_host::crds::install(&client, &trainyard_host::crds::bundled()).await.unwrap();
        let home = tempfile::tempdir().unwrap();
        let world = Self {
            cluster,
            rest: Rest::new(client),
            home,
            ports: [free_port().unwrap(), free_port().unwrap()],
        };
        world.rest.post("/api/v1/namespaces", &json!({ "metadata": { "name": "kubeflow" } })).await.unwrap();
        world.give_rights(&sources).await;
        world.configure().await;
        Some(world)
    }

    /// An account with the peer's own role, and a kubeconfig for it.
    async fn give_rights(&self, sources: &Path) {
        let accounts = "/api/v1/namespaces/kubeflow/serviceaccounts";
        let account = json!({ "metadata": { "name": "training-operator" } });
        self.rest.post(accounts, &account).await.unwrap();
        let role = std::fs::read_to_string(sources.join("manifests/base/rbac/role.yaml")).unwrap();
        let role: Value = serde_saphyr::from_str(&role).unwrap();
        self.rest.post(&format!("{ROLES}/clusterroles"), &role).await.unwrap();
        let binding = json!({ "metadata": { "name": "training-operator" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["metadata"]["name"] },
            "subjects": [{ "kind": "ServiceAccount", "name": "training-operator", "namespace": "kubeflow" }] });
        self.rest.post(&format!("{ROLES}/clusterrolebindings"), &binding).await.unwrap();
        let token = json!({ "spec": { "expirationSeconds": 7200 } });
        let token = self.rest.post(&format!("{accounts}/training-operator/token"), &token).await.unwrap();
        let authority = BASE64.encode(self.cluster.ca_pem());
        let kubeconfig = json!({ "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{ "name": "c", "cluster": { "server": self.cluster.url(), "certificate-authority-data": authority } }],
            "users": [{ "name": "u", "user": { "token": token["status"]["token"] } }],
            "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u" } }] });
        std::fs::write(self.home.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
    }

    /// The configuration that we ship. Every other kind is sent to the other operator: they have the same certificates.
    async fn configure(&self) {
        self.rest.post(SECRETS, &secret(&json!({}))).await.unwrap();
        let service = json!({ "metadata": { "name": "training-operator" }, "spec": {
            "type": "ExternalName", "externalName": "localhost" } });
        self.rest.post("/api/v1/namespaces/kubeflow/services", &service).await.unwrap();
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../config/webhook/validating.yaml");
        let mut configuration: Value =
            serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let entries = configuration["webhooks"].as_array_mut().unwrap();
        for (entry, port) in entries.iter_mut().zip(self.ports.iter().cycle()) {
            entry["clientConfig"]["service"]["port"] = json!(port);
        }
        self.rest.post(CONFIGURATIONS, &configuration).await.unwrap();
    }

    fn operator(&self, port: u16) -> Operator {
        let log = self.home.path().join(format!("{port}.log"));
        let child = Command::new(BIN)
            .args(["operator", "--webhook-server-port", &port.to_string(), "--kubeconfig"])
            .arg(self.home.path().join("kubeconfig"))
            // With Trainyard's own helper launchers need a right that the peer's role has not.
            .arg("--mpi-kubectl-delivery-image=kubectl")
            .env_remove("KUBEFLOW_NAMESPACE")
            .env("MY_POD_NAMESPACE", "kubeflow")
            .stdin(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Operator { child, log }
    }

    /// Waits until every entry names the authority of these files.
    async fn believed(&self, files: &BTreeMap<String, String>) {
        let path = format!("{CONFIGURATIONS}/validator.training-operator.kubeflow.org");
        eventually("the configuration names the authority", async || {
            let configuration = self.rest.get(&path).await.unwrap();
            let entries = configuration["webhooks"].as_array().unwrap();
            entries.iter().all(|entry| text(entry, "/clientConfig/caBundle") == files["ca.crt"])
        })
        .await;
    }

    /// What is in the Secret, once all of it is there and it is something else.
    async fn files(&self, before: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        eventually("there are new certificates", async || {
            let Ok(secret) = self.rest.get(SECRET).await else { return false };
            files = serde_json::from_value(secret["data"].clone()).unwrap_or_default();
            files.len() == 4 && files != *before
        })
        .await;
        files
    }

    /// Every kind is denied in its own words. An operator may not have seen yet that certificates are others.
    async fn denies(&self) {
        for (plural, role, expected) in DENIED {
            let kind = kind(plural);
            let job = job(kind, role, "");
            let denied = format!(
                "admission webhook \"validator.{}.training-operator.kubeflow.org\" denied the request: {expected}",
                kind.singular
            );
            eventually(plural, async || match self.rest.post(&jobs(kind), &job).await {
                Err(kube::Error::Api(status)) if status.message.starts_with("Internal error") => {
                    assert!(status.message.contains("failed calling webhook"), "{}", status.message);
                    false
                }
                Err(kube::Error::Api(status)) => {
                    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"), "{status:?}");
                    assert_eq!(status.message, denied);
                    true
                }
                other => panic!("{plural}: {other:?}"),
            })
            .await;
        }
    }
}

/// A running operator, which ends with this value.
struct Operator {
    child: Child,
    log: PathBuf,
}

impl Operator {
    fn said(&self, text: &str) -> bool {
        std::fs::read_to_string(&self.log).unwrap().contains(text)
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("{}", std::fs::read_to_string(&self.log).unwrap_or_default());
        }
    }
}

fn secret(data: &Value) -> Value {
    json!({ "metadata": { "name": "training-operator-webhook-cert" }, "data": data })
}

fn kind(plural: &str) -> &'static Kind {
    Catalog::default().kinds.iter().find(|kind| kind.plural == plural).unwrap()
}

fn jobs(kind: &Kind) -> String {
    format!("/apis/{}/namespaces/default/{}", kind.api_version(), kind.plural)
}

/// One replica, and no pods: whether a job is admitted is all that is asked.
fn job(kind: &Kind, role: &str, image: &str) -> Value {
    let container = Catalog::default().framework(kind.framework).unwrap().facts().container;
    let template = json!({ "spec": { "containers": [{ "name": container, "image": image }] } });
    json!({ "apiVersion": kind.api_version(), "kind": kind.name, "metadata": { "name": "a" }, "spec": {
        "runPolicy": { "suspend": true }, kind.replica_specs: { role: { "replicas": 1, "template": template } } } })
}

/// The warnings with which a job was admitted.
async fn warnings(rest: &Rest, kind: &Kind, job: &Value) -> Vec<String> {
    let request = http::Request::post(jobs(kind)).header("content-type", "application/json");
    let body = kube::client::Body::from(job.to_string().into_bytes());
    let response = rest.client().send(request.body(body).unwrap()).await.unwrap();
    assert_eq!(response.status(), 201, "{response:?}");
    response.headers().get_all("warning").iter().map(|value| value.to_str().unwrap().to_owned()).collect()
}

/// The role of the training-operator grants neither `get` nor `patch` for the ConfigMap of an MPIJob, and the
/// training-operator gives it no label: it is found, labelled and kept up to date all the same.
async fn keeps_what_another_operator_made(world: &World) {
    let account = json!({ "metadata": { "name": "default" }, "automountServiceAccountToken": false });
    world.rest.post("/api/v1/namespaces/default/serviceaccounts", &account).await.unwrap();
    let kind = kind("mpijobs");
    let mut mpi = job(kind, "Worker", "i");
    let specs = &mut mpi["spec"][kind.replica_specs];
    specs["Launcher"] = specs["Worker"].clone();
    mpi["spec"]["runPolicy"]["suspend"] = json!(false);
    mpi["metadata"]["name"] = json!("m");
    world.rest.post(&jobs(kind), &mpi).await.unwrap();
    let config = "/api/v1/namespaces/default/configmaps/m-config";
    eventually("its ConfigMap", async || world.rest.get(config).await.is_ok()).await;
    let label = "training.kubeflow.org/operator-name";
    world.rest.merge(config, &json!({ "metadata": { "labels": { label: null } } })).await.unwrap();
    let is_labelled = async || world.rest.get(config).await.unwrap()["metadata"]["labels"][label].is_string();
    eventually("the label", is_labelled).await;
    let worker = "/api/v1/namespaces/default/pods/m-worker-0/status";
    let runs = json!({ "status": { "phase": "Running" } });
    eventually("its worker", async || world.rest.merge(worker, &runs).await.is_ok()).await;
    eventually("the worker in the ConfigMap", async || {
        let config = world.rest.get(config).await.unwrap();
        text(&config, "/data/discover_hosts.sh").contains("m-worker-0")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_server_asks_the_operators_and_certificates_are_replaced_while_they_run() {
    let Some(world) = World::start().await else { return };
    let operators = world.ports.map(|port| world.operator(port));
    let first = world.files(&BTreeMap::new()).await;
    world.believed(&first).await;
    world.denies().await;
    admits(&world).await;
    keeps_what_another_operator_made(&world).await;

    // Spoilt: the server's certificate is made again, by the same authority.
    let mut spoilt = json!(first);
    spoilt["tls.crt"] = json!(BASE64.encode("no certificate"));
    world.rest.put(SECRET, &secret(&spoilt)).await.unwrap();
    let spoilt: BTreeMap<String, String> = serde_json::from_value(spoilt).unwrap();
    let second = world.files(&spoilt).await;
    assert_eq!(second["ca.crt"], first["ca.crt"]);
    world.denies().await;

    // Gone: the role has no right to create one, so it is asked for; an empty one is filled by a new authority.
    world.rest.delete(SECRET, &json!({})).await.unwrap();
    eventually("they ask for the Secret", async || {
        operators
            .iter()
            .all(|operator| operator.said("the Secret kubeflow/training-operator-webhook-cert, for the"))
    })
    .await;
    world.rest.post(SECRETS, &secret(&json!({}))).await.unwrap();
    let third = world.files(&second).await;
    assert_ne!(third["ca.crt"], first["ca.crt"]);
    world.believed(&third).await;
    world.denies().await;
    drop(operators);
    stores_what_is_not_checked(&world).await;
}

/// Nobody serves the webhooks any more, and nothing that they would check may be stored. The rest may, records above all.
async fn stores_what_is_not_checked(world: &World) {
    for (plural, ..) in DENIED {
        let path = format!("{}/a", jobs(kind(plural)));
        let annotate = |name: &str| json!({ "metadata": { "annotations": { name: "x" } } });
        let checked = [
            json!({ "spec": { "runPolicy": { "backoffLimit": 7 } } }),
            annotate("trainyard.dev/start-deadline-seconds"),
        ];
        for change in checked {
            let Err(kube::Error::Api(status)) = world.rest.merge(&path, &change).await else {
                panic!("{plural}: {change} was stored");
            };
            assert!(status.message.contains("failed calling webhook"), "{}", status.message);
        }
        let free = [
            annotate("trainyard.dev/record"),
            annotate("example.com/a"),
            json!({ "metadata": { "labels": { "c": "d" } } }),
        ];
        for change in free {
            world.rest.merge(&path, &change).await.unwrap();
        }
    }
}

/// Good jobs, what is warned of, and what may not change.
async fn admits(world: &World) {
    for (plural, role, _) in DENIED {
        let kind = kind(plural);
        world.rest.post(&jobs(kind), &job(kind, role, "i")).await.unwrap();
        let path = format!("{}/a", jobs(kind));
        let managed = json!({ "spec": { "runPolicy": { "managedBy": "kubeflow.org/training-operator" } } });
        let Err(kube::Error::Api(status)) = world.rest.merge(&path, &managed).await else {
            panic!("{plural}: a manager came later");
        };
        let denied = "denied the request: spec.runPolicy.managedBy: Invalid value: \"kubeflow.org/training-operator\": \
                      field is immutable";
        assert!(status.message.ends_with(denied), "{}", status.message);
        let labelled = json!({ "metadata": { "labels": { "a": "b" } } });
        world.rest.merge(&path, &labelled).await.unwrap();
    }
    let kind = kind("pytorchjobs");
    let mut elastic = job(kind, "Worker", "i");
    elastic["metadata"]["name"] = json!("b");
    elastic["spec"]["elasticPolicy"] = json!({ "nProcPerNode": 2 });
    let expected = "299 - \"spec.elasticPolicy.nProcPerNode is deprecated, use spec.nprocPerNode instead\"";
    assert_eq!(warnings(&world.rest, kind, &elastic).await, [expected]);
}
