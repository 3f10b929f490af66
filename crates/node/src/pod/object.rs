//! What a worker writes into the API: the pod's status, and its end.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Error};
use serde_json::json;

use super::look;
use super::worker::{RETRY, Worker};

impl Worker {
    /// The pod with the status that was written last, which the watch may not have brought back yet.
    pub(super) fn as_written(&self, pod: &Pod) -> Pod {
        let mut pod = pod.clone();
        if let Some(written) = &self.written {
            let others = pod.status.take().unwrap_or_default();
            pod.status = Some(PodStatus { conditions: others.conditions, ..written.clone() });
            let begun = written.conditions.clone().unwrap_or_default();
            if let Some(status) = &mut pod.status {
                let conditions = status.conditions.get_or_insert_default();
                conditions.retain(|c| begun.iter().all(|own| own.type_ != c.type_));
                conditions.extend(begun);
            }
        }
        pod
    }

    /// Writes the status if it is another than before.
    pub(super) async fn report(&mut self, pod: &Pod, status: &PodStatus) -> Result<(), Error> {
        let before = self.as_written(pod).status.unwrap_or_default();
        let value = |status: &PodStatus| serde_json::to_value(status).unwrap_or_default();
        if value(&before) == value(status) {
            return Ok(());
        }
        let patch = json!({
            "metadata": { "uid": self.uid },
            "status": look::with_nulls(value(&before), value(status)),
        });
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        self.api(pod).patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        self.written = Some(status.clone());
        Ok(())
    }

    pub(super) async fn remove(&self, pod: &Pod) {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let params = DeleteParams::default()
            .grace_period(0)
            .preconditions(Preconditions { uid: Some(self.uid.clone()), resource_version: None });
        match self.api(pod).delete(name, &params).await {
            Ok(_) => {}
            Err(Error::Api(status)) if status.is_not_found() || status.is_conflict() => {}
            Err(error) => {
                tracing::warn!(pod = name, %error, "cannot remove a pod that has ended; will retry");
                let news = Arc::clone(&self.news);
                tokio::spawn(async move {
                    tokio::time::sleep(RETRY).await;
                    news.notify_one();
                });
            }
        }
    }

    fn api(&self, pod: &Pod) -> Api<Pod> {
        Api::namespaced(self.shared.client.clone(), pod.metadata.namespace.as_deref().unwrap_or_default())
    }
}
