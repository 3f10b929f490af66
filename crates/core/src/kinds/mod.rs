//! The kinds, one file each. To add one: a file here, and a line in [`ALL`].

mod pytorchjob;
mod tfjob;

use crate::kind::Kind;

/// Every kind this build knows, sorted by name.
pub static ALL: &[&Kind] = &[&pytorchjob::KIND, &tfjob::KIND];
