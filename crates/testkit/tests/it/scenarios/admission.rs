//! Scenario 28, and the refusals of 26: what is not stored at all.

use serde_json::{Value, json};
use trainyard_testkit::rest::code;
use trainyard_testkit::{Crds, Job, Plane, PodScript, jax, mpi, paddle, pytorch, tf, xgboost};

crate::under_both!(
    scenario_26_who_manages_a_job_is_known_and_stays,
    scenario_28_every_rule,
    scenario_28_a_warning,
    scenario_28_what_is_stored_already,
);

async fn plane(crds: Crds) -> Plane {
    Plane::builder().crds(crds).scripts(|_| PodScript::runs()).admission().start().await
}

fn each(name: &str) -> [Job; 6] {
    [
        tf(name).workers(1),
        pytorch(name).master(),
        xgboost(name).master(),
        mpi(name).launcher(),
        paddle(name).workers(1),
        jax(name).workers(1),
    ]
}

/// What somebody is told whose job is refused.
async fn refused(plane: &Plane, job: Job) -> String {
    let singular = job.kind().to_lowercase();
    let object = job.build();
    let error = plane.try_create(&object).await.unwrap_err();
    assert_eq!(code(&error), 403, "{error}");
    let text = match &error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    };
    let by = format!(
        "admission webhook \"validator.{singular}.training-operator.kubeflow.org\" denied the request: "
    );
    assert!(text.starts_with(&by), "{text}");
    text.replacen(&by, "", 1)
}

async fn scenario_26_who_manages_a_job_is_known_and_stays(crds: Crds) {
    let plane = plane(crds).await;
    let ours = "kubeflow.org/training-operator";
    for job in each("a") {
        let kind = job.kind();
        let path = "spec.runPolicy.managedBy";
        let known = format!("supported values: \"{ours}\", \"kueue.x-k8s.io/multikueue\"");
        let other = refused(&plane, job.clone().managed_by("example.com/other")).await;
        assert_eq!(other, format!("{path}: Unsupported value: \"example.com/other\": {known}"), "{kind}");
        plane.create(job.managed_by(ours)).await;
        let change = json!({ "spec": { "runPolicy": { "managedBy": "kueue.x-k8s.io/multikueue" } } });
        let error = plane.rest().merge(&plane.path(kind, "a"), &change).await.unwrap_err();
        assert!(error.to_string().contains("field is immutable"), "{kind}: {error}");
        plane.until("it runs", |w| w.is("a", "Running")).await;
        plane.delete(kind, "a").await;
        plane.until("it is gone", |w| w.job("a").is_none() && w.pods("a").is_empty()).await;
    }
}

const IMAGE: &str = ".template.spec.containers[0].image: Required value: must be required";
const NAMED: &str = ".template.spec.containers: Required value: must have at least one container with name";

/// Rules about containers: the job, the place of its replica specs, the role, and the rest of what is said.
fn about_containers() -> Vec<(Job, &'static str, String)> {
    let none = |role: &str, job: Job| job.template(role, "/spec/containers/0/image", Value::Null);
    let other = |role: &str, job: Job| job.template(role, "/spec/containers/0/name", "other");
    vec![
        (none("Worker", tf("a").workers(1)), "tfReplicaSpecs[Worker]", IMAGE.into()),
        (none("Master", pytorch("a").master()), "pytorchReplicaSpecs[Master]", IMAGE.into()),
        (other("Worker", tf("a").workers(1)), "tfReplicaSpecs[Worker]", format!("{NAMED} tensorflow")),
        (other("Master", pytorch("a").master()), "pytorchReplicaSpecs[Master]", format!("{NAMED} pytorch")),
        (
            other("Worker", paddle("a").workers(1)),
            "paddleReplicaSpecs[Worker]",
            format!("{NAMED} \"paddle\""),
        ),
        (other("Worker", jax("a").workers(1)), "jaxReplicaSpecs[Worker]", format!("{NAMED} jax")),
    ]
}

/// Rules about replicas.
fn about_replicas() -> Vec<(Job, &'static str, &'static str)> {
    let elastic = |job: Job, field: &str| job.set(&format!("/spec/elasticPolicy/{field}"), 1);
    vec![
        (pytorch("a").role("Master", 2), "pytorchReplicaSpecs[Master]", ".replicas: Forbidden: must be 1"),
        (pytorch("a").workers(0), "pytorchReplicaSpecs[Worker]", ".replicas: Forbidden: must be at least 1"),
        (xgboost("a").workers(1), "xgbReplicaSpecs[Master]", ": Required value: must be present"),
        (mpi("a").workers(1), "mpiReplicaSpecs[Launcher]", ": Required value: must be present"),
        (
            tf("a").chief().master(),
            "tfReplicaSpecs",
            ": Forbidden: must not have more than 1 Chief or Master role",
        ),
        (
            elastic(pytorch("a").master(), "maxRestarts"),
            "pytorchReplicaSpecs[Worker]",
            ": Required value: must be configured if elastic policy is used",
        ),
        (
            elastic(pytorch("a").workers(1).set("/spec/nprocPerNode", "1"), "nProcPerNode"),
            "elasticPolicy.nProcPerNode",
            ": Forbidden: must not be used with spec.nprocPerNode",
        ),
        (
            pytorch("a").role("Chief", 1),
            "pytorchReplicaSpecs[Chief]",
            ": Unsupported value: \"Chief\": supported values: \"Master\", \"Worker\"",
        ),
    ]
}

async fn scenario_28_every_rule(crds: Crds) {
    let plane = plane(crds).await;
    // An MPIJob has no services, whose names are the ones that may not begin with a digit.
    for job in each("0j").into_iter().filter(|job| job.kind() != "MPIJob") {
        let text = refused(&plane, job).await;
        assert!(text.starts_with("metadata.name: Invalid value: \"0j\": should match: "), "{text}");
    }
    let replicas = about_replicas().into_iter().map(|(job, place, rest)| (job, place, rest.to_owned()));
    for (job, place, rest) in about_containers().into_iter().chain(replicas) {
        assert_eq!(refused(&plane, job).await, format!("spec.{place}{rest}"));
    }
    let two = refused(&plane, tf("a").workers(1).template("Worker", "/spec/containers", json!([]))).await;
    let path = "spec.tfReplicaSpecs[Worker].template.spec.containers";
    let (first, second) = ("must be specified", "must have at least one container with name tensorflow");
    assert_eq!(two, format!("[{path}: Required value: {first}, {path}: Required value: {second}]"));
    assert!(plane.pods().await.is_empty() && plane.world().jobs().next().is_none());
}

async fn scenario_28_a_warning(crds: Crds) {
    let plane = plane(crds).await;
    let job = pytorch("a").workers(1).set("/spec/elasticPolicy/nProcPerNode", 1).build();
    let path = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs";
    let request = http::Request::post(path).header("content-type", "application/json");
    let request = request.body(axum::body::Body::from(job.to_string())).unwrap();
    let answer = tower::ServiceExt::oneshot(plane.router(), request).await.unwrap();
    assert_eq!(answer.status(), 201);
    let warning = answer.headers()["warning"].to_str().unwrap().to_owned();
    let text = "spec.elasticPolicy.nProcPerNode is deprecated, use spec.nprocPerNode instead";
    assert!(warning.contains(text), "{warning}");
    plane.until("it runs", |w| w.is("a", "Running")).await;
}

/// Whoever only annotates a bad job that is stored already, or deletes it, is let through.
async fn scenario_28_what_is_stored_already(crds: Crds) {
    let dir = tempfile::tempdir().unwrap();
    let open = |admission: bool| {
        let builder = Plane::builder().crds(crds.clone()).data_dir(dir.path());
        if admission { builder.admission() } else { builder.no_operator() }
    };
    let plane = open(false).start().await;
    plane.create(pytorch("a").role("Master", 2)).await;
    let now = plane.now();
    drop(plane);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let plane = open(true).begins(now).start().await;
    plane.finished("a").await;
    plane.patch("PyTorchJob", "a", json!({ "metadata": { "annotations": { "k": "v" } } })).await;
    plane.delete("PyTorchJob", "a").await;
    plane.until("it is gone", |w| w.job("a").is_none()).await;
}
