//! Client certificates over real TLS: good ones, expired ones, and those of somebody else.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;
use trainyard_apiserver::auth::{self, Authenticator, ClientAuthority, Identity, Tokens};
use trainyard_apiserver::{Server, serve};

fn authority(name: &str) -> (Issuer<'static, KeyPair>, CertificateDer<'static>) {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let der = params.self_signed(&key).unwrap().der().clone();
    (Issuer::new(params, key), der)
}

type Identification = (CertificateDer<'static>, PrivateKeyDer<'static>);

fn leaf(ca: &Issuer<'_, KeyPair>, names: &[(DnType, &str)], until: i32, server: bool) -> Identification {
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    for (kind, name) in names {
        params.distinguished_name.push(kind.clone(), *name);
    }
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(until, 1, 1);
    let purpose =
        if server { ExtendedKeyUsagePurpose::ServerAuth } else { ExtendedKeyUsagePurpose::ClientAuth };
    params.extended_key_usages = vec![purpose];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, ca).unwrap();
    (certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap())
}

/// Asks who one is, with a certificate and perhaps a token.
async fn who(
    address: SocketAddr,
    ca: &CertificateDer<'static>,
    own: Option<Identification>,
    token: &str,
) -> (u16, Value) {
    let mut roots = RootCertStore::empty();
    roots.add(ca.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots);
    let config = match own {
        Some((certificate, key)) => config.with_client_auth_cert(vec![certificate], key).unwrap(),
        None => config.with_no_client_auth(),
    };
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("host", "localhost")
        .header("content-type", "application/json");
    if !token.is_empty() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let response = sender.send_request(request.body(Full::new(Bytes::from("{}"))).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice::<Value>(&body).unwrap()["status"]["userInfo"].clone())
}

#[tokio::test]
async fn a_certificate_of_our_authority_is_a_user() {
    let (issuer, ca) = authority("ours");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let clients = ClientAuthority::new(ca.clone(), Arc::clone(&provider)).unwrap();
    let (certificate, key) = leaf(&issuer, &[(DnType::CommonName, "server")], 2999, true);
    let tls = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients.offer())
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let authenticator =
        Authenticator::new(Tokens::new(["token"]), Identity::internal("owner")).clients(clients);
    let server = Server::open(Server::options().authenticator(authenticator)).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = auth::require(server.router(), server.guard());
    tokio::spawn(serve::serve(router, listener, Arc::new(tls), CancellationToken::new()));
    let names = [(DnType::CommonName, "jane"), (DnType::OrganizationName, "devs")];
    let (code, jane) = who(address, &ca, Some(leaf(&issuer, &names, 2999, false)), "").await;
    assert_eq!(code, 201);
    assert_eq!(jane["username"], "jane");
    assert_eq!(jane["groups"], json!(["devs", "system:authenticated"]));
    let print = jane["extra"]["authentication.kubernetes.io/credential-id"][0].as_str().unwrap();
    assert!(print.starts_with("X509SHA256=") && print.len() == 11 + 64, "{print}");
    let (other, _) = authority("ours");
    let admin = [(DnType::CommonName, "root"), (DnType::OrganizationName, "system:masters")];
    for (what, certificate) in [
        ("expired", leaf(&issuer, &names, 2021, false)),
        ("of another authority of the same name", leaf(&other, &admin, 2999, false)),
        ("for servers", leaf(&issuer, &admin, 2999, true)),
        ("without a name", leaf(&issuer, &[(DnType::OrganizationName, "system:masters")], 2999, false)),
    ] {
        let copy = (certificate.0.clone(), certificate.1.clone_key());
        assert_eq!(who(address, &ca, Some(certificate), "").await.0, 401, "{what}");
        let (code, owner) = who(address, &ca, Some(copy), "token").await;
        assert_eq!((code, &owner["username"]), (201, &json!("owner")), "a token counts all the same: {what}");
    }
    assert_eq!(who(address, &ca, None, "").await.0, 401);
}
