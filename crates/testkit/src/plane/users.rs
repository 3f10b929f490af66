//! What users and administrators do to the objects of a plane, wisely or not.

use serde_json::{Value, json};
use trainyard_api::labels;

use super::Plane;
use crate::rest::{self, text};

/// How many bytes the annotations of an object may have.
const MOST_ANNOTATIONS: usize = 256 * 1024;
/// An annotation of a user who has a lot to say.
const NOTES: &str = "example.com/notes";

impl Plane {
    /// Sets `runPolicy.suspend`.
    pub async fn suspend(&self, kind: &str, name: &str, suspend: bool) {
        self.patch(kind, name, json!({ "spec": { "runPolicy": { "suspend": suspend } } })).await;
    }

    /// Sets the number of replicas of a type.
    pub async fn scale(&self, kind: &str, name: &str, role: &str, replicas: u32) {
        let specs = self.kind(kind).replica_specs;
        self.patch(kind, name, json!({ "spec": { specs: { role: { "replicas": replicas } } } })).await;
    }

    /// Creates a job under another name from all that is stored of this one, status included.
    pub async fn copy(&self, kind: &str, name: &str, to: &str) -> Value {
        let mut job = self.job(kind, name).await.expect("the job is there");
        let metadata = job["metadata"].as_object_mut().expect("objects have metadata");
        metadata.retain(|field, _| ["namespace", "labels", "annotations"].contains(&field.as_str()));
        metadata.insert("name".into(), to.into());
        self.create(job).await
    }

    /// Removes all annotations of a job, as `kubectl replace` does with a manifest that has none.
    pub async fn strip(&self, kind: &str, name: &str) {
        self.patch(kind, name, json!({ "metadata": { "annotations": null } })).await;
    }

    /// Overwrites the operator's record of a job.
    pub async fn forge_record(&self, kind: &str, name: &str, record: &str) {
        self.annotate(kind, name, labels::RECORD, record).await;
    }

    /// Fills the annotations of a job up to `room` bytes below what an object may have.
    pub async fn fill_annotations(&self, kind: &str, name: &str, room: usize) {
        let job = self.job(kind, name).await.expect("the job is there");
        let stored = job.pointer("/metadata/annotations").and_then(Value::as_object);
        let others = stored.into_iter().flatten().filter(|(key, _)| *key != NOTES);
        let size = |(key, value): (&String, &Value)| key.len() + value.as_str().map_or(0, str::len);
        let taken: usize = others.map(size).sum::<usize>() + NOTES.len() + room;
        let notes = "x".repeat(MOST_ANNOTATIONS.saturating_sub(taken));
        self.annotate(kind, name, NOTES, &notes).await;
    }

    /// Sets an annotation. If there is no room for it, the server refuses it, and the user leaves it at that.
    async fn annotate(&self, kind: &str, name: &str, key: &str, value: &str) {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        let _ = self.rest.merge(&self.path(kind, name), &patch).await;
    }

    /// Takes back what [`Self::fill_annotations`] did.
    pub async fn clear_annotations(&self, kind: &str, name: &str) {
        self.patch(kind, name, json!({ "metadata": { "annotations": { NOTES: null } } })).await;
    }

    /// Deletes a job as `kubectl delete` does.
    pub async fn delete(&self, kind: &str, name: &str) {
        let options = json!({ "propagationPolicy": "Background" });
        self.rest.delete(&self.path(kind, name), &options).await.expect("the job is deleted");
    }

    /// Deletes a pod as `kubectl delete pod` does.
    pub async fn delete_pod(&self, pod: &str) {
        let path = rest::pod("default", pod);
        self.rest.delete(&path, &json!({})).await.expect("the pod is deleted");
    }

    /// Drains a pod as `kubectl drain` does: the server marks the pod, and asks it to end.
    pub async fn drain_pod(&self, pod: &str) {
        let path = rest::pod("default", pod);
        let stored = self.rest.get(&path).await.expect("the pod is there");
        let mut conditions = stored["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.retain(|condition| text(condition, "/type") != "DisruptionTarget");
        conditions.push(json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "lastTransitionTime": crate::kubelet::stamp(self.now()),
        }));
        let marked = json!({ "status": { "conditions": conditions } });
        self.rest.merge(&format!("{path}/status"), &marked).await.expect("the pod is marked");
        let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": pod } });
        self.rest.post(&format!("{path}/eviction"), &eviction).await.expect("the pod is evicted");
    }
}
