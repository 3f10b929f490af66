//! The other objects a pod is made from: ConfigMaps, Secrets, claims.
//!
//! What builds environments and volumes looks them up at once and does not wait. So the node first asks [`references`]
//! what a pod mentions, fetches that, and hands over what it got.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    ConfigMap, Container, PersistentVolumeClaim, Pod, PodSpec, Secret, Volume, VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Objects by namespace and name; `None` is one that does not exist.
pub trait Sources {
    /// A ConfigMap.
    fn config_map(&self, namespace: &str, name: &str) -> Option<ConfigMap>;
    /// A Secret.
    fn secret(&self, namespace: &str, name: &str) -> Option<Secret>;
    /// A claim to storage.
    fn claim(&self, namespace: &str, name: &str) -> Option<PersistentVolumeClaim>;
    /// A token of the pod's service account for somebody; the API server itself if that is empty.
    fn token(&self, audience: &str) -> Option<String>;
}

/// Objects that were fetched before, by namespace and name.
#[derive(Clone, Debug, Default)]
pub struct Fetched {
    /// ConfigMaps.
    pub config_maps: BTreeMap<(String, String), ConfigMap>,
    /// Secrets.
    pub secrets: BTreeMap<(String, String), Secret>,
    /// Claims.
    pub claims: BTreeMap<(String, String), PersistentVolumeClaim>,
    /// Tokens of the pod's service account, by whom they are for.
    pub tokens: BTreeMap<String, String>,
}

impl Sources for Fetched {
    fn config_map(&self, namespace: &str, name: &str) -> Option<ConfigMap> {
        self.config_maps.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    fn secret(&self, namespace: &str, name: &str) -> Option<Secret> {
        self.secrets.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    fn claim(&self, namespace: &str, name: &str) -> Option<PersistentVolumeClaim> {
        self.claims.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    fn token(&self, audience: &str) -> Option<String> {
        self.tokens.get(audience).cloned()
    }
}

/// How long a token lasts for which nothing is said.
const TOKEN_SECONDS: i64 = 3600;

/// For whom a pod wants tokens of its service account, and for how many seconds.
pub(crate) fn tokens(pod: &Pod) -> BTreeMap<&str, i64> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let parts = volumes.filter_map(|volume| volume.projected.as_ref()?.sources.as_ref()).flatten();
    let tokens = parts.filter_map(|part| part.service_account_token.as_ref());
    let mut wanted = BTreeMap::new();
    for token in tokens {
        let seconds = token.expiration_seconds.unwrap_or(TOKEN_SECONDS);
        let shortest = wanted.entry(token.audience.as_deref().unwrap_or_default()).or_insert(seconds);
        *shortest = seconds.min(*shortest);
    }
    wanted
}

/// What a pod is told about where it runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeFacts {
    /// `status.hostIP`.
    pub host_ip: String,
    /// `status.podIP`.
    pub pod_ip: String,
    /// `spec.nodeName`.
    pub node_name: String,
    /// What stands in for a limit that is not set.
    pub allocatable: BTreeMap<String, Quantity>,
}

/// A kind of object that pods refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReferenceKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
    /// A claim to storage.
    Claim,
}

/// An object that a pod refers to, in its own namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Its kind.
    pub kind: ReferenceKind,
    /// Its name.
    pub name: String,
    /// The pod runs without it too.
    pub optional: bool,
}

/// Every object the pod refers to, once; optional only if it is so everywhere.
pub fn references(pod: &Pod) -> Vec<Reference> {
    let mut found = Found::default();
    if let Some(spec) = &pod.spec {
        spec.containers().for_each(|container| found.in_container(container));
        spec.volumes.iter().flatten().for_each(|volume| found.in_volume(volume));
    }
    let reference = |((kind, name), optional)| Reference { kind, name, optional };
    found.0.into_iter().map(reference).collect()
}

#[derive(Default)]
struct Found(BTreeMap<(ReferenceKind, String), bool>);

impl Found {
    fn add(&mut self, kind: ReferenceKind, name: &str, optional: Option<bool>) {
        let optional = optional == Some(true);
        let entry = self.0.entry((kind, name.to_owned())).or_insert(optional);
        *entry = *entry && optional;
    }

    fn in_container(&mut self, container: &Container) {
        use ReferenceKind::{ConfigMap, Secret};
        for source in container.env_from.iter().flatten() {
            if let Some(map) = &source.config_map_ref {
                self.add(ConfigMap, &map.name, map.optional);
            }
            if let Some(secret) = &source.secret_ref {
                self.add(Secret, &secret.name, secret.optional);
            }
        }
        for source in container.env.iter().flatten().filter_map(|env| env.value_from.as_ref()) {
            if let Some(key) = &source.config_map_key_ref {
                self.add(ConfigMap, &key.name, key.optional);
            }
            if let Some(key) = &source.secret_key_ref {
                self.add(Secret, &key.name, key.optional);
            }
        }
    }

    fn in_volume(&mut self, volume: &Volume) {
        if let Some(map) = &volume.config_map {
            self.add(ReferenceKind::ConfigMap, &map.name, map.optional);
        }
        if let Some(secret) = &volume.secret {
            self.add(
                ReferenceKind::Secret,
                secret.secret_name.as_deref().unwrap_or_default(),
                secret.optional,
            );
        }
        if let Some(claim) = &volume.persistent_volume_claim {
            self.add(ReferenceKind::Claim, &claim.claim_name, None);
        }
        let projected = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
        projected.for_each(|source| self.in_projection(source));
    }

    fn in_projection(&mut self, source: &VolumeProjection) {
        if let Some(map) = &source.config_map {
            self.add(ReferenceKind::ConfigMap, &map.name, map.optional);
        }
        if let Some(secret) = &source.secret {
            self.add(ReferenceKind::Secret, &secret.name, secret.optional);
        }
    }
}

/// Every container of a pod with the field it stands in, for messages.
pub fn containers_by_field(spec: &PodSpec) -> impl Iterator<Item = (String, &Container)> {
    let list = |name: &'static str| move |(index, container)| (format!("spec.{name}[{index}]"), container);
    let init = spec.init_containers.iter().flatten().enumerate().map(list("initContainers"));
    init.chain(spec.containers.iter().enumerate().map(list("containers")))
}

/// Every container of a pod, in the order they start.
pub(crate) trait AllContainers {
    fn containers(&self) -> impl Iterator<Item = &Container>;
}

impl AllContainers for PodSpec {
    fn containers(&self) -> impl Iterator<Item = &Container> {
        self.init_containers.iter().flatten().chain(&self.containers)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn everything_a_pod_mentions_is_found_once() {
        let pod: Pod = serde_json::from_value(json!({ "metadata": {}, "spec": {
            "initContainers": [{ "name": "i", "envFrom": [{ "configMapRef": { "name": "a", "optional": true } }] }],
            "containers": [{ "name": "c",
                "envFrom": [{ "secretRef": { "name": "s" } }],
                "env": [
                    { "name": "X", "valueFrom": { "configMapKeyRef": { "name": "a", "key": "k" } } },
                    { "name": "Y", "valueFrom": { "secretKeyRef": { "name": "t", "key": "k", "optional": true } } },
                ] }],
            "volumes": [
                { "name": "v", "configMap": { "name": "b" } },
                { "name": "w", "secret": { "secretName": "s" } },
                { "name": "x", "persistentVolumeClaim": { "claimName": "data" } },
                { "name": "y", "projected": { "sources": [{ "secret": { "name": "u" } }, { "configMap": { "name": "d" } }] } },
            ],
        } }))
        .unwrap();
        let found: Vec<String> =
            references(&pod).iter().map(|r| format!("{:?} {} {}", r.kind, r.name, r.optional)).collect();
        let expected = [
            "ConfigMap a false",
            "ConfigMap b false",
            "ConfigMap d false",
            "Secret s false",
            "Secret t true",
            "Secret u false",
            "Claim data false",
        ];
        assert_eq!(found, expected);
    }
}
