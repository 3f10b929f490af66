//! What a plan asks for. Data, so that a plan can be printed, compared and carried out in any order.

use std::fmt;

use serde_json::Value;

/// A Kubernetes resource that children are made of.
#[derive(Debug, PartialEq, Eq)]
pub struct Resource {
    /// API group, empty for core.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// `Pod`.
    pub kind: &'static str,
    /// `pods`.
    pub plural: &'static str,
}

const RBAC: &str = "rbac.authorization.k8s.io";

impl Resource {
    /// Pods.
    pub const POD: Self = Self { group: "", version: "v1", kind: "Pod", plural: "pods" };
    /// Services.
    pub const SERVICE: Self = Self { group: "", version: "v1", kind: "Service", plural: "services" };
    /// Configuration.
    pub const CONFIG_MAP: Self = Self { group: "", version: "v1", kind: "ConfigMap", plural: "configmaps" };
    /// Who a pod is.
    pub const SERVICE_ACCOUNT: Self =
        Self { group: "", version: "v1", kind: "ServiceAccount", plural: "serviceaccounts" };
    /// What somebody may do.
    pub const ROLE: Self = Self { group: RBAC, version: "v1", kind: "Role", plural: "roles" };
    /// Who may do it.
    pub const ROLE_BINDING: Self =
        Self { group: RBAC, version: "v1", kind: "RoleBinding", plural: "rolebindings" };
    /// Scales a job by its metrics.
    pub const AUTOSCALER: Self = Self {
        group: "autoscaling",
        version: "v2",
        kind: "HorizontalPodAutoscaler",
        plural: "horizontalpodautoscalers",
    };
    /// A gang, as Volcano knows it.
    pub const VOLCANO_GANG: Self =
        Self { group: "scheduling.volcano.sh", version: "v1beta1", kind: "PodGroup", plural: "podgroups" };
    /// A gang, as the scheduler plugins know it.
    pub const PLUGINS_GANG: Self =
        Self { group: "scheduling.x-k8s.io", version: "v1alpha1", kind: "PodGroup", plural: "podgroups" };
    /// The record of the job itself: no resource of its own, but a part that may be refused.
    pub const RECORD: Self = Self { group: "", version: "", kind: "Record", plural: "" };
    /// The status of the job itself, likewise.
    pub const STATUS: Self = Self { group: "", version: "", kind: "Status", plural: "" };

    /// True for a part of the job itself.
    pub fn is_of_the_job(&self) -> bool {
        self.plural.is_empty()
    }

    /// `v1`, `autoscaling/v2`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.into() } else { format!("{}/{}", self.group, self.version) }
    }
}

/// One object to be created. Its name is fixed, so creating it twice is harmless.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    /// What it is.
    pub what: &'static Resource,
    /// Its name.
    pub name: String,
    /// The whole object as it is sent.
    pub body: Value,
}

/// Why something is deleted; becomes part of the event and of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The job has ended.
    CleanUp,
    /// The user suspended the job.
    Suspended,
    /// The spec asks for fewer replicas.
    ScaledDown,
    /// A newer pod takes its place.
    Replaced,
    /// Its node is gone and will not end it.
    NodeLost,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CleanUp => "the job has ended",
            Self::Suspended => "the job is suspended",
            Self::ScaledDown => "the job was scaled down",
            Self::Replaced => "it is replaced",
            Self::NodeLost => "its node is lost",
        })
    }
}

/// One thing to do. A crash may leave any subset of a plan's actions done; each is safe alone.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Create it; if it exists and is ours, that is success.
    Create(Child),
    /// Delete exactly this object and never a successor of the same name.
    Delete {
        /// What it is.
        what: &'static Resource,
        /// Its name.
        name: String,
        /// Its identity, sent as a precondition.
        uid: String,
        /// Without waiting for its node.
        force: bool,
        /// For the event.
        why: Why,
    },
    /// Put a child right: labels that somebody removed, a gang that changed its size, a deadline that ends a pod.
    Amend {
        /// What it is.
        what: &'static Resource,
        /// Its name.
        name: String,
        /// Its identity.
        uid: String,
        /// A merge patch.
        patch: Value,
    },
    /// Let a pod go that was kept until its end was written down.
    Release {
        /// Its name.
        name: String,
        /// Its identity.
        uid: String,
    },
    /// Delete the job: its time to live is over.
    DeleteJob {
        /// The job's identity.
        uid: String,
    },
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(child) => write!(f, "create {} {}", child.what.kind, child.name),
            Self::Delete { what, name, uid, force, why } => {
                let how = if *force { " by force" } else { "" };
                write!(f, "delete {} {name} ({uid}){how} because {why}", what.kind)
            }
            Self::Amend { what, name, uid, .. } => write!(f, "amend {} {name} ({uid})", what.kind),
            Self::Release { name, uid } => write!(f, "release Pod {name} ({uid})"),
            Self::DeleteJob { uid } => write!(f, "delete the job ({uid})"),
        }
    }
}
