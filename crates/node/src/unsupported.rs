//! What this node does not do, said before somebody has to find out.
//!
//! A manifest for a cluster runs here unchanged as far as that makes sense; where it means something that one machine
//! without containers cannot give, the pod runs without it and says so once. What it cannot run without is refused.

use k8s_openapi::api::core::v1::{Container, Pod, PodSecurityContext, PodSpec, Probe, SecurityContext};

use crate::entrypoints::Entrypoints;
use crate::sources::{AllContainers, containers_by_field};

/// Something in a pod that keeps a container from starting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The container.
    pub container: String,
    /// Where, for example `spec.containers[0].command`.
    pub field: String,
    /// What is wrong and what to write.
    pub message: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// What keeps the pod from starting, if anything.
pub fn cannot_start(pod: &Pod, entrypoints: &Entrypoints) -> Vec<Problem> {
    let Some(spec) = &pod.spec else {
        return Vec::new();
    };
    containers_by_field(spec)
        .filter(|(_, container)| entrypoints.command(container).is_empty())
        .map(|(field, container)| Problem {
            container: container.name.clone(),
            field: format!("{field}.command"),
            message: no_command(container),
        })
        .collect()
}

fn no_command(container: &Container) -> String {
    let mut message =
        "this machine runs programs, not images: write the command, e.g. command: [python3, train.py], or say \
         with --entrypoint IMAGE=COMMAND what the image runs"
            .to_owned();
    if container.args.as_ref().is_some_and(|args| !args.is_empty()) {
        message.push_str(" (args alone are not enough: the program they are for is in the image)");
    }
    message
}

/// Short notes on what the pod asks for and does not get. Each is said once, however many containers ask.
pub fn not_honoured(pod: &Pod) -> Vec<String> {
    let Some(spec) = &pod.spec else {
        return Vec::new();
    };
    let mut notes = Notes(Vec::new());
    for container in spec.containers() {
        notes.of_image(container);
    }
    notes.of_pod(spec);
    if let Some(context) = &spec.security_context {
        notes.of_pod_security(context);
    }
    for container in spec.containers() {
        notes.of_container(container);
        if let Some(context) = &container.security_context {
            notes.of_security(context);
        }
    }
    for directory in spec.volumes.iter().flatten().filter_map(|volume| volume.empty_dir.as_ref()) {
        let memory = directory.medium.as_deref().is_some_and(|medium| !medium.is_empty());
        notes.when(memory, "emptyDir.medium: the volume is a directory on disk");
        notes.when(directory.size_limit.is_some(), "emptyDir.sizeLimit: the volume may grow without limit");
    }
    notes.0
}

struct Notes(Vec<String>);

impl Notes {
    fn when(&mut self, asked: bool, note: &str) {
        if asked && !self.0.iter().any(|said| said == note) {
            self.0.push(note.to_owned());
        }
    }

    fn of_image(&mut self, container: &Container) {
        if let Some(image) = container.image.as_deref().filter(|image| !image.is_empty()) {
            self.when(
                true,
                &format!("image {image} is not pulled: the command runs with this machine's programs"),
            );
        }
    }

    fn of_pod(&mut self, spec: &PodSpec) {
        self.when(spec.affinity.is_some(), "affinity: there is one node, everything runs on it");
        self.when(
            any(&spec.topology_spread_constraints),
            "topologySpreadConstraints: there is one node, everything runs on it",
        );
        self.when(any(&spec.host_aliases), "hostAliases: names are resolved as this machine resolves them");
        let dns = spec.dns_config.is_some() || spec.dns_policy.as_deref() == Some("None");
        self.when(dns, "dnsConfig: names are resolved as this machine resolves them");
        self.when(named(&spec.hostname), "hostname: processes see this machine's name");
        self.when(
            named(&spec.runtime_class_name),
            "runtimeClassName: containers are processes of this machine",
        );
        let priority =
            named(&spec.priority_class_name) || spec.priority.is_some_and(|priority| priority != 0);
        self.when(priority, "priority: first come, first served; nothing is preempted");
        let claims = any(&spec.resource_claims);
        self.when(claims, "resourceClaims: devices are asked for by limits, for example nvidia.com/gpu");
        let gates = any(&spec.readiness_gates);
        self.when(gates, "readinessGates: ready means that the containers are");
        let shared = spec.share_process_namespace == Some(true) || spec.host_users == Some(false);
        self.when(shared, "shareProcessNamespace, hostUsers: all processes share this machine's namespaces");
        let secrets = any(&spec.image_pull_secrets);
        self.when(secrets, "imagePullSecrets: no image is pulled");
    }

    fn of_container(&mut self, container: &Container) {
        let hooks = container.lifecycle.as_ref();
        let hooked = hooks.is_some_and(|hooks| hooks.post_start.is_some() || hooks.pre_stop.is_some());
        self.when(hooked, "lifecycle: postStart and preStop are not run");
        let signal = hooks.is_some_and(|hooks| hooks.stop_signal.is_some());
        self.when(signal, "lifecycle.stopSignal: processes are asked to end by SIGTERM");
        let probes = [&container.liveness_probe, &container.readiness_probe, &container.startup_probe];
        for probe in probes.into_iter().flatten() {
            self.of_probe(probe);
        }
        let message = container.termination_message_path.as_deref().unwrap_or_default();
        let relative = !message.is_empty() && !message.starts_with('/');
        self.when(relative, "terminationMessagePath: only absolute paths are honoured");
        let devices = any(&container.volume_devices);
        self.when(devices, "volumeDevices: block devices are not handed to containers");
        let rules = any(&container.restart_policy_rules);
        self.when(rules, "restartPolicyRules: restartPolicy alone decides");
        let mounts = container.volume_mounts.iter().flatten();
        let propagates = mounts
            .into_iter()
            .any(|mount| mount.mount_propagation.as_deref().is_some_and(|propagation| propagation != "None"));
        self.when(propagates, "mountPropagation: mounts made later are not passed on");
    }

    fn of_probe(&mut self, probe: &Probe) {
        self.when(probe.grpc.is_some(), "grpc probes are not made: the container counts as healthy");
        let scheme = probe.http_get.as_ref().and_then(|get| get.scheme.as_deref());
        self.when(scheme == Some("HTTPS"), "https probes are not made: the container counts as healthy");
    }

    fn of_pod_security(&mut self, context: &PodSecurityContext) {
        let only = PodSecurityContext {
            run_as_user: context.run_as_user,
            run_as_group: context.run_as_group,
            run_as_non_root: context.run_as_non_root,
            ..PodSecurityContext::default()
        };
        self.security(unhonoured(context, &only));
    }

    fn of_security(&mut self, context: &SecurityContext) {
        let only = SecurityContext {
            run_as_user: context.run_as_user,
            run_as_group: context.run_as_group,
            run_as_non_root: context.run_as_non_root,
            allow_privilege_escalation: context.allow_privilege_escalation,
            ..SecurityContext::default()
        };
        self.security(unhonoured(context, &only));
    }

    fn security(&mut self, fields: Vec<String>) {
        for field in fields {
            let honoured = "runAsUser, runAsGroup, runAsNonRoot and allowPrivilegeEscalation";
            self.when(true, &format!("securityContext.{field}: only {honoured} are honoured"));
        }
    }
}

fn any<T>(list: &Option<Vec<T>>) -> bool {
    list.as_ref().is_some_and(|list| !list.is_empty())
}

fn named(text: &Option<String>) -> bool {
    text.as_deref().is_some_and(|text| !text.is_empty())
}

/// The fields that are in one and not in the other, under the names they are written with.
fn unhonoured<T: serde::Serialize>(all: &T, honoured: &T) -> Vec<String> {
    let fields = |value: &T| match serde_json::to_value(value) {
        Ok(serde_json::Value::Object(map)) => map,
        _ => serde_json::Map::new(),
    };
    let known = fields(honoured);
    fields(all).into_iter().map(|(field, _)| field).filter(|field| !known.contains_key(field)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: Value) -> Pod {
        serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap()
    }

    #[test]
    fn a_container_without_a_command_is_refused_with_what_to_write() {
        let mut known = Entrypoints::default();
        known.add("known=true").unwrap();
        let pod = pod(json!({
            "initContainers": [{ "name": "a", "command": ["true"] }, { "name": "b", "args": ["x"] }],
            "containers": [
                { "name": "c", "image": "python" },
                { "name": "d", "command": [] },
                { "name": "e", "image": "known:1" },
            ],
        }));
        let problems = cannot_start(&pod, &known);
        let text: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let write = "this machine runs programs, not images: write the command, e.g. command: [python3, train.py], or say \
             with --entrypoint IMAGE=COMMAND what the image runs";
        let args = "(args alone are not enough: the program they are for is in the image)";
        assert_eq!(
            text,
            [
                format!("spec.initContainers[1].command: {write} {args}"),
                format!("spec.containers[0].command: {write}"),
                format!("spec.containers[1].command: {write}"),
            ]
        );
        assert_eq!(problems[1].container, "c");
    }

    #[test]
    fn a_plain_pod_has_only_its_image_to_talk_about() {
        let notes = not_honoured(&pod(json!({
            "containers": [{ "name": "a", "image": "python:3.12" }, { "name": "b", "image": "python:3.12" }],
            "tolerations": [{ "operator": "Exists" }],
            "dnsPolicy": "ClusterFirst",
            "securityContext": { "runAsUser": 7 },
            "priority": 0,
            "volumes": [{ "name": "v", "emptyDir": {} }],
        })));
        assert_eq!(notes, ["image python:3.12 is not pulled: the command runs with this machine's programs"]);
    }

    #[test]
    fn everything_that_is_not_done_is_said() {
        let notes = not_honoured(&pod(json!({
            "affinity": {},
            "hostAliases": [{ "ip": "1.2.3.4" }],
            "dnsConfig": {},
            "hostname": "x",
            "runtimeClassName": "nvidia",
            "priorityClassName": "high",
            "securityContext": { "fsGroup": 5, "runAsGroup": 1 },
            "volumes": [{ "name": "v", "emptyDir": { "medium": "Memory", "sizeLimit": "1Gi" } }],
            "containers": [{
                "name": "a",
                "lifecycle": { "preStop": { "exec": { "command": ["x"] } } },
                "livenessProbe": { "grpc": { "port": 1 } },
                "readinessProbe": { "httpGet": { "port": 1, "scheme": "HTTPS" } },
                "securityContext": { "privileged": true, "runAsUser": 5 },
                "terminationMessagePath": "why",
                "volumeDevices": [{ "name": "d", "devicePath": "/dev/x" }],
            }],
        })));
        let subjects: Vec<&str> = notes.iter().filter_map(|note| note.split([':', ' ']).next()).collect();
        assert_eq!(
            subjects,
            [
                "affinity",
                "hostAliases",
                "dnsConfig",
                "hostname",
                "runtimeClassName",
                "priority",
                "securityContext.fsGroup",
                "lifecycle",
                "grpc",
                "https",
                "terminationMessagePath",
                "volumeDevices",
                "securityContext.privileged",
                "emptyDir.medium",
                "emptyDir.sizeLimit",
            ]
        );
    }
}
