//! The `Table` form of objects: what `kubectl get` prints, made on the server.
//!
//! A kind that has something to say has a printer here and its column definitions in `columns.tsv`, recorded from a
//! real server. A custom resource has the columns of its definition, and every other kind its name and age.

mod autoscaling;
mod custom;
mod events;
mod jsonpath;
mod network;
mod nodes;
mod pods;
mod rbac;
mod read;
mod small;
mod storage;
mod workloads;

use bytes::{BufMut, Bytes, BytesMut};
use jiff::Timestamp;
use serde_json::{Value, json};

pub(crate) use self::custom::Columns;
use self::read::{moment, text};
use crate::failure::Failure;
use crate::http::INITIAL_EVENTS_END;
use crate::object::{meta_map, set_meta};
use crate::registry::Served;
use crate::store::Stored;

/// One line for each kind: `group/plural`, a tab, its column definitions. `*` stands for every other kind.
const COLUMNS: &str = include_str!("columns.tsv");

/// What of an object comes with its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Object,
}

impl Include {
    /// Reads `includeObject`.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        match text {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::Nothing),
            "Object" => Ok(Self::Object),
            other => Err(Failure::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be \
                 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

/// How a table was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View {
    /// `meta.k8s.io/v1`, or the one before it.
    pub(crate) api_version: &'static str,
    pub(crate) include: Include,
    /// Whether the columns are described.
    pub(crate) headers: bool,
    /// What ages are counted to.
    pub(crate) now: Timestamp,
}

type Printer = fn(&Value, Timestamp) -> Vec<Value>;

/// How objects of a kind become cells. They are read in the stored form, so that versions of a kind share a printer.
fn printer(group: &str, plural: &str) -> Printer {
    match (group, plural) {
        ("", "pods") => pods::cells,
        ("", "services") => network::service,
        ("", "endpoints") => network::endpoints,
        ("", "configmaps") => small::config_map,
        ("", "secrets") => small::secret,
        ("" | "events.k8s.io", "events") => events::cells,
        ("", "namespaces") => small::namespace,
        ("", "nodes") => nodes::cells,
        ("", "serviceaccounts") => small::service_account,
        ("", "persistentvolumes") => storage::volume,
        ("", "persistentvolumeclaims") => storage::claim,
        ("coordination.k8s.io", "leases") => small::lease,
        ("scheduling.k8s.io", "priorityclasses") => small::priority_class,
        ("autoscaling", "horizontalpodautoscalers") => autoscaling::cells,
        ("discovery.k8s.io", "endpointslices") => network::endpoint_slice,
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => rbac::binding,
        ("apps", "deployments") => workloads::deployment,
        ("apps", "replicasets") => workloads::replica_set,
        ("batch", "jobs") => workloads::job,
        (
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations" | "validatingwebhookconfigurations",
        ) => small::webhooks,
        _ => created,
    }
}

/// A kind without columns of its own.
fn created(object: &Value, _: Timestamp) -> Vec<Value> {
    let created = moment(object, "metadata.creationTimestamp")
        .map_or_else(|| "0001-01-01T00:00:00Z".to_owned(), crate::object::time);
    vec![text(object, "metadata.name").into(), created.into()]
}

/// The definitions of a kind's columns, as JSON.
fn definitions(served: &Served) -> &str {
    match &served.columns {
        Some(columns) => columns.definitions(),
        None => recorded(&served.group, &served.plural),
    }
}

/// The recorded definitions of a kind.
fn recorded(group: &str, plural: &str) -> &'static str {
    let mut other = "[]";
    for (name, definitions) in COLUMNS.lines().filter_map(|line| line.split_once('\t')) {
        match name.split_once('/') {
            Some(found) if found == (group, plural) => return definitions,
            Some(_) => {}
            None => other = definitions,
        }
    }
    other
}

/// The columns of a kind that has nothing to say but its name and age.
fn plain_column(index: usize) -> Value {
    let columns: Value = serde_json::from_str(recorded("", "")).unwrap_or_default();
    columns.get(index).cloned().unwrap_or_default()
}

/// How every table describes a name.
fn name_column() -> Value {
    plain_column(0)
}

/// The age of a custom resource, as its definition would ask for it.
fn created_column() -> Value {
    let description = plain_column(1).get("description").cloned().unwrap_or_default();
    json!({"name": "Age", "type": "date", "description": description, "jsonPath": ".metadata.creationTimestamp"})
}

/// The row of a stored object.
pub(crate) fn row(served: &Served, stored: &Stored, view: View) -> Result<Bytes, Failure> {
    let mut object = stored.value().map_err(Failure::internal)?;
    let whole = served.is_stored_form(stored).then_some(&stored.bytes);
    let cells = cells(served, &mut object, view.now);
    assemble(served, object, cells, whole, view)
}

/// The cells of an object, which is in the served form afterwards.
fn cells(served: &Served, object: &mut Value, now: Timestamp) -> Cells {
    if let Some(columns) = &served.columns {
        served.present(object);
        return Cells { cells: columns.cells(object, now), conditions: None };
    }
    let conditions = if served.is_core("pods") { pods::finished(object) } else { None };
    let cells = printer(&served.group, &served.plural)(object, now);
    served.present(object);
    Cells { cells, conditions }
}

struct Cells {
    cells: Vec<Value>,
    conditions: Option<Value>,
}

fn assemble(
    served: &Served,
    mut object: Value,
    Cells { cells, conditions }: Cells,
    whole: Option<&Bytes>,
    view: View,
) -> Result<Bytes, Failure> {
    let mut row = BytesMut::new();
    row.put_slice(b"{\"cells\":");
    put(&mut row, &Value::from(cells))?;
    if let Some(conditions) = conditions {
        row.put_slice(b",\"conditions\":");
        put(&mut row, &conditions)?;
    }
    row.put_slice(b",\"object\":");
    match (view.include, whole) {
        (Include::Nothing, _) if !ends_initial_events(&object) => row.put_slice(b"null"),
        (Include::Object, Some(whole)) => row.put_slice(whole),
        (Include::Object, None) => put(&mut row, &kinded(served, object))?,
        (Include::Metadata | Include::Nothing, _) => put(&mut row, &partial(&mut object, view.api_version))?,
    }
    row.put_u8(b'}');
    Ok(row.freeze())
}

/// Whether it is the bookmark a client of a streaming list waits for: that one is never empty.
fn ends_initial_events(object: &Value) -> bool {
    let annotations = meta_map(object).and_then(|metadata| metadata.get("annotations"));
    annotations.is_some_and(|annotations| annotations.get(INITIAL_EVENTS_END).is_some())
}

/// A bookmark has no kind of its own.
fn kinded(served: &Served, mut object: Value) -> Value {
    if let Some(map) = object.as_object_mut() {
        map.entry("kind").or_insert_with(|| served.kind.as_str().into());
    }
    object
}

/// An object's metadata alone.
pub(crate) fn partial(object: &mut Value, api_version: &str) -> Value {
    let metadata = object.get_mut("metadata").map(Value::take).unwrap_or_else(|| json!({}));
    json!({"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": metadata})
}

fn put(to: &mut BytesMut, value: &Value) -> Result<(), Failure> {
    serde_json::to_writer(to.writer(), value).map_err(Failure::internal)
}

/// A whole table around rows.
pub(crate) fn table(served: &Served, metadata: &Value, rows: &[Bytes], view: View) -> Result<Bytes, Failure> {
    let table = around(if view.headers { definitions(served) } else { "null" }, metadata, rows, view)?;
    // A table without columns of its own that has no rows has not even an empty list of them.
    let plain = served.columns.is_none() && recorded(&served.group, &served.plural) == recorded("", "");
    match table.strip_suffix(b"[]}") {
        Some(open) if plain && rows.is_empty() => Ok([open, b"null}"].concat().into()),
        _ => Ok(table),
    }
}

fn around(columns: &str, metadata: &Value, rows: &[Bytes], view: View) -> Result<Bytes, Failure> {
    let size = rows.iter().map(|row| row.len() + 1).sum::<usize>() + columns.len() + 256;
    let mut body = BytesMut::with_capacity(size);
    let head = json!({"kind": "Table", "apiVersion": view.api_version, "metadata": metadata}).to_string();
    body.put_slice(head.strip_suffix('}').unwrap_or(&head).as_bytes());
    body.put_slice(b",\"columnDefinitions\":");
    body.put_slice(columns.as_bytes());
    body.put_slice(b",\"rows\":[");
    for (index, row) in rows.iter().enumerate() {
        if index > 0 {
            body.put_u8(b',');
        }
        body.put_slice(row);
    }
    body.put_slice(b"]}");
    Ok(body.freeze())
}

/// The table of one stored object.
pub(crate) fn single(served: &Served, stored: &Stored, view: View) -> Result<Bytes, Failure> {
    let metadata = match stored.revision {
        0 => json!({}),
        revision => json!({"resourceVersion": revision.to_string()}),
    };
    table(served, &metadata, &[row(served, stored, view)?], view)
}

/// The table of one object in its stored form that is not stored, or not as of this revision.
pub(crate) fn single_of(
    served: &Served,
    mut object: Value,
    revision: Option<u64>,
    view: View,
) -> Result<Bytes, Failure> {
    let cells = cells(served, &mut object, view.now);
    if let Some(revision) = revision {
        set_meta(&mut object, "resourceVersion", revision.to_string());
    }
    let metadata = version(&object);
    let row = assemble(served, object, cells, None, view)?;
    table(served, &metadata, &[row], view)
}

fn version(object: &Value) -> Value {
    match meta_map(object).and_then(|metadata| metadata.get("resourceVersion")) {
        Some(version) => json!({"resourceVersion": version}),
        None => json!({}),
    }
}

/// The table of a `Scale`.
pub(crate) fn scale(scale: Value, view: View) -> Result<Bytes, Failure> {
    let columns = Columns::of_scale();
    let cells = columns.cells(&scale, view.now);
    let metadata = version(&scale);
    let mut row = BytesMut::new();
    let mut object = scale;
    let object = match view.include {
        Include::Nothing => Value::Null,
        Include::Object => object,
        Include::Metadata => partial(&mut object, view.api_version),
    };
    put(&mut row, &json!({"cells": cells, "object": object}))?;
    let definitions = if view.headers { columns.definitions() } else { "null" };
    around(definitions, &metadata, &[row.freeze()], view)
}

#[cfg(test)]
mod tests;
