//! The training-operator as it was released, run by `trainyard up` as a Deployment of its own manifests: a controller
//! on controller-runtime, with its service account, its webhooks and its certificates.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use trainyard_cluster::{Programs, free_port};

use crate::kit::{Up, eventually, text};

const JOBS: usize = 20;

/// A kind of job: its name, where its replicas are, and which of them there are.
struct Kind {
    kind: &'static str,
    plural: &'static str,
    replica_specs: &'static str,
    container: &'static str,
    replicas: &'static [(&'static str, u32)],
}

const KINDS: [Kind; 6] = [
    Kind {
        kind: "PyTorchJob",
        plural: "pytorchjobs",
        replica_specs: "pytorchReplicaSpecs",
        container: "pytorch",
        replicas: &[("Master", 1), ("Worker", 1)],
    },
    Kind {
        kind: "TFJob",
        plural: "tfjobs",
        replica_specs: "tfReplicaSpecs",
        container: "tensorflow",
        replicas: &[("PS", 1), ("Worker", 2)],
    },
    Kind {
        kind: "XGBoostJob",
        plural: "xgboostjobs",
        replica_specs: "xgbReplicaSpecs",
        container: "xgboost",
        replicas: &[("Master", 1), ("Worker", 1)],
    },
    Kind {
        kind: "MPIJob",
        plural: "mpijobs",
        replica_specs: "mpiReplicaSpecs",
        container: "mpi",
        replicas: &[("Launcher", 1), ("Worker", 1)],
    },
    Kind {
        kind: "PaddleJob",
        plural: "paddlejobs",
        replica_specs: "paddleReplicaSpecs",
        container: "paddle",
        replicas: &[("Master", 1), ("Worker", 1)],
    },
    Kind {
        kind: "JAXJob",
        plural: "jaxjobs",
        replica_specs: "jaxReplicaSpecs",
        container: "jax",
        replicas: &[("Worker", 2)],
    },
];

impl Kind {
    fn job(&self, number: usize) -> Value {
        let mut replicas = json!({});
        for (role, count) in self.replicas {
            // What serves the others has to be there while they work, and is cleaned up after them.
            let serves = *role == "PS" || (self.kind == "MPIJob" && *role == "Worker");
            let script = if serves { "sleep 600" } else { "echo trained" };
            replicas[*role] = json!({ "replicas": count, "restartPolicy": "Never", "template": { "spec": { "containers": [{
                "name": self.container, "image": "none", "command": ["sh", "-c", script] }] } } });
        }
        let mut spec = json!({ self.replica_specs: replicas, "runPolicy": { "cleanPodPolicy": "Running" } });
        if self.kind == "MPIJob" {
            spec["slotsPerWorker"] = json!(1);
        }
        json!({ "apiVersion": "kubeflow.org/v1", "kind": self.kind,
            "metadata": { "name": format!("{}-{number}", self.kind.to_lowercase()), "namespace": "default" }, "spec": spec })
    }
}

/// A shell line with kubectl in it; it has to succeed.
fn kubectl(up: &Up, kubectl: &Path, args: &[&str], input: Option<&str>) -> String {
    let file = up.dir.join("../input.yaml");
    let mut command = Command::new(kubectl);
    command.args(args).env("KUBECONFIG", up.dir.join("kubeconfig")).env("HOME", up.dir.parent().unwrap());
    if let Some(input) = input {
        std::fs::write(&file, input).unwrap();
        command.arg("-f").arg(&file);
    }
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "kubectl {args:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// The operator's own manifests, with this machine's paths and ports in place of the image's.
fn manifests(sources: &Path, operator: &Path, kubectl: &Path, up: &Up) -> String {
    let output = Command::new(kubectl)
        .arg("kustomize")
        .arg(sources.join("manifests/overlays/standalone"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let template = up.dir.join("../init-container.yaml");
    // The one that ships asks a name server for the master's name, and on one machine there is none.
    std::fs::write(&template, "- {name: init-pytorch, image: none, command: [\"true\"]}\n").unwrap();
    let (health, webhook) = (free_port().unwrap(), free_port().unwrap());
    let command = [
        operator.display().to_string(),
        "--metrics-bind-address=0".into(),
        format!("--health-probe-bind-address=127.0.0.1:{health}"),
        format!("--webhook-server-port={webhook}"),
        format!("--pytorch-init-container-template-file={}", template.display()),
    ];
    let command: String = command.iter().map(|word| format!("        - {word}\n")).collect();
    let text = text(&output.stdout);
    assert!(text.contains("        - /manager\n"), "{text}");
    text.replace("        - /manager\n", &command)
        .replace("port: 8081", &format!("port: {health}"))
        .replace("9443", &webhook.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_training_operator_takes_its_jobs_to_their_end() {
    let found =
        Programs::find(&["kubectl", "training-operator"]).and_then(|p| Ok((p, Programs::peer_sources()?)));
    let (programs, sources) = match found {
        Ok(found) => found,
        Err(error) if std::env::var_os("CI").is_none() => {
            return eprintln!("LEFT OUT: the training-operator. {error}");
        }
        Err(error) => panic!("{error}"),
    };
    let home = tempfile::tempdir().unwrap();
    let bin = programs.path("kubectl");
    let delivers =
        format!("ghcr.io/kubeflow/training-v1/kubectl-delivery=ln -s {} $TARGET_DIR/kubectl", bin.display());
    let args = ["--without", "operator", "--entrypoint", &delivers];
    let up = Up::start(&home.path().join("data"), &args).await;
    let all = manifests(&sources, &programs.path("training-operator"), &bin, &up);
    kubectl(&up, &bin, &["apply", "--server-side", "--force-conflicts"], Some(&all));
    let wait = [
        "wait",
        "deployment/training-operator",
        "-n",
        "kubeflow",
        "--for=condition=Available",
        "--timeout=300s",
    ];
    kubectl(&up, &bin, &wait, None);
    // Its webhook is asked: this one has no container of the name that it demands.
    let mut bad = KINDS[0].job(0);
    bad["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["name"] =
        json!("other");
    let file = up.dir.join("../bad.json");
    std::fs::write(&file, bad.to_string()).unwrap();
    let output = up_kubectl(&up, &bin, &["create", "-f", &file.to_string_lossy()]);
    assert!(output.contains("denied the request"), "{output}");
    let jobs: Vec<Value> = KINDS.iter().flat_map(|kind| (0..JOBS).map(|number| kind.job(number))).collect();
    kubectl(
        &up,
        &bin,
        &["create"],
        Some(&json!({ "apiVersion": "v1", "kind": "List", "items": jobs }).to_string()),
    );
    for kind in &KINDS {
        eventually(&format!("every {} has succeeded", kind.kind), async || {
            let states =
                "jsonpath={range .items[*]}{.status.conditions[?(@.status==\"True\")].type}{\"\\n\"}{end}";
            let states = kubectl(&up, &bin, &["get", kind.plural, "-o", states], None);
            assert!(!states.contains("Failed"), "{}: {states}", kind.kind);
            states.lines().filter(|line| line.contains("Succeeded")).count() == JOBS
        })
        .await;
    }
}

fn up_kubectl(up: &Up, bin: &Path, args: &[&str]) -> String {
    let output = Command::new(bin)
        .args(args)
        .env("KUBECONFIG", up.dir.join("kubeconfig"))
        .env("HOME", up.dir.parent().unwrap())
        .output()
        .unwrap();
    text(&output.stderr)
}
