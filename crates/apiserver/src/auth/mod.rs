//! Who a request is from and what they may do.
//!
//! [`require`] finds out who is asking and puts an [`Identity`] into the request; without that layer, as inside this
//! process, whoever has the router may do everything.

mod authenticate;
pub(crate) mod identity;
pub(crate) mod impersonate;
pub(crate) mod rbac;
pub(crate) mod request;
mod tokens;

pub use self::authenticate::{Authenticator, require};
pub use self::identity::Identity;
pub use self::tokens::Tokens;
