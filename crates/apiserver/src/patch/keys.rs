//! The shape of the merge-key table.

/// How the lists below one object merge, as a tree that follows the object's fields. Whatever it does not name merges
/// as in a plain merge patch: objects by member, lists replaced as a whole.
#[derive(Debug)]
pub struct MergeKeys {
    fields: &'static [(&'static str, Field)],
}

/// What the table knows about one field.
#[derive(Clone, Copy, Debug)]
pub enum Field {
    /// An object with something to know further down.
    Object(&'static MergeKeys),
    /// A list of objects told apart by one of their fields.
    List {
        /// The field that identifies an item.
        key: &'static str,
        /// What is known about an item.
        item: &'static MergeKeys,
    },
    /// A list of plain values that merges as a set.
    Set,
}

impl MergeKeys {
    /// Nothing known: the subtree merges as in a plain merge patch.
    pub const PLAIN: Self = Self::new(&[]);

    pub(super) const fn new(fields: &'static [(&'static str, Field)]) -> Self {
        Self { fields }
    }

    /// What is known about a field. The tables have at most a dozen entries, where a scan beats any map.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<Field> {
        self.fields.iter().find(|(field, _)| *field == name).map(|(_, rule)| *rule)
    }
}
