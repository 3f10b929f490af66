//! Asks a starting server one question over HTTPS. Small on purpose: this crate is built for every test that uses it.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::Error;

/// For one answer. A machine that is busy gets asked again.
const PATIENCE: Duration = Duration::from_secs(10);

/// A client for one server on loopback.
pub(crate) struct Probe {
    tls: Arc<ClientConfig>,
    port: u16,
    token: String,
}

impl Probe {
    pub(crate) fn new(ca_pem: &str, port: u16, token: &str) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_slice(ca_pem.as_bytes())
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        roots.add(certificate)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { tls: Arc::new(tls), port, token: token.to_owned() })
    }

    /// Whether GET of a path answers 200. No answer at all is a no.
    pub(crate) fn is_ok(&self, path: &str) -> bool {
        self.ask(path).is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
    }

    fn ask(&self, path: &str) -> io::Result<String> {
        let stream = connect(self.port)?;
        let name = ServerName::IpAddress(Ipv4Addr::LOCALHOST.into());
        let connection = ClientConnection::new(Arc::clone(&self.tls), name).map_err(io::Error::other)?;
        let request = format!("Authorization: Bearer {}\r\n", self.token);
        exchange(StreamOwned::new(connection, stream), path, &request)
    }
}

/// The same over plain HTTP, for etcd.
pub(crate) fn is_ok_plain(port: u16, path: &str) -> bool {
    connect(port)
        .and_then(|stream| exchange(stream, path, ""))
        .is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

fn connect(port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Sends a GET and reads the first line of the answer.
fn exchange(mut stream: impl Read + Write, path: &str, headers: &str) -> io::Result<String> {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n")?;
    stream.flush()?;
    let mut answer = [0_u8; 16];
    stream.read_exact(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
