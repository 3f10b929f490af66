//! Where a walk stands, as a list on the stack: rendered only when something is wrong.

use std::fmt;

/// A place in an object.
#[derive(Clone, Copy, Debug)]
pub(super) enum Path<'a> {
    Root,
    /// A member, printed `.name`. Also keys of maps, in everything but CEL errors.
    Field(&'a Self, &'a str),
    /// A key of a map in CEL errors, printed `[name]`.
    Key(&'a Self, &'a str),
    /// An item of a list.
    Index(&'a Self, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Path::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Key(parent, name) => write!(f, "{parent}[{name}]"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}
