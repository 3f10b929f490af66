//! Certificates of the webhooks: an authority for ten years, and a server's certificate for one.
//!
//! What is in the Secret may be of the operator that we replace, or of somebody who manages certificates. As long as a
//! client would believe it, it is used as it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::{SignedDuration, Timestamp};
use rcgen::{BasicConstraints, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::asn1_rs::{Any, FromDer as _, OctetString, Sequence};
use x509_parser::certificate::X509Certificate;

use crate::Error;
use crate::pki::{BACKDATE, parameters, verify};

/// Names in the Secret.
pub(super) const CA: &str = "ca.crt";
const CA_KEY: &str = "ca.key";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// As the operator that we replace calls it: with this name it believes our authority, should it come back.
const CA_NAME: &str = "training-operator-ca";
const CA_ORGANIZATION: &str = "training-operator";

const CA_VALID: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
const VALID: SignedDuration = SignedDuration::from_hours(365 * 24);
/// What is valid for less than this is made again.
const RENEW: SignedDuration = SignedDuration::from_hours(90 * 24);

/// The files in the Secret, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pems(pub(super) BTreeMap<String, Vec<u8>>);

/// An authority that can sign.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    until: Timestamp,
}

impl Pems {
    /// What to serve with, if a client believes it now.
    pub(super) fn usable(&self, name: &str, now: Timestamp) -> Result<Arc<CertifiedKey>, String> {
        self.check(name, now, SignedDuration::ZERO).map(Arc::new)
    }

    /// Why others have to be made, if they have to.
    ///
    /// Without the key of the authority somebody else signs these, and renews them in their own time: they are good until
    /// they are not.
    pub(super) fn stale(&self, name: &str, now: Timestamp) -> Option<String> {
        let margin = if self.file(CA_KEY).is_empty() { SignedDuration::ZERO } else { RENEW };
        self.check(name, now, margin).err()
    }

    /// New ones, by the authority that there is, if it is good for as long as they have to be, else by a new one.
    pub(super) fn renewed(&self, name: &str, now: Timestamp) -> Result<Self, Error> {
        if let Some(authority) = self.authority(now)
            && let Ok(new) = self.signed(&authority, name, now)
            && new.stale(name, now).is_none()
        {
            return Ok(new);
        }
        let (new, authority) = self.founded(now)?;
        new.signed(&authority, name, now)
    }

    fn check(&self, name: &str, now: Timestamp, margin: SignedDuration) -> Result<CertifiedKey, String> {
        let until = now.saturating_add(margin).unwrap_or(now);
        // A client does not look at the dates of whom it was told to believe; a new one would be too late for it.
        let roots: Vec<_> = self.certificates(CA)?.into_iter().filter(|root| outlives(root, until)).collect();
        if roots.is_empty() {
            return Err(format!("{CA} has no certificate that is valid for long enough"));
        }
        let chain = self.certificates(CERTIFICATE)?;
        let key = PrivateKeyDer::from_pem_slice(self.file(KEY)).map_err(|error| format!("{KEY}: {error}"))?;
        verify(chain, key, &roots, &[name], &[now, until]).map_err(|error| format!("{CERTIFICATE}: {error}"))
    }

    fn certificates(&self, file: &str) -> Result<Vec<CertificateDer<'static>>, String> {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(self.file(file)).collect();
        read.map_err(|error| format!("{file}: {error}"))
    }

    pub(super) fn file(&self, name: &str) -> &[u8] {
        self.0.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// The authority in these files, unless it ends soon.
    fn authority(&self, now: Timestamp) -> Option<Authority> {
        let certificate = self.certificates(CA).ok()?.into_iter().next()?;
        let until = not_after(&certificate)?;
        let text = std::str::from_utf8(self.file(CA_KEY)).ok()?;
        let issuer = Issuer::from_ca_cert_der(&certificate, KeyPair::from_pem(text).ok()?).ok()?;
        (until > now.saturating_add(RENEW).ok()?).then_some(Authority { issuer, until })
    }

    /// The same files with a new authority.
    fn founded(&self, now: Timestamp) -> Result<(Self, Authority), Error> {
        let until = now.saturating_add(CA_VALID).unwrap_or(now);
        let from = now.saturating_sub(BACKDATE).unwrap_or(now);
        let mut params = parameters(CA_NAME, &[CA_NAME], from, until)?;
        params.distinguished_name.push(rcgen::DnType::OrganizationName, CA_ORGANIZATION);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048)?;
        let pem = params.self_signed(&key)?.pem();
        let new = self.with([(CA, pem.clone()), (CA_KEY, as_pkcs1(&key)?)]);
        Ok((new, Authority { issuer: Issuer::from_ca_cert_pem(&pem, key)?, until }))
    }

    /// The same files with a new server's certificate.
    fn signed(&self, authority: &Authority, name: &str, now: Timestamp) -> Result<Self, Error> {
        let until = now.saturating_add(VALID).unwrap_or(now).min(authority.until);
        let from = now.saturating_sub(BACKDATE).unwrap_or(now);
        // The name of a subject has at most 64 letters; clients look at the other one.
        let subject = if name.len() <= 64 { name } else { CA_ORGANIZATION };
        let mut params = parameters(subject, &[name], from, until)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &authority.issuer)?;
        Ok(self.with([(CERTIFICATE, certificate.pem()), (KEY, key.serialize_pem())]))
    }

    fn with(&self, files: [(&str, String); 2]) -> Self {
        let mut all = self.0.clone();
        all.extend(files.map(|(name, text)| (name.to_owned(), text.into_bytes())));
        Self(all)
    }
}

/// The key of an authority in the only form in which the operator that we replace reads it: should it come back, it has
/// to sign with it.
fn as_pkcs1(key: &KeyPair) -> Result<String, Error> {
    let pkcs8 = key.serialized_der();
    let inner = Sequence::from_der_and_then(pkcs8, |fields| {
        let (fields, _version) = Any::from_der(fields)?;
        let (fields, _algorithm) = Any::from_der(fields)?;
        OctetString::from_der(fields)
    });
    let (_, inner) = inner.map_err(|_| rcgen::Error::CouldNotParseKeyPair)?;
    let text = BASE64.encode(inner.as_ref());
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    let name = "RSA PRIVATE KEY";
    Ok(format!("-----BEGIN {name}-----\n{}\n-----END {name}-----\n", lines.join("\n")))
}

fn not_after(certificate: &CertificateDer<'_>) -> Option<Timestamp> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}

fn outlives(certificate: &CertificateDer<'_>, until: Timestamp) -> bool {
    not_after(certificate).is_some_and(|end| end > until)
}

#[cfg(test)]
mod tests;
