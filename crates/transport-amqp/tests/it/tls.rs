//! `amqps://` with certificates of our own: the right one is accepted, every wrong one is refused.

use std::net::SocketAddr;
use std::sync::Arc;

use pillarbox_core::ErrorKind;
use pillarbox_core::port::Source;
use pillarbox_transport_amqp::{AmqpSink, AmqpSource};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::NamedTempFile;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::harness::{Broker, all_confirmed, assert_outcome, deliver, entries, server};

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "an authority of a test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn file(&self) -> NamedTempFile {
        let file = NamedTempFile::new().unwrap();
        std::fs::write(&file, self.0.pem()).unwrap();
        file
    }

    /// A certificate for this name, changed as asked.
    fn issue(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> ServerConfig {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        change(&mut params);
        let certificate = params.signed_by(&key, &self.0).unwrap().der().clone();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        config.unwrap().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap()
    }
}

/// Speaks TLS to clients and plain AMQP to the broker, until it is dropped.
struct Terminator {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Terminator {
    async fn start(config: ServerConfig) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = server();
        let target = server.rsplit_once('@').unwrap().1.split('/').next().unwrap().to_owned();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let acceptor = TlsAcceptor::from(Arc::new(config));
            let mut connections = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let (acceptor, target) = (acceptor.clone(), target.clone());
                connections.spawn(async move {
                    let Ok(mut client) = acceptor.accept(client).await else { return };
                    let mut broker = TcpStream::connect(target).await.unwrap();
                    drop(tokio::io::copy_bidirectional(&mut client, &mut broker).await);
                });
            }
        });
        Self { address, _tasks: tasks }
    }

    /// The broker's URL through here, by this name.
    fn url(&self, host: &str) -> String {
        let server = server();
        let user = server.strip_prefix("amqp://").unwrap().rsplit_once('@').unwrap().0;
        format!("amqps://{user}@{host}:{}/%2f", self.address.port())
    }
}

async fn refused(url: &str, code: &str) {
    let outcome = &deliver(&AmqpSink::new(url).unwrap(), &entries("t", 1)).await[0];
    assert_outcome(outcome, code);
}

#[tokio::test]
async fn a_certificate_of_a_trusted_authority_is_accepted() {
    let broker = Broker::start().await;
    let queue = broker.queue("classic", &[]).await;
    let authority = Authority::new();
    let (ca, terminator) = (authority.file(), Terminator::start(authority.issue("localhost", |_| {})).await);
    let url = format!("{}?ca={}&routing_key={queue}", terminator.url("localhost"), ca.path().display());
    all_confirmed(&deliver(&AmqpSink::new(&url).unwrap(), &entries("t", 300)).await);
    assert_eq!(broker.take(&queue).await.len(), 300);
}

#[tokio::test]
async fn a_wrong_certificate_is_refused_and_named() {
    let _broker = Broker::start().await;
    let authority = Authority::new();
    let ca = authority.file();
    let url = |terminator: &Terminator| format!("{}?ca={}", terminator.url("localhost"), ca.path().display());

    let stranger = Terminator::start(Authority::new().issue("localhost", |_| {})).await;
    refused(&url(&stranger), "down/tls").await;
    let another_host = Terminator::start(authority.issue("example.org", |_| {})).await;
    refused(&url(&another_host), "down/tls").await;
    let expired = |params: &mut CertificateParams| {
        (params.not_before, params.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1));
    };
    let expired = Terminator::start(authority.issue("localhost", expired)).await;
    refused(&url(&expired), "down/tls").await;

    let source = AmqpSource::new(&format!("{}&queue=q", url(&stranger))).unwrap();
    assert_eq!(source.subscribe().await.err().unwrap().kind(), ErrorKind::Denied);
}

#[tokio::test]
async fn an_authority_that_cannot_be_read_is_named() {
    refused("amqps://127.0.0.1:1/?ca=nowhere.pem", "down/unreadable").await;
    let source = AmqpSource::new("amqps://127.0.0.1:1/?queue=q&ca=nowhere.pem").unwrap();
    let error = source.subscribe().await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("ca="), "{error}");
}
