//! The `ValidatingWebhookConfiguration` that sends every kind of job to the operator before it is stored.

use serde_json::{Value, json};
use trainyard_core::admission::{CONDITION, CONFIGURATION, validator, webhook_path};
use trainyard_core::{Kind, kinds};

/// Where the file lies, seen from the root.
pub(crate) const PATH: &str = "config/webhook/validating.yaml";

/// The whole object. Its authority is missing: the operator writes it.
pub(crate) fn configuration() -> Value {
    let entries: Vec<Value> = kinds::ALL.iter().map(|kind| entry(kind)).collect();
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": CONFIGURATION },
        "webhooks": entries,
    })
}

fn entry(kind: &Kind) -> Value {
    json!({
        "name": validator(kind),
        "admissionReviewVersions": ["v1"],
        "clientConfig": { "service": {
            "name": "training-operator", "namespace": "kubeflow", "path": webhook_path(kind),
        } },
        "failurePolicy": "Fail",
        "matchConditions": [{ "name": "what-is-checked-changes", "expression": CONDITION }],
        "rules": [{
            "apiGroups": [kind.group],
            "apiVersions": [kind.version],
            "operations": ["CREATE", "UPDATE"],
            "resources": [kind.plural],
        }],
        "sideEffects": "None",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_sent_where_it_always_was() {
        let configuration = configuration();
        let entries = configuration["webhooks"].as_array().unwrap();
        assert_eq!(entries.len(), kinds::ALL.len());
        let tf = entries.iter().find(|entry| entry["rules"][0]["resources"][0] == "tfjobs").unwrap();
        assert_eq!(tf["name"], "validator.tfjob.training-operator.kubeflow.org");
        assert_eq!(tf["clientConfig"]["service"]["path"], "/validate-kubeflow-org-v1-tfjob");
    }
}
