//! Scenarios 32 to 36, and 24 to 26 for this kind: MPIJobs.

use std::time::Duration;

use serde_json::{Value, json};
use trainyard_testkit::{Crds, Job, Plane, PodScript, mpi};

use crate::support::{env, names, plane};

crate::under_both!(
    scenario_24_created_suspended,
    scenario_25_suspended_and_resumed,
    scenario_26_managed_by,
    scenario_32_a_launcher_and_two_workers,
    scenario_33_the_launcher_fails,
    scenario_33_workers_that_wait_do_not_count,
    scenario_34_an_account_of_the_user,
    scenario_34_objects_of_others_are_left_alone,
    scenario_35_a_launcher_that_computes,
    scenario_36_workers_scaled_down,
    scenario_40_deleted,
);

const CONFIG: &str = "/api/v1/namespaces/default/configmaps/a-config";
const RIGHTS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";

fn job(workers: u32) -> Job {
    mpi("a").launcher().workers(workers)
}

async fn read(plane: &Plane, path: &str) -> Value {
    plane.rest().get(path).await.unwrap()
}

/// Servers leave an empty value out.
fn has_env(pod: &Value, name: &str) -> bool {
    let env = pod["spec"]["containers"][0]["env"].as_array();
    env.into_iter().flatten().any(|entry| entry["name"] == name)
}

async fn scenario_24_created_suspended(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    plane.create(job(2).suspended()).await;
    plane.pass(Duration::from_secs(3)).await;
    assert!(plane.pods().await.is_empty());
    assert_eq!(plane.world().shape("a"), "Created=T Suspended=T");
}

async fn scenario_25_suspended_and_resumed(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    plane.create(job(2)).await;
    plane.until("it runs", |w| w.is("a", "Running") && w.in_phase("a", "Running") == 3).await;
    plane.suspend("MPIJob", "a", true).await;
    let world = plane.until("nothing is left", |w| w.pods("a").is_empty()).await;
    assert_eq!(world.condition("a", "Running").unwrap()["reason"], "MPIJobSuspended");
    plane.suspend("MPIJob", "a", false).await;
    let world = plane.until("it runs", |w| w.is("a", "Running")).await;
    assert_eq!(world.shape("a"), "Created=T Suspended=F Running=T");
}

async fn scenario_26_managed_by(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    plane.create(job(1).managed_by("kueue.x-k8s.io/multikueue").suspended()).await;
    plane.settle().await;
    plane.suspend("MPIJob", "a", false).await;
    plane.pass(Duration::from_secs(60)).await;
    assert!(plane.pods().await.is_empty());
    assert!(plane.rest().get(CONFIG).await.is_err(), "nor anything else");
    assert_eq!(plane.world().shape("a"), "");
}

async fn scenario_32_a_launcher_and_two_workers(crds: Crds) {
    let plane = plane(crds, |pod| match pod.role.as_str() {
        "launcher" => PodScript::exits(0, 60),
        _ => PodScript::runs(),
    })
    .await;
    plane.create(job(2).set("/spec/slotsPerWorker", 1)).await;
    let world = plane.until("all run", |w| w.in_phase("a", "Running") == 3 && w.is("a", "Running")).await;
    assert_eq!(world.count("a", "Worker", "active"), 2);
    let pods = plane.pods().await;
    assert_eq!(names(&pods), ["a-launcher", "a-worker-0", "a-worker-1"]);
    let worker = &pods[1]["spec"]["containers"][0];
    assert_eq!((&worker["command"], &worker["args"]), (&json!(["sleep"]), &json!(["365d"])));
    assert_eq!(pods[0]["spec"]["serviceAccountName"], "a-launcher");
    assert_eq!(pods[0]["spec"]["initContainers"][0]["name"], "kubectl-delivery");
    assert_eq!(env(&pods[0], "OMPI_MCA_plm_rsh_agent"), Some("/etc/mpi/kubexec.sh"));
    assert!(has_env(&pods[0], "NVIDIA_VISIBLE_DEVICES"), "empty, so that it sees none");
    assert!(plane.services().await.is_empty(), "MPI finds its workers by exec");
    let discover = json!("#!/bin/sh\necho a-worker-0:1\necho a-worker-1:1");
    let config = plane.until_stored(CONFIG, |config| config["data"]["discover_hosts.sh"] == discover).await;
    assert_eq!(config["data"]["hostfile"], "a-worker-0 slots=1\na-worker-1 slots=1\n");
    let role = read(&plane, &format!("{RIGHTS}/roles/a-launcher")).await;
    assert_eq!(role["rules"][1]["resourceNames"], json!(["a-worker-0", "a-worker-1"]));
    let binding = read(&plane, &format!("{RIGHTS}/rolebindings/a-launcher")).await;
    assert_eq!(binding["subjects"][0]["name"], "a-launcher");
    read(&plane, "/api/v1/namespaces/default/serviceaccounts/a-launcher").await;
    let world = plane.finished("a").await;
    assert_eq!(world.shape("a"), "Created=T Running=F Succeeded=T");
    assert_eq!(world.count("a", "Launcher", "succeeded"), 1);
    for field in ["active", "succeeded", "failed"] {
        assert_eq!(world.count("a", "Worker", field), 0, "{field}");
    }
}

async fn scenario_33_the_launcher_fails(crds: Crds) {
    let plane = plane(crds, |pod| match pod.role.as_str() {
        "launcher" => PodScript::exits(7, 5),
        _ => PodScript::runs(),
    })
    .await;
    plane.create(job(2)).await;
    let world = plane.finished("a").await;
    assert!(world.is("a", "Failed"));
    assert_eq!(world.count("a", "Launcher", "failed"), 1);
}

async fn scenario_33_workers_that_wait_do_not_count(crds: Crds) {
    let plane = plane(crds, |pod| match pod.role.as_str() {
        "launcher" => PodScript::runs(),
        _ => PodScript { unscheduled: Duration::from_hours(9), ..PodScript::runs() },
    })
    .await;
    plane.create(job(8)).await;
    let world = plane.until("it runs", |w| w.is("a", "Running")).await;
    assert_eq!((world.count("a", "Launcher", "active"), world.count("a", "Worker", "active")), (1, 0));
}

async fn scenario_34_an_account_of_the_user(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "x", "namespace": "default" },
    });
    let before = plane.create(account).await;
    plane.create(job(1).template("Launcher", "/spec/serviceAccountName", "x")).await;
    plane.until("it runs", |w| w.is("a", "Running")).await;
    assert_eq!(plane.pods().await[0]["spec"]["serviceAccountName"], "x");
    let after = read(&plane, "/api/v1/namespaces/default/serviceaccounts/x").await;
    assert_eq!(before["metadata"], after["metadata"], "it stays the user's");
    let binding = read(&plane, &format!("{RIGHTS}/rolebindings/a-launcher")).await;
    assert_eq!(binding["subjects"][0]["name"], "x");
}

async fn scenario_34_objects_of_others_are_left_alone(crds: Crds) {
    let named = |name: &str| json!({ "name": name, "namespace": "default" });
    let pod = json!({ "containers": [{ "name": "c", "image": "i" }] });
    let subject = json!([{ "kind": "ServiceAccount", "name": "default", "namespace": "default" }]);
    let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "other" });
    let group = "rbac.authorization.k8s.io/v1";
    let theirs = [
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": named("a-config"), "data": { "k": "v" } }),
        json!({ "apiVersion": group, "kind": "Role", "metadata": named("a-launcher"), "rules": [] }),
        json!({ "apiVersion": group, "kind": "RoleBinding", "metadata": named("a-launcher"),
                "subjects": subject, "roleRef": role }),
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": named("a-launcher"), "spec": pod }),
    ];
    for object in theirs {
        let plane = plane(crds.clone(), |_| PodScript::runs()).await;
        let before = plane.create(object.clone()).await;
        plane.create(job(1)).await;
        plane.pass(Duration::from_secs(30)).await;
        let reasons = plane.event_reasons("a").await;
        assert!(reasons.contains(&"ErrResourceExists".to_owned()), "{reasons:?} {object}");
        let path = match object["kind"].as_str().unwrap() {
            "ConfigMap" => CONFIG.to_owned(),
            "Role" => format!("{RIGHTS}/roles/a-launcher"),
            "RoleBinding" => format!("{RIGHTS}/rolebindings/a-launcher"),
            _ => "/api/v1/namespaces/default/pods/a-launcher".to_owned(),
        };
        let after = read(&plane, &path).await;
        assert_eq!(before["metadata"]["uid"], after["metadata"]["uid"], "{path}");
        for part in ["data", "rules", "subjects", "spec"] {
            let (before, after) = (before.get(part), after.get(part));
            assert!(part == "spec" || before == after, "{path} {part}");
        }
        assert!(!plane.world().is("a", "Running"), "{path}");
    }
}

async fn scenario_35_a_launcher_that_computes(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    let gpu = json!({ "limits": { "nvidia.com/gpu": "1" } });
    let bootstrap = json!([{ "name": "I_MPI_HYDRA_BOOTSTRAP", "value": "ssh" }]);
    let job = job(1).template("Launcher", "/spec/containers/0/resources", gpu);
    plane.create(job.template("Launcher", "/spec/containers/0/env", bootstrap)).await;
    plane.until("it runs", |w| w.is("a", "Running")).await;
    let config = read(&plane, CONFIG).await;
    assert_eq!(config["data"]["hostfile"], "a-launcher slots=1\na-worker-0 slots=1\n");
    let launcher = &plane.pods().await[0];
    assert!(!has_env(launcher, "NVIDIA_VISIBLE_DEVICES"));
    assert_eq!(env(launcher, "I_MPI_HYDRA_BOOTSTRAP"), Some("ssh"));
    assert_eq!(env(launcher, "I_MPI_HYDRA_BOOTSTRAP_EXEC"), Some("/etc/mpi/kubexec.sh"));
}

async fn scenario_36_workers_scaled_down(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    plane.create(job(3)).await;
    plane.until("all run", |w| w.in_phase("a", "Running") == 4).await;
    let patch = json!({ "spec": { "mpiReplicaSpecs": { "Worker": { "replicas": 1 } } } });
    plane.patch("MPIJob", "a", patch).await;
    let world = plane.until("two are gone", |w| w.pods("a").len() == 2).await;
    assert!(world.pod("a-worker-0").is_some());
    let data =
        json!({ "hostfile": "a-worker-0 slots=1\n", "discover_hosts.sh": "#!/bin/sh\necho a-worker-0:1" });
    let has = |config: &Value, file: &str| config["data"][file] == data[file];
    plane.until_stored(CONFIG, |config| has(config, "hostfile") && has(config, "discover_hosts.sh")).await;
    let role = format!("{RIGHTS}/roles/a-launcher");
    plane.until_stored(&role, |role| role["rules"][1]["resourceNames"] == json!(["a-worker-0"])).await;
}

async fn scenario_40_deleted(crds: Crds) {
    let plane = plane(crds, |_| PodScript::runs()).await;
    plane.create(job(2)).await;
    plane.until("it runs", |w| w.is("a", "Running")).await;
    plane.delete("MPIJob", "a").await;
    plane.until("its pods are gone", |w| w.job("a").is_none() && w.pods("a").is_empty()).await;
    let account = "/api/v1/namespaces/default/serviceaccounts/a-launcher".to_owned();
    let rights = ["roles", "rolebindings"].map(|plural| format!("{RIGHTS}/{plural}/a-launcher"));
    for path in [CONFIG.to_owned(), account].iter().chain(&rights) {
        plane.until_stored(path, Value::is_null).await;
    }
}
