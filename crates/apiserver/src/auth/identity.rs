//! Who a request is from.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// May do everything, without being looked up.
pub(crate) const MASTERS: &str = "system:masters";
/// Everybody who said who they are.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// Everybody who did not.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The name of whoever did not say.
pub(crate) const ANONYMOUS: &str = "system:anonymous";
/// What names of service accounts begin with.
pub(crate) const ACCOUNT_PREFIX: &str = "system:serviceaccount:";
const ACCOUNTS: &str = "system:serviceaccounts";

/// A user as rules and webhooks see one. Requests carry it as an extension, in an `Arc`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The name, `system:serviceaccount:NAMESPACE:NAME` for a service account.
    pub name: String,
    /// Tells users of the same name apart; empty where nobody does.
    pub uid: String,
    /// In the order they were found.
    pub groups: Vec<String>,
    /// What else is known.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// Somebody who said who they are.
    pub fn authenticated(name: impl Into<String>, groups: impl IntoIterator<Item = String>) -> Self {
        let groups = groups.into_iter().chain([AUTHENTICATED.to_owned()]).collect();
        Self { name: name.into(), groups, ..Self::default() }
    }

    /// A part of this process: it may do everything.
    pub fn internal(name: &str) -> Self {
        Self::authenticated(name, [MASTERS.to_owned()])
    }

    /// Somebody who did not say.
    pub(crate) fn anonymous() -> Self {
        Self { name: ANONYMOUS.into(), groups: vec![UNAUTHENTICATED.into()], ..Self::default() }
    }

    /// A service account.
    pub(crate) fn account(namespace: &str, name: &str, uid: &str) -> Self {
        let groups = account_groups(namespace);
        let identity = Self::authenticated(format!("{ACCOUNT_PREFIX}{namespace}:{name}"), groups);
        Self { uid: uid.into(), ..identity }
    }

    /// Who is meant when something is shared out: accounts of one namespace together are one user, since whoever has the
    /// namespace can make as many as they like.
    pub(crate) fn payer(&self) -> &str {
        let account = self.name.strip_prefix(ACCOUNT_PREFIX).and_then(|rest| rest.split_once(':'));
        let length = account.map(|(namespace, _)| ACCOUNT_PREFIX.len() + namespace.len());
        length.and_then(|length| self.name.get(..length)).unwrap_or(&self.name)
    }

    pub(crate) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// Whether no rule needs to be asked.
    pub(crate) fn is_master(&self) -> bool {
        self.is_in(MASTERS)
    }

    /// The `userInfo` of reviews.
    pub(crate) fn info(&self) -> Value {
        let mut info = Map::new();
        for (field, value) in [
            ("username", json!(self.name)),
            ("uid", json!(self.uid)),
            ("groups", json!(self.groups)),
            ("extra", json!(self.extra)),
        ] {
            let empty = value.as_str().is_some_and(str::is_empty)
                || value.as_array().is_some_and(Vec::is_empty)
                || value.as_object().is_some_and(Map::is_empty);
            if !empty {
                info.insert(field.into(), value);
            }
        }
        Value::Object(info)
    }
}

/// The groups every account of a namespace is in.
pub(crate) fn account_groups(namespace: &str) -> [String; 2] {
    [ACCOUNTS.to_owned(), format!("{ACCOUNTS}:{namespace}")]
}

/// The namespace and name of a service account's user name.
pub(crate) fn split_account(name: &str) -> Option<(&str, &str)> {
    let (namespace, account) = name.strip_prefix(ACCOUNT_PREFIX)?.split_once(':')?;
    let plain = !namespace.is_empty() && !account.is_empty() && !account.contains(':');
    plain.then_some((namespace, account))
}
