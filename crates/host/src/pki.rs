//! The keys of this machine's API: a certificate authority, the server's certificate, the token of its owner, and the
//! key that signs tokens of service accounts.
//!
//! They are made at the first start and kept, so that a kubeconfig stays good. kubectl sends no token over plain HTTP,
//! hence TLS even on loopback; nobody else's authority would sign for `localhost`, hence our own.

mod authority;
mod current;
mod leaf;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rand::TryRngCore;
use rand::rngs::OsRng;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use trainyard_apiserver::auth::{
    Accounts, Authenticator, ClientAuthority, ISSUER, Identity, SigningKey, Tokens,
};

use self::authority::Authority;
pub(crate) use self::current::{Current, keep};
use self::leaf::Leaf;
pub(crate) use self::leaf::verify;
use crate::{Error, files};

/// Who has the token: may do everything.
const OWNER: &str = "trainyard";

/// What is valid for less than this is made again.
const RENEW: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Certificates are valid from the day before, for clients whose clock is behind.
pub(crate) const BACKDATE: SignedDuration = SignedDuration::from_hours(24);

/// What a server on this machine proves itself with, and what its owner does.
pub struct Pki {
    dir: PathBuf,
    authority: Authority,
    current: Arc<Current>,
    token: String,
    clients: ClientAuthority,
    accounts: SigningKey,
    config: Arc<ServerConfig>,
}

impl fmt::Debug for Pki {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pki").finish_non_exhaustive()
    }
}

impl Pki {
    /// Reads `dir/pki`, makes what is missing, and renews what expires soon.
    ///
    /// # Errors
    /// [`Error::Damaged`] names the file that cannot be used: a new one is made once it is deleted. It is not replaced
    /// silently, because whoever has a copy of it would then wonder.
    pub fn open(dir: &Path, now: Timestamp) -> Result<Self, Error> {
        let dir = dir.join("pki");
        files::private_directory(&dir)?;
        let authority = Authority::open(&dir, now)?;
        let leaf = Leaf::open(&dir, &authority, now)?;
        let token = token(&dir.join("token"))?;
        let accounts = accounts_key(&dir.join("service-account.key"))?;
        let clients = ClientAuthority::new(authority.certificate.clone(), provider())?;
        let current = Arc::<Current>::default();
        current.set(leaf.certified()?);
        let config = config(Arc::clone(&current), &clients)?;
        Ok(Self { dir, authority, current, token, clients, accounts, config })
    }

    /// Makes a new certificate for the server if the one it has expires soon: connections that begin from then on see
    /// it. The authority is renewed at the next start only, since clients have to be told of that.
    ///
    /// # Errors
    /// As [`Pki::open`]. The server goes on with the certificate it has.
    pub fn renew(&self, now: Timestamp) -> Result<(), Error> {
        let leaf = Leaf::open(&self.dir, &self.authority, now)?;
        self.current.set(leaf.certified()?);
        Ok(())
    }

    /// How to serve: with our certificate, over HTTP/2 or HTTP/1.1.
    pub fn server_config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// Whose credentials are whose: the owner's token, and certificates that our authority signed.
    pub fn authenticator(&self) -> Authenticator {
        let owner = Identity::internal(OWNER);
        Authenticator::new(Tokens::new([&self.token]), owner).clients(self.clients.clone())
    }

    /// Service accounts, whose tokens outlive a restart.
    pub fn accounts(&self) -> Accounts {
        Accounts::new(self.accounts.clone(), ISSUER, self.ca_pem())
    }

    /// The owner's bearer token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The authority's certificate, for clients.
    pub fn ca_pem(&self) -> &str {
        &self.authority.pem
    }
}

/// Named, not the process's default: a library must not depend on what a program has installed, or forgot to.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn config(current: Arc<Current>, clients: &ClientAuthority) -> Result<Arc<ServerConfig>, Error> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(clients.offer())
        .with_cert_resolver(current);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The key that signs the tokens of service accounts: kept, so that a token stays good.
fn accounts_key(path: &Path) -> Result<SigningKey, Error> {
    let text = match files::read(path)? {
        Some(text) => text,
        None => {
            let text = rcgen::KeyPair::generate()?.serialize_pem();
            files::write(path, &text)?;
            text
        }
    };
    let der = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes()).map_err(|e| damaged(path, e))?;
    SigningKey::from_pkcs8(der.secret_pkcs8_der()).map_err(|e| damaged(path, e))
}

fn token(path: &Path) -> Result<String, Error> {
    if let Some(text) = files::read(path)? {
        let token = text.trim();
        let is_token = token.len() >= 32 && token.bytes().all(|b| b.is_ascii_graphic());
        let why = "it is not a token of at least 32 letters and digits";
        return is_token.then(|| token.to_owned()).ok_or_else(|| damaged(path, why));
    }
    let hex: String = random::<32>()?.iter().map(|byte| format!("{byte:02x}")).collect();
    // The prefix tells people and scanners what they have found.
    let token = format!("trainyard-{hex}");
    files::write(path, &format!("{token}\n"))?;
    Ok(token)
}

/// From the operating system, for secrets.
fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    OsRng.try_fill_bytes(&mut bytes).map_err(|source| Error::Random(source.into()))?;
    Ok(bytes)
}

fn damaged(path: &Path, why: impl ToString) -> Error {
    Error::Damaged { path: PathBuf::from(path), why: why.to_string() }
}

/// The parts of a certificate that are the same for all of ours.
pub(crate) fn parameters(
    name: &str,
    names: &[&str],
    from: Timestamp,
    until: Timestamp,
) -> Result<rcgen::CertificateParams, Error> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = rcgen::CertificateParams::new(names)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.serial_number = Some(rcgen::SerialNumber::from_slice(&random::<16>()?));
    // Python's strict checks want it.
    params.use_authority_key_identifier_extension = true;
    let day = |time: Timestamp| {
        let date = time.to_zoned(jiff::tz::TimeZone::UTC).date();
        let [month, day] = [date.month(), date.day()].map(i8::unsigned_abs);
        rcgen::date_time_ymd(i32::from(date.year()), month, day)
    };
    params.not_before = day(from);
    params.not_after = day(until);
    Ok(params)
}
