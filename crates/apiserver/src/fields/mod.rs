//! Who owns which field: `metadata.managedFields` and server-side apply.
//!
//! Everything here is a pure function over JSON values. A [`Shape`] says how writers share the places of an object;
//! a [`Set`] is a set of such places. Objects are turned into sets, compared and merged by walking value and shape
//! together. [`update`] and [`apply`] put this together into what happens to the owners when somebody writes.
//!
//! Behaviour follows structured-merge-diff and the field manager of the real API server, quirks included: other
//! software (kubectl, Argo CD, operators) reads what is written here.

mod apply;
mod cap;
mod collect;
mod compare;
mod element;
mod entries;
mod known;
mod lastapplied;
mod merge;
mod reconcile;
mod remove;
pub(crate) mod scale;
mod set;
mod shape;
mod target;
#[cfg(test)]
mod tests;
mod update;
mod validate;

pub(crate) use self::apply::{ApplyError, Conflict, apply};
pub(crate) use self::known::blank;
pub(crate) use self::set::Set;
pub(crate) use self::shape::Shape;
pub(crate) use self::target::{Target, Version, Versions, Writer};
pub(crate) use self::update::{forget_times, update};
