//! Label, annotation and finalizer keys. Values others select on: they never change.

/// Names the controller that made a child, for example `tfjob-controller`.
pub const OPERATOR_NAME: &str = "training.kubeflow.org/operator-name";
/// The job a child belongs to.
pub const JOB_NAME: &str = "training.kubeflow.org/job-name";
/// Replica type in lower case, for example `worker`.
pub const REPLICA_TYPE: &str = "training.kubeflow.org/replica-type";
/// Decimal index of the replica within its type.
pub const REPLICA_INDEX: &str = "training.kubeflow.org/replica-index";
/// `master` on the pod whose end decides, absent elsewhere.
pub const JOB_ROLE: &str = "training.kubeflow.org/job-role";
/// The value of [`JOB_ROLE`].
pub const JOB_ROLE_MASTER: &str = "master";

/// What the names of all annotations and finalizers of this operator begin with.
pub const PREFIX: &str = "trainyard.dev/";
/// The planner's memory of a job: small, versioned JSON, on the job itself. It is an annotation and not a status
/// field because clusters may keep the CRDs of another operator, which prune status fields they do not know.
pub const RECORD: &str = "trainyard.dev/record";
/// On a pod: which attempt of the whole job it belongs to. Absent means 0.
pub const ATTEMPT: &str = "trainyard.dev/attempt";
/// On a pod: how often this one replica was replaced within the attempt. Absent means 0.
pub const INCARNATION: &str = "trainyard.dev/incarnation";
/// On a pod: how many restarts had used the job's budget when the pod was created. A job that loses its record learns from
/// this number what was used.
pub const USED: &str = "trainyard.dev/restarts-used";
/// On a pod: the host ports of its attempt, as `first-last`. A job that loses its record keeps its ports by this.
pub const PORTS: &str = "trainyard.dev/ports";
/// On a pod: how many pods must be placed together, for a node that schedules gangs.
pub const GANG_SIZE: &str = "trainyard.dev/gang-size";
/// A finalizer of pods: they stay until what became of them is written down.
pub const TRACKING: &str = "trainyard.dev/tracking";
/// On a job: `job` restarts all replicas together, `replica` (default) only the failed one.
pub const RESTART_SCOPE: &str = "trainyard.dev/restart-scope";
/// On a job: seconds after its start, or after it was resumed, within which all replicas must have started.
pub const START_DEADLINE: &str = "trainyard.dev/start-deadline-seconds";
/// On a job: `"true"` gives replicas with `hostNetwork` ports of a block that no other job has.
pub const HOST_PORTS: &str = "trainyard.dev/host-ports";
/// On a job: `"true"` lets preemption, eviction and node loss use the restart budget too.
pub const COUNT_INFRASTRUCTURE_FAILURES: &str = "trainyard.dev/count-infrastructure-failures";

/// Values of `runPolicy.managedBy` that a controller knows.
pub mod managed_by {
    /// This operator (or the one it replaces).
    pub const TRAINING_OPERATOR: &str = "kubeflow.org/training-operator";
    /// Another cluster runs the job; nothing is done here.
    pub const MULTIKUEUE: &str = "kueue.x-k8s.io/multikueue";
}
