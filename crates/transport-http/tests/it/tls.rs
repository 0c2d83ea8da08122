//! TLS with certificates of our own: the right one is accepted, every wrong one is refused.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::serve::Listener;
use pillarbox_transport_http::HttpSink;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::harness::{Names, deliver, deliver_one, entry, private, shown, text_of};

const HOST: &str = "hooks.example.org";

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for this name, changed as asked.
    fn issue(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> ServerConfig {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        change(&mut params);
        let certificate: CertificateDer<'static> = params.signed_by(&key, &self.0).unwrap().der().clone();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap()
    }
}

struct TlsListener {
    tcp: TcpListener,
    tls: TlsAcceptor,
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            let (stream, from) = self.tcp.accept().await.unwrap();
            if let Ok(stream) = self.tls.accept(stream).await {
                return (stream, from);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

/// A server with this certificate; the sink trusts this authority.
async fn delivery(config: ServerConfig, trusted: &Authority, host: &str) -> (HttpSink, JoinSet<()>) {
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = tcp.local_addr().unwrap().port();
    let listener = TlsListener { tcp, tls: TlsAcceptor::from(Arc::new(config)) };
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let router = Router::new().fallback(async || "");
        axum::serve(listener, router).await.unwrap();
    });
    let options = private().resolver(Names::new(&[&["127.0.0.1"]]));
    let options = options.authorities_pem(trusted.pem().as_bytes()).unwrap();
    (HttpSink::new(&format!("https://{host}:{port}/"), options).unwrap(), tasks)
}

async fn refused(config: ServerConfig, trusted: &Authority, why: &str) {
    let (sink, _server) = delivery(config, trusted, HOST).await;
    let outcome = &deliver(&sink, &[entry(1)]).await[0];
    assert_eq!(shown(outcome), "down tls", "{outcome:?}");
    assert!(text_of(outcome).to_lowercase().contains(why), "{outcome:?}");
}

#[tokio::test]
async fn a_certificate_of_a_trusted_authority_for_the_host_is_accepted() {
    let authority = Authority::new("ours");
    let (sink, _server) = delivery(authority.issue(HOST, |_| ()), &authority, HOST).await;
    assert_eq!(deliver_one(&sink).await, "confirmed");
    let (sink, _server) = delivery(authority.issue("127.0.0.1", |_| ()), &authority, "127.0.0.1").await;
    assert_eq!(deliver_one(&sink).await, "confirmed");
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_refused() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    refused(other.issue(HOST, |_| ()), &ours, "unknownissuer").await;
}

#[tokio::test]
async fn a_certificate_for_another_host_is_refused() {
    let authority = Authority::new("ours");
    refused(authority.issue("other.example.org", |_| ()), &authority, "not valid for name").await;
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let authority = Authority::new("ours");
    let config = authority.issue(HOST, |params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2020, 2, 1);
    });
    refused(config, &authority, "expired").await;
}

#[tokio::test]
async fn a_certificate_that_is_not_valid_yet_is_refused() {
    let authority = Authority::new("ours");
    let config = authority.issue(HOST, |params| params.not_before = date_time_ymd(4000, 1, 1));
    refused(config, &authority, "not valid yet").await;
}
