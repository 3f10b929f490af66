//! One thing that is wrong with one field, worded as Kubernetes words it.

use std::fmt;

/// An error of the user's input: which field, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Where, for example `spec.tfReplicaSpecs[Worker].replicas`.
    pub path: String,
    /// What, for example `Required value: must be specified`.
    pub message: String,
}

impl FieldError {
    /// Something is missing.
    pub fn required(path: impl Into<String>, detail: impl fmt::Display) -> Self {
        Self { path: path.into(), message: format!("Required value: {detail}") }
    }

    /// Something may not be so here.
    pub fn forbidden(path: impl Into<String>, detail: impl fmt::Display) -> Self {
        Self { path: path.into(), message: format!("Forbidden: {detail}") }
    }

    /// A value of the right type that cannot be right. A text is shown in quotes, a number without.
    pub fn invalid(path: impl Into<String>, value: impl fmt::Debug, detail: impl fmt::Display) -> Self {
        Self { path: path.into(), message: format!("Invalid value: {value:?}: {detail}") }
    }

    /// A value that is none of those known.
    pub fn not_supported(path: impl Into<String>, value: impl fmt::Display, known: &[&str]) -> Self {
        let known: Vec<String> = known.iter().map(|k| format!("\"{k}\"")).collect();
        Self {
            path: path.into(),
            message: format!("Unsupported value: \"{value}\": supported values: {}", known.join(", ")),
        }
    }

    /// A value of the wrong type.
    pub fn wrong_type(path: impl Into<String>, detail: impl fmt::Display) -> Self {
        Self { path: path.into(), message: detail.to_string() }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

impl std::error::Error for FieldError {}

/// Several errors on one line: alone as it is, more in brackets, as Kubernetes prints them.
pub fn one_line(errors: &[FieldError]) -> String {
    match errors {
        [only] => only.to_string(),
        many => format!("[{}]", many.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    }
}
