//! TLS with certificates of our own: the right one is accepted, every wrong one is refused with its reason.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::serve::Listener;
use pillarbox_conformance::tls::{Authority, Issued};
use pillarbox_transport_http::HttpSink;
use rcgen::date_time_ymd;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::harness::{Names, deliver, deliver_one, entry, private, shown, text_of};

const HOST: &str = "hooks.example.org";

/// What a server with this certificate is configured with.
fn config(issued: &Issued) -> ServerConfig {
    let certificate = CertificateDer::from_pem_file(issued.certificate()).unwrap();
    let key = PrivateKeyDer::from_pem_file(issued.key()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    config.unwrap().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap()
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
async fn delivery(issued: Issued, trusted: &Authority, host: &str) -> (HttpSink, JoinSet<()>) {
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = tcp.local_addr().unwrap().port();
    let listener = TlsListener { tcp, tls: TlsAcceptor::from(Arc::new(config(&issued))) };
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let router = Router::new().fallback(async || "");
        axum::serve(listener, router).await.unwrap();
    });
    let options = private(&format!("https://{host}:{port}/")).resolver(Names::new(&[&["127.0.0.1"]]));
    let options = options.authorities_pem(&std::fs::read(trusted.issue(host, |_| ()).ca()).unwrap()).unwrap();
    (HttpSink::with_options(options).unwrap(), tasks)
}

async fn refused(issued: Issued, trusted: &Authority, why: &str) {
    let (sink, _server) = delivery(issued, trusted, HOST).await;
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
    let issued = authority.issue(HOST, |params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2020, 2, 1);
    });
    refused(issued, &authority, "expired").await;
}

#[tokio::test]
async fn a_certificate_that_is_not_valid_yet_is_refused() {
    let authority = Authority::new("ours");
    let issued = authority.issue(HOST, |params| params.not_before = date_time_ymd(4000, 1, 1));
    refused(issued, &authority, "not valid yet").await;
}
