//! The certificate authority: a key that is kept, and a certificate that is renewed with it.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use rcgen::{BasicConstraints, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::{BACKDATE, RENEW, damaged, parameters};
use crate::{Error, files};

/// Ten years.
const VALID: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);

/// Signs the server's certificate.
pub(super) struct Authority {
    pub(super) pem: String,
    pub(super) certificate: CertificateDer<'static>,
    pub(super) issuer: Issuer<'static, KeyPair>,
    /// Nothing it signs outlives it.
    pub(super) until: Timestamp,
}

impl Authority {
    pub(super) fn open(dir: &Path, now: Timestamp) -> Result<Self, Error> {
        let [key_path, path] = ["ca.key", "ca.crt"].map(|name| dir.join(name));
        let key = match files::read(&key_path)? {
            Some(text) => KeyPair::from_pem(&text).map_err(|e| damaged(&key_path, e))?,
            None => {
                let key = KeyPair::generate()?;
                // In this order a crash never leaves a certificate beside the key of another.
                files::remove(&path)?;
                files::write(&key_path, &key.serialize_pem())?;
                key
            }
        };
        if let Some(pem) = files::read(&path)? {
            let (certificate, until) = read(&path, &pem, &key)?;
            if until.duration_since(now) > RENEW {
                return Self::new(pem, certificate, key, until);
            }
            tracing::info!(path = %path.display(), %until, "renewing the certificate of the authority");
            let renewed = sign(&key, now)?;
            return match files::write(&path, &renewed.0) {
                // Clients know the one that is there; it is renewed when there is space.
                Err(error) if error.is_full() => Self::new(pem, certificate, key, until),
                result => result.and_then(|()| Self::made(&path, renewed, key)),
            };
        }
        let made = sign(&key, now)?;
        files::write(&path, &made.0)?;
        Self::made(&path, made, key)
    }

    fn made(path: &Path, (pem, until): (String, Timestamp), key: KeyPair) -> Result<Self, Error> {
        let (certificate, _) = read(path, &pem, &key)?;
        Self::new(pem, certificate, key, until)
    }

    fn new(
        pem: String,
        certificate: CertificateDer<'static>,
        key: KeyPair,
        until: Timestamp,
    ) -> Result<Self, Error> {
        let issuer = Issuer::from_ca_cert_der(&certificate, key)?;
        Ok(Self { pem, certificate, issuer, until })
    }
}

/// Checks a certificate and that it is the key's.
fn read(path: &Path, pem: &str, key: &KeyPair) -> Result<(CertificateDer<'static>, Timestamp), Error> {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|e| damaged(path, e))?;
    let (_, certificate) = X509Certificate::from_der(&der).map_err(|e| damaged(path, e))?;
    if certificate.public_key().subject_public_key.data.as_ref() != key.public_key_raw() {
        return Err(damaged(path, "it does not belong to ca.key"));
    }
    let until = Timestamp::from_second(certificate.validity().not_after.timestamp());
    let until = until.map_err(|e| damaged(path, e))?;
    Ok((der, until))
}

/// The same name and key each time, so that what an older certificate vouched for stays good under a newer one.
fn sign(key: &KeyPair, now: Timestamp) -> Result<(String, Timestamp), Error> {
    let until = now.saturating_add(VALID).unwrap_or(now);
    let mut params = parameters("trainyard-ca", &[], now.saturating_sub(BACKDATE).unwrap_or(now), until)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    Ok((params.self_signed(key)?.pem(), until))
}
