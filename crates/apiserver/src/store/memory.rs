//! Storage for tests and throw-away servers: nothing survives the process.

use super::backend::{Backend, BackendError, Loaded, Write};

/// Keeps nothing beyond the store's own index; a commit costs nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory;

impl Backend for Memory {
    fn load(&self) -> Result<Loaded, BackendError> {
        Ok(Loaded::default())
    }

    fn commit(&self, _batch: &[Write]) -> Result<(), BackendError> {
        Ok(())
    }

    fn blocks(&self) -> bool {
        false
    }
}
