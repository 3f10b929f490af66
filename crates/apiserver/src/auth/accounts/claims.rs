//! What the token of a service account says, and whether it still holds.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::auth::Identity;
use crate::auth::identity::ACCOUNT_PREFIX;
use crate::object::meta;
use crate::store::{Key, Store, Stored};

/// Clocks may differ by this much, in seconds.
const LEEWAY: i64 = 60;
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// An object by name and uid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bound {
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// The part of a token that is about Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Private {
    pub(crate) namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<Bound>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<Bound>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<Bound>,
    pub(crate) serviceaccount: Bound,
}

/// A token's content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(crate) audiences: Vec<String>,
    /// In seconds since the epoch; a token without an end is one of a secret.
    pub(crate) expires: Option<i64>,
    pub(crate) issued: i64,
    pub(crate) id: String,
    pub(crate) private: Private,
}

impl Claims {
    /// As they are signed.
    pub(super) fn show(&self, issuer: &str) -> Value {
        let account = &self.private.serviceaccount.name;
        let mut claims = json!({
            "aud": self.audiences, "iat": self.issued, "nbf": self.issued, "iss": issuer, "jti": self.id,
            "kubernetes.io": self.private, "sub": format!("{ACCOUNT_PREFIX}{}:{account}", self.private.namespace),
        });
        if let (Some(expires), Some(map)) = (self.expires, claims.as_object_mut()) {
            map.insert("exp".into(), expires.into());
        }
        claims
    }

    /// From a token whose signature is good.
    pub(super) fn read(claims: &Value) -> Option<Self> {
        let number = |field: &str| claims.get(field).and_then(Value::as_i64);
        Some(Self {
            audiences: serde_json::from_value(claims.get("aud")?.clone()).ok()?,
            expires: number("exp"),
            issued: number("nbf").or_else(|| number("iat"))?,
            id: claims.get("jti").and_then(Value::as_str).unwrap_or_default().to_owned(),
            private: serde_json::from_value(claims.get("kubernetes.io")?.clone()).ok()?,
        })
    }

    /// Whose token it is, if it is in its time and everything it is bound to is still there.
    pub(super) fn identity(&self, store: &Store, now: Timestamp) -> Result<Identity, String> {
        let second = now.as_second();
        if self.expires.is_some_and(|end| second > end.saturating_add(LEEWAY)) {
            return Err("service account token has expired".into());
        }
        if second < self.issued.saturating_sub(LEEWAY) {
            return Err("service account token is not valid yet".into());
        }
        let Private { namespace, node, pod, secret, serviceaccount } = &self.private;
        let account = find(store, "/serviceaccounts", namespace, &serviceaccount.name)
            .ok_or_else(|| format!("serviceaccounts {:?} not found", serviceaccount.name))?;
        if *account.uid != *serviceaccount.uid {
            let (uid, claim) = (&account.uid, &serviceaccount.uid);
            return Err(format!("service account UID ({uid}) does not match claim ({claim})"));
        }
        if is_long_gone(&account, second) {
            let name = &serviceaccount.name;
            return Err(format!("service account {namespace}/{name} has been deleted"));
        }
        let home = namespace.as_str();
        for (kind, table, home, bound) in [
            ("secret", "/secrets", home, secret.as_ref()),
            ("pod", "/pods", home, pod.as_ref()),
            // With a pod the node is only told.
            ("node", "/nodes", "", node.as_ref().filter(|_| pod.is_none())),
        ] {
            if let Some(bound) = bound {
                check_bound(store, kind, (table, home), bound, second)?;
            }
        }
        Ok(self.told())
    }

    fn told(&self) -> Identity {
        let Private { namespace, node, pod, serviceaccount, .. } = &self.private;
        let mut identity = Identity::account(namespace, &serviceaccount.name, &serviceaccount.uid);
        let mut tell = |field: &str, value: String| identity.extra.insert(field.to_owned(), vec![value]);
        if !self.id.is_empty() {
            tell(CREDENTIAL, format!("JTI={}", self.id));
        }
        for (kind, bound) in [("pod", pod), ("node", node)] {
            if let Some(bound) = bound {
                tell(&format!("authentication.kubernetes.io/{kind}-name"), bound.name.clone());
                if !bound.uid.is_empty() {
                    tell(&format!("authentication.kubernetes.io/{kind}-uid"), bound.uid.clone());
                }
            }
        }
        identity
    }
}

fn find(store: &Store, table: &str, namespace: &str, name: &str) -> Option<Arc<Stored>> {
    store.get(&Key::new(&table.into(), namespace, name))
}

fn check_bound(
    store: &Store,
    kind: &str,
    (table, home): (&str, &str),
    bound: &Bound,
    second: i64,
) -> Result<(), String> {
    let invalid = "service account token has been invalidated";
    let found = find(store, table, home, &bound.name).ok_or(invalid)?;
    if *found.uid != *bound.uid {
        let (uid, claim) = (&found.uid, &bound.uid);
        return Err(format!("{kind} UID ({uid}) does not match service account {kind} ref claim ({claim})"));
    }
    if is_long_gone(&found, second) { Err(invalid.into()) } else { Ok(()) }
}

/// Whether something has been deleting for longer than clocks may differ.
fn is_long_gone(stored: &Stored, second: i64) -> bool {
    if !stored.deleting {
        return false;
    }
    let Ok(object) = stored.value() else { return true };
    let since = meta(&object, "deletionTimestamp").parse::<Timestamp>();
    since.is_ok_and(|since| since.as_second() < second.saturating_sub(LEEWAY))
}
