//! The server's own certificate: cheap to make, so anything that is not quite right with it is a reason for a new one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rcgen::{ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, RootCertStore};

use super::authority::Authority;
use super::{BACKDATE, RENEW, damaged, parameters, provider};
use crate::{Error, files};

/// A year: some clients refuse what is valid for longer.
const VALID: SignedDuration = SignedDuration::from_hours(365 * 24);

/// What clients may call this server.
const NAMES: [&str; 6] =
    ["localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];

/// A certificate and its key.
pub(super) struct Leaf {
    pub(super) certificate: CertificateDer<'static>,
    pub(super) key: PrivateKeyDer<'static>,
}

impl Leaf {
    pub(super) fn open(dir: &Path, authority: &Authority, now: Timestamp) -> Result<Self, Error> {
        let [key_path, path] = ["server.key", "server.crt"].map(|name| dir.join(name));
        if let (Some(key), Some(certificate)) = (files::read(&key_path)?, files::read(&path)?) {
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|e| damaged(&key_path, e))?;
            let certificate =
                CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(|e| damaged(&path, e))?;
            let leaf = Self { certificate, key };
            match leaf.check(authority, now) {
                Ok(()) => return Ok(leaf),
                Err(rustls::Error::InvalidCertificate(CertificateError::BadEncoding)) => {
                    return Err(damaged(&path, "it is not a certificate"));
                }
                Err(rustls::Error::General(why)) => return Err(damaged(&key_path, why)),
                Err(why) => tracing::info!(path = %path.display(), %why, "making a new certificate"),
            }
        }
        let (key, certificate) = sign(authority, now)?;
        match files::write(&key_path, &key).and_then(|()| files::write(&path, &certificate)) {
            // It serves without being kept: the next start makes another.
            Err(error) if error.is_full() => {
                tracing::warn!(path = %path.display(), "the disk is full: a new certificate is not kept");
            }
            result => result?,
        }
        Ok(Self {
            certificate: CertificateDer::from_pem_slice(certificate.as_bytes())
                .map_err(|e| damaged(&path, e))?,
            key: PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|e| damaged(&key_path, e))?,
        })
    }

    /// For TLS.
    pub(super) fn certified(self) -> Result<Arc<CertifiedKey>, Error> {
        Ok(Arc::new(CertifiedKey::from_der(vec![self.certificate], self.key, &provider())?))
    }

    /// Is it good for every name, now and for a while yet?
    fn check(&self, authority: &Authority, now: Timestamp) -> Result<(), rustls::Error> {
        let (chain, key) = (vec![self.certificate.clone()], self.key.clone_key());
        let times = [now, now.saturating_add(RENEW).unwrap_or(now)];
        verify(chain, key, std::slice::from_ref(&authority.certificate), &NAMES, &times).map(drop)
    }
}

/// Looks at a certificate as a client will: is it the key's, vouched for by one of `roots`, for all names at all times?
pub(crate) fn verify(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    roots: &[CertificateDer<'static>],
    names: &[&str],
    times: &[Timestamp],
) -> Result<CertifiedKey, rustls::Error> {
    let certified = CertifiedKey::from_der(chain, key, &provider())?;
    let (end, between) = certified.cert.split_first().ok_or(rustls::Error::NoCertificatesPresented)?;
    let mut store = RootCertStore::empty();
    for root in roots {
        store.add(root.clone())?;
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider())
        .build()
        .map_err(|error| rustls::Error::Other(rustls::OtherError(Arc::new(error))))?;
    for name in names {
        let name = ServerName::try_from(*name).map_err(|_| CertificateError::NotValidForName)?;
        for at in times {
            let seconds = u64::try_from(at.as_second()).unwrap_or(0);
            let at = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
            verifier.verify_server_cert(end, between, &name, &[], at)?;
        }
    }
    Ok(certified)
}

/// A new key and its certificate, as PEM.
fn sign(authority: &Authority, now: Timestamp) -> Result<(String, String), Error> {
    let until = now.saturating_add(VALID).unwrap_or(now).min(authority.until);
    let from = now.saturating_sub(BACKDATE).unwrap_or(now);
    let mut params = parameters("trainyard-apiserver", &NAMES, from, until)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &authority.issuer)?;
    Ok((key.serialize_pem(), certificate.pem()))
}
