//! `cargo xtask generate openapi`: what a real server says about its built-in types, recorded from one.
//!
//! The documents in the Kubernetes repository lack the values of enumerations, so they are taken from a running server.
//! It needs the programs of `cargo xtask cluster`, so it is not part of `generate`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use trainyard_cluster::{Cluster, Options};

/// The file that is written: names and lengths of its members, an empty line, and the members, each compressed.
const TARGET: &str = "crates/apiserver/src/openapi/recorded.bin";

/// The versions that are recorded: what is served, and `policy` for evictions.
const VERSIONS: &[&str] = &[
    "api/v1",
    "apis/admissionregistration.k8s.io/v1",
    "apis/apiextensions.k8s.io/v1",
    "apis/apps/v1",
    "apis/authentication.k8s.io/v1",
    "apis/authorization.k8s.io/v1",
    "apis/autoscaling/v1",
    "apis/autoscaling/v2",
    "apis/batch/v1",
    "apis/coordination.k8s.io/v1",
    "apis/discovery.k8s.io/v1",
    "apis/events.k8s.io/v1",
    "apis/policy/v1",
    "apis/rbac.authorization.k8s.io/v1",
    "apis/scheduling.k8s.io/v1",
];
/// Two definitions, one of each scope, whose names stand for those of any other.
const PATTERN: &str = "apis/tgroup.invalid/vtversion";
/// Schemas that name the group they are seen in; the server adds that itself.
const GROUPED: [&str; 2] =
    ["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions", "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent"];
const GROUP_VERSION_KIND: &str = "x-kubernetes-group-version-kind";
/// How often a server is asked for a document that it is about to have.
const TRIES: usize = 100;
const PAUSE: Duration = Duration::from_millis(200);

/// Writes the recording and returns its path.
pub(crate) fn write(root: &Path) -> Result<String> {
    let cluster = Cluster::start(&Options::default())?;
    let mut schemas = BTreeMap::new();
    let mut members = Vec::new();
    for version in VERSIONS {
        let document = get(&cluster, version)?;
        collect(&document, &mut schemas)?;
        members.push(((*version).to_owned(), paths(&document)?));
    }
    let mut lines = String::new();
    for (name, schema) in &schemas {
        writeln!(lines, "{name}\t{schema}")?;
    }
    members.push(("schemas".to_owned(), lines));
    members.push(("custom".to_owned(), pattern(&cluster)?));
    fs::write(root.join(TARGET), pack(&members)?).with_context(|| format!("writing {TARGET}"))?;
    Ok(TARGET.to_owned())
}

fn kubectl(cluster: &Cluster) -> Command {
    let mut kubectl = Command::new(cluster.bin("kubectl"));
    kubectl.arg("--kubeconfig").arg(cluster.kubeconfig());
    kubectl
}

fn get(cluster: &Cluster, version: &str) -> Result<Value> {
    let output = kubectl(cluster).args(["get", "--raw", &format!("/openapi/v3/{version}")]).output()?;
    ensure!(output.status.success(), "{version}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn collect(document: &Value, schemas: &mut BTreeMap<String, Value>) -> Result<()> {
    let all = document.pointer("/components/schemas").and_then(Value::as_object);
    for (name, schema) in all.context("a document without schemas")? {
        let mut schema = schema.clone();
        if let (true, Some(map)) = (GROUPED.contains(&name.as_str()), schema.as_object_mut()) {
            map.remove(GROUP_VERSION_KIND);
        }
        if let Some(other) = schemas.insert(name.clone(), schema.clone()) {
            ensure!(other == schema, "{name} differs between documents");
        }
    }
    Ok(())
}

/// One line for each path, without the old paths of watches.
fn paths(document: &Value) -> Result<String> {
    let mut lines = String::new();
    for (path, item) in document["paths"].as_object().context("a document without paths")? {
        if !path.contains("/watch/") {
            writeln!(lines, "{path}\t{item}")?;
        }
    }
    Ok(lines)
}

/// The paths of any custom resource.
fn pattern(cluster: &Cluster) -> Result<String> {
    let mut apply =
        kubectl(cluster).args(["apply", "-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    let definitions = format!("{}---\n{}", definition("Namespaced", "t"), definition("Cluster", "c"));
    apply.stdin.take().context("kubectl has no input")?.write_all(definitions.as_bytes())?;
    ensure!(apply.wait()?.success(), "the definitions were refused");
    for _ in 0..TRIES {
        if let Ok(document) = get(cluster, PATTERN) {
            let lines = paths(&document)?;
            if lines.contains("tplurals/{name}/scale") && lines.contains("cplurals/{name}/scale") {
                return Ok(lines);
            }
        }
        thread::sleep(PAUSE);
    }
    anyhow::bail!("the server never described {PATTERN}")
}

fn definition(scope: &str, first: &str) -> String {
    let kind = format!("{}kind", first.to_uppercase());
    format!(
        "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {first}plurals.tgroup.invalid}}
spec:
  group: tgroup.invalid
  scope: {scope}
  names: {{plural: {first}plurals, kind: {kind}, listKind: {kind}List}}
  versions:
  - name: vtversion
    served: true
    storage: true
    subresources: {{status: {{}}, scale: {{specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}}}
    schema: {{openAPIV3Schema: {{type: object, properties: {{spec: {{type: object, properties: {{replicas: {{type: \
         integer}}}}}}, status: {{type: object, properties: {{replicas: {{type: integer}}}}}}}}}}}}
"
    )
}

fn pack(members: &[(String, String)]) -> Result<Vec<u8>> {
    let (mut index, mut bodies) = (String::new(), Vec::new());
    for (name, text) in members {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(text.as_bytes())?;
        let body = gzip.finish()?;
        writeln!(index, "{name} {}", body.len())?;
        bodies.extend(body);
    }
    index.push('\n');
    let mut packed = index.into_bytes();
    packed.extend(bodies);
    Ok(packed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_recorded_is_one_line_each() {
        let document = json!({
            "paths": {"/a": {"get": {}}, "/watch/a": {}},
            "components": {"schemas": {GROUPED[0]: {"type": "object", GROUP_VERSION_KIND: []}, "b": {"type": "string"}}},
        });
        assert_eq!(paths(&document).unwrap(), "/a\t{\"get\":{}}\n");
        let mut schemas = BTreeMap::new();
        collect(&document, &mut schemas).unwrap();
        assert_eq!(schemas[GROUPED[0]], json!({"type": "object"}));
        let other = json!({"components": {"schemas": {"b": {"type": "object"}}}});
        assert!(collect(&other, &mut schemas).is_err());
        let packed = pack(&[("a".into(), "x".into()), ("b".into(), String::new())]).unwrap();
        assert!(packed.starts_with(b"a 21\nb 20\n\n"), "{:?}", String::from_utf8_lossy(&packed));
    }
}
