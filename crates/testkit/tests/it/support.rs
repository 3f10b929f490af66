//! What tests of lives share.

use serde_json::Value;
use trainyard_testkit::{Crds, Plane, PodInfo, PodScript};

/// Makes a test of every function named: once with the definitions we ship, once with those of the operator we
/// replace. Both are found on clusters, so everything that matters must hold under both.
#[macro_export]
macro_rules! under_both {
    ($($name:ident),* $(,)?) => {
        mod ours {
            $(#[tokio::test(start_paused = true)]
            async fn $name() {
                super::$name(trainyard_testkit::Crds::Ours).await;
            })*
        }
        mod upstream {
            $(#[tokio::test(start_paused = true)]
            async fn $name() {
                super::$name(trainyard_testkit::Crds::Upstream).await;
            })*
        }
    };
}

/// A plane with these definitions and scripts.
pub(crate) async fn plane(
    crds: Crds,
    scripts: impl Fn(&PodInfo) -> PodScript + Send + Sync + 'static,
) -> Plane {
    Plane::builder().crds(crds).scripts(scripts).start().await
}

/// Names of objects.
pub(crate) fn names(objects: &[Value]) -> Vec<&str> {
    objects.iter().map(trainyard_testkit::rest::name).collect()
}

/// The value of a variable in the first container of a pod.
pub(crate) fn env<'a>(pod: &'a Value, name: &str) -> Option<&'a str> {
    let env = pod.pointer("/spec/containers/0/env")?.as_array()?;
    env.iter().find(|entry| entry["name"] == name)?["value"].as_str()
}

/// Seconds between two time stamps of objects.
pub(crate) fn seconds(from: &Value, to: &Value) -> i64 {
    let read = |value: &Value| -> jiff::Timestamp { value.as_str().unwrap().parse().unwrap() };
    read(to).duration_since(read(from)).as_secs()
}

/// A runtime of its own: for tests that run many planes at once, or one after the other on the same files.
pub(crate) fn in_virtual_time<T>(work: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap().block_on(work)
}
