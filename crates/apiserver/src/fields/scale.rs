//! Owners at the `scale` door: of all the fields of an object it shows one, under another name.

use serde_json::Value;

use super::element;
use super::entries::{self, Entry, Id};
use super::set::{Node, Set};
use super::update::{managed, set_managed};

/// The version of the objects the door shows.
const SCALE: &str = "autoscaling/v1";

/// Where an object keeps its number of replicas, in the versions in which somebody may own it.
pub(crate) struct Replicas<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) path: &'a [String],
    /// The path in another version: nothing if the version is gone, and an empty one if it has no such door.
    pub(crate) other: &'a dyn Fn(&str) -> Option<Vec<String>>,
}

impl Replicas<'_> {
    fn path(&self, api_version: &str) -> Option<Vec<String>> {
        if api_version == self.api_version { Some(self.path.to_vec()) } else { (self.other)(api_version) }
    }
}

fn place(path: &[String]) -> Set {
    let mut parts = path.iter().rev();
    let mut set = Set::new();
    if let Some(last) = parts.next() {
        set.put(element::field(last), Node::leaf());
        for part in parts {
            let below = std::mem::take(&mut set);
            set.put(element::field(part), Node { member: false, below });
        }
    }
    set
}

fn replicas() -> Set {
    Set::of_fields(&[&["spec", "replicas"]])
}

/// Gives the `Scale` of an object the owners of its replicas.
pub(crate) fn show(of: &Replicas<'_>, object: &Value, scale: &mut Value) -> Result<(), String> {
    let mut shown = Vec::new();
    for entry in entries::stored(managed(object).cloned())? {
        let Some(path) = of.path(&entry.api_version).filter(|path| !path.is_empty()) else {
            continue;
        };
        if entry.has_any(&place(&path)) {
            let id = Id { api_version: SCALE, ..entry.id() };
            shown.push(Entry::new(&id, entry.time.clone(), replicas()));
        }
    }
    set_managed(scale, entries::encode(shown));
    Ok(())
}

/// Takes the owners of a `Scale` over into its object.
pub(crate) fn take_over(of: &Replicas<'_>, object: &mut Value, scale: &Value) -> Result<(), String> {
    let mut owners = entries::stored(managed(scale).cloned())?;
    let mut all = Vec::new();
    for mut entry in entries::stored(managed(object).cloned())? {
        let Some(path) = of.path(&entry.api_version) else {
            continue;
        };
        if !path.is_empty() && entry.has_any(&place(&path)) {
            // Owners that update are told apart by their version too, which is another one there: they never are the
            // same, and their replicas come back as an owner of its own.
            match owners.iter().position(|owner| owner.is(&entry.id())) {
                Some(index) => {
                    owners.remove(index);
                }
                None => entry.change(|set| set.subtract(&place(&path))),
            }
        }
        if !entry.is_empty() {
            all.push(entry);
        }
    }
    for owner in owners.into_iter().filter(|owner| owner.has_any(&replicas())) {
        let id = Id { api_version: of.api_version, ..owner.id() };
        all.push(Entry::new(&id, None, place(of.path)));
    }
    set_managed(object, entries::encode(all));
    Ok(())
}
