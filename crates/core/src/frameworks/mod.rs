//! The frameworks, one file each. To add one: a file here, and a line in [`ALL`].

mod pytorch;
mod tensorflow;

use crate::framework::Framework;

/// Every framework this build knows, sorted by name.
pub static ALL: &[&dyn Framework] = &[&pytorch::PyTorch, &tensorflow::TensorFlow];
