//! Condition and event reasons. A condition's reason is the kind's name followed by one of the suffixes.

/// Suffixes of condition reasons: `TFJob` + `Created` = `TFJobCreated`.
pub mod suffix {
    /// The job was seen for the first time.
    pub const CREATED: &str = "Created";
    /// The deciding replica runs.
    pub const RUNNING: &str = "Running";
    /// The job ended well.
    pub const SUCCEEDED: &str = "Succeeded";
    /// The job ended badly.
    pub const FAILED: &str = "Failed";
    /// A replica failed and is replaced.
    pub const RESTARTING: &str = "Restarting";
    /// The user suspended the job.
    pub const SUSPENDED: &str = "Suspended";
    /// The user resumed the job.
    pub const RESUMED: &str = "Resumed";
    /// No node has room for a pod, or none that it may run on.
    pub const UNSCHEDULABLE: &str = "Unschedulable";
    /// An image cannot be had.
    pub const IMAGE: &str = "ImageUnavailable";
    /// Something a container is configured with is missing.
    pub const CONFIG: &str = "ContainerConfig";
    /// A quota is used up.
    pub const QUOTA: &str = "QuotaExceeded";
    /// The API server refuses a child.
    pub const REFUSED: &str = "ChildRefused";
    /// The API server refuses the record of the job, without which no replica is replaced.
    pub const RECORD: &str = "RecordRefused";
    /// A gang scheduler has not let the job in.
    pub const GANG: &str = "GangWaiting";
    /// Something that replicas need is not there yet.
    pub const NEEDS: &str = "NotReady";
    /// A container ends again and again.
    pub const CRASHES: &str = "ReplicaCrashes";
    /// An option that comes as an annotation has no meaning.
    pub const INVALID_ANNOTATION: &str = "InvalidAnnotation";
    /// The object does not decode or breaks a rule.
    pub const INVALID_SPEC: &str = "InvalidSpec";
}

/// Event reasons that do not carry the kind's name.
pub mod event {
    /// Pods were created.
    pub const CREATED_POD: &str = "SuccessfulCreatePod";
    /// A pod could not be created.
    pub const FAILED_CREATE_POD: &str = "FailedCreatePod";
    /// Pods were deleted.
    pub const DELETED_POD: &str = "SuccessfulDeletePod";
    /// A pod could not be deleted.
    pub const FAILED_DELETE_POD: &str = "FailedDeletePod";
    /// Services were created.
    pub const CREATED_SERVICE: &str = "SuccessfulCreateService";
    /// A service could not be created.
    pub const FAILED_CREATE_SERVICE: &str = "FailedCreateService";
    /// Services were deleted.
    pub const DELETED_SERVICE: &str = "SuccessfulDeleteService";
    /// A service could not be deleted.
    pub const FAILED_DELETE_SERVICE: &str = "FailedDeleteService";
    /// The job's time to live after its end is over.
    pub const DELETED_JOB: &str = "SuccessfulDeleteJob";
    /// The job could not be deleted.
    pub const FAILED_DELETE_JOB: &str = "FailedDeleteJob";
    /// The gang of a job that needs it no more was deleted.
    pub const DELETED_GANG: &str = "SuccessfulDeletePodGroup";
    /// The record of the job could not be written.
    pub const FAILED_UPDATE_RECORD: &str = "FailedUpdateRecord";
    /// The status of the job could not be written.
    pub const FAILED_UPDATE_STATUS: &str = "FailedUpdateStatus";
    /// An object that the job needs exists and belongs to somebody else.
    pub const RESOURCE_EXISTS: &str = "ErrResourceExists";
    /// The replica that failed first, and how.
    pub const FIRST_FAILURE: &str = "FirstFailure";
    /// A container of the deciding name ended.
    pub const EXITED_WITH_CODE: &str = "ExitedWithCode";
    /// `schedulerName` inside a pod template names another scheduler than the operator's.
    pub const TEMPLATE_SCHEDULER: &str = "SetPodTemplateSchedulerName";
    /// `restartPolicy` inside a pod template has no effect.
    pub const TEMPLATE_RESTART_POLICY: &str = "SetPodTemplateRestartPolicy";
}
