//! Field errors in the words of the real server.

use std::fmt;

use serde_json::Value;

/// The machine-readable cause of a field error, as it stands in `status.details.causes[].reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldReason {
    /// The value is not allowed.
    Invalid,
    /// The value is missing.
    Required,
    /// The value has another type or format.
    TypeInvalid,
    /// The value is none of the allowed ones.
    NotSupported,
    /// The value occurs twice where it must be unique.
    Duplicate,
    /// The value may not be set here.
    Forbidden,
    /// The text is too long.
    TooLong,
    /// There are too many items.
    TooMany,
    /// What is referred to does not exist.
    NotFound,
}

impl FieldReason {
    /// The name in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::Required => "FieldValueRequired",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::NotFound => "FieldValueNotFound",
        }
    }

    /// How messages with this reason begin.
    fn title(self) -> &'static str {
        match self {
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::Required => "Required value",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::NotFound => "Not found",
        }
    }
}

impl fmt::Display for FieldReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One thing that is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Dotted path from the root, `<nil>` for the root itself.
    pub field: String,
    /// What kind of problem it is.
    pub reason: FieldReason,
    /// The whole message without the path, for example `Required value: must be set`.
    pub message: String,
}

impl FieldError {
    /// A value that is not allowed, and why.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: impl AsRef<str>) -> Self {
        Self::with_value(field.into(), FieldReason::Invalid, value, detail.as_ref())
    }

    /// A value that is not allowed, in words of its own.
    pub fn invalid_shown(field: impl Into<String>, shown: &str, detail: impl AsRef<str>) -> Self {
        let message = format!("{}: {shown}: {}", FieldReason::Invalid.title(), detail.as_ref());
        Self { field: named(field.into()), reason: FieldReason::Invalid, message }
    }

    /// A value that is not allowed and too large to be quoted.
    pub fn invalid_unquoted(field: impl Into<String>, detail: impl AsRef<str>) -> Self {
        Self::plain(field.into(), FieldReason::Invalid, detail.as_ref())
    }

    /// A value of a wrong type or format.
    pub fn type_invalid(field: impl Into<String>, value: &Value, detail: impl AsRef<str>) -> Self {
        Self::with_value(field.into(), FieldReason::TypeInvalid, value, detail.as_ref())
    }

    /// A value that is missing. The detail may be empty.
    pub fn required(field: impl Into<String>, detail: impl AsRef<str>) -> Self {
        Self::plain(field.into(), FieldReason::Required, detail.as_ref())
    }

    /// A value that may not be set.
    pub fn forbidden(field: impl Into<String>, detail: impl AsRef<str>) -> Self {
        Self::plain(field.into(), FieldReason::Forbidden, detail.as_ref())
    }

    /// A value that is already there.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::with_value(field.into(), FieldReason::Duplicate, value, "")
    }

    /// A value that is already there and too large to be quoted.
    pub fn duplicate_unquoted(field: impl Into<String>) -> Self {
        Self::plain(field.into(), FieldReason::Duplicate, "")
    }

    /// A value that is none of the supported ones.
    pub fn not_supported<'a>(
        field: impl Into<String>,
        value: &Value,
        supported: impl IntoIterator<Item = &'a Value>,
    ) -> Self {
        let quoted =
            |v: &Value| v.as_str().map_or_else(|| format!("{:?}", v.to_string()), |s| format!("{s:?}"));
        let list: Vec<String> = supported.into_iter().map(quoted).collect();
        let detail = format!("supported values: {}", list.join(", "));
        Self::with_value(field.into(), FieldReason::NotSupported, value, &detail)
    }

    /// A text longer than allowed.
    pub fn too_long(field: impl Into<String>, max: u64) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        Self::plain(field.into(), FieldReason::TooLong, &format!("may not be more than {max} {unit}"))
    }

    /// More items than allowed.
    pub fn too_many(field: impl Into<String>, actual: usize, max: u64) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {max} {unit}");
        Self::with_value(field.into(), FieldReason::TooMany, &Value::from(actual), &detail)
    }

    fn plain(field: String, reason: FieldReason, detail: &str) -> Self {
        let title = reason.title();
        let message = if detail.is_empty() { title.to_owned() } else { format!("{title}: {detail}") };
        Self { field: named(field), reason, message }
    }

    fn with_value(field: String, reason: FieldReason, value: &Value, detail: &str) -> Self {
        let title = reason.title();
        let shown = match value {
            Value::String(text) => format!("{text:?}"),
            Value::Number(number) => show_number(number),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
        };
        let message = if detail.is_empty() {
            format!("{title}: {shown}")
        } else {
            format!("{title}: {shown}: {detail}")
        };
        Self { field: named(field), reason, message }
    }
}

/// The real server prints an empty path this way.
fn named(field: String) -> String {
    if field.is_empty() { "<nil>".to_owned() } else { field }
}

/// A number the way the real server prints it: no `.0` on whole ones.
pub(super) fn show_number(number: &serde_json::Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => show_float(float),
        _ => number.to_string(),
    }
}

/// Like [`show_number`], for the bounds of a schema.
pub(super) fn show_float(float: f64) -> String {
    if float.abs() >= 1e21 {
        format!("{float:e}").replace('e', "e+").replace("e+-", "e-")
    } else {
        float.to_string()
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl std::error::Error for FieldError {}
