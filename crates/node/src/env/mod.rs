//! The environment of a container, as a kubelet would make it.

mod downward;
mod expand;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVarSource, Pod};

pub(crate) use self::downward::{field, resource};
pub use self::expand::{expand, expand_all, expand_strict};
use crate::sources::{NodeFacts, Sources};

/// A container that cannot be started as it is written, and what has to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConfigError {
    /// For the container's status.
    pub reason: &'static str,
    /// In a kubelet's words.
    pub message: String,
}

impl ConfigError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { reason: "CreateContainerConfigError", message: message.into() }
    }
}

/// The environment of a container: `envFrom` first, then `env` in its order, where a value may use `$(NAME)` of what
/// came before it.
pub fn environment(
    pod: &Pod,
    container: &Container,
    sources: &dyn Sources,
    node: &NodeFacts,
) -> Result<BTreeMap<String, String>, ConfigError> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let mut env = BTreeMap::new();
    for source in container.env_from.iter().flatten() {
        let prefix = source.prefix.as_deref().unwrap_or_default();
        for (key, value) in whole(source, namespace, sources)? {
            let name = format!("{prefix}{key}");
            if is_name(&name) {
                env.insert(name, value);
            }
        }
    }
    let context = Context { pod, container, namespace, sources, node };
    for variable in container.env.iter().flatten() {
        let literal = variable.value.as_deref().filter(|value| !value.is_empty());
        let value = match (literal, &variable.value_from) {
            (Some(text), _) => Some(expand(text, &env)),
            (None, Some(source)) => context.value(source)?,
            (None, None) => Some(String::new()),
        };
        if let Some(value) = value {
            check(&variable.name, &value)?;
            env.insert(variable.name.clone(), value);
        }
    }
    Ok(env)
}

/// What no process can be given is refused here, where it can still be said which variable it was.
fn check(name: &str, value: &str) -> Result<(), ConfigError> {
    if !is_name(name) {
        return Err(ConfigError::new(format!("{name:?} cannot be the name of an environment variable")));
    }
    if value.contains('\0') {
        return Err(ConfigError::new(format!("the value of {name} contains a zero byte")));
    }
    Ok(())
}

/// As Kubernetes has it: printable ASCII without `=`.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| (c.is_ascii_graphic() || c == ' ') && c != '=')
}

/// All entries of a ConfigMap or Secret. Kubelets leave out what is no text; a zero byte cannot be passed on either.
fn whole(
    source: &EnvFromSource,
    namespace: &str,
    sources: &dyn Sources,
) -> Result<BTreeMap<String, String>, ConfigError> {
    let mut entries = BTreeMap::new();
    if let Some(map) = &source.config_map_ref {
        match sources.config_map(namespace, &map.name) {
            Some(found) => entries.extend(found.data.unwrap_or_default()),
            None if map.optional == Some(true) => {}
            None => return Err(ConfigError::new(format!("configmap {:?} not found", map.name))),
        }
    }
    if let Some(secret) = &source.secret_ref {
        match sources.secret(namespace, &secret.name) {
            Some(found) => {
                let text = |(key, ByteString(bytes))| Some((key, String::from_utf8(bytes).ok()?));
                entries.extend(secret_data(found).into_iter().filter_map(text));
            }
            None if secret.optional == Some(true) => {}
            None => return Err(ConfigError::new(format!("secret {:?} not found", secret.name))),
        }
    }
    entries.retain(|_, value| !value.contains('\0'));
    Ok(entries)
}

/// A Secret's entries; `stringData` wins, as it does when a server stores it.
pub(crate) fn secret_data(secret: k8s_openapi::api::core::v1::Secret) -> BTreeMap<String, ByteString> {
    let mut data = secret.data.unwrap_or_default();
    let texts = secret.string_data.unwrap_or_default();
    data.extend(texts.into_iter().map(|(key, text)| (key, ByteString(text.into_bytes()))));
    data
}

struct Context<'a> {
    pod: &'a Pod,
    container: &'a Container,
    namespace: &'a str,
    sources: &'a dyn Sources,
    node: &'a NodeFacts,
}

impl Context<'_> {
    /// `None` is something optional that does not exist: the variable is not set.
    fn value(&self, source: &EnvVarSource) -> Result<Option<String>, ConfigError> {
        if let Some(reference) = &source.field_ref {
            return field(self.pod, self.node, &reference.field_path).map(Some).map_err(ConfigError::new);
        }
        if let Some(reference) = &source.resource_field_ref {
            let named = reference.container_name.as_deref().filter(|name| !name.is_empty());
            let name = named.unwrap_or(&self.container.name);
            return resource(self.pod, name, self.node, reference).map(Some).map_err(ConfigError::new);
        }
        if let Some(key) = &source.config_map_key_ref {
            return self.in_config_map(&key.name, &key.key, key.optional == Some(true));
        }
        if let Some(key) = &source.secret_key_ref {
            return self.in_secret(&key.name, &key.key, key.optional == Some(true));
        }
        if source.file_key_ref.is_some() {
            return Err(ConfigError::new("valueFrom.fileKeyRef is not supported on this machine"));
        }
        Ok(Some(String::new()))
    }

    fn in_config_map(&self, name: &str, key: &str, optional: bool) -> Result<Option<String>, ConfigError> {
        let Some(map) = self.sources.config_map(self.namespace, name) else {
            return absent(optional, format!("configmap {name:?} not found"));
        };
        match map.data.unwrap_or_default().remove(key) {
            Some(value) => Ok(Some(value)),
            None => {
                absent(optional, format!("couldn't find key {key} in ConfigMap {}/{name}", self.namespace))
            }
        }
    }

    fn in_secret(&self, name: &str, key: &str, optional: bool) -> Result<Option<String>, ConfigError> {
        let Some(secret) = self.sources.secret(self.namespace, name) else {
            return absent(optional, format!("secret {name:?} not found"));
        };
        let Some(ByteString(bytes)) = secret_data(secret).remove(key) else {
            return absent(optional, format!("couldn't find key {key} in Secret {}/{name}", self.namespace));
        };
        let text = String::from_utf8(bytes);
        let not_text =
            format!("key {key} in Secret {}/{name} is not text: mount it as a volume", self.namespace);
        text.map(Some).map_err(|_| ConfigError::new(not_text))
    }
}

fn absent(optional: bool, message: String) -> Result<Option<String>, ConfigError> {
    if optional { Ok(None) } else { Err(ConfigError::new(message)) }
}
