//! Acting with the rights of the container's user before becoming it.

use std::io;

use nix::unistd::{Gid, Uid, geteuid, setegid, seteuid, setgroups};

use crate::runtime::ContainerSpec;

/// The user of an isolated container.
#[derive(Clone, Debug)]
pub(super) struct Person {
    user: Uid,
    groups: Vec<Gid>,
}

impl Person {
    /// Only where the container must not get more than its user has.
    pub(super) fn of(spec: &ContainerSpec) -> Option<Self> {
        let user = spec.user.filter(|_| spec.isolated && geteuid().is_root())?;
        let own = Gid::from_raw(spec.group.unwrap_or(user));
        let groups = std::iter::once(own).chain(spec.groups.iter().copied().map(Gid::from_raw)).collect();
        Some(Self { user: Uid::from_raw(user), groups })
    }

    /// Does something with the rights of that user. There is one thread only, which is root again afterwards.
    pub(super) fn act<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let group = self.groups.first().copied().unwrap_or_else(|| Gid::from_raw(self.user.as_raw()));
        setgroups(&self.groups)?;
        setegid(group)?;
        seteuid(self.user)?;
        let done = work();
        seteuid(Uid::from_raw(0))?;
        setegid(Gid::from_raw(0))?;
        setgroups(&[])?;
        done
    }
}
