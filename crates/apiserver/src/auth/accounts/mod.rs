//! Service accounts: tokens that stand for them, and what every namespace has for them.

mod claims;
pub(crate) mod homes;
mod jwt;
pub(crate) mod secrets;

use aws_lc_rs::digest::{SHA256, digest};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use self::claims::{Bound, Claims, Private};
use self::jwt::JwtError;
pub use self::jwt::{KeyError, SigningKey};
use super::Identity;
use crate::store::Store;

/// Who issues tokens, unless somebody says otherwise: the name a cluster has for itself.
pub const ISSUER: &str = "https://kubernetes.default.svc";
/// Tokens whose signature was checked already.
const REMEMBERED: usize = 1024;

/// What the server needs to have service accounts.
#[derive(Debug)]
pub struct Accounts {
    key: SigningKey,
    issuer: String,
    /// The certificate that clients check this server with; empty if there is none.
    pub(crate) root_ca: String,
    /// By the hash of the token. A signature stays good; everything else is looked at each time.
    checked: Mutex<HashMap<[u8; 32], Arc<Claims>>>,
}

/// A token that was accepted, and for whom.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) identity: Identity,
    /// Those of the token that were asked for.
    pub(crate) audiences: Vec<String>,
}

impl Accounts {
    /// Accounts whose tokens are signed by this key. `root_ca` is the PEM that clients check the server with.
    pub fn new(key: SigningKey, issuer: impl Into<String>, root_ca: impl Into<String>) -> Self {
        let checked = Mutex::default();
        Self { key, issuer: issuer.into(), root_ca: root_ca.into(), checked }
    }

    /// Whom tokens are for unless they say otherwise: this server.
    pub(crate) fn audiences(&self) -> Vec<String> {
        vec![self.issuer.clone()]
    }

    /// A token.
    pub(crate) fn sign(&self, claims: &Claims) -> Result<String, KeyError> {
        self.key.sign(&claims.show(&self.issuer))
    }

    /// Who a token is from. `None`: it is none of ours, which is nobody's fault.
    pub(crate) fn check(
        &self,
        store: &Store,
        token: &str,
        wanted: &[String],
        now: Timestamp,
    ) -> Option<Result<Accepted, String>> {
        let claims = match self.claims(token) {
            Ok(claims) => claims,
            Err(JwtError::Foreign) => return None,
            Err(JwtError::Forged) => {
                return Some(Err("go-jose/go-jose: error in cryptographic primitive".into()));
            }
        };
        let audiences: Vec<String> =
            claims.audiences.iter().filter(|audience| wanted.contains(audience)).cloned().collect();
        if audiences.is_empty() {
            let list = |list: &[String]| {
                let texts: Vec<String> = list.iter().map(|text| format!("{text:?}")).collect();
                format!("[{}]", texts.join(" "))
            };
            let (own, wanted) = (list(&claims.audiences), list(wanted));
            return Some(Err(format!("token audiences {own} is invalid for the target audiences {wanted}")));
        }
        Some(claims.identity(store, now).map(|identity| Accepted { identity, audiences }))
    }

    fn claims(&self, token: &str) -> Result<Arc<Claims>, JwtError> {
        let hash = digest(&SHA256, token.as_bytes());
        let hash: [u8; 32] = hash.as_ref().try_into().map_err(|_| JwtError::Foreign)?;
        if let Some(known) = self.checked.lock().unwrap_or_else(PoisonError::into_inner).get(&hash) {
            return Ok(Arc::clone(known));
        }
        let claims = self.key.read(token, &self.issuer)?;
        let claims = Arc::new(Claims::read(&claims).ok_or(JwtError::Forged)?);
        let mut checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if checked.len() >= REMEMBERED {
            checked.clear();
        }
        checked.insert(hash, Arc::clone(&claims));
        Ok(claims)
    }

    /// `/.well-known/openid-configuration`.
    pub(crate) fn discovery(&self, host: &str) -> Value {
        json!({
            "issuer": self.issuer, "jwks_uri": format!("https://{host}/openid/v1/jwks"),
            "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [SigningKey::ALGORITHM],
        })
    }

    /// `/openid/v1/jwks`.
    pub(crate) fn jwks(&self) -> Value {
        self.key.jwks()
    }
}
