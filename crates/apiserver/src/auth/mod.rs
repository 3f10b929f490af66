//! Who a request is from and what they may do.
//!
//! [`require`] finds out who is asking and puts an [`Identity`] into the request; without that layer, as inside this
//! process, whoever has the router may do everything.

pub(crate) mod accounts;
mod authenticate;
pub(crate) mod certificate;
pub(crate) mod identity;
pub(crate) mod impersonate;
pub(crate) mod rbac;
pub(crate) mod request;
mod tokens;

pub use self::accounts::{Accounts, ISSUER, KeyError, SigningKey};
pub use self::authenticate::{Authenticator, Guard, require};
pub use self::certificate::ClientAuthority;
pub use self::identity::Identity;
pub use self::tokens::Tokens;
