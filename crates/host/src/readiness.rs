//! Whether all roles are ready, for `/readyz`: asked by a server that is there before any of them.

use std::sync::{Arc, Mutex, PoisonError};

type Check = Box<dyn Fn() -> bool + Send + Sync>;

/// Roles that have to be ready.
#[derive(Clone, Default)]
pub(crate) struct Readiness(Arc<Mutex<Vec<(&'static str, Check)>>>);

impl Readiness {
    /// One more role.
    pub(crate) fn add(&self, role: &'static str, check: Option<impl Fn() -> bool + Send + Sync + 'static>) {
        let mut roles = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        roles.extend(check.map(|check| (role, Box::new(check) as Check)));
    }

    /// The roles that are not ready.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let roles = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        roles.iter().filter(|(_, check)| !check()).map(|(role, _)| *role).collect()
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let missing = self.missing();
        if missing.is_empty() { Ok(()) } else { Err(format!("not ready yet: {}", missing.join(", "))) }
    }
}
