//! What is served: built-in resources from a table, custom ones from their definitions.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use crate::builtin;
use crate::extension::Extension;
use crate::object::meta;
use crate::object::names::NameRule;
use crate::schema::Structural;
use crate::store::Stored;
use crate::tables::Columns;
use crate::types::Message;

/// How a version's objects differ from the stored ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// Only the `apiVersion` differs, if anything.
    ApiVersion,
    /// `events.k8s.io` names of what is stored as a core event.
    Events,
}

/// Where a resource keeps what `scale` shows. The selector is a text, or the object form of one.
#[derive(Clone, Debug)]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: Vec<String>,
    pub(crate) status_replicas: Vec<String>,
    pub(crate) selector: Option<Vec<String>>,
}

/// One resource in one API version, with everything the verbs need to know of it.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a resource, each read by one rule")]
pub(crate) struct Served {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    /// The type of its objects, if it is built in.
    pub(crate) message: Option<&'static Message>,
    /// An object before anybody wrote to it, once somebody asked.
    pub(crate) blank: OnceLock<Value>,
    pub(crate) list_kind: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    /// `group/version`, or the version alone in the core group.
    pub(crate) api_version: Arc<str>,
    /// The `apiVersion` objects are stored with.
    pub(crate) storage_version: Arc<str>,
    pub(crate) conversion: Conversion,
    /// The store's table; shared by all versions.
    pub(crate) table: Arc<str>,
    /// Whether `status` is a subresource: then the main verbs do not touch it.
    pub(crate) status: bool,
    pub(crate) scale: Option<ScalePaths>,
    /// Whether `metadata.generation` counts changes of the desired state.
    pub(crate) generation: bool,
    /// Field selectors beside `metadata.name` and `metadata.namespace`.
    pub(crate) fields: Vec<String>,
    pub(crate) schema: Option<Arc<Structural>>,
    /// What everybody who uses this version is told, if it should be used no more.
    pub(crate) deprecation: Option<String>,
    /// The schema of the version objects are stored in, where that is another one.
    pub(crate) storage_schema: Option<Arc<Structural>>,
    /// The columns of a custom resource's table.
    pub(crate) columns: Option<Columns>,
    /// Tells one schema from another.
    pub(crate) schema_hash: u64,
    /// Objects older than this revision were written under another schema: they are pruned and defaulted when read.
    pub(crate) schema_since: u64,
    pub(crate) names: NameRule,
    pub(crate) custom: bool,
    /// Whether a DELETE is answered with the object instead of a `Status`.
    pub(crate) returns_deleted: bool,
    /// Whether a change of annotations is one of the desired state.
    pub(crate) annotations_count: bool,
    /// Whether PUT to a name that is free creates the object.
    pub(crate) put_creates: bool,
    /// Whether PUT without a resourceVersion replaces whatever is there.
    pub(crate) put_unconditional: bool,
    /// Whether there is no DELETE of the collection.
    pub(crate) one_by_one: bool,
    /// Whether a POST is answered and nothing is kept: there is no other verb.
    pub(crate) review: bool,
}

impl Served {
    /// `pods`, `widgets.example.com`: how messages name it.
    pub(crate) fn qualified(&self) -> String {
        match self.group.as_str() {
            "" => self.plural.clone(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// Where a real server keeps these objects, which some of its errors tell.
    pub(crate) fn registry_folder(&self) -> String {
        match (self.group.as_str(), self.plural.as_str()) {
            ("", "services") => "services/specs".into(),
            ("", "endpoints") => "services/endpoints".into(),
            ("", "nodes") => "minions".into(),
            (group, plural) if self.custom || self.is_crd() => format!("{group}/{plural}"),
            (_, plural) => plural.into(),
        }
    }

    pub(crate) fn is_core(&self, plural: &str) -> bool {
        self.group.is_empty() && self.plural == plural
    }

    pub(crate) fn is_crd(&self) -> bool {
        self.group == builtin::CRD_GROUP && self.plural == builtin::CRD_PLURAL
    }

    /// Whether the stored text is this version's form.
    pub(crate) fn is_stored_form(&self, stored: &Stored) -> bool {
        self.conversion == Conversion::ApiVersion
            && stored.api_version == self.api_version
            && stored.revision >= self.schema_since
    }

    /// Whether an object was written under another schema.
    pub(crate) fn is_stale(&self, object: &Value) -> bool {
        self.schema.is_some() && revision(object) < self.schema_since
    }

    /// What a real server calls the type of its objects, or of their list, in errors.
    pub(crate) fn go_type(&self, list: bool) -> String {
        if self.custom {
            return format!("*unstructured.Unstructured{}", if list { "List" } else { "" });
        }
        // Packages are called by the first part of their group; events of both APIs are core ones.
        let package = match self.group.split('.').next().unwrap_or_default() {
            "" | "events" => "core",
            part => part,
        };
        format!("*{package}.{}", if list { &self.list_kind } else { &self.kind })
    }

    /// Whether changes count in `metadata.generation`. That of a priority class is always the first.
    pub(crate) fn counts_changes(&self) -> bool {
        self.generation && self.group != "scheduling.k8s.io"
    }

    /// Turns a stored object into this version's form.
    pub(crate) fn present(&self, object: &mut Value) {
        if self.conversion == Conversion::Events {
            builtin::events::to_events_api(object);
        }
        if let Some(schema) = self.schema.as_ref().filter(|_| self.is_stale(object)) {
            // Defaults are those of the version it was stored in, which then is shown as another.
            match object.get("apiVersion").and_then(Value::as_str) {
                Some(stored) if stored == &*self.api_version => schema.default(object),
                Some(stored) if stored == &*self.storage_version => {
                    self.storage_schema.iter().for_each(|schema| schema.default(object));
                }
                _ => {}
            }
            schema.prune(object);
        }
        set_api_version(object, &self.api_version);
    }

    /// Turns an object of this version into the stored form.
    pub(crate) fn store_form(&self, object: &mut Value) {
        if self.conversion == Conversion::Events {
            builtin::events::to_core(object);
        }
        if let Some(schema) = &self.storage_schema {
            schema.prune(object);
            schema.default(object);
        }
        set_api_version(object, &self.storage_version);
    }
}

fn revision(object: &Value) -> u64 {
    meta(object, "resourceVersion").parse().unwrap_or(u64::MAX)
}

fn set_api_version(object: &mut Value, api_version: &str) {
    if let Some(map) = object.as_object_mut() {
        map.insert("apiVersion".into(), api_version.into());
    }
}

type Versions = BTreeMap<String, BTreeMap<String, Arc<Served>>>;

/// An immutable picture of everything served; requests hold one while they run.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    groups: BTreeMap<String, Versions>,
    kinds: HashMap<(String, String), Arc<Served>>,
    /// Served by others, listed by us.
    extensions: Arc<[Extension]>,
}

impl Catalog {
    fn add(&mut self, served: &Arc<Served>) {
        self.groups
            .entry(served.group.clone())
            .or_default()
            .entry(served.version.clone())
            .or_default()
            .insert(served.plural.clone(), Arc::clone(served));
        let kind = (served.group.clone(), served.kind.clone());
        self.kinds.entry(kind).or_insert_with(|| Arc::clone(served));
    }

    pub(crate) fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Served>> {
        self.groups.get(group)?.get(version)?.get(plural)
    }

    /// Whether a group is the server's own, and not made by definitions.
    pub(crate) fn is_built_in(&self, group: &str) -> bool {
        let resources = self.groups.get(group).into_iter().flat_map(|versions| versions.values());
        resources.flat_map(|resources| resources.values()).any(|served| !served.custom)
    }

    /// Any version of a kind: enough to find its objects.
    pub(crate) fn by_kind(&self, group: &str, kind: &str) -> Option<&Arc<Served>> {
        self.kinds.get(&(group.to_owned(), kind.to_owned()))
    }

    pub(crate) fn by_table(&self, table: &str) -> Option<&Arc<Served>> {
        let (group, plural) = table.split_once('/')?;
        self.groups.get(group)?.values().find_map(|resources| resources.get(plural))
    }

    /// Named groups, without the core group.
    pub(crate) fn groups(&self) -> BTreeSet<&str> {
        let own = self.groups.keys().map(String::as_str).filter(|group| !group.is_empty());
        own.chain(self.extensions.iter().map(|extension| extension.group.as_str())).collect()
    }

    /// The versions of a group, the most stable first.
    pub(crate) fn versions(&self, group: &str) -> Vec<&str> {
        let own = self.groups.get(group).into_iter().flat_map(|v| v.keys()).map(String::as_str);
        let extended = self.extensions.iter().filter(|e| e.group == group).map(|e| e.version.as_str());
        let mut versions: Vec<&str> = own.chain(extended).collect::<BTreeSet<_>>().into_iter().collect();
        versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
        versions
    }

    pub(crate) fn resources(&self, group: &str, version: &str) -> Option<impl Iterator<Item = &Arc<Served>>> {
        Some(self.groups.get(group)?.get(version)?.values())
    }

    pub(crate) fn extensions(&self) -> &[Extension] {
        &self.extensions
    }

    /// Every resource once, whatever versions it has.
    pub(crate) fn all(&self) -> Vec<&Arc<Served>> {
        let mut tables: BTreeMap<&str, &Arc<Served>> = BTreeMap::new();
        for served in self.groups.values().flat_map(|v| v.values()).flat_map(|r| r.values()) {
            tables.entry(&served.table).or_insert(served);
        }
        tables.into_values().collect()
    }
}

/// Orders versions as Kubernetes prefers them: v2 before v1 before v1beta1 before v1alpha1 before the rest.
pub(crate) fn priority(version: &str) -> (u8, u64, u64) {
    let Some(rest) = version.strip_prefix('v') else {
        return (0, 0, 0);
    };
    let split = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, tail) = rest.split_at(split);
    let Ok(major) = major.parse() else {
        return (0, 0, 0);
    };
    let (stability, minor) = match (tail, tail.strip_prefix("beta"), tail.strip_prefix("alpha")) {
        ("", _, _) => (3, "0"),
        (_, Some(minor), _) => (2, minor),
        (_, _, Some(minor)) => (1, minor),
        _ => return (0, 0, 0),
    };
    (stability, major, minor.parse().unwrap_or(0))
}

/// The current catalogue, and the definitions it was built from.
#[derive(Debug)]
pub(crate) struct Registry {
    catalog: RwLock<Arc<Catalog>>,
    definitions: Mutex<HashMap<String, Definition>>,
    extensions: Arc<[Extension]>,
}

/// What a definition contributed, as of which revision.
#[derive(Debug)]
struct Definition {
    revision: u64,
    versions: Vec<Arc<Served>>,
}

impl Registry {
    pub(crate) fn new(extensions: Arc<[Extension]>) -> Self {
        let registry = Self { catalog: RwLock::default(), definitions: Mutex::default(), extensions };
        registry.rebuild(&HashMap::new());
        registry
    }

    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes over what a definition serves as of a revision (nothing, once it is gone). Calls may come in any
    /// order: an older revision never replaces a newer one. False when there was nothing new.
    pub(crate) fn define(&self, name: &str, revision: u64, versions: Vec<Served>) -> bool {
        let mut definitions = self.definitions.lock().unwrap_or_else(PoisonError::into_inner);
        if definitions.get(name).is_some_and(|known| known.revision >= revision) {
            return false;
        }
        let known = definitions.remove(name).map(|definition| definition.versions).unwrap_or_default();
        let since = |served: &Served| {
            let same =
                |old: &&Arc<Served>| old.version == served.version && old.schema_hash == served.schema_hash;
            known.iter().find(same).map_or(revision, |old| old.schema_since)
        };
        let versions = versions
            .into_iter()
            .map(|served| Arc::new(Served { schema_since: since(&served), ..served }))
            .collect();
        definitions.insert(name.to_owned(), Definition { revision, versions });
        self.rebuild(&definitions);
        true
    }

    fn rebuild(&self, definitions: &HashMap<String, Definition>) {
        let mut catalog = Catalog { extensions: Arc::clone(&self.extensions), ..Catalog::default() };
        for served in builtin::table() {
            catalog.add(&Arc::new(served));
        }
        for definition in definitions.values() {
            for served in &definition.versions {
                catalog.add(served);
            }
        }
        *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(catalog);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_come_first() {
        let mut versions = ["foo", "v1alpha2", "v1beta1", "v2", "v1", "v1beta2"];
        versions.sort_by_key(|v| std::cmp::Reverse(priority(v)));
        assert_eq!(versions, ["v2", "v1", "v1beta2", "v1beta1", "v1alpha2", "foo"]);
    }
}
