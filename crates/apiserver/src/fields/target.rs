//! What is written to, and by whom.

use serde_json::Value;

use super::compare::{Changes, compare};
use super::entries::{Id, Operation};
use super::set::Set;
use super::shape::Shape;
use super::validate::validate_live;

/// Who writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    /// Empty for the object itself.
    pub(crate) subresource: &'a str,
    pub(crate) now: &'a str,
}

impl<'a> Writer<'a> {
    pub(super) fn id(&self, operation: Operation, api_version: &'a str) -> Id<'a> {
        let manager = if self.manager.is_empty() { "unknown" } else { self.manager };
        Id { manager, operation, api_version, subresource: self.subresource }
    }
}

/// One version of a resource, as one door to it sees it.
#[derive(Debug)]
pub(crate) struct Version<'a> {
    pub(crate) shape: Shape<'a>,
    /// Places this door does not write, whatever a client sends there.
    pub(crate) reset: &'a Set,
    /// Places of a new object that the server itself will write, because nobody sent them.
    pub(crate) unsent: Option<&'a Set>,
}

/// The versions of a resource other than the one that is asked for.
pub(crate) trait Versions {
    /// A version other than the asked one, if it is (still) served.
    fn version(&self, _api_version: &str) -> Option<Version<'_>> {
        None
    }

    /// An object of the asked version in another one.
    fn convert(&self, object: &Value, _api_version: &str) -> Value {
        object.clone()
    }

    /// An object of another version in the asked one.
    fn convert_back(&self, object: Value) -> Value {
        object
    }

    /// An object before anybody wrote to it, in the asked version.
    fn blank(&self) -> Value;
}

/// What is written to.
pub(crate) struct Target<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) own: Version<'a>,
    pub(crate) versions: &'a dyn Versions,
    /// Whether the types changed since the object was written.
    pub(crate) stale: bool,
}

impl Target<'_> {
    /// What a write changed, as owners of a version see it. Nothing if the version is gone.
    pub(super) fn changes(
        &self,
        old: &Value,
        new: &Value,
        api_version: &str,
    ) -> Result<Option<Changes>, String> {
        if api_version == self.api_version {
            return self.own.changes(old, new).map(Some);
        }
        let Some(version) = self.versions.version(api_version) else {
            return Ok(None);
        };
        let (old, new) = (self.versions.convert(old, api_version), self.versions.convert(new, api_version));
        for object in [&old, &new] {
            validate_live(version.shape, object)?;
        }
        version.changes(&old, &new).map(Some)
    }
}

impl Version<'_> {
    fn changes(&self, old: &Value, new: &Value) -> Result<Changes, String> {
        let mut changes = compare(self.shape, old, new)?;
        for places in std::iter::once(self.reset).chain(self.unsent) {
            changes.ignore(places);
        }
        Ok(changes)
    }
}
