//! MPI: a launcher runs `mpirun`, which starts its processes inside the workers by `kubectl exec`.
//!
//! Workers only have to be there: they sleep unless the user says otherwise. The launcher finds their names in a host
//! file and reaches them with a script, both in a ConfigMap, under an account that may do just that.

use serde_json::{Value, json};
use trainyard_api::RestartPolicy;

use crate::action::{Child, Resource};
use crate::extra::{Around, owned};
use crate::field_error::FieldError;
use crate::framework::{Facts, Framework, Rendezvous};
use crate::job::{JobView, Role, Slot};
use crate::net::Net;
use crate::pod_draft::{PodDraft, push};
use crate::seen::Addressing;

/// See the module.
pub(super) struct Mpi;

static FACTS: Facts = Facts {
    name: "mpi",
    roles: &[LAUNCHER, WORKER],
    leaders: &[LAUNCHER],
    followers: WORKER,
    container: "mpi",
    any_container: true,
    restart: RestartPolicy::Never,
    rendezvous: Rendezvous::Leader,
    services: false,
    servants_count: false,
    absent: &[WORKER],
    single: &[LAUNCHER],
    uses_api: true,
    extras: &[&Resource::CONFIG_MAP, &Resource::SERVICE_ACCOUNT, &Resource::ROLE, &Resource::ROLE_BINDING],
    ..Facts::USUAL
};

const LAUNCHER: &str = "Launcher";
const WORKER: &str = "Worker";
const CONFIG: &str = "mpi-job-config";
const CONFIG_PATH: &str = "/etc/mpi";
const KUBECTL: &str = "mpi-job-kubectl";
const KUBECTL_PATH: &str = "/opt/kube";
const SCRATCH: &str = "mpi-job-tmp";
const SCRATCH_PATH: &str = "/opt/mpi";
const EXEC_SCRIPT: &str = "kubexec.sh";
const HOST_FILE: &str = "hostfile";
const DISCOVER_SCRIPT: &str = "discover_hosts.sh";
const SCRIPT_MODE: i32 = 0o555;
const TEXT_MODE: i32 = 0o444;

impl Framework for Mpi {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn wire(&self, job: &JobView, slot: Slot<'_>, net: &Net<'_>, pod: &mut PodDraft) {
        if slot.role.name == LAUNCHER {
            launcher(job, slot, net, pod);
        } else {
            worker(job, pod);
        }
        if !net.by_service() {
            share_one_machine(slot, pod);
        }
    }

    fn validate(&self, job: &JobView) -> Vec<FieldError> {
        let mut errors = Vec::new();
        for role in &job.roles {
            let containers = role.template.pointer("/spec/containers").and_then(Value::as_array);
            for (at, container) in containers.into_iter().flatten().enumerate() {
                if container.get("name").and_then(Value::as_str).unwrap_or_default().is_empty() {
                    let path = job.kind.role_path(&role.name);
                    let path = format!("{path}.template.spec.containers[{at}].name");
                    errors.push(FieldError::required(path, "must be required"));
                }
            }
        }
        match job.role(LAUNCHER) {
            None => errors.push(FieldError::required(job.kind.role_path(LAUNCHER), "must be present")),
            Some(launcher) if launcher.replicas != 1 => {
                let path = format!("{}.replicas", job.kind.role_path(LAUNCHER));
                errors.push(FieldError::forbidden(path, "must be 1"));
            }
            Some(_) => {}
        }
        if slots(job) < 1 {
            errors.push(FieldError::invalid("spec.slotsPerWorker", slots(job), "must be at least 1"));
        }
        errors
    }

    fn extras(&self, around: Around<'_>) -> Vec<Child> {
        let job = around.job;
        vec![
            owned_by_app(job, &Resource::SERVICE_ACCOUNT, &account(job), json!({})),
            owned_by_app(job, &Resource::CONFIG_MAP, &config(job), json!({ "data": config_data(around) })),
            owned_by_app(job, &Resource::ROLE, &launcher_name(job), json!({ "rules": rules(around) })),
            owned_by_app(job, &Resource::ROLE_BINDING, &launcher_name(job), binding(job)),
        ]
    }
}

fn launcher_name(job: &JobView) -> String {
    format!("{}-launcher", job.name)
}

fn config(job: &JobView) -> String {
    format!("{}-config", job.name)
}

/// The account of the launcher: the user's, or one of its own.
fn account(job: &JobView) -> String {
    let template = job.role(LAUNCHER).map(|role| &role.template);
    let named = template.and_then(|template| template.pointer("/spec/serviceAccountName"));
    let named = named.and_then(Value::as_str).filter(|name| !name.is_empty());
    named.map_or_else(|| launcher_name(job), str::to_owned)
}

fn slots(job: &JobView) -> i64 {
    job.options.get("slotsPerWorker").and_then(Value::as_i64).unwrap_or(1)
}

/// Whether the launcher computes too: it has a GPU.
fn computes(launcher: &Role) -> bool {
    let containers = launcher.template.pointer("/spec/containers").and_then(Value::as_array);
    let mut limits = containers.into_iter().flatten().filter_map(|c| c.pointer("/resources/limits"));
    limits
        .any(|limits| limits.as_object().is_some_and(|limits| limits.keys().any(|name| name.contains("gpu"))))
}

fn launcher_computes(job: &JobView) -> bool {
    job.role(LAUNCHER).is_some_and(computes)
}

fn worker_names(job: &JobView) -> Vec<String> {
    let workers = job.slots().filter(|slot| slot.role.name == WORKER);
    workers.map(|slot| slot.child_name(job)).collect()
}

/// Everything of a launcher carries the job's name as `app`, too.
fn owned_by_app(job: &JobView, what: &'static Resource, name: &str, content: Value) -> Child {
    let mut child = owned(job, what, name, content);
    if let Some(labels) = child.body.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.insert("app".into(), job.name.as_str().into());
    }
    child
}

fn config_data(around: Around<'_>) -> Value {
    let Around { job, running, .. } = around;
    let (slots, computes) = (slots(job), launcher_computes(job));
    let own = computes.then(|| launcher_name(job));
    let hosts: String =
        own.iter().chain(&worker_names(job)).map(|name| format!("{name} slots={slots}\n")).collect();
    let mut discover = "#!/bin/sh".to_owned();
    if let Some(own) = &own {
        discover.push_str(&format!("\necho {own}:{slots}\n"));
    }
    let launcher = launcher_name(job);
    for name in running.iter().filter(|name| **name != launcher) {
        discover.push_str(&format!("\necho {name}:{slots}"));
    }
    json!({ HOST_FILE: hosts, EXEC_SCRIPT: exec_script(around), DISCOVER_SCRIPT: discover })
}

fn exec_script(around: Around<'_>) -> String {
    let container =
        around.job.options.get("mainContainer").and_then(Value::as_str).filter(|name| !name.is_empty());
    let container = container.map(|name| format!(" --container {name}")).unwrap_or_default();
    // On one machine the launcher's output is what the user looks at.
    let trace = if around.options.addressing == Addressing::Service { "set -x\n" } else { "" };
    format!(
        "#!/bin/sh\n{trace}POD_NAME=$1\nshift\n{KUBECTL_PATH}/kubectl exec ${{POD_NAME}}{container} -- /bin/sh -c \"$*\""
    )
}

fn rules(around: Around<'_>) -> Value {
    let workers = worker_names(around.job);
    let read = json!({ "verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["pods"] });
    if workers.is_empty() {
        // Without names it would be every pod of the namespace.
        return json!([read]);
    }
    // Our own stand-in for kubectl speaks WebSocket, which begins with a GET.
    let own = around.options.helpers.kubectl_image.is_none();
    let verbs: &[&str] = if own { &["create", "get"] } else { &["create"] };
    let exec = json!({
        "verbs": verbs, "apiGroups": [""], "resources": ["pods/exec"], "resourceNames": workers,
    });
    json!([read, exec])
}

fn binding(job: &JobView) -> Value {
    json!({
        "subjects": [{ "kind": "ServiceAccount", "name": account(job), "namespace": job.namespace }],
        "roleRef": { "apiGroup": Resource::ROLE.group, "kind": "Role", "name": launcher_name(job) },
    })
}

fn item(key: &str, mode: i32) -> Value {
    json!({ "key": key, "path": key, "mode": mode })
}

fn config_volume(job: &JobView, items: &[Value]) -> Value {
    json!({ "name": CONFIG, "configMap": { "name": config(job), "items": items } })
}

fn mount(name: &str, path: &str) -> Value {
    json!({ "name": name, "mountPath": path })
}

/// A worker waits for processes to be started in it. Open MPI looks for the script on every host.
fn worker(job: &JobView, pod: &mut PodDraft) {
    if let Some(container) = pod.first_container() {
        let command = container.get("command").and_then(Value::as_array);
        if let (true, Some(container)) = (command.is_none_or(Vec::is_empty), container.as_object_mut()) {
            container.insert("command".into(), json!(["sleep"]));
            container.insert("args".into(), json!(["365d"]));
        }
        push(container, "volumeMounts", mount(CONFIG, CONFIG_PATH));
    }
    pod.push_spec("volumes", config_volume(job, &[item(EXEC_SCRIPT, SCRIPT_MODE)]));
}

fn launcher(job: &JobView, slot: Slot<'_>, net: &Net<'_>, pod: &mut PodDraft) {
    pod.default_spec("serviceAccountName", launcher_name(job));
    pod.push_spec("initContainers", delivery(job, net));
    if let Some(container) = pod.first_container() {
        for (name, value) in launcher_env(computes(slot.role), container) {
            push(container, "env", json!({ "name": name, "value": value }));
        }
        push(container, "volumeMounts", mount(KUBECTL, KUBECTL_PATH));
        push(container, "volumeMounts", mount(CONFIG, CONFIG_PATH));
    }
    pod.push_spec("volumes", json!({ "name": KUBECTL, "emptyDir": {} }));
    let items =
        [item(EXEC_SCRIPT, SCRIPT_MODE), item(HOST_FILE, TEXT_MODE), item(DISCOVER_SCRIPT, SCRIPT_MODE)];
    pod.push_spec("volumes", config_volume(job, &items));
}

/// Open MPI, and Intel's unless the user has set it up.
fn launcher_env(computes: bool, container: &Value) -> Vec<(&'static str, String)> {
    let script = format!("{CONFIG_PATH}/{EXEC_SCRIPT}");
    let mut env = vec![
        ("OMPI_MCA_plm_rsh_agent", script.clone()),
        ("OMPI_MCA_orte_default_hostfile", format!("{CONFIG_PATH}/{HOST_FILE}")),
    ];
    if !computes {
        // The launcher shall see no GPU that it did not ask for.
        env.extend(
            ["NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"].map(|name| (name, String::new())),
        );
    }
    for (name, value) in [("I_MPI_HYDRA_BOOTSTRAP", "rsh".to_owned()), ("I_MPI_HYDRA_BOOTSTRAP_EXEC", script)]
    {
        if !has_env(container, name) {
            env.push((name, value));
        }
    }
    env
}

fn has_env(container: &Value, name: &str) -> bool {
    let env = container.get("env").and_then(Value::as_array);
    env.into_iter().flatten().any(|entry| entry.get("name").and_then(Value::as_str) == Some(name))
}

/// What Open MPI needs where all hosts are one machine, unless the user says otherwise.
const ONE_MACHINE: [(&str, &str); 8] = [
    // Shared memory would be shared with ranks that believe to be elsewhere.
    ("OMPI_MCA_btl", "self,tcp"),
    ("OMPI_MCA_btl_tcp_if_include", "lo"),
    ("OMPI_MCA_oob_tcp_if_include", "lo"),
    // By default the first rank of every host is bound to the same core.
    ("OMPI_MCA_hwloc_base_binding_policy", "none"),
    ("OMPI_MCA_mpi_yield_when_idle", "1"),
    // Names of pods are no names of hosts here, and a silent DNS server would cost a minute.
    ("OMPI_MCA_if_base_do_not_resolve", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
];

/// Each "host" has files of its own: daemons that share a session directory get in each other's way.
fn share_one_machine(slot: Slot<'_>, pod: &mut PodDraft) {
    let settings: &[(&str, &str)] = if slot.role.name == LAUNCHER { &ONE_MACHINE } else { &[] };
    if let Some(container) = pod.first_container() {
        for (name, value) in settings.iter().chain(&[("TMPDIR", SCRATCH_PATH)]) {
            if !has_env(container, name) {
                push(container, "env", json!({ "name": name, "value": value }));
            }
        }
        push(container, "volumeMounts", mount(SCRATCH, SCRATCH_PATH));
    }
    pod.push_spec("volumes", json!({ "name": SCRATCH, "emptyDir": {} }));
}

/// Puts `kubectl`, or what stands for it, where the script looks for it.
fn delivery(job: &JobView, net: &Net<'_>) -> Value {
    let helpers = net.helpers();
    let mut container = json!({
        "name": "kubectl-delivery",
        "image": helpers.kubectl_image.as_ref().unwrap_or(&helpers.image),
        "imagePullPolicy": "IfNotPresent",
        "env": [{ "name": "TARGET_DIR", "value": KUBECTL_PATH }, { "name": "NAMESPACE", "value": job.namespace }],
        "volumeMounts": [mount(KUBECTL, KUBECTL_PATH), mount(CONFIG, CONFIG_PATH)],
    });
    if let Some(fields) = container.as_object_mut() {
        if helpers.kubectl_image.is_none() {
            let hosts = format!("{CONFIG_PATH}/{HOST_FILE}");
            fields.insert("command".into(), json!([helpers.program, "deliver-kubectl", "--hosts", hosts]));
        }
        if net.by_service() {
            let amounts = json!({ "cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi" });
            fields.insert("resources".into(), json!({ "limits": amounts, "requests": amounts }));
        }
    }
    container
}
