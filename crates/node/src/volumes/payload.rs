//! Volumes that are made of files: what is in them.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, DownwardAPIVolumeFile, DownwardAPIVolumeSource, KeyToPath, Pod,
    ProjectedVolumeSource, SecretVolumeSource, VolumeProjection,
};

use crate::env::{field, resource, secret_data};
use crate::sources::{NodeFacts, Sources};

const DEFAULT_MODE: i32 = 0o644;

/// Files by their path in the volume.
pub(super) type Payload = BTreeMap<String, File>;

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct File {
    pub(super) content: Vec<u8>,
    pub(super) mode: u32,
}

/// Where the content comes from.
#[derive(Clone, Copy)]
pub(super) struct From<'a> {
    pub(super) pod: &'a Pod,
    pub(super) sources: &'a dyn Sources,
    pub(super) node: &'a NodeFacts,
}

/// What is to be had of one ConfigMap or Secret.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    what: &'static str,
    name: &'a str,
    optional: bool,
    items: Option<&'a Vec<KeyToPath>>,
    mode: i32,
}

impl From<'_> {
    pub(super) fn config_map_volume(&self, source: &ConfigMapVolumeSource) -> Result<Payload, String> {
        self.config_map(Wanted {
            what: "configmap",
            name: &source.name,
            optional: source.optional == Some(true),
            items: source.items.as_ref(),
            mode: source.default_mode.unwrap_or(DEFAULT_MODE),
        })
    }

    pub(super) fn secret_volume(&self, source: &SecretVolumeSource) -> Result<Payload, String> {
        self.secret(Wanted {
            what: "secret",
            name: source.secret_name.as_deref().unwrap_or_default(),
            optional: source.optional == Some(true),
            items: source.items.as_ref(),
            mode: source.default_mode.unwrap_or(DEFAULT_MODE),
        })
    }

    pub(super) fn downward_volume(&self, source: &DownwardAPIVolumeSource) -> Result<Payload, String> {
        self.downward(source.items.as_ref(), source.default_mode.unwrap_or(DEFAULT_MODE))
    }

    /// Several in one directory; where two want the same path the later one has it.
    pub(super) fn projected_volume(&self, source: &ProjectedVolumeSource) -> Result<Payload, String> {
        let mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        let mut payload = Payload::new();
        for part in source.sources.iter().flatten() {
            payload.extend(self.projection(part, mode)?);
        }
        Ok(payload)
    }

    fn projection(&self, part: &VolumeProjection, mode: i32) -> Result<Payload, String> {
        if let Some(map) = &part.config_map {
            let (name, optional) = (map.name.as_str(), map.optional == Some(true));
            let items = map.items.as_ref();
            return self.config_map(Wanted { what: "configmap", name, optional, items, mode });
        }
        if let Some(secret) = &part.secret {
            let (name, optional) = (secret.name.as_str(), secret.optional == Some(true));
            let items = secret.items.as_ref();
            return self.secret(Wanted { what: "secret", name, optional, items, mode });
        }
        if let Some(downward) = &part.downward_api {
            return self.downward(downward.items.as_ref(), mode);
        }
        if let Some(token) = &part.service_account_token {
            let content = self.sources.token(token.audience.as_deref().unwrap_or_default());
            let content = content.ok_or_else(|| self.no_token())?.into_bytes();
            return Ok(Payload::from([(checked(&token.path)?, File { content, mode: permissions(mode) })]));
        }
        let value = serde_json::to_value(part).unwrap_or_default();
        let kind = value.as_object().and_then(|map| map.keys().next().cloned()).unwrap_or_default();
        Err(format!(
            "a projected {kind} is not supported on one machine; use a configMap, a secret, a serviceAccountToken or downwardAPI"
        ))
    }

    fn no_token(&self) -> String {
        let account = self.pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref());
        format!("there is no token for serviceaccount {:?}", account.unwrap_or("default"))
    }

    fn namespace(&self) -> &str {
        self.pod.metadata.namespace.as_deref().unwrap_or_default()
    }

    fn config_map(&self, wanted: Wanted<'_>) -> Result<Payload, String> {
        let found = self.sources.config_map(self.namespace(), wanted.name);
        choose(found.map(bytes_of), wanted)
    }

    fn secret(&self, wanted: Wanted<'_>) -> Result<Payload, String> {
        let found = self.sources.secret(self.namespace(), wanted.name);
        let bytes = |data: BTreeMap<String, ByteString>| {
            data.into_iter().map(|(key, value)| (key, value.0)).collect()
        };
        choose(found.map(|secret| bytes(secret_data(secret))), wanted)
    }

    fn downward(&self, items: Option<&Vec<DownwardAPIVolumeFile>>, mode: i32) -> Result<Payload, String> {
        let mut payload = Payload::new();
        for item in items.into_iter().flatten() {
            let content = match (&item.field_ref, &item.resource_field_ref) {
                (Some(reference), _) => field(self.pod, self.node, &reference.field_path)?,
                (None, Some(reference)) => {
                    let container = reference.container_name.as_deref().unwrap_or_default();
                    resource(self.pod, container, self.node, reference)?
                }
                (None, None) => return Err(format!("downwardAPI item {:?} refers to nothing", item.path)),
            };
            let file = File { content: content.into_bytes(), mode: permissions(item.mode.unwrap_or(mode)) };
            payload.insert(checked(&item.path)?, file);
        }
        Ok(payload)
    }
}

fn bytes_of(map: ConfigMap) -> BTreeMap<String, Vec<u8>> {
    let texts = map.data.unwrap_or_default().into_iter().map(|(key, text)| (key, text.into_bytes()));
    let binaries = map.binary_data.unwrap_or_default().into_iter().map(|(key, bytes)| (key, bytes.0));
    texts.chain(binaries).collect()
}

fn choose(found: Option<BTreeMap<String, Vec<u8>>>, wanted: Wanted<'_>) -> Result<Payload, String> {
    let Wanted { what, name, optional, items, mode } = wanted;
    let Some(data) = found else {
        return if optional { Ok(Payload::new()) } else { Err(format!("{what} {name:?} not found")) };
    };
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        let file = |content| File { content, mode: permissions(mode) };
        return data.into_iter().map(|(key, content)| Ok((checked(&key)?, file(content)))).collect();
    };
    let mut payload = Payload::new();
    for item in items {
        match data.get(&item.key) {
            Some(content) => {
                let mode = permissions(item.mode.unwrap_or(mode));
                payload.insert(checked(&item.path)?, File { content: content.clone(), mode });
            }
            None if optional => {}
            None => return Err(format!("{what} {name:?} has no key {:?}", item.key)),
        }
    }
    Ok(payload)
}

fn permissions(mode: i32) -> u32 {
    u32::try_from(mode).unwrap_or_default() & 0o777
}

/// A path that stays in the volume. Names that begin with `..` are what the volume itself is kept in.
fn checked(path: &str) -> Result<String, String> {
    let parts = Path::new(path).components().map(|part| match part {
        Component::Normal(name) => name.to_str(),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
    });
    let parts: Option<Vec<&str>> = parts.collect();
    match parts {
        Some(parts)
            if parts.first().is_some_and(|first| !first.starts_with("..")) && !path.contains('\0') =>
        {
            Ok(parts.join("/"))
        }
        _ => Err(format!("{path:?} is no path inside a volume")),
    }
}
