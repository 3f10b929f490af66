//! Signed tokens. There is one key and one algorithm, and the token does not get to say which: a header that names
//! another is a token of somebody else.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;

const ALGORITHM: &str = "ES256";
/// An uncompressed point: a tag, then two coordinates.
const COORDINATE: usize = 32;

/// A key that signs the tokens of service accounts: ECDSA on P-256.
#[derive(Clone)]
pub struct SigningKey {
    pair: Arc<EcdsaKeyPair>,
    id: Arc<str>,
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("it is not a PKCS#8 private key on the curve P-256")]
pub struct KeyError;

/// Why a token is not one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JwtError {
    /// It is no token at all, or says that it is somebody else's.
    Foreign,
    /// It looks like ours, and is not.
    Forged,
}

impl SigningKey {
    /// A key from PKCS#8.
    ///
    /// # Errors
    /// When it is not one of the right kind.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, KeyError> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der).map_err(|_| KeyError)?;
        let public = pair.public_key().as_der().map_err(|_| KeyError)?;
        let id = URL_SAFE_NO_PAD.encode(digest(&SHA256, public.as_ref()));
        Ok(Self { pair: Arc::new(pair), id: id.into() })
    }

    /// A new key that nobody keeps.
    ///
    /// # Errors
    /// When the operating system has no randomness.
    pub fn generate() -> Result<Self, KeyError> {
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        Self::from_pkcs8(pkcs8.map_err(|_| KeyError)?.as_ref())
    }

    /// A token that says this.
    pub(super) fn sign(&self, claims: &Value) -> Result<String, KeyError> {
        let header = json!({"alg": ALGORITHM, "kid": &*self.id});
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", encode(&header), encode(claims));
        let signature = self.pair.sign(&SystemRandom::new(), text.as_bytes()).map_err(|_| KeyError)?;
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// What a token says, if it is ours.
    pub(super) fn read(&self, token: &str, issuer: &str) -> Result<Value, JwtError> {
        #[derive(Deserialize)]
        struct Header {
            alg: String,
            #[serde(default)]
            kid: String,
        }
        let (text, signature) = token.rsplit_once('.').ok_or(JwtError::Foreign)?;
        let (header, claims) = text.split_once('.').ok_or(JwtError::Foreign)?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| JwtError::Foreign);
        let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| JwtError::Foreign)?;
        let claims: Value = serde_json::from_slice(&decode(claims)?).map_err(|_| JwtError::Foreign)?;
        if claims.get("iss").and_then(Value::as_str) != Some(issuer) {
            return Err(JwtError::Foreign);
        }
        if header.alg != ALGORITHM || !(header.kid.is_empty() || *header.kid == *self.id) {
            return Err(JwtError::Forged);
        }
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key().as_ref());
        let signature = decode(signature).map_err(|_| JwtError::Forged)?;
        public.verify(text.as_bytes(), &signature).map_err(|_| JwtError::Forged)?;
        Ok(claims)
    }

    /// The public key, for others who check our tokens.
    pub(super) fn jwks(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let coordinates = point.get(1..).unwrap_or_default();
        let (x, y) = coordinates.split_at_checked(COORDINATE).unwrap_or_default();
        json!({"keys": [{
            "use": "sig", "kty": "EC", "kid": &*self.id, "crv": "P-256", "alg": ALGORITHM,
            "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
        }]})
    }

    /// What the discovery document says of the algorithm.
    pub(super) const ALGORITHM: &str = ALGORITHM;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_signed_is_believed() {
        let key = SigningKey::generate().unwrap();
        let claims = json!({"iss": "me", "sub": "x"});
        let token = key.sign(&claims).unwrap();
        assert_eq!(key.read(&token, "me"), Ok(claims.clone()));
        assert_eq!(key.read(&token, "you"), Err(JwtError::Foreign));
        assert_eq!(SigningKey::generate().unwrap().read(&token, "me"), Err(JwtError::Forged));
        let [header, body, signature] = token.split('.').collect::<Vec<_>>().try_into().unwrap();
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let other = encode(&json!({"iss": "me", "sub": "admin"}));
        let none = encode(&json!({"alg": "none"}));
        let mac = encode(&json!({"alg": "HS256", "kid": &*key.id}));
        for (token, error) in [
            (format!("{header}.{other}.{signature}"), JwtError::Forged),
            (format!("{header}.{body}."), JwtError::Forged),
            (format!("{header}.{body}.{signature}A"), JwtError::Forged),
            (format!("{none}.{body}."), JwtError::Forged),
            (format!("{none}.{body}.{signature}"), JwtError::Forged),
            (format!("{mac}.{body}.{signature}"), JwtError::Forged),
            (format!("{header}.{body}"), JwtError::Foreign),
            (format!(".{body}.{signature}"), JwtError::Foreign),
            (format!("{header}.{header}.{signature}"), JwtError::Foreign),
            ("..".into(), JwtError::Foreign),
            (String::new(), JwtError::Foreign),
            ("a".repeat(10_000), JwtError::Foreign),
        ] {
            assert_eq!(key.read(&token, "me"), Err(error), "{token}");
        }
    }

    #[test]
    fn the_public_key_is_published_as_a_curve_point() {
        let jwks = SigningKey::generate().unwrap().jwks();
        for coordinate in ["x", "y"] {
            let text = jwks["keys"][0][coordinate].as_str().unwrap();
            assert_eq!(URL_SAFE_NO_PAD.decode(text).unwrap().len(), COORDINATE);
        }
    }
}
