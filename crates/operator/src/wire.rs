//! What is read of the objects that come in: a few fields each, everything else is skipped.
//!
//! A whole Pod as a typed struct takes ten times its JSON in memory; what decisions rest on takes a tenth.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::Value;
use serde_json::value::RawValue;
use std::sync::Arc;
use trainyard_api::labels;
use trainyard_core::{ExtraView, Kind, Resource, ServiceView};

use crate::queue::Key;

/// What is read of any object's `metadata`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Meta {
    pub(crate) name: Box<str>,
    pub(crate) namespace: Box<str>,
    pub(crate) uid: Box<str>,
    pub(crate) resource_version: Box<str>,
    pub(crate) creation_timestamp: Option<Timestamp>,
    pub(crate) deletion_timestamp: Option<Timestamp>,
    pub(crate) deletion_grace_period_seconds: Option<i64>,
    pub(crate) labels: Option<Labels>,
    pub(crate) annotations: Option<Annotations>,
    finalizers: Option<Vec<Box<str>>>,
    owner_references: Option<Vec<OwnerRef>>,
}

/// The labels that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Labels {
    #[serde(rename = "training.kubeflow.org/operator-name")]
    pub(crate) operator: Option<Box<str>>,
    #[serde(rename = "training.kubeflow.org/job-name")]
    pub(crate) job: Option<Box<str>>,
    #[serde(rename = "training.kubeflow.org/replica-type")]
    pub(crate) role: Option<Box<str>>,
    #[serde(rename = "training.kubeflow.org/replica-index")]
    pub(crate) index: Option<Box<str>>,
}

/// The annotations that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Annotations {
    #[serde(rename = "trainyard.dev/record")]
    pub(crate) record: Option<Box<str>>,
    #[serde(rename = "trainyard.dev/attempt")]
    pub(crate) attempt: Option<Box<str>>,
    #[serde(rename = "trainyard.dev/incarnation")]
    pub(crate) incarnation: Option<Box<str>>,
    #[serde(rename = "trainyard.dev/restarts-used")]
    pub(crate) used: Option<Box<str>>,
    #[serde(rename = "trainyard.dev/ports")]
    pub(crate) ports: Option<Box<str>>,
    #[serde(rename = "trainyard.dev/gang-size")]
    pub(crate) gang: Option<Box<str>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OwnerRef {
    api_version: Box<str>,
    kind: Box<str>,
    name: Box<str>,
    uid: Box<str>,
    controller: Option<bool>,
}

/// The job that controls an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: Box<str>,
    pub(crate) key: Key,
}

impl Meta {
    /// An object without a name or an identity cannot be spoken of.
    pub(crate) fn check(self) -> Result<Self, serde_json::Error> {
        if self.name.is_empty() || self.uid.is_empty() {
            return Err(serde_json::Error::custom("metadata has no name or no uid"));
        }
        Ok(self)
    }

    /// When the object was asked to end. `deletionTimestamp` is when it has to have ended.
    pub(crate) fn asked_to_end(&self) -> Option<Timestamp> {
        let grace = SignedDuration::from_secs(self.deletion_grace_period_seconds.unwrap_or(0).max(0));
        self.deletion_timestamp.map(|end| end.checked_sub(grace).unwrap_or(end))
    }

    /// The job that controls the object, if it is of one of `kinds`.
    pub(crate) fn owner(&self, kinds: &[&'static Kind]) -> Option<Owner> {
        let owner = self.controller()?;
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        let kind = kinds.iter().find(|kind| kind.name == &*owner.kind && kind.group == group)?;
        Some(Owner { uid: owner.uid.clone(), key: Key::new(kind, &self.namespace, &owner.name) })
    }

    /// True when it is kept from going until its end is written down.
    pub(crate) fn is_tracked(&self) -> bool {
        self.finalizers.iter().flatten().any(|name| &**name == labels::TRACKING)
    }

    /// The job of a tracked object that nobody controls any more, by its labels: somebody deleted the job and left its
    /// children behind. Without an identity it is no job's child.
    pub(crate) fn last_owner(&self, kinds: &[&'static Kind]) -> Option<Owner> {
        if !self.is_tracked() || self.controller().is_some() {
            return None;
        }
        let labels = self.labels.as_ref()?;
        let kind = kinds.iter().find(|kind| Some(kind.controller) == labels.operator.as_deref())?;
        Some(Owner { uid: "".into(), key: Key::new(kind, &self.namespace, labels.job.as_deref()?) })
    }

    /// Who controls the object, for messages.
    pub(crate) fn controller_text(&self) -> String {
        match self.controller() {
            Some(owner) => format!("{} {} ({})", owner.kind, owner.name, owner.uid),
            None => "nobody".into(),
        }
    }

    fn controller(&self) -> Option<&OwnerRef> {
        self.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
    }

    /// True when the label that children are watched by names one of `kinds`.
    pub(crate) fn is_labelled(&self, kinds: &[&'static Kind]) -> bool {
        let operator = self.labels.as_ref().and_then(|labels| labels.operator.as_deref());
        operator.is_some_and(|name| kinds.iter().any(|kind| kind.controller == name))
    }
}

/// An object of which only the metadata is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MetaOnly {
    metadata: Meta,
}

/// Reads the metadata of any object.
pub(crate) fn meta(raw: &str) -> Result<Meta, serde_json::Error> {
    serde_json::from_str::<MetaOnly>(raw)?.metadata.check()
}

/// The identity of an object that could not be read further, if that much can be read.
pub(crate) fn identity(raw: &str) -> Option<(Box<str>, Box<str>)> {
    #[derive(Deserialize)]
    struct Object {
        metadata: Identity,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    #[derive(Default)]
    struct Identity {
        uid: Box<str>,
        resource_version: Box<str>,
    }
    let object: Object = serde_json::from_str(raw).ok()?;
    Some((object.metadata.uid, object.metadata.resource_version))
}

/// A job as it comes in: metadata, and the text of its spec.
#[derive(Debug, Deserialize)]
pub(crate) struct JobWire<'a> {
    #[serde(default)]
    pub(crate) metadata: Meta,
    #[serde(borrow, default)]
    pub(crate) spec: Option<&'a RawValue>,
}

/// A service as it comes in.
pub(crate) fn service(raw: &str) -> Result<(Meta, ServiceView), serde_json::Error> {
    let meta = meta(raw)?;
    let view = ServiceView {
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        deleting: meta.deletion_timestamp.is_some(),
    };
    Ok((meta, view))
}

/// Any other child as it comes in.
pub(crate) fn extra(
    what: &'static Resource,
    raw: &str,
    kinds: &[&'static Kind],
) -> Result<(Meta, ExtraView), serde_json::Error> {
    let meta = meta(raw)?;
    let mut content: Value = serde_json::from_str(raw)?;
    if let Some(members) = content.as_object_mut() {
        members.remove("metadata");
    }
    let view = ExtraView {
        what,
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        deleting: meta.deletion_timestamp.is_some(),
        labelled: meta.is_labelled(kinds),
        content: Arc::new(content),
    };
    Ok((meta, view))
}

/// A resourceVersion as a number. Kubernetes promises that those of one resource can be compared so; of a server
/// that does not keep the promise nothing is assumed.
pub(crate) fn number(resource_version: &str) -> u64 {
    resource_version.parse().unwrap_or(0)
}
