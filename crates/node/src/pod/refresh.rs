//! Volumes that follow what they are made from: a ConfigMap or Secret that changes changes in running containers too.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Volume};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::start;
use crate::fetch::{Tokens, fetch};
use crate::files::Lane;
use crate::shared::Shared;

/// How often is looked. A kubelet takes up to a minute; here a look costs a few microseconds.
const PERIOD: Duration = Duration::from_secs(10);

/// Keeps a pod's volumes up to date until it is dropped.
pub(super) type Refresher = AbortOnDropHandle<()>;

/// Whether there is something in the pod that can change.
pub(super) fn is_needed(pod: &Pod) -> bool {
    pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()).any(follows)
}

fn follows(volume: &Volume) -> bool {
    volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.projected.is_some()
        || volume.downward_api.is_some()
}

pub(super) fn start(
    shared: &Arc<Shared>,
    uid: &str,
    lane: &Lane,
    pod: watch::Receiver<Option<Arc<Pod>>>,
) -> Refresher {
    let (shared, uid, lane) = (Arc::clone(shared), uid.to_owned(), lane.clone());
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut tokens = Tokens::new(shared.options.clock.clone());
        loop {
            tokio::time::sleep(PERIOD).await;
            let Some(pod) = pod.borrow().clone() else { return };
            let pod = start::trimmed(&shared, &lane, &pod).await;
            refresh(&shared, &uid, &lane, &pod, &mut tokens).await;
        }
    }))
}

/// What is gone or cannot be written leaves the volume as it was: programs go on with what they have.
async fn refresh(shared: &Arc<Shared>, uid: &str, lane: &Lane, pod: &Arc<Pod>, tokens: &mut Tokens) {
    let sources = match fetch(&shared.client, pod, tokens).await {
        Ok(sources) => sources,
        Err(error) => {
            return tracing::debug!(uid, %error, "cannot look at what a pod's volumes are made from");
        }
    };
    let tenant = match shared.tenant(pod).await {
        Ok(tenant) => tenant,
        Err(error) => return tracing::debug!(uid, %error, "cannot tell whom a pod's volumes are for"),
    };
    let (own, made_for, of) = (Arc::clone(shared), Arc::clone(pod), uid.to_owned());
    let made = start::in_lane(lane, pod, move || {
        start::volumes_of(&own, &made_for, &of, tenant.as_ref(), &sources).map(drop)
    });
    let made = made.await.map_err(|error| error.to_string());
    if let Err(why) = made.and_then(|made| made.map_err(|error| error.to_string())) {
        tracing::debug!(uid, why, "cannot bring a pod's volumes up to date");
    }
}
