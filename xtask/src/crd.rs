//! The custom resource definitions, as values.

use anyhow::{Context, Result, ensure};
use kube::CustomResourceExt;
use serde_json::Value;
use trainyard_api::{JAXJob, MPIJob, PaddleJob, PyTorchJob, TFJob, XGBoostJob};

use crate::schema;

/// `kubectl apply` keeps a copy in an annotation, which may hold 256 KiB. Less than that, so that there is room to
/// grow.
const MAX_BYTES: usize = 200 * 1024;

/// Where the schema is: every kind has one version.
const SCHEMA: &str = "/spec/versions/0/schema/openAPIV3Schema";

/// One definition.
pub(crate) struct Crd {
    /// The Kubernetes kind, for example `TFJob`.
    pub(crate) kind: String,
    /// The API group.
    pub(crate) group: String,
    /// The resource name, for example `tfjobs`.
    pub(crate) plural: String,
    /// The whole object.
    pub(crate) value: Value,
}

/// Every definition, in the order of [`trainyard_api::crds::ALL`].
pub(crate) fn all() -> Result<Vec<Crd>> {
    let all = [
        build::<JAXJob>(),
        build::<MPIJob>(),
        build::<PaddleJob>(),
        build::<PyTorchJob>(),
        build::<TFJob>(),
        build::<XGBoostJob>(),
    ];
    all.into_iter().collect()
}

fn build<K: CustomResourceExt>() -> Result<Crd> {
    let name = K::crd_name();
    let value = serde_json::to_value(K::crd()).with_context(|| format!("encoding {name}"))?;
    let word = |pointer: &str| {
        let found = value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        found.with_context(|| format!("{name} has no {pointer}"))
    };
    let (kind, plural, group) =
        (word("/spec/names/kind")?, word("/spec/names/plural")?, word("/spec/group")?);
    let mut crd = Crd { kind, group, plural, value };
    crd.fix().with_context(|| format!("{name} cannot be published"))?;
    Ok(crd)
}

impl Crd {
    /// Makes the derived object what a kube-apiserver takes, or says why it cannot be that.
    fn fix(&mut self) -> Result<()> {
        let names =
            self.value.pointer_mut("/spec/names").and_then(Value::as_object_mut).context("no names")?;
        names.insert("listKind".into(), format!("{}List", self.kind).into());
        let schema = self.value.pointer_mut(SCHEMA).context("no schema")?;
        schema::fix(schema);
        let complaints = schema::structural::complaints(schema);
        ensure!(complaints.is_empty(), "the schema is not structural:\n  {}", complaints.join("\n  "));
        // Not left to the map type: whether it sorts depends on a feature that any dependency may switch on.
        self.value.sort_all_objects();
        let bytes = self.value.to_string().len();
        ensure!(bytes < MAX_BYTES, "{bytes} bytes as JSON; {MAX_BYTES} is the limit");
        Ok(())
    }

    /// The schema of the only version.
    pub(crate) fn schema(&self) -> Result<&Value> {
        self.value.pointer(SCHEMA).context("a CRD has a schema")
    }

    /// `kubeflow.org/v1`.
    pub(crate) fn api_version(&self) -> String {
        let version = self.value.pointer("/spec/versions/0/name").and_then(Value::as_str);
        format!("{}/{}", self.group, version.unwrap_or_default())
    }

    /// Where the file lies, seen from the root.
    pub(crate) fn path(&self) -> String {
        format!("config/crd/bases/{}_{}.yaml", self.group, self.plural)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema_at(kind: &str, pointer: &str) -> Value {
        let crd = all().unwrap().into_iter().find(|crd| crd.kind == kind).unwrap();
        crd.schema().unwrap().pointer(pointer).unwrap_or_else(|| panic!("{pointer}")).clone()
    }

    const POD: &str =
        "/properties/spec/properties/tfReplicaSpecs/additionalProperties/properties/template/properties";

    #[test]
    fn files_match_what_the_binary_embeds() {
        let names: Vec<_> =
            all().unwrap().iter().map(|crd| format!("{}.{}", crd.plural, crd.group)).collect();
        let embedded: Vec<_> = trainyard_api::crds::ALL.iter().map(|crd| crd.name.to_owned()).collect();
        assert_eq!(names, embedded);
        for (crd, embedded) in all().unwrap().iter().zip(trainyard_api::crds::ALL) {
            assert_eq!(crd.path(), format!("config/crd/bases/{}", embedded.file));
        }
    }

    #[test]
    fn only_the_replica_specs_are_required_and_the_defaults_are_those_in_use() {
        for kind in trainyard_core::kinds::ALL {
            assert_eq!(schema_at(kind.name, "/properties/spec/required"), json!([kind.replica_specs]));
        }
        for crd in all().unwrap() {
            assert_eq!(crd.schema().unwrap().get("required"), None);
            let mut defaults = Vec::new();
            schema::walk(crd.schema().unwrap(), "", &mut |path, node| {
                if let Some(default) = node.get("default").filter(|_| !schema::is_foreign(path)) {
                    defaults.push((path.to_owned(), default.clone()));
                }
            });
            let expected = [
                (".spec.runPolicy".to_owned(), json!({})),
                (".spec.runPolicy.suspend".to_owned(), json!(false)),
            ];
            assert_eq!(defaults, expected);
        }
    }

    #[test]
    fn the_queue_has_the_only_rule() {
        for crd in all().unwrap() {
            let mut rules = Vec::new();
            schema::walk(crd.schema().unwrap(), "", &mut |path, node| {
                rules.extend(node.get("x-kubernetes-validations").map(|_| path.to_owned()));
            });
            assert_eq!(rules, [".spec.runPolicy.schedulingPolicy.queue"]);
        }
    }

    #[test]
    fn the_pod_template_is_as_strict_as_a_pod() {
        let metadata = schema_at("TFJob", &format!("{POD}/metadata/properties"));
        let kept: Vec<_> = metadata.as_object().unwrap().keys().cloned().collect();
        assert_eq!(kept, ["annotations", "finalizers", "labels", "name", "namespace"]);
        assert_eq!(schema_at("TFJob", &format!("{POD}/spec/required")), json!(["containers"]));
        let containers = schema_at("TFJob", &format!("{POD}/spec/properties/containers"));
        assert_eq!(containers.get("x-kubernetes-list-map-keys"), Some(&json!(["name"])));
        assert_eq!(containers.pointer("/items/required"), Some(&json!(["name"])));
        let port = containers.pointer("/items/properties/ports/items/properties/protocol").unwrap();
        assert_eq!(*port, json!({ "type": "string", "default": "TCP" }));
        let secret =
            schema_at("TFJob", &format!("{POD}/spec/properties/imagePullSecrets/items/properties/name"));
        assert_eq!(secret, json!({ "type": "string", "default": "" }));
    }

    #[test]
    fn descriptions_are_ours_alone() {
        for crd in all().unwrap() {
            schema::walk(crd.schema().unwrap(), "", &mut |path, node| {
                assert!(!schema::is_foreign(path) || !node.contains_key("description"), "{path}");
            });
        }
        assert!(
            schema_at("TFJob", "/properties/spec/properties/runPolicy/properties/suspend")
                .get("description")
                .is_some()
        );
    }

    #[test]
    fn conditions_are_a_plain_list_and_only_elastic_kinds_scale() {
        let conditions = schema_at("TFJob", "/properties/status/properties/conditions");
        assert_eq!(conditions.get("x-kubernetes-list-type"), None);
        assert_eq!(conditions.pointer("/items/required"), Some(&json!(["status", "type"])));
        for crd in all().unwrap() {
            let version = crd.value.pointer("/spec/versions/0").unwrap();
            let kind = trainyard_core::kinds::ALL.iter().find(|kind| kind.name == crd.kind).unwrap();
            let workers = format!(".spec.{}.Worker.replicas", kind.replica_specs);
            let scale = version.pointer("/subresources/scale/specReplicasPath");
            assert_eq!(scale, kind.selector_in_status.then(|| json!(workers)).as_ref(), "{}", crd.kind);
            let columns = version.pointer("/additionalPrinterColumns").and_then(Value::as_array).unwrap();
            let columns: Vec<_> = columns.iter().filter_map(|column| column.get("name")).collect();
            // In the order in which they were always published.
            let expected = if crd.kind == "MPIJob" { ["Age", "State"] } else { ["State", "Age"] };
            assert_eq!(columns, expected, "{}", crd.kind);
            let names = crd.value.pointer("/spec/names").unwrap();
            assert!(names.get("shortNames").is_none() && names.get("categories").is_none());
        }
    }
}
