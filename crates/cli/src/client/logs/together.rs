//! One request for all who ask at the same time: a job may have a thousand replicas, and each of them is followed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use tokio::sync::Mutex;

use crate::client::cluster::Cluster;
use crate::client::fields::name;
use crate::client::pages::{Listed, Pages};
use crate::client::resource::Resource;
use crate::client::target::Job;

/// The pods of a job, by name.
pub(super) type Pods = BTreeMap<String, Value>;

/// The pods of a job as they are now.
pub(super) async fn pods_of(cluster: &Cluster, job: &Job) -> anyhow::Result<Pods> {
    let selector = format!("{}={}", trainyard_api::labels::JOB_NAME, job.name());
    let resource = Resource::pods();
    let listed = Listed { resource: &resource, namespace: Some(job.namespace()), selector: &selector };
    let mut pages = Pages::of(cluster, listed);
    let mut pods = Pods::new();
    while let Some(page) = pages.next().await? {
        for json in page {
            let pod: Value = serde_json::from_str(json.get())?;
            pods.insert(name(&pod).to_owned(), pod);
        }
    }
    Ok(pods)
}

/// Something that many read. Each gets an answer that is no older than the question.
#[derive(Default)]
pub(super) struct Together<T> {
    questions: AtomicU64,
    /// The last answer, and the last question that came before it was asked for.
    last: Mutex<(u64, Option<Arc<T>>)>,
}

impl<T> Together<T> {
    /// The answer to a question that is asked now. While somebody reads, all others wait, and one of them reads for all
    /// that came meanwhile.
    pub(super) async fn read(&self, read: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<Arc<T>> {
        let question = self.questions.fetch_add(1, Ordering::SeqCst) + 1;
        let mut last = self.last.lock().await;
        if let (answered, Some(answer)) = &*last
            && *answered >= question
        {
            return Ok(Arc::clone(answer));
        }
        let asked = self.questions.load(Ordering::SeqCst);
        let answer = Arc::new(read.await?);
        *last = (asked, Some(Arc::clone(&answer)));
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_thousand_questions_are_two_requests() {
        let (together, requests) = (Together::default(), AtomicU64::new(0));
        let ask = || {
            together.read(async {
                let number = requests.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                Ok(number)
            })
        };
        join_all((0..1000).map(|_| ask())).await;
        assert!(requests.load(Ordering::SeqCst) <= 2, "{requests:?}");
        let before = requests.load(Ordering::SeqCst);
        assert_eq!(*ask().await.unwrap(), before, "a later question gets a newer answer");
    }

    #[tokio::test]
    async fn a_failure_is_nobodys_answer() {
        let together = Together::default();
        assert!(together.read(async { anyhow::bail!("no") }).await.is_err());
        assert_eq!(*together.read(async { Ok(7) }).await.unwrap(), 7);
    }
}
