//! Who a webhook's server may be: what a real API server, written in Go, accepts.
//!
//! `openssl req -x509` makes certificates that sign themselves and call themselves authorities. Go takes such a
//! certificate from a server if it is in the `caBundle`; webpki never takes an authority from a server.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::Arc;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

/// Checks a server with the certificates of a bundle.
#[derive(Debug)]
pub(super) struct Verifier {
    bundle: Vec<CertificateDer<'static>>,
    authorities: Arc<WebPkiServerVerifier>,
}

impl Verifier {
    /// The error is for people.
    pub(super) fn new(
        bundle: &[CertificateDer<'static>],
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, String> {
        let unusable = |error: &dyn std::fmt::Display| format!("unable to load root certificates: {error}");
        let mut roots = RootCertStore::empty();
        for root in bundle {
            roots.add(root.clone()).map_err(|error| unusable(&error))?;
        }
        let authorities = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Self { bundle: bundle.to_vec(), authorities: authorities.map_err(|error| unusable(&error))? })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.bundle.iter().any(|root| root == own) {
            return trusted_itself(own, name, now).map(|()| ServerCertVerified::assertion());
        }
        self.authorities.verify_server_cert(own, others, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls12_signature(message, own, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls13_signature(message, own, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

/// Checks a certificate that is in the bundle. Nobody has to have signed it, but all else has to hold: its dates, its
/// names, what it is for. That the server has its key is checked with the signature of the handshake.
fn trusted_itself(own: &CertificateDer<'_>, name: &ServerName<'_>, now: UnixTime) -> Result<(), Error> {
    // Also refuses critical extensions that nobody here knows.
    let parsed = ParsedCertificate::try_from(own)?;
    let (_, certificate) = X509Certificate::from_der(own).map_err(|_| CertificateError::BadEncoding)?;
    let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if seconds < certificate.validity().not_before.timestamp() {
        return Err(CertificateError::NotValidYet.into());
    }
    if seconds > certificate.validity().not_after.timestamp() {
        return Err(CertificateError::Expired.into());
    }
    verify_server_name(&parsed, name)?;
    let purposes = certificate.extended_key_usage().map_err(|_| CertificateError::BadEncoding)?;
    match purposes {
        Some(given) if !given.value.any && !given.value.server_auth => {
            Err(CertificateError::InvalidPurpose.into())
        }
        _ => Ok(()),
    }
}
