//! The field reference under `docs/reference/`, from the same schema as the CRD.

use std::fmt::Write;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::crd::Crd;
use crate::schema::{self, Node};

/// How to read the tables.
const NOTATION: &str =
    "`<key>` in a path is any key of a map, `[]` any item of a list. Fields of Kubernetes' own types
are not taken apart: a PodTemplateSpec here is what it is in a Deployment.
";

/// One line of a table.
struct Row {
    path: String,
    type_name: String,
    required: bool,
    default: String,
    about: String,
}

/// The page of one kind.
pub(crate) fn render(crd: &Crd) -> Result<String> {
    let schema = crd.schema()?;
    let about = schema.get("description").and_then(Value::as_str).context("a job has a description")?;
    let mut page = format!("<!-- Written by `cargo xtask generate`; do not edit. -->\n\n# {}\n\n", crd.kind);
    writeln!(page, "{about}\n")?;
    let (api_version, kind, plural) = (crd.api_version(), &crd.kind, &crd.plural);
    writeln!(page, "`apiVersion: {api_version}`, `kind: {kind}`, resource `{plural}`.\n")?;
    page.push_str(NOTATION);
    for part in ["spec", "status"] {
        let node = schema.pointer(&format!("/properties/{part}")).with_context(|| format!("no {part}"))?;
        section(&mut page, part, node)?;
    }
    Ok(page)
}

fn section(page: &mut String, part: &str, node: &Value) -> Result<()> {
    let mut rows = Vec::new();
    collect(node, part, &mut rows);
    writeln!(page, "\n## {part}\n")?;
    writeln!(page, "| field | type | required | default | description |")?;
    writeln!(page, "|---|---|---|---|---|")?;
    for row in rows {
        let required = if row.required { "yes" } else { "" };
        let (path, default, about) = (row.path, row.default, row.about);
        writeln!(page, "| `{path}` | {} | {required} | {default} | {about} |", row.type_name)?;
    }
    Ok(())
}

/// The fields below a node, parents before children.
fn collect(node: &Value, path: &str, rows: &mut Vec<Row>) {
    let Value::Object(node) = node else { return };
    for (name, child) in schema::properties(node) {
        let Value::Object(field) = child else { continue };
        let path = format!("{path}.{name}");
        rows.push(Row {
            type_name: type_name(&path, field),
            required: schema::required(node).any(|required| required == name),
            default: field.get("default").map(|default| format!("`{default}`")).unwrap_or_default(),
            about: about(field),
            path: path.clone(),
        });
        if schema::foreign_type(&path).is_some() {
            continue;
        }
        collect(child, &path, rows);
        for (keyword, suffix) in [("items", "[]"), ("additionalProperties", ".<key>")] {
            if let Some(inner) = field.get(keyword) {
                collect(inner, &format!("{path}{suffix}"), rows);
            }
        }
    }
}

fn type_name(path: &str, field: &Node) -> String {
    if let Some(name) = schema::foreign_type(path) {
        return format!("{name} (Kubernetes)");
    }
    let inner = |keyword: &str| match field.get(keyword) {
        Some(Value::Object(inner)) => type_name("", inner),
        _ => "anything".to_owned(),
    };
    if field.contains_key("x-kubernetes-int-or-string") {
        return "quantity".to_owned();
    }
    let format = field.get("format").and_then(Value::as_str);
    match (field.get("type").and_then(Value::as_str), format) {
        (Some("array"), _) => format!("list of {}", inner("items")),
        (Some("object"), _) if field.contains_key("additionalProperties") => {
            format!("map of {}", inner("additionalProperties"))
        }
        (Some("string"), Some("date-time")) => "time".to_owned(),
        (Some("integer"), Some(format)) => format.to_owned(),
        (Some(other), _) => other.to_owned(),
        (None, _) => "anything".to_owned(),
    }
}

/// Description and rules, safe inside a table cell.
fn about(field: &Node) -> String {
    let text = field.get("description").and_then(Value::as_str).unwrap_or_default();
    let rules = field.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
    let messages = rules.filter_map(|rule| rule.get("message").and_then(Value::as_str));
    let mut cell = text.replace('\n', " ");
    for message in messages {
        cell.push_str(&format!(" Checked: {message}."));
    }
    cell.replace('|', "\\|").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_page_names_types_defaults_and_rules_and_stops_at_the_template() {
        let value = json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {
            "description": "A job.",
            "properties": {
                "spec": {"required": ["roles"], "properties": {
                    "roles": {"type": "object", "additionalProperties": {"type": "object", "properties": {
                        "template": {"type": "object", "properties": {"spec": {"type": "object"}}},
                        "times": {"type": "array", "items": {"type": "string", "format": "date-time"}},
                    }}},
                    "queue": {"type": "string", "default": "a|b", "description": "First\nsecond.",
                              "x-kubernetes-validations": [{"message": "is immutable"}]},
                }},
                "status": {"type": "object"},
            }
        }}}]}});
        let crd = Crd { kind: "AJob".into(), group: "g".into(), plural: "ajobs".into(), value };
        let page = render(&crd).unwrap();
        assert!(page.contains("| `spec.roles` | map of object | yes |  |  |"), "{page}");
        assert!(page.contains("| `spec.roles.<key>.template` | PodTemplateSpec (Kubernetes) |"), "{page}");
        assert!(page.contains("| `spec.roles.<key>.times` | list of time |"), "{page}");
        assert!(page.contains("First second. Checked: is immutable. |"), "{page}");
        assert!(!page.contains("template.spec"), "{page}");
    }
}
