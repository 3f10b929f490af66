//! Which lists of the built-in kinds merge by which key.
//!
//! The real server reads this from struct tags of its Go types. The lists named here are exactly those tagged there;
//! all others (tolerations, envFrom, `imagePullSecrets` of a service account, …) are replaced as a whole, and naming
//! them here would change what an existing `kubectl patch` does.

use super::keys::{Field, MergeKeys};

const fn object(keys: &'static MergeKeys) -> Field {
    Field::Object(keys)
}

const fn list(key: &'static str, item: &'static MergeKeys) -> Field {
    Field::List { key, item }
}

/// A list whose items hold no further lists that merge.
const fn by(key: &'static str) -> Field {
    list(key, &MergeKeys::PLAIN)
}

static META: MergeKeys = MergeKeys::new(&[("finalizers", Field::Set), ("ownerReferences", by("uid"))]);

static CONTAINER: MergeKeys = MergeKeys::new(&[
    ("ports", by("containerPort")),
    ("env", by("name")),
    ("volumeMounts", by("mountPath")),
    ("volumeDevices", by("devicePath")),
]);

static POD_SPEC: MergeKeys = MergeKeys::new(&[
    ("containers", list("name", &CONTAINER)),
    ("initContainers", list("name", &CONTAINER)),
    ("ephemeralContainers", list("name", &CONTAINER)),
    ("volumes", by("name")),
    ("imagePullSecrets", by("name")),
    ("hostAliases", by("ip")),
    ("topologySpreadConstraints", by("topologyKey")),
    ("resourceClaims", by("name")),
    ("schedulingGates", by("name")),
]);

static POD_STATUS: MergeKeys = MergeKeys::new(&[
    ("conditions", by("type")),
    ("podIPs", by("ip")),
    ("hostIPs", by("ip")),
    ("resourceClaimStatuses", by("name")),
]);

static CONDITIONS: MergeKeys = MergeKeys::new(&[("conditions", by("type"))]);
static TEMPLATE: MergeKeys = MergeKeys::new(&[("metadata", object(&META)), ("spec", object(&POD_SPEC))]);
static WITH_TEMPLATE: MergeKeys = MergeKeys::new(&[("template", object(&TEMPLATE))]);
static JOB_TEMPLATE: MergeKeys =
    MergeKeys::new(&[("metadata", object(&META)), ("spec", object(&WITH_TEMPLATE))]);
static CRON_JOB_SPEC: MergeKeys = MergeKeys::new(&[("jobTemplate", object(&JOB_TEMPLATE))]);

static POD: MergeKeys = MergeKeys::new(&[
    ("metadata", object(&META)),
    ("spec", object(&POD_SPEC)),
    ("status", object(&POD_STATUS)),
]);
static WORKLOAD: MergeKeys = MergeKeys::new(&[
    ("metadata", object(&META)),
    ("spec", object(&WITH_TEMPLATE)),
    ("status", object(&CONDITIONS)),
]);
static POD_TEMPLATE: MergeKeys =
    MergeKeys::new(&[("metadata", object(&META)), ("template", object(&TEMPLATE))]);
static CRON_JOB: MergeKeys = MergeKeys::new(&[("metadata", object(&META)), ("spec", object(&CRON_JOB_SPEC))]);

static SERVICE_SPEC: MergeKeys = MergeKeys::new(&[("ports", by("port"))]);
static SERVICE: MergeKeys = MergeKeys::new(&[
    ("metadata", object(&META)),
    ("spec", object(&SERVICE_SPEC)),
    ("status", object(&CONDITIONS)),
]);

static NODE_SPEC: MergeKeys = MergeKeys::new(&[("podCIDRs", Field::Set)]);
static NODE_STATUS: MergeKeys = MergeKeys::new(&[("conditions", by("type")), ("addresses", by("type"))]);
static NODE: MergeKeys = MergeKeys::new(&[
    ("metadata", object(&META)),
    ("spec", object(&NODE_SPEC)),
    ("status", object(&NODE_STATUS)),
]);

static SERVICE_ACCOUNT: MergeKeys = MergeKeys::new(&[("metadata", object(&META)), ("secrets", by("name"))]);
static WEBHOOKS: MergeKeys = MergeKeys::new(&[("metadata", object(&META)), ("webhooks", by("name"))]);
static WITH_CONDITIONS: MergeKeys =
    MergeKeys::new(&[("metadata", object(&META)), ("status", object(&CONDITIONS))]);
static ONLY_META: MergeKeys = MergeKeys::new(&[("metadata", object(&META))]);

/// Groups whose kinds are Go types in the real server. A custom resource never lives in one of them.
const BUILT_IN_GROUPS: [&str; 21] = [
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
];

/// The merge keys of a kind, or nothing when the kind takes no strategic patch (status 415): every custom resource.
#[must_use]
pub fn merge_keys(group: &str, kind: &str) -> Option<&'static MergeKeys> {
    if !BUILT_IN_GROUPS.contains(&group) {
        return None;
    }
    let keys = match (group, kind) {
        ("", "Pod") => &POD,
        ("", "PodTemplate") => &POD_TEMPLATE,
        ("", "Service") => &SERVICE,
        ("", "ServiceAccount") => &SERVICE_ACCOUNT,
        ("", "Node") => &NODE,
        ("", "ReplicationController")
        | ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet")
        | ("batch", "Job") => &WORKLOAD,
        ("batch", "CronJob") => &CRON_JOB,
        ("", "Namespace" | "PersistentVolumeClaim")
        | ("policy", "PodDisruptionBudget")
        | ("autoscaling", "HorizontalPodAutoscaler")
        | ("apiregistration.k8s.io", "APIService") => &WITH_CONDITIONS,
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
        ) => &WEBHOOKS,
        _ => &ONLY_META,
    };
    Some(keys)
}
