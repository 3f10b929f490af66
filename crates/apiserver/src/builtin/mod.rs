//! The built-in resources: one row each.

pub(crate) mod account;
pub(crate) mod addresses;
pub(crate) mod base64;
pub(crate) mod defaults;
pub(crate) mod events;
pub(crate) mod families;
pub(crate) mod priority;
pub(crate) mod seed;
pub(crate) mod validate;
pub(crate) mod warnings;

use std::sync::OnceLock;

use crate::object::names::NameRule;
use crate::registry::{Conversion, ScalePaths, Served};
use crate::types;

pub(crate) const CRD_GROUP: &str = "apiextensions.k8s.io";
pub(crate) const CRD_PLURAL: &str = "customresourcedefinitions";
pub(crate) const CRD_TABLE: &str = "apiextensions.k8s.io/customresourcedefinitions";
pub(crate) const NAMESPACE_TABLE: &str = "/namespaces";

/// What differs between built-in resources.
struct Row {
    api_version: &'static str,
    plural: &'static str,
    kind: &'static str,
    short: &'static [&'static str],
    flags: &'static [Flag],
    fields: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flag {
    Cluster,
    Status,
    Generation,
    /// DELETE answers with the object.
    Returned,
    /// Part of `kubectl get all`.
    All,
    /// Part of `kubectl get api-extensions`.
    ApiExtensions,
    /// `scale` shows and sets `spec.replicas`.
    Scale,
    /// Annotations are part of the desired state too.
    AnnotationsCount,
    /// PUT to a name that is free creates.
    PutCreates,
    /// PUT must name the version it replaces.
    PutConditional,
    /// Nothing is kept of it: a POST is answered, and there is nothing else.
    Review,
    /// There is no DELETE of the whole collection.
    OneByOne,
    NameLabel,
    NameSegment,
}

use Flag::{
    All, AnnotationsCount, ApiExtensions, Cluster, Generation, NameLabel, NameSegment, OneByOne,
    PutConditional, PutCreates, Returned, Review, Scale, Status,
};

const EVENT_FIELDS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];
const EVENTS_API_FIELDS: &[&str] = &[
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];
const POD_FIELDS: &[&str] = &[
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
];
const RBAC: &str = "rbac.authorization.k8s.io/v1";
const AUTHORIZATION: &str = "authorization.k8s.io/v1";
const HOOKS: &str = "admissionregistration.k8s.io/v1";

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row { api_version: "v1", plural: "pods", kind: "Pod", short: &["po"], flags: &[Status, Generation, Returned, All], fields: POD_FIELDS },
    Row { api_version: "v1", plural: "bindings", kind: "Binding", short: &[], flags: &[Review], fields: &[] },
    Row { api_version: "v1", plural: "services", kind: "Service", short: &["svc"], flags: &[Status, Returned, All, NameLabel, PutCreates], fields: &["spec.clusterIP", "spec.type"] },
    Row { api_version: "v1", plural: "endpoints", kind: "Endpoints", short: &["ep"], flags: &[PutCreates], fields: &[] },
    Row { api_version: "v1", plural: "configmaps", kind: "ConfigMap", short: &["cm"], flags: &[], fields: &[] },
    Row { api_version: "v1", plural: "secrets", kind: "Secret", short: &[], flags: &[], fields: &["type"] },
    Row { api_version: "v1", plural: "events", kind: "Event", short: &["ev"], flags: &[PutCreates], fields: EVENT_FIELDS },
    Row { api_version: "v1", plural: "namespaces", kind: "Namespace", short: &["ns"], flags: &[Cluster, Status, NameLabel, OneByOne], fields: &["status.phase"] },
    Row { api_version: "v1", plural: "nodes", kind: "Node", short: &["no"], flags: &[Cluster, Status], fields: &["spec.unschedulable"] },
    Row { api_version: "v1", plural: "serviceaccounts", kind: "ServiceAccount", short: &["sa"], flags: &[Returned], fields: &[] },
    Row { api_version: "v1", plural: "persistentvolumes", kind: "PersistentVolume", short: &["pv"], flags: &[Cluster, Status, Returned], fields: &[] },
    Row { api_version: "v1", plural: "persistentvolumeclaims", kind: "PersistentVolumeClaim", short: &["pvc"], flags: &[Status, Returned], fields: &[] },
    Row { api_version: "events.k8s.io/v1", plural: "events", kind: "Event", short: &["ev"], flags: &[PutCreates], fields: EVENTS_API_FIELDS },
    Row { api_version: "apps/v1", plural: "deployments", kind: "Deployment", short: &["deploy"], flags: &[Status, Scale, Generation, AnnotationsCount, All], fields: &[] },
    Row { api_version: "apps/v1", plural: "replicasets", kind: "ReplicaSet", short: &["rs"], flags: &[Status, Scale, Generation, All], fields: &[] },
    Row { api_version: "batch/v1", plural: "jobs", kind: "Job", short: &[], flags: &[Status, Generation, All], fields: &["status.successful"] },
    Row { api_version: "coordination.k8s.io/v1", plural: "leases", kind: "Lease", short: &[], flags: &[PutCreates, PutConditional], fields: &[] },
    Row { api_version: "scheduling.k8s.io/v1", plural: "priorityclasses", kind: "PriorityClass", short: &["pc"], flags: &[Cluster, Generation], fields: &[] },
    Row { api_version: "autoscaling/v2", plural: "horizontalpodautoscalers", kind: "HorizontalPodAutoscaler", short: &["hpa"], flags: &[Status, All], fields: &[] },
    Row { api_version: "discovery.k8s.io/v1", plural: "endpointslices", kind: "EndpointSlice", short: &[], flags: &[Generation], fields: &[] },
    Row { api_version: RBAC, plural: "roles", kind: "Role", short: &[], flags: &[NameSegment, PutCreates], fields: &[] },
    Row { api_version: RBAC, plural: "rolebindings", kind: "RoleBinding", short: &[], flags: &[NameSegment, PutCreates], fields: &[] },
    Row { api_version: RBAC, plural: "clusterroles", kind: "ClusterRole", short: &[], flags: &[Cluster, NameSegment, PutCreates], fields: &[] },
    Row { api_version: RBAC, plural: "clusterrolebindings", kind: "ClusterRoleBinding", short: &[], flags: &[Cluster, NameSegment, PutCreates], fields: &[] },
    Row { api_version: AUTHORIZATION, plural: "localsubjectaccessreviews", kind: "LocalSubjectAccessReview", short: &[], flags: &[Review], fields: &[] },
    Row { api_version: AUTHORIZATION, plural: "selfsubjectaccessreviews", kind: "SelfSubjectAccessReview", short: &[], flags: &[Cluster, Review], fields: &[] },
    Row { api_version: AUTHORIZATION, plural: "selfsubjectrulesreviews", kind: "SelfSubjectRulesReview", short: &[], flags: &[Cluster, Review], fields: &[] },
    Row { api_version: AUTHORIZATION, plural: "subjectaccessreviews", kind: "SubjectAccessReview", short: &[], flags: &[Cluster, Review], fields: &[] },
    Row { api_version: "authentication.k8s.io/v1", plural: "selfsubjectreviews", kind: "SelfSubjectReview", short: &[], flags: &[Cluster, Review], fields: &[] },
    Row { api_version: "authentication.k8s.io/v1", plural: "tokenreviews", kind: "TokenReview", short: &[], flags: &[Cluster, Review], fields: &[] },
    Row { api_version: HOOKS, plural: "mutatingwebhookconfigurations", kind: "MutatingWebhookConfiguration", short: &[], flags: &[Cluster, Generation, PutConditional, ApiExtensions], fields: &[] },
    Row { api_version: HOOKS, plural: "validatingwebhookconfigurations", kind: "ValidatingWebhookConfiguration", short: &[], flags: &[Cluster, Generation, PutConditional, ApiExtensions], fields: &[] },
    Row { api_version: "apiextensions.k8s.io/v1", plural: CRD_PLURAL, kind: "CustomResourceDefinition", short: &["crd", "crds"], flags: &[Cluster, Status, Generation, PutConditional, ApiExtensions], fields: &[] },
];

/// Every built-in resource.
pub(crate) fn table() -> impl Iterator<Item = Served> {
    ROWS.iter().map(Row::served)
}

impl Row {
    fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }

    fn names(&self) -> NameRule {
        if self.has(NameLabel) {
            NameRule::Label
        } else if self.has(NameSegment) {
            NameRule::Segment
        } else {
            NameRule::Subdomain
        }
    }

    fn categories(&self) -> Vec<String> {
        [(All, "all"), (ApiExtensions, "api-extensions")]
            .into_iter()
            .filter(|(flag, _)| self.has(*flag))
            .map(|(_, category)| category.to_owned())
            .collect()
    }

    fn scale(&self) -> Option<ScalePaths> {
        let path = |parts: [&str; 2]| parts.map(str::to_owned).to_vec();
        self.has(Scale).then(|| ScalePaths {
            spec_replicas: path(["spec", "replicas"]),
            status_replicas: path(["status", "replicas"]),
            selector: Some(path(["spec", "selector"])),
        })
    }

    fn served(&self) -> Served {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", self.api_version));
        // Both Event APIs show one table; the older form is the one stored.
        let is_events_api = group == "events.k8s.io";
        let owned = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
        Served {
            group: group.into(),
            version: version.into(),
            plural: self.plural.into(),
            singular: self.kind.to_lowercase(),
            kind: self.kind.into(),
            message: types::of(group, version, self.kind),
            blank: OnceLock::new(),
            list_kind: format!("{}List", self.kind),
            short_names: owned(self.short),
            categories: self.categories(),
            namespaced: !self.has(Cluster),
            api_version: self.api_version.into(),
            storage_version: if is_events_api { "v1" } else { self.api_version }.into(),
            conversion: if is_events_api { Conversion::Events } else { Conversion::ApiVersion },
            table: if is_events_api { "/events".into() } else { format!("{group}/{}", self.plural).into() },
            status: self.has(Status),
            scale: self.scale(),
            generation: self.has(Generation),
            fields: owned(self.fields),
            schema: None,
            storage_schema: None,
            columns: None,
            deprecation: None,
            schema_hash: 0,
            schema_since: 0,
            names: self.names(),
            custom: false,
            returns_deleted: self.has(Returned),
            annotations_count: self.has(AnnotationsCount),
            put_creates: self.has(PutCreates),
            put_unconditional: !self.has(PutConditional),
            one_by_one: self.has(OneByOne),
            review: self.has(Review),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups, kinds and names are addresses: two rows that claim one would hide each other.
    #[test]
    fn every_row_has_its_own_address() {
        let mut seen = std::collections::HashSet::new();
        for row in ROWS {
            assert!(seen.insert((row.api_version, row.plural)), "{} twice", row.plural);
        }
    }

    #[test]
    fn what_differs_from_the_usual_is_said() {
        let all = |flag: Flag| ROWS.iter().filter(|r| r.has(flag)).map(|r| r.plural).collect::<Vec<_>>();
        assert_eq!(all(Scale), ["deployments", "replicasets"]);
        assert_eq!(
            all(All),
            ["pods", "services", "deployments", "replicasets", "jobs", "horizontalpodautoscalers"]
        );
        assert_eq!(all(OneByOne), ["namespaces"]);
    }
}
