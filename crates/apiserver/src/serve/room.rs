//! Who may be connected at once.
//!
//! A connection belongs to a stranger until a request on it says who it is from. Strangers have little room, and the
//! oldest of them goes when another one comes: whoever only connects, however often, keeps nobody out. Clients that are
//! known share the rest, and none of them has all of it; the owner is never refused.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

use crate::auth::Identity;

/// How many connections there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Of clients that have not said who they are.
    pub(super) strangers: usize,
    /// Of one client that did.
    pub(super) client: usize,
    /// Of all clients that did.
    pub(super) clients: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { strangers: 1024, client: 1024, clients: 3072 }
    }
}

/// All connections.
#[derive(Debug)]
pub(super) struct Room {
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// By age, with what closes them.
    strangers: BTreeMap<u64, CancellationToken>,
    /// How many each client has.
    clients: HashMap<String, usize>,
    known: usize,
}

impl Room {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, state: Mutex::default() })
    }

    // Only whole steps change it, so a panic in between leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a stranger in, and if there are too many the oldest out.
    pub(super) fn enter(self: &Arc<Self>) -> Place {
        let out = CancellationToken::new();
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.strangers.insert(number, out.clone());
        if state.strangers.len() > self.limits.strangers
            && let Some((_, oldest)) = state.strangers.pop_first()
        {
            tracing::debug!("closing the oldest connection of a client that has not said who it is");
            oldest.cancel();
        }
        drop(state);
        Place { room: Arc::clone(self), number, out, client: Mutex::default() }
    }
}

/// The place of one connection; it is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    room: Arc<Room>,
    number: u64,
    out: CancellationToken,
    client: Mutex<Client>,
}

/// Whose place it is.
#[derive(Debug, Default)]
enum Client {
    #[default]
    Stranger,
    Owner,
    Known(String),
}

impl Place {
    /// Waits until the connection has to go.
    pub(super) async fn lost(&self) {
        self.out.cancelled().await;
    }

    /// Notes whose connection it is. False if that client has as many as it may have: then it stays a stranger's.
    pub(crate) fn belongs_to(&self, identity: &Identity) -> bool {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*client, Client::Stranger) {
            return true;
        }
        let mut state = self.room.lock();
        if identity.is_master() {
            *client = Client::Owner;
        } else {
            let limits = self.room.limits;
            let held = state.clients.get(identity.payer()).copied().unwrap_or_default();
            if held >= limits.client || state.known >= limits.clients {
                return false;
            }
            state.clients.insert(identity.payer().to_owned(), held + 1);
            state.known += 1;
            *client = Client::Known(identity.payer().to_owned());
        }
        state.strangers.remove(&self.number);
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.room.lock();
        state.strangers.remove(&self.number);
        let client = self.client.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Client::Known(name) = std::mem::take(client) else { return };
        state.known = state.known.saturating_sub(1);
        if let Some(held) = state.clients.get_mut(&name) {
            *held = held.saturating_sub(1);
            if *held == 0 {
                state.clients.remove(&name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> Identity {
        Identity { name: name.into(), ..Identity::default() }
    }

    #[test]
    fn the_oldest_stranger_goes() {
        let room = Room::new(Limits { strangers: 2, client: 1, clients: 2 });
        let places: Vec<Place> = (0..4).map(|_| room.enter()).collect();
        let lost: Vec<bool> = places.iter().map(|place| place.out.is_cancelled()).collect();
        assert_eq!(lost, [true, true, false, false]);
    }

    #[test]
    fn who_is_known_stays() {
        let room = Room::new(Limits { strangers: 1, client: 1, clients: 2 });
        let first = room.enter();
        assert!(first.belongs_to(&user("a")) && first.belongs_to(&user("a")));
        let owner = room.enter();
        assert!(owner.belongs_to(&Identity::internal("owner")));
        let _strangers: Vec<Place> = (0..3).map(|_| room.enter()).collect();
        assert!(!first.out.is_cancelled() && !owner.out.is_cancelled());
    }

    #[test]
    fn no_client_has_all_of_it() {
        let room = Room::new(Limits { strangers: 9, client: 1, clients: 2 });
        let places: Vec<Place> = (0..5).map(|_| room.enter()).collect();
        let [a, again, b, c, owner] = places.as_slice() else { panic!() };
        assert!(a.belongs_to(&user("a")));
        assert!(!again.belongs_to(&user("a")), "one client has one");
        assert!(b.belongs_to(&user("b")));
        assert!(!c.belongs_to(&user("c")), "all clients have two");
        assert!(owner.belongs_to(&Identity::internal("owner")), "the owner is never refused");
        drop(places);
        let last = room.enter();
        assert!(last.belongs_to(&user("a")), "places are free again");
        let state = room.lock();
        assert_eq!((state.known, state.strangers.len(), state.clients.len()), (1, 0, 1));
    }
}
