//! The frameworks, one file each. To add one: a file here, and a line in [`ALL`].

mod jax;
mod mpi;
mod paddle;
mod pytorch;
mod tensorflow;
mod xgboost;

use crate::framework::Framework;

/// Every framework this build knows, sorted by name.
pub static ALL: &[&dyn Framework] =
    &[&jax::Jax, &mpi::Mpi, &paddle::Paddle, &pytorch::PyTorch, &tensorflow::TensorFlow, &xgboost::XGBoost];
