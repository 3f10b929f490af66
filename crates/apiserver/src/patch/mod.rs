//! Patches: JSON (RFC 6902), merge (RFC 7396) and strategic merge.
//!
//! All three are pure functions on the stored object. What a patch may not change (name, uid, …) is the caller's
//! business: it compares the result with the original.

mod go;
mod json;
mod merge;
mod order;
mod strategic;
#[cfg(test)]
mod tests;

pub(crate) use go::go_text;
pub use json::json;
pub use merge::merge;
pub(crate) use strategic::strategic;

/// Why a patch was refused. The target is unchanged then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch is well formed but does not apply to this object: status 422.
    #[error("{0}")]
    Invalid(String),
    /// The body is no patch of its kind: status 400.
    #[error("{0}")]
    Malformed(String),
    /// It is wrong in a way that a real server takes for a fault of its own: status 500.
    #[error("{0}")]
    Unexpected(String),
}
