//! Which user of this machine a container runs as, and where that user finds the pod's directory.

mod book;
mod devices;
mod ground;
mod identity;
mod passwd;
mod range;
mod tenant;

pub(crate) use self::book::Users;
pub(crate) use self::devices::device_groups;
pub use self::ground::HELPER;
pub(crate) use self::ground::{Ground, RUN, WORK, ground};
pub(crate) use self::identity::{Identity, identity, root_refusals};
pub use self::range::UidRange;
pub(crate) use self::tenant::{Tenant, add};
