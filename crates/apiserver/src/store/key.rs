//! How an object is addressed, in memory and in the backend.

use std::fmt;
use std::sync::Arc;

/// One object's address: the table it lives in and its place there.
///
/// The table is `group/resource` (the core group is empty), the path `namespace/name` (empty namespace when
/// cluster-scoped). One string per part keeps look-ups free of allocation and gives lists etcd's order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    table: Arc<str>,
    path: Box<str>,
}

impl Key {
    /// The key of `name` in `namespace` (empty when cluster-scoped).
    pub fn new(table: &Arc<str>, namespace: &str, name: &str) -> Self {
        Self { table: Arc::clone(table), path: format!("{namespace}/{name}").into_boxed_str() }
    }

    /// Reads what [`Key::fmt`] wrote; nothing when the text has fewer than four parts.
    pub fn decode(text: &str) -> Option<Self> {
        let (group_end, _) = text.match_indices('/').nth(1)?;
        let (table, rest) = text.split_at(group_end);
        let path = rest.strip_prefix('/')?;
        path.contains('/').then(|| Self { table: table.into(), path: path.into() })
    }

    /// `group/resource`.
    pub fn table(&self) -> &Arc<str> {
        &self.table
    }

    /// `namespace/name`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.path.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        self.path.split_once('/').map_or("", |(_, name)| name)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.table, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_key_are_the_same_thing() {
        for (table, namespace, name) in [
            ("/pods", "default", "a"),
            ("/nodes", "", "n"),
            ("rbac.authorization.k8s.io/roles", "x", "system:a"),
        ] {
            let key = Key::new(&table.into(), namespace, name);
            assert_eq!(Key::decode(&key.to_string()), Some(key.clone()));
            assert_eq!((key.namespace(), key.name()), (namespace, name));
        }
        assert_eq!(Key::decode("pods/a"), None);
        assert_eq!(Key::decode(""), None);
    }
}
