//! The jobs that `run` runs.

use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use serde_json::Value;
use trainyard_core::Kind;

/// A job that is followed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct JobRef {
    pub(crate) kind: &'static str,
    pub(crate) namespace: String,
    pub(crate) name: String,
    resource: Resource,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Resource {
    group: &'static str,
    version: &'static str,
    plural: &'static str,
}

impl JobRef {
    pub(crate) fn of(kind: &'static Kind, object: &Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).filter(|t| !t.is_empty());
        Self {
            kind: kind.name,
            namespace: text("/metadata/namespace").unwrap_or("default").to_owned(),
            name: text("/metadata/name").unwrap_or_default().to_owned(),
            resource: Resource { group: kind.group, version: kind.version, plural: kind.plural },
        }
    }

    pub(crate) fn api(&self, client: &Client) -> Api<DynamicObject> {
        Api::namespaced_with(client.clone(), &self.namespace, &self.api_resource())
    }

    pub(crate) fn api_resource(&self) -> ApiResource {
        self.resource.of_kind(self.kind)
    }
}

impl Resource {
    fn of_kind(self, kind: &str) -> ApiResource {
        let Self { group, version, plural } = self;
        ApiResource {
            group: group.into(),
            version: version.into(),
            api_version: format!("{group}/{version}"),
            kind: kind.into(),
            plural: plural.into(),
        }
    }
}

pub(crate) fn api_resource(kind: &Kind) -> ApiResource {
    Resource { group: kind.group, version: kind.version, plural: kind.plural }.of_kind(kind.name)
}
