//! `cargo xtask generate wire`: the static tables of Kubernetes' built-in types, from its Go types and its OpenAPI
//! documents. It needs Go and Go's module proxy, so it is not part of `generate`; that the tables belong to the sources
//! they were made from is checked by a mark in their first lines.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The file that is written.
const TARGET: &str = "crates/apiserver/src/types/generated.rs";
/// The program that prints the Go types.
const PROGRAM: &str = "xtask/go/types";
/// What the tables are made from, beside Kubernetes.
const SOURCES: &[&str] = &["xtask/go/types/main.go", "xtask/go/types/go.mod", "xtask/src/wire.rs"];
/// Where the OpenAPI documents are.
const KUBERNETES: &str = "k8s.io/kubernetes@v1.36.3";

type Schemas = BTreeMap<String, Value>;

/// Writes the tables and returns their path.
pub(crate) fn write(root: &Path) -> Result<String> {
    let types: Value = serde_json::from_str(&go(&root.join(PROGRAM), &["run", "."])?)?;
    let text = render(&types, &schemas()?, &mark(root)?)?;
    fs::write(root.join(TARGET), text).with_context(|| format!("writing {TARGET}"))?;
    Ok(TARGET.to_owned())
}

/// The tables' path, if they were made from other sources than those that are there.
pub(crate) fn stale(root: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(root.join(TARGET)).unwrap_or_default();
    let mark = mark(root)?;
    let current = text.lines().take(5).any(|line| line.contains(&mark));
    Ok(if current { Vec::new() } else { vec![format!("{TARGET}: run `cargo xtask generate wire`")] })
}

fn mark(root: &Path) -> Result<String> {
    // FNV-1a, because it is the same on every machine and in every release of Rust.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for path in SOURCES {
        for byte in fs::read(root.join(path)).with_context(|| format!("reading {path}"))? {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    Ok(format!("sources {hash:016x}"))
}

fn go(folder: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new("go").current_dir(folder).args(arguments).output().context("starting go")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "go {arguments:?} failed:\n{errors}");
    String::from_utf8(output.stdout).context("output of go")
}

/// Every schema of every group.
fn schemas() -> Result<Schemas> {
    let module: Value =
        serde_json::from_str(&go(Path::new("."), &["mod", "download", "-json", KUBERNETES])?)?;
    let folder = PathBuf::from(text(&module, "Dir")).join("api/openapi-spec/v3");
    let mut all = Schemas::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
        let document: Value = serde_json::from_str(&fs::read_to_string(entry?.path())?)?;
        if let Some(Value::Object(schemas)) = document.pointer("/components/schemas") {
            all.extend(schemas.iter().map(|(name, schema)| (name.clone(), schema.clone())));
        }
    }
    Ok(all)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn flag(value: &Value, field: &str) -> bool {
    value.get(field).and_then(Value::as_bool).unwrap_or_default()
}

fn number(value: &Value) -> u64 {
    value.get("number").and_then(Value::as_u64).unwrap_or_default()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// `k8s.io/api/core/v1.PodSpec` is `io.k8s.api.core.v1.PodSpec` in OpenAPI documents.
fn schema_name(name: &str) -> String {
    format!("io.k8s.{}", name.trim_start_matches("k8s.io/").replace('/', "."))
}

/// `k8s.io/api/core/v1.PodSpec` is `CORE_V1_POD_SPEC` here.
fn constant(name: &str) -> String {
    let (path, name) = name.rsplit_once('.').unwrap_or(("", name));
    let mut folders = path.rsplit('/');
    let (version, group) = (folders.next().unwrap_or_default(), folders.next().unwrap_or_default());
    let mut words = String::new();
    let letters: Vec<char> = name.chars().collect();
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| letters.get(at));
        let starts = letter.is_uppercase()
            && before.is_some_and(|before| {
                !before.is_uppercase() || letters.get(at + 1).is_some_and(|next| next.is_lowercase())
            });
        if starts {
            words.push('_');
        }
        words.push(letter.to_ascii_uppercase());
    }
    format!("{}_{}_{words}", group.to_ascii_uppercase(), version.to_ascii_uppercase())
}

fn render(types: &Value, schemas: &Schemas, mark: &str) -> Result<String> {
    let messages: BTreeMap<&str, &Value> =
        list(types, "messages").iter().map(|message| (text(message, "name"), message)).collect();
    let mut out = String::new();
    writeln!(
        out,
        "//! @generated by `cargo xtask generate wire` from {KUBERNETES}; do not edit. ({mark})\n"
    )?;
    out.push_str("use super::{Field, ListType, Message, Shape, Ty};\n\n");
    out.push_str(
        "const F: Field = Field {\n    json: \"\", number: 0, ty: Ty::String, shape: Shape::Single, pointer: false, \
         omit_empty: false, omit_zero: false, required: false,\n    list: ListType::Atomic, atomic: false, default: \"\", \
         patch_merge_key: \"\", patch_merge: false, patch_retain_keys: false, go: \"\", go_item: \"\",\n};\n\n",
    );
    out.push_str("pub(super) static KINDS: &[([&str; 3], &Message)] = &[\n");
    let mut kinds: Vec<[&str; 4]> = list(types, "kinds")
        .iter()
        .map(|kind| [text(kind, "group"), text(kind, "version"), text(kind, "kind"), text(kind, "message")])
        .collect();
    kinds.sort_unstable();
    for [group, version, kind, message] in kinds {
        writeln!(out, "    ([{group:?}, {version:?}, {kind:?}], &{}),", constant(message))?;
    }
    out.push_str("];\n");
    for (name, message) in messages.iter().filter(|(name, _)| !name.ends_with(".TypeMeta")) {
        render_message(&mut out, name, message, &messages, schemas)?;
    }
    Ok(out)
}

fn render_message(
    out: &mut String,
    name: &str,
    message: &Value,
    messages: &BTreeMap<&str, &Value>,
    schemas: &Schemas,
) -> Result<()> {
    let none = Value::Null;
    let schema = schema_of(name, messages, schemas).unwrap_or(&none);
    let short = name.rsplit('.').next().unwrap_or(name);
    let own = schemas.get(&schema_name(name)).unwrap_or(&none);
    let mut fields: Vec<(u64, &str, String)> = Vec::new();
    for field in list(message, "fields") {
        if text(field, "json").is_empty() && number(field) == 0 {
            // Embedded, and in no protobuf message: apiVersion and kind.
            for field in messages.get(text(field, "type")).map(|m| list(m, "fields")).unwrap_or_default() {
                fields.push((0, text(field, "json"), render_field(field, 0, schema)));
            }
        } else {
            fields.push((number(field), text(field, "json"), render_field(field, number(field), schema)));
        }
    }
    fields.sort_by_key(|(number, ..)| *number);
    let named = fields.iter().enumerate().map(|(slot, (_, json, _))| (*json, slot));
    let names: BTreeMap<&str, usize> = named.filter(|(json, _)| !json.is_empty()).collect();
    writeln!(
        out,
        "\npub(super) static {}: Message = Message {{\n    name: {short:?}, schema: {:?}, atomic: {}, slots: &[",
        constant(name),
        schema_name(name),
        text(own, "x-kubernetes-map-type") == "atomic",
    )?;
    for (_, _, field) in &fields {
        writeln!(out, "        {field},")?;
    }
    let names: Vec<String> = names.iter().map(|(json, slot)| format!("({json:?}, {slot})")).collect();
    writeln!(out, "    ],\n    names: &[{}],\n}};", names.join(", "))?;
    Ok(())
}

/// The schema that has the fields of a message: its own, or that of a message that embeds it.
fn schema_of<'a>(name: &str, messages: &BTreeMap<&str, &Value>, schemas: &'a Schemas) -> Option<&'a Value> {
    schemas.get(&schema_name(name)).or_else(|| {
        let embeds = |message: &Value| {
            list(message, "fields").iter().any(|f| text(f, "json").is_empty() && text(f, "type") == name)
        };
        let (outer, _) = messages.iter().find(|(_, message)| embeds(message))?;
        schema_of(outer, messages, schemas)
    })
}

fn render_field(field: &Value, number: u64, schema: &Value) -> String {
    let json = text(field, "json");
    let none = Value::Null;
    let property = schema.get("properties").and_then(|p| p.get(json)).unwrap_or(&none);
    let mut parts = vec![format!("json: {json:?}")];
    let mut part = |condition: bool, text: String| {
        if condition {
            parts.push(text);
        }
    };
    part(number > 0, format!("number: {number}"));
    let ty = text(field, "type");
    let is_message = ty.contains('.');
    let ty = if is_message { format!("Message(&{})", constant(ty)) } else { ty.to_owned() };
    part(ty != "String", format!("ty: Ty::{ty}"));
    part(text(field, "shape") != "Single", format!("shape: Shape::{}", text(field, "shape")));
    part(flag(field, "pointer"), "pointer: true".into());
    part(flag(field, "omitEmpty"), "omit_empty: true".into());
    part(flag(field, "omitZero"), "omit_zero: true".into());
    let required = list(schema, "required").iter().any(|name| name.as_str() == Some(json));
    part(required, "required: true".into());
    let keys: Vec<&str> =
        list(property, "x-kubernetes-list-map-keys").iter().filter_map(Value::as_str).collect();
    match text(property, "x-kubernetes-list-type") {
        "set" => part(true, "list: ListType::Set".into()),
        "map" => part(true, format!("list: ListType::Map(&{keys:?})")),
        _ => {}
    }
    part(text(property, "x-kubernetes-map-type") == "atomic", "atomic: true".into());
    let default = property.get("default").filter(|d| d.is_string() && *d != "" || **d == Value::Bool(true));
    part(default.is_some(), format!("default: {:?}", default.map(Value::to_string).unwrap_or_default()));
    let merge_key = text(field, "patchMergeKey");
    part(!merge_key.is_empty(), format!("patch_merge_key: {merge_key:?}"));
    let strategy = |wanted: &str| text(field, "patchStrategy").split(',').any(|found| found == wanted);
    part(strategy("merge"), "patch_merge: true".into());
    part(strategy("retainKeys"), "patch_retain_keys: true".into());
    part(true, format!("go: {:?}", text(field, "go")));
    part(!text(field, "goItem").is_empty(), format!("go_item: {:?}", text(field, "goItem")));
    format!("Field {{ {}, ..F }}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_constants_and_schemas() {
        for (name, expected) in [
            ("k8s.io/api/core/v1.PodSpec", "CORE_V1_POD_SPEC"),
            ("k8s.io/api/core/v1.PodIP", "CORE_V1_POD_IP"),
            ("k8s.io/api/storage/v1.CSIDriver", "STORAGE_V1_CSI_DRIVER"),
        ] {
            assert_eq!(constant(name), expected);
        }
        assert_eq!(schema_name("k8s.io/api/core/v1.PodSpec"), "io.k8s.api.core.v1.PodSpec");
    }

    #[test]
    fn a_message_that_is_only_embedded_has_the_schema_of_the_outer_one() {
        let outer =
            serde_json::json!({"name": "k8s.io/a.Outer", "fields": [{"json": "", "type": "k8s.io/a.Inner"}]});
        let messages = BTreeMap::from([("k8s.io/a.Outer", &outer)]);
        let schemas = Schemas::from([("io.k8s.a.Outer".to_owned(), Value::Bool(true))]);
        assert_eq!(schema_of("k8s.io/a.Inner", &messages, &schemas), Some(&Value::Bool(true)));
        assert_eq!(schema_of("k8s.io/a.Other", &messages, &schemas), None);
    }
}
