//! What to correct in a manifest that the server refuses.

use kube::core::Status;

/// So many fields are enough to begin with.
const NAMED: usize = 3;

/// Which fields of which file to correct; nothing if the refusal is not about the object.
pub(crate) fn advice(error: &kube::Error, origin: &str) -> Option<String> {
    let kube::Error::Api(status) = error else { return None };
    let mut fields = fields(status);
    // Servers complain about what follows from a wrong spec, too. Nobody can correct that.
    if fields.iter().any(|field| !field.starts_with("status.")) {
        fields.retain(|field| !field.starts_with("status."));
    }
    fields.dedup();
    let more = fields.len().saturating_sub(NAMED);
    fields.truncate(NAMED);
    let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
    (!fields.is_empty())
        .then(|| format!("correct {}{rest} in {origin} and apply it again", fields.join(", ")))
}

fn fields(status: &Status) -> Vec<String> {
    match status.code {
        422 => {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            causes.map(|cause| written(&cause.field)).filter(|field| !field.is_empty()).collect()
        }
        400 => undecoded(&status.message),
        _ => Vec::new(),
    }
}

/// A field as it stands in a manifest. Kubernetes names the schema of a definition with one version by a field that only an
/// older API version has.
fn written(field: &str) -> String {
    match field.strip_prefix("spec.validation.openAPIV3Schema") {
        Some(rest) => format!("spec.versions[*].schema.openAPIV3Schema{rest}"),
        None => field.to_owned(),
    }
}

/// The fields in the words of Go's decoders: `unknown field "spec.a"`, `Go struct field Type.spec.a of type`.
fn undecoded(message: &str) -> Vec<String> {
    let unknown = message.split("unknown field \"").skip(1).filter_map(|rest| rest.split('"').next());
    let typed = message.split("Go struct field ").skip(1).filter_map(|rest| {
        let (_, field) = rest.split(' ').next()?.split_once('.')?;
        Some(field)
    });
    unknown.chain(typed).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn advised(code: u16, message: &str, fields: &[&str]) -> Option<String> {
        let causes: Vec<Value> =
            fields.iter().map(|field| json!({ "field": field, "message": "no" })).collect();
        let status = json!({ "status": "Failure", "code": code, "message": message, "reason": "Invalid",
            "details": { "causes": causes } });
        let status: Status = serde_json::from_value(status).unwrap();
        advice(&kube::Error::Api(Box::new(status)), "crd.yaml")
    }

    #[test]
    fn the_fields_of_a_refusal_are_named_with_their_file() {
        for (code, message, fields, named) in [
            (422, "", &["spec.scope"] as &[&str], Some("correct spec.scope in")),
            (422, "", &["spec.a", "spec.a", "status.b"], Some("correct spec.a in")),
            (422, "", &["status.b"], Some("correct status.b in")),
            (422, "", &["a", "b", "c", "d", "e"], Some("correct a, b, c and 2 more in")),
            (
                422,
                "",
                &["spec.validation.openAPIV3Schema.properties[a].type"],
                Some("correct spec.versions[*].schema.openAPIV3Schema.properties[a].type in"),
            ),
            (400, "strict decoding error: unknown field \"spec.scpe\"", &[], Some("correct spec.scpe in")),
            (
                400,
                "json: cannot unmarshal number into Go struct field CustomResourceDefinitionSpec.spec.scope of type v1.ResourceScope",
                &[],
                Some("correct spec.scope in"),
            ),
            (400, "no idea", &[], None),
            (507, "full", &["spec.a"], None),
        ] {
            let named = named.map(|named| format!("{named} crd.yaml and apply it again"));
            assert_eq!(advised(code, message, fields), named, "{message} {fields:?}");
        }
    }
}
