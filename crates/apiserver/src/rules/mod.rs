//! What a request makes of an object: pure functions from the stored object and the request to an outcome.

pub(crate) mod admit;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod log;
pub(crate) mod scale;
pub(crate) mod stream;
pub(crate) mod track;
pub(crate) mod update;

/// The finalizer of a deletion that waits for dependents.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of a deletion that lets dependents go first.
pub(crate) const ORPHAN: &str = "orphan";
/// The finalizer that keeps a definition until its objects are gone.
pub(crate) const CRD_CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
