//! Structural schemas: prune, default, validate, CEL.
//!
//! The OpenAPI v3 schema of a CRD version is read once into a tree of [`node::Node`]s. The tree is what makes the rest
//! cheap: every pass walks object and tree together and looks each field up once. Behaviour and wording follow the
//! real API server; where they differ, the real one is right.
//!
//! The order of a write is: [`Structural::prune`], [`Structural::default`], admission, [`Structural::validate`].

mod celcheck;
mod celcost;
mod celeval;
mod celexpand;
mod celparse;
mod celsize;
mod celvalue;
mod condition;
mod correlate;
mod default;
mod error;
mod format;
mod junction;
mod node;
mod parse;
mod path;
mod pattern;
mod prune;
mod rules;
mod rulesource;
mod shared;
mod structure;
#[cfg(test)]
mod tests;
mod validate;
pub(crate) mod view;

use std::sync::Arc;

use serde_json::Value;

pub(crate) use condition::Condition;
pub use error::{FieldError, FieldReason};
use node::Node;
use path::Path;

/// Deepest schema that is read. Bodies are limited to 128 levels, and every level of a schema takes two of them.
const MAX_DEPTH: usize = 96;

/// The schema of one version of a custom resource, ready for use.
#[derive(Debug)]
pub struct Structural {
    root: Arc<Node>,
}

impl Structural {
    /// Reads `openAPIV3Schema` and checks that it is structural.
    ///
    /// Paths in the errors start with `openAPIV3Schema`; the caller puts the place of the version before them.
    ///
    /// # Errors
    /// Everything that is wrong with the schema, not only the first thing: untyped nodes, forbidden keywords,
    /// patterns and CEL rules that do not compile, defaults that do not match.
    pub fn parse(open_api_v3_schema: &Value) -> Result<Self, Vec<FieldError>> {
        parse::parse(open_api_v3_schema).map(|root| Self { root })
    }

    /// Rules that would cost too much, by what the schema says about sizes. For a definition that is being written: one
    /// that is stored is served.
    pub(crate) fn too_expensive(&self) -> Vec<FieldError> {
        celcost::check(&self.root)
    }

    /// Whether there are CEL rules with loops, which may take long for a small object.
    pub(crate) fn has_loops(&self) -> bool {
        self.root.has_loops
    }

    /// Drops the fields the schema does not know and returns their paths, for `fieldValidation`.
    ///
    /// `apiVersion`, `kind` and `metadata` stay at the root and at embedded resources.
    pub fn prune(&self, obj: &mut Value) -> Vec<String> {
        let mut dropped = Vec::new();
        prune::prune(&self.root, obj, true, &Path::Root, &mut dropped);
        dropped
    }

    /// Fills in defaults where a field is absent, or `null` without being nullable. Such a `null` without a default
    /// is dropped.
    pub fn default(&self, obj: &mut Value) {
        default::default(&self.root, obj, false);
    }

    /// The same, but a `null` without a default stays, to be complained about.
    pub fn default_nulls(&self, obj: &mut Value) {
        default::default(&self.root, obj, true);
    }

    /// Everything that is wrong with an object, given the stored one when it is an update.
    ///
    /// A value that was wrong before and did not change is tolerated ("ratcheting"), so that a stricter schema does
    /// not block unrelated updates of old objects.
    #[must_use]
    pub fn validate(&self, obj: &Value, old: Option<&Value>) -> Vec<FieldError> {
        validate::object(&self.root, obj, old, (Vec::new(), false))
    }

    /// The same when only the status was written.
    #[must_use]
    pub fn validate_status(
        &self,
        obj: &Value,
        old: Option<&Value>,
        elsewhere: (Vec<FieldError>, bool),
    ) -> Vec<FieldError> {
        validate::status(&self.root, obj, old, elsewhere)
    }

    /// The same, with what others found wrong with values: it is told before what rules say. No rule is asked if something
    /// is missing elsewhere.
    #[must_use]
    pub fn validate_with(
        &self,
        obj: &Value,
        old: Option<&Value>,
        elsewhere: (Vec<FieldError>, bool),
    ) -> Vec<FieldError> {
        validate::object(&self.root, obj, old, elsewhere)
    }
}
