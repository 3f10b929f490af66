//! Which of several replicas works.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this replica works or stands by. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Leadership(Option<Arc<Seat>>);

#[derive(Debug)]
struct Seat {
    name: String,
    taken: AtomicBool,
}

impl Leadership {
    /// For a replica that is the only one: it never stands by.
    pub fn undisputed() -> Self {
        Self(None)
    }

    /// For one of several, which are after the Lease of this name.
    pub fn of(name: impl Into<String>) -> Self {
        Self(Some(Arc::new(Seat { name: name.into(), taken: AtomicBool::new(false) })))
    }

    /// The name of the Lease.
    pub fn name(&self) -> Option<&str> {
        self.0.as_deref().map(|seat| seat.name.as_str())
    }

    /// True while another one works, as far as is known.
    pub fn stands_by(&self) -> bool {
        self.0.as_ref().is_some_and(|seat| !seat.taken.load(Ordering::Relaxed))
    }

    pub(crate) fn set(&self, leads: bool) {
        if let Some(seat) = &self.0 {
            seat.taken.store(leads, Ordering::Relaxed);
        }
    }
}
