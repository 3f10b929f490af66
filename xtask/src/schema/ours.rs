//! Rules for every node: what schemars and kube-derive write that a hand-made CRD would not.

use serde_json::{Value, json};

use super::{Node, is_foreign};

/// What the Kubernetes API accepts as a quantity when it is written as a string.
const QUANTITY: &str = concat!(
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))",
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
);

/// Removes what only describes the Rust type: the API server would refuse it, or store `null` because of it.
pub(super) fn common(node: &mut Node) {
    node.remove("title");
    node.remove("nullable");
    let signed = match node.get("format").and_then(Value::as_str) {
        Some("uint8" | "uint16" | "uint32") => "int32",
        Some("uint64" | "uint") => "int64",
        _ => return,
    };
    node.insert("format".into(), signed.into());
    node.remove("minimum");
    node.remove("maximum");
}

/// Spells out `x-kubernetes-int-or-string` as other CRDs do. Only ports are plain int-or-string in the types we
/// use; everything else that carries the mark is a quantity.
pub(super) fn int_or_string(path: &str, node: &mut Node) {
    if node.get("x-kubernetes-int-or-string") != Some(&Value::Bool(true)) {
        return;
    }
    node.insert("anyOf".into(), json!([{ "type": "integer" }, { "type": "string" }]));
    if !path.ends_with(".port") {
        node.insert("pattern".into(), QUANTITY.into());
    }
    let describes_the_type = path.ends_with("{}") || path.ends_with("[]");
    if is_foreign(path) || describes_the_type {
        node.remove("description");
    }
}

/// The top of the object: kube-derive makes `spec` required, which the CRDs in use do not, and describes the
/// wrapper type that it generates instead of the job.
pub(super) fn root(root: &mut Value) {
    let Value::Object(node) = root else { return };
    node.remove("required");
    let Some(Value::Object(fields)) = node.get_mut("properties") else {
        return;
    };
    fields.insert("apiVersion".into(), json!({ "type": "string" }));
    fields.insert("kind".into(), json!({ "type": "string" }));
    fields.insert("metadata".into(), json!({ "type": "object" }));
    let spec = fields.get_mut("spec").and_then(Value::as_object_mut);
    let about = spec.and_then(|spec| spec.insert("description".into(), "What the job is to do.".into()));
    if let Some(about) = about {
        node.insert("description".into(), about);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed(path: &str, node: Value) -> Value {
        let Value::Object(mut node) = node else { panic!("not a node") };
        common(&mut node);
        int_or_string(path, &mut node);
        Value::Object(node)
    }

    #[test]
    fn rust_oddities_go() {
        let odd = json!({"type": "integer", "format": "uint16", "minimum": 0, "maximum": 65535, "nullable": true, "title": "X"});
        assert_eq!(fixed(".spec.port", odd), json!({"type": "integer", "format": "int32"}));
        let honest = json!({"type": "integer", "format": "int32", "minimum": 1});
        assert_eq!(fixed(".spec.n", honest.clone()), honest);
    }

    #[test]
    fn quantities_have_a_pattern_and_ports_have_none() {
        let mark = json!({"x-kubernetes-int-or-string": true, "description": "long"});
        let port = fixed(".spec.x.template.spec.port", mark.clone());
        assert!(port.get("pattern").is_none() && port.get("anyOf").is_some());
        let quantity = fixed(".spec.minResources{}", mark.clone());
        assert!(quantity.get("pattern").is_some() && quantity.get("description").is_none());
        assert!(fixed(".spec.limit", mark).get("description").is_some());
    }

    #[test]
    fn the_job_describes_itself() {
        let mut schema = json!({
            "description": "Auto-generated", "required": ["spec"],
            "properties": { "spec": { "description": "A job.", "type": "object" } }
        });
        root(&mut schema);
        assert_eq!(schema.get("description"), Some(&json!("A job.")));
        assert_eq!(schema.get("required"), None);
        assert_eq!(schema.pointer("/properties/metadata"), Some(&json!({ "type": "object" })));
    }
}
