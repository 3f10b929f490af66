//! Client certificates: the common name is the user, organisations are groups.
//!
//! A handshake takes any certificate whose key the client has, and each request is judged by it later: a client with a
//! certificate that expired or that somebody else signed gets an answer (401), not a broken connection.

use aws_lc_rs::digest::{SHA256, digest};
use jiff::Timestamp;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use std::fmt::{self, Write};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::Identity;

/// Whose certificates are believed.
#[derive(Clone)]
pub struct ClientAuthority {
    verifier: Arc<dyn ClientCertVerifier>,
}

impl fmt::Debug for ClientAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientAuthority").finish_non_exhaustive()
    }
}

impl ClientAuthority {
    /// Believes certificates that this one signed.
    ///
    /// # Errors
    /// When it is not a certificate that can sign.
    pub fn new(ca: CertificateDer<'_>, provider: Arc<CryptoProvider>) -> Result<Self, rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(ca.into_owned())?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| rustls::Error::Other(rustls::OtherError(Arc::new(error))))?;
        Ok(Self { verifier })
    }

    /// What a TLS server asks its clients for: a certificate if they have one.
    pub fn offer(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::new(AnyCertificate(Arc::clone(&self.verifier)))
    }

    fn identify(&self, chain: &[CertificateDer<'static>], now: Timestamp) -> Option<(Identity, i64)> {
        let (own, others) = chain.split_first()?;
        let seconds = u64::try_from(now.as_second()).ok()?;
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        self.verifier.verify_client_cert(own, others, now).ok()?;
        let (_, certificate) = X509Certificate::from_der(own).ok()?;
        let subject = certificate.subject();
        let name = subject.iter_common_name().next()?.as_str().ok().filter(|name| !name.is_empty())?;
        let groups = subject.iter_organization().filter_map(|group| group.as_str().ok()).map(str::to_owned);
        let mut identity = Identity::authenticated(name, groups);
        let mut print = String::from("X509SHA256=");
        for byte in digest(&SHA256, own).as_ref() {
            write!(print, "{byte:02x}").ok()?;
        }
        identity.extra.insert("authentication.kubernetes.io/credential-id".into(), vec![print]);
        Some((identity, certificate.validity().not_after.timestamp()))
    }
}

/// The certificates a client showed in the handshake. [`crate::serve::serve`] puts them into each request of the
/// connection.
#[derive(Debug)]
pub(crate) struct PeerCertificates {
    chain: Vec<CertificateDer<'static>>,
    /// Whose they are and until when, found out at the first request: checking signatures takes time.
    known: OnceLock<Option<(Arc<Identity>, i64)>>,
}

impl PeerCertificates {
    pub(crate) fn new(chain: &[CertificateDer<'_>]) -> Self {
        Self { chain: chain.iter().map(|one| one.clone().into_owned()).collect(), known: OnceLock::new() }
    }

    /// Who they make the client, if they are good.
    pub(super) fn identity(&self, authority: &ClientAuthority, now: Timestamp) -> Option<Arc<Identity>> {
        let known = self.known.get_or_init(|| {
            authority.identify(&self.chain, now).map(|(identity, until)| (Arc::new(identity), until))
        });
        let (identity, until) = known.as_ref()?;
        (now.as_second() <= *until).then(|| Arc::clone(identity))
    }
}

/// Checks that the client has the key of its certificate, and nothing else.
#[derive(Debug)]
struct AnyCertificate(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
