//! Label and field selectors: what `?labelSelector=` and `?fieldSelector=` mean.
//!
//! Both are parsed once per request and then matched against every candidate object, so parsing owns its strings and
//! matching allocates nothing for labels. The accepted syntax and the wording of errors follow the real API server,
//! because clients (kubectl, dashboards) show those errors to people unchanged.

mod field;
mod label;
mod lexer;
mod syntax;
#[cfg(test)]
mod tests;

pub use field::FieldSelector;
pub use label::LabelSelector;

/// Why a selector was not understood. The text is what the API answers with status 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(String);

impl SelectorError {
    fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}
