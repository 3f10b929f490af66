//! `trainyard operator` with a real kubelet: what only one can show.
//!
//! It needs root and containerd, so `TRAINYARD_NODE=1` asks for it.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use trainyard_cluster::{Cluster, IMAGE, Process};

use crate::servers::{self, Side};

/// Nothing here takes that long.
const LONG: Duration = Duration::from_secs(300);

/// Starts the operator; it ends with this value.
fn operator(cluster: &Cluster) -> Process {
    let arguments = [
        "operator".to_owned(),
        format!("--kubeconfig={}", cluster.kubeconfig().display()),
        "--track-pods".to_owned(),
    ];
    Process::start(Path::new(env!("CARGO_BIN_EXE_trainyard")), cluster.directory(), &arguments).unwrap()
}

/// What a line of shell prints. It has to succeed.
fn say(side: &Side, line: &str) -> String {
    let output = side.shell(line).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{line}: {out}{err}");
    out.into_owned()
}

/// Waits until a line of shell prints something for which this holds.
fn until(side: &Side, line: &str, holds: impl Fn(&str) -> bool) -> String {
    let begun = Instant::now();
    loop {
        let output = side.shell(line).output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() && holds(&out) {
            return out;
        }
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(begun.elapsed() < LONG, "{line}: {out}{err}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn is_so(job: &str, condition: &str) -> String {
    format!("kubectl wait tfjob/{job} --for=condition={condition} --timeout=300s")
}

/// A TFJob whose replicas run a script each.
fn job(name: &str, scripts: &[(&str, u32, &str)]) -> Value {
    let roles = scripts.iter().map(|(role, replicas, script)| {
        let container = json!({ "name": "tensorflow", "image": IMAGE, "command": ["sh", "-c", script] });
        let template = json!({ "spec": { "terminationGracePeriodSeconds": 1, "containers": [container] } });
        let spec = json!({ "replicas": replicas, "restartPolicy": "Never", "template": template });
        ((*role).to_owned(), spec)
    });
    json!({
        "apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": { "name": name },
        "spec": { "runPolicy": { "cleanPodPolicy": "None" }, "tfReplicaSpecs": roles.collect::<serde_json::Map<_, _>>() },
    })
}

fn create(side: &Side, job: &Value) {
    std::fs::write(side.scratch.join("job.json"), job.to_string()).unwrap();
    say(side, "kubectl create -f job.json");
}

/// The first failure is told with the last lines that its kubelet has.
fn a_failure_has_last_words(side: &Side) {
    let script = "case \"$TF_CONFIG\" in *'\"index\":1}'*) echo step; echo cannot read shard 7; exit 3;; esac; \
                  sleep 1000";
    create(side, &job("cascade", &[("Worker", 2, script)]));
    say(side, &is_so("cascade", "Failed"));
    let first = say(side, "kubectl get tfjob cascade -o jsonpath='{.status.firstFailure}'");
    let first: Value = serde_json::from_str(&first).unwrap();
    assert_eq!((&first["pod"], &first["exitCode"]), (&json!("cascade-worker-1"), &json!(3)), "{first}");
    assert_eq!(first["log"], json!(["step", "cannot read shard 7"]), "{first}");
    assert!(first["node"].is_string(), "{first}");
    say(side, "kubectl delete tfjob cascade --wait=false");
}

/// A replica succeeds and its pod is deleted while nobody looks: it does not run again.
fn what_succeeded_unseen_is_not_run_again(side: &Side, cluster: &Cluster, first: Process) {
    let wait = "until [ -e /go ]; do sleep 0.2; done";
    create(side, &job("kept", &[("Chief", 1, wait), ("Worker", 1, wait)]));
    until(side, "kubectl get pods -l training.kubeflow.org/job-name=kept", |pods| {
        pods.matches("Running").count() == 2
    });
    say(side, &is_so("kept", "Running"));
    drop(first);
    say(side, "kubectl exec kept-worker-0 -- touch /go");
    until(side, "kubectl get pod kept-worker-0 -o jsonpath='{.status.phase}'", |phase| phase == "Succeeded");
    say(side, "kubectl delete pod kept-worker-0 --wait=false");
    let uid = say(side, "kubectl get pod kept-worker-0 -o jsonpath='{.metadata.uid}'");
    assert!(!uid.is_empty(), "the finalizer keeps it until the operator is back");
    let second = operator(cluster);
    until(side, "kubectl get pods -o name", |pods| !pods.contains("kept-worker-0"));
    say(side, "kubectl exec kept-chief-0 -- touch /go");
    say(side, &is_so("kept", "Succeeded"));
    let pods = say(side, "kubectl get pods -l training.kubeflow.org/job-name=kept -o name");
    assert_eq!(pods, "pod/kept-chief-0\n");
    let counts = say(side, "kubectl get tfjob kept -o jsonpath='{.status.replicaStatuses.Worker.succeeded}'");
    assert_eq!(counts, "1");
    say(side, "kubectl delete tfjob kept --wait=false");
    until(side, "kubectl get tfjobs,pods -o name", str::is_empty);
    drop(second);
}

/// Three replicas with the network of one node and the same port in their spec run there together.
fn host_networks_are_shared(side: &Side) {
    let mut job = job("fast", &[("Worker", 3, "sleep 1000")]);
    job["metadata"]["annotations"] = json!({ "trainyard.dev/host-ports": "true" });
    job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["hostNetwork"] = json!(true);
    create(side, &job);
    let pods = "kubectl get pods -l training.kubeflow.org/job-name=fast";
    until(side, pods, |pods| pods.matches("Running").count() == 3);
    let ports =
        say(side, &format!("{pods} -o jsonpath='{{.items[*].spec.containers[*].ports[*].hostPort}}'"));
    let mut ports: Vec<&str> = ports.split_whitespace().collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 3, "{ports:?}");
    say(side, "kubectl delete tfjob fast --wait=false");
}

#[test]
fn jobs_on_a_real_node_tell_their_end_and_share_it() {
    if std::env::var_os("TRAINYARD_NODE").is_none() {
        return;
    }
    let Some(kubectl) = servers::kubectl() else { return };
    let Some(cluster) = servers::real_node() else { return };
    let home = tempfile::tempdir().unwrap();
    let side = Side::new("real", &kubectl, cluster.kubeconfig(), home.path().join("jobs"));
    let trainyard = env!("CARGO_BIN_EXE_trainyard");
    say(&side, &format!("{trainyard} crds | kubectl create -f -"));
    say(&side, "kubectl wait crd --all --for=condition=Established --timeout=300s");
    let first = operator(&cluster);
    a_failure_has_last_words(&side);
    host_networks_are_shared(&side);
    what_succeeded_unseen_is_not_run_again(&side, &cluster, first);
}
