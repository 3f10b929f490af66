//! PyTorch: `torch.distributed` by environment, or torchrun's elastic rendezvous.
//!
//! With a Master, every replica is told its address, its own rank and the world size. With an `elasticPolicy`
//! workers meet at worker 0 (or where the policy says) and any worker's success is the job's. Both get torchrun's
//! `PET_*` variables.

use serde_json::{Value, json};
use trainyard_api::{ElasticPolicy, RestartPolicy};

use crate::action::{Child, Resource};
use crate::extra::{Around, owned};
use crate::field_error::FieldError;
use crate::framework::{Elastic, Facts, Framework, Rendezvous, Verdict, by_decider, has_leader};
use crate::job::{JobView, Slot};
use crate::net::Net;
use crate::pod_draft::PodDraft;
use crate::seen::Helpers;
use crate::steps::tally::Tally;

/// See the module.
pub(super) struct PyTorch;

static FACTS: Facts = Facts {
    name: "pytorch",
    roles: &[MASTER, WORKER],
    leaders: &[MASTER],
    followers: WORKER,
    container: "pytorch",
    port_name: "pytorchjob-port",
    port: 23456,
    restart: RestartPolicy::OnFailure,
    rendezvous: Rendezvous::Leader,
    extras: &[&Resource::AUTOSCALER],
    ..Facts::USUAL
};

const MASTER: &str = "Master";
const WORKER: &str = "Worker";

impl Framework for PyTorch {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn wire(&self, job: &JobView, slot: Slot<'_>, net: &Net<'_>, pod: &mut PodDraft) {
        let mut env = vec![("PYTHONUNBUFFERED", "1".to_owned())];
        if let Some(master) = job.role(MASTER) {
            env.extend(ranks(job, slot, net, Slot { role: master, index: 0 }));
        }
        if let Some(nproc) = job.options.get("nprocPerNode").and_then(Value::as_str) {
            env.push(("PET_NPROC_PER_NODE", nproc.to_owned()));
        }
        match elastic_policy(job) {
            Some(policy) => env.extend(rendezvous(job, net, &policy)),
            None => env.push(("PET_NNODES", job.total_replicas().to_string())),
        }
        for (name, value) in env {
            pod.set_env_everywhere(name, value);
        }
        if let Some(master) = job.role(MASTER).filter(|_| slot.role.name == WORKER && net.by_service()) {
            let host = net.host(Slot { role: master, index: 0 });
            for container in waiting(net.helpers(), &host) {
                pod.push_spec("initContainers", container);
            }
        }
    }

    fn extras(&self, around: Around<'_>) -> Vec<Child> {
        elastic_policy(around.job).and_then(|policy| autoscaler(around.job, &policy)).into_iter().collect()
    }

    fn verdict(&self, job: &JobView, tally: &Tally) -> Verdict {
        let any_worker_decides = !has_leader(&FACTS, job) && job.options.contains_key("elasticPolicy");
        if any_worker_decides && tally.of(WORKER).succeeded > 0 {
            return Verdict::Succeeded;
        }
        by_decider(&FACTS, job, tally)
    }

    fn validate(&self, job: &JobView) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if job.role(MASTER).is_some_and(|master| master.replicas != 1) {
            errors
                .push(FieldError::forbidden(format!("{}.replicas", job.kind.role_path(MASTER)), "must be 1"));
        }
        if job.role(WORKER).is_some_and(|worker| worker.replicas == 0) {
            let path = format!("{}.replicas", job.kind.role_path(WORKER));
            errors.push(FieldError::forbidden(path, "must be at least 1"));
        }
        let Some(policy) = elastic_policy(job) else {
            return errors;
        };
        if job.role(WORKER).is_none() {
            let path = job.kind.role_path(WORKER);
            errors.push(FieldError::required(path, "must be configured if elastic policy is used"));
        }
        if policy.n_proc_per_node.is_some() && job.options.contains_key("nprocPerNode") {
            let path = "spec.elasticPolicy.nProcPerNode";
            errors.push(FieldError::forbidden(path, "must not be used with spec.nprocPerNode"));
        }
        errors
    }

    fn warnings(&self, job: &JobView) -> Vec<String> {
        let old = elastic_policy(job).is_some_and(|policy| policy.n_proc_per_node.is_some());
        let text = "spec.elasticPolicy.nProcPerNode is deprecated, use spec.nprocPerNode instead";
        old.then(|| text.to_owned()).into_iter().collect()
    }

    fn default(&self, job: &mut JobView) {
        let workers = job.role(WORKER).map(|role| role.replicas);
        let mut policy = elastic_policy(job);
        if let Some(policy) = &mut policy {
            let workers = workers.and_then(|n| i32::try_from(n).ok());
            let (min, max) = (policy.min_replicas, policy.max_replicas);
            policy.min_replicas = min.or(max).or(workers);
            policy.max_replicas = max.or(min).or(workers);
            if let Ok(value) = serde_json::to_value(&*policy) {
                job.options.insert("elasticPolicy".into(), value);
            }
        }
        if policy.is_none_or(|policy| policy.n_proc_per_node.is_none()) {
            job.options.entry("nprocPerNode").or_insert_with(|| "auto".into());
        }
    }

    fn elastic(&self, job: &JobView) -> Option<Elastic> {
        let policy = elastic_policy(job)?;
        let workers = job.role(WORKER).map(|role| role.replicas);
        Elastic::of(policy.min_replicas, policy.max_replicas, workers)
    }
}

/// Workers wait until the master's name is known: many programs give up when it is not.
fn waiting(helpers: &Helpers, master: &str) -> Vec<Value> {
    let tries = helpers.wait_tries;
    let image = helpers.wait_image.as_ref().unwrap_or(&helpers.image);
    if let Some(template) = &helpers.wait_template {
        let values = [master.to_owned(), image.clone(), tries.to_string()];
        let fill = |text: &str| {
            let words = Helpers::VARIABLES.iter().map(|(_, word)| word).zip(&values);
            words.fold(text.to_owned(), |text, (word, value)| text.replace(word, value))
        };
        return template.iter().map(|container| filled(container, &fill)).collect();
    }
    let command = if helpers.wait_image.is_some() {
        let script = format!(
            "err=1;for i in $(seq {tries}); do if nslookup {master}; then err=0 && break; fi;\
             echo waiting for master; sleep 2; done; exit $err"
        );
        json!(["sh", "-c", script])
    } else {
        json!([helpers.program, "wait-for-host", master, "--tries", tries.to_string()])
    };
    let resources = json!({
        "limits": { "cpu": "100m", "memory": "20Mi" },
        "requests": { "cpu": "50m", "memory": "10Mi" },
    });
    vec![json!({
        "name": "init-pytorch", "image": image, "imagePullPolicy": "IfNotPresent",
        "resources": resources, "command": command,
    })]
}

/// A template with its variables filled in, wherever a text has one.
fn filled(value: &Value, fill: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => fill(text).into(),
        Value::Array(items) => items.iter().map(|item| filled(item, fill)).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), filled(value, fill))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Scales the workers by the user's metrics, if there are any.
fn autoscaler(job: &JobView, policy: &ElasticPolicy) -> Option<Child> {
    let metrics = policy.metrics.as_ref()?;
    let target = json!({ "apiVersion": job.kind.api_version(), "kind": job.kind.name, "name": job.name });
    let mut spec =
        json!({ "scaleTargetRef": target, "maxReplicas": policy.max_replicas, "metrics": metrics });
    if let (Some(min), Some(spec)) = (policy.min_replicas, spec.as_object_mut()) {
        spec.insert("minReplicas".into(), min.into());
    }
    Some(owned(job, &Resource::AUTOSCALER, &job.name, json!({ "spec": spec })))
}

/// The policy in its typed form. That it decodes was checked with the whole spec.
fn elastic_policy(job: &JobView) -> Option<ElasticPolicy> {
    job.options.get("elasticPolicy").and_then(|value| serde_json::from_value(value.clone()).ok())
}

fn ranks(job: &JobView, slot: Slot<'_>, net: &Net<'_>, master: Slot<'_>) -> [(&'static str, String); 7] {
    let (host, port) = (net.host(master), net.port(master).to_string());
    let per_node =
        job.options.get("nprocPerNode").and_then(Value::as_str).and_then(|n| n.parse::<u64>().ok());
    let world = u64::from(job.total_replicas()).saturating_mul(per_node.unwrap_or(1));
    let rank = if slot.role.name == MASTER { slot.index } else { slot.index.saturating_add(1) };
    [
        ("MASTER_PORT", port.clone()),
        ("PET_MASTER_PORT", port),
        ("MASTER_ADDR", host.clone()),
        ("PET_MASTER_ADDR", host),
        ("WORLD_SIZE", world.to_string()),
        ("RANK", rank.to_string()),
        ("PET_NODE_RANK", rank.to_string()),
    ]
}

fn rendezvous(job: &JobView, net: &Net<'_>, policy: &ElasticPolicy) -> Vec<(&'static str, String)> {
    let worker = job.role(WORKER).map(|role| Slot { role, index: 0 });
    let host = policy.rdzv_host.clone().or_else(|| worker.map(|slot| net.host(slot))).unwrap_or_default();
    let port = policy.rdzv_port.or_else(|| worker.map(|slot| i32::from(net.port(slot)))).unwrap_or_default();
    let number = |n: Option<i32>| n.unwrap_or_default();
    let mut env = vec![
        ("PET_RDZV_ENDPOINT", format!("{host}:{port}")),
        ("PET_RDZV_BACKEND", policy.rdzv_backend.clone().unwrap_or_else(|| "c10d".into())),
        ("PET_NNODES", format!("{}:{}", number(policy.min_replicas), number(policy.max_replicas))),
    ];
    let optional = [
        ("PET_MAX_RESTARTS", policy.max_restarts.map(|n| n.to_string())),
        ("PET_NPROC_PER_NODE", policy.n_proc_per_node.map(|n| n.to_string())),
        ("PET_RDZV_ID", policy.rdzv_id.clone()),
        ("PET_RDZV_CONF", rendezvous_conf(policy)),
        ("PET_STANDALONE", policy.standalone.filter(|on| *on).map(|_| String::new())),
    ];
    env.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value?))));
    env
}

/// An empty list is no setting: it is left out, like no list at all.
fn rendezvous_conf(policy: &ElasticPolicy) -> Option<String> {
    let conf = policy.rdzv_conf.as_ref().filter(|list| !list.is_empty())?;
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    let pairs: Vec<String> =
        conf.iter().map(|entry| format!("{}={}", text(&entry.key), text(&entry.value))).collect();
    Some(pairs.join(","))
}
