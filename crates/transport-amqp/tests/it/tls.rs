//! `amqps://` with certificates of our own.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_conformance::tls::{Issued, TlsHarness};
use pillarbox_core::port::{Sink, Source};
use pillarbox_transport_amqp::{AmqpSink, AmqpSource};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::harness::{Broker, server};

/// Speaks TLS to clients and plain AMQP to the broker, until it is dropped.
struct Terminator {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Terminator {
    async fn start(issued: &Issued) -> Self {
        let certificate = CertificateDer::from_pem_file(issued.certificate()).unwrap();
        let key = PrivateKeyDer::from_pem_file(issued.key()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
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

    /// The broker's URL through here.
    fn url(&self) -> String {
        let server = server();
        let user = server.strip_prefix("amqp://").unwrap().rsplit_once('@').unwrap().0;
        format!("amqps://{user}@localhost:{}/%2f", self.address.port())
    }
}

/// A queue behind TLS.
struct Secured {
    terminator: Terminator,
    queue: String,
    _broker: Broker,
}

impl Secured {
    fn url(&self, ca: Option<&Path>, more: &str) -> String {
        let ca = ca.map(|ca| format!("&ca={}", ca.display())).unwrap_or_default();
        format!("{}?{more}={}{ca}", self.terminator.url(), self.queue)
    }
}

#[async_trait]
impl TlsHarness for Secured {
    const NAME: &'static str = "amqp over TLS";

    async fn start(issued: &Issued) -> Self {
        let broker = Broker::start().await;
        let queue = broker.queue("classic", &[]).await;
        Self { terminator: Terminator::start(issued).await, queue, _broker: broker }
    }

    fn sink(&self, ca: Option<&Path>) -> Arc<dyn Sink> {
        Arc::new(AmqpSink::new(&self.url(ca, "routing_key")).unwrap())
    }

    fn source(&self, ca: Option<&Path>) -> Arc<dyn Source> {
        Arc::new(AmqpSource::new(&self.url(ca, "queue")).unwrap())
    }
}

pillarbox_conformance::tls_conformance!(Secured);
