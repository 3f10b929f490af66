//! Keys and certificates of one control plane. They live as long as it does, so nobody renews them.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use rand::TryRngCore;
use rand::rngs::OsRng;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::Error;
use crate::node::{ADDRESS as NODE_ADDRESS, NAME as NODE};

/// What clients may call the server.
const NAMES: [&str; 5] =
    ["localhost", "127.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];

/// Everything the programs and their clients prove themselves with.
#[derive(Debug)]
pub(crate) struct Pki {
    folder: PathBuf,
    pub(crate) ca_pem: String,
    pub(crate) token: String,
}

/// A certificate and its key, as PEM.
struct Leaf {
    certificate: String,
    key: String,
}

impl Pki {
    /// Makes all of it in a folder.
    pub(crate) fn make(folder: PathBuf, url: &str) -> Result<Self, Error> {
        fs::create_dir_all(&folder).map_err(Error::at(&folder))?;
        let authority = authority("trainyard-test-ca")?;
        let ca_pem = authority.pem.clone();
        let token = token()?;
        let pki = Self { folder, ca_pem, token };
        pki.write("ca.crt", &pki.ca_pem)?;
        pki.write("ca.key", &authority.issuer.key().serialize_pem())?;
        pki.write("front-proxy-ca.crt", &self::authority("trainyard-test-front-proxy-ca")?.pem)?;
        let server = leaf(&authority, "kube-apiserver", None, &NAMES)?;
        pki.write("server.crt", &server.certificate)?;
        pki.write("server.key", &server.key)?;
        let accounts = KeyPair::generate()?;
        pki.write("accounts.key", &accounts.serialize_pem())?;
        pki.write("accounts.pub", &accounts.public_key_pem())?;
        pki.write("tokens.csv", &format!("{},admin,admin-uid,\"system:masters\"\n", pki.token))?;
        for user in ["kube-controller-manager", "kube-scheduler"] {
            let leaf = leaf(&authority, &format!("system:{user}"), None, &[])?;
            pki.write(&format!("{user}.kubeconfig"), &pki.certificate_kubeconfig(url, &leaf))?;
        }
        let admin = leaf(&authority, "kubernetes-admin", Some("system:masters"), &[])?;
        pki.write("admin.crt", &admin.certificate)?;
        pki.write("admin.key", &admin.key)?;
        pki.for_node(&authority, url)?;
        Ok(pki)
    }

    /// What a kubelet shows to the server, and to those whom the server sends on to it.
    fn for_node(&self, authority: &Authority, url: &str) -> Result<(), Error> {
        let user = format!("system:node:{NODE}");
        let leaf = leaf(authority, &user, Some("system:nodes"), &[NODE, NODE_ADDRESS])?;
        self.write(&format!("{NODE}.crt"), &leaf.certificate)?;
        self.write(&format!("{NODE}.key"), &leaf.key)?;
        self.write(&format!("{NODE}.kubeconfig"), &self.certificate_kubeconfig(url, &leaf))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The owner's kubeconfig, with the token.
    pub(crate) fn kubeconfig(&self, url: &str) -> String {
        kubeconfig(url, &self.ca_pem, &format!("{{token: {}}}", self.token))
    }

    fn certificate_kubeconfig(&self, url: &str, leaf: &Leaf) -> String {
        let [certificate, key] = [&leaf.certificate, &leaf.key].map(|pem| BASE64.encode(pem));
        let user = format!("{{client-certificate-data: {certificate}, client-key-data: {key}}}");
        kubeconfig(url, &self.ca_pem, &user)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        write_private(&self.path(name), text)
    }
}

/// Writes a file that only its owner can read.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<(), Error> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(Error::at(path))
}

fn kubeconfig(url: &str, ca_pem: &str, user: &str) -> String {
    let ca = BASE64.encode(ca_pem);
    format!(
        "apiVersion: v1\nkind: Config\n\
         clusters: [{{name: test, cluster: {{server: \"{url}\", certificate-authority-data: {ca}}}}}]\n\
         users: [{{name: test, user: {user}}}]\n\
         contexts: [{{name: test, context: {{cluster: test, user: test}}}}]\n\
         current-context: test\n"
    )
}

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

fn authority(name: &str) -> Result<Authority, Error> {
    let mut params = parameters(name, &[])?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate()?;
    let pem = params.self_signed(&key)?.pem();
    Ok(Authority { pem, issuer: Issuer::new(params, key) })
}

fn leaf(
    authority: &Authority,
    name: &str,
    organisation: Option<&str>,
    names: &[&str],
) -> Result<Leaf, Error> {
    let mut params = parameters(name, names)?;
    if let Some(organisation) = organisation {
        params.distinguished_name.push(DnType::OrganizationName, organisation);
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &authority.issuer)?;
    Ok(Leaf { certificate: certificate.pem(), key: key.serialize_pem() })
}

fn parameters(name: &str, names: &[&str]) -> Result<CertificateParams, Error> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}

fn token() -> Result<String, Error> {
    let mut bytes = [0_u8; 24];
    OsRng.try_fill_bytes(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
