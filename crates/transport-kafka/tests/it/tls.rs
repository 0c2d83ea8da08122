//! `kafkas://` with certificates of our own. The fake cluster speaks no TLS, so a server before it does.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_conformance::tls::{Issued, TlsHarness};
use pillarbox_core::port::{Sink, Source};
use pillarbox_transport_kafka::{KafkaSink, KafkaSource};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::harness::Fake;

struct Secured {
    place: Fake,
    port: u16,
}

impl Secured {
    fn url(&self, more: &str, ca: Option<&Path>) -> String {
        let ca = ca.map(|ca| format!("&ca={}", ca.display())).unwrap_or_default();
        format!("kafkas://localhost:{}/{}?connect_timeout=5s{more}{ca}", self.port, self.place.topic)
    }
}

#[async_trait]
impl TlsHarness for Secured {
    const NAME: &'static str = "fake cluster behind TLS";

    async fn start(issued: &Issued) -> Self {
        let certificates = CertificateDer::pem_file_iter(issued.certificate()).unwrap();
        let key = PrivateKeyDer::from_pem_file(issued.key()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(certificates.collect::<Result<_, _>>().unwrap(), key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let place = Fake::new(1).await;
        let server = place.broker.bootstrap_servers();
        place.advertise(&format!("kafkas://localhost:{port}"));
        #[expect(clippy::disallowed_methods, reason = "ends with the runtime of the test")]
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, server) = (acceptor.clone(), server.clone());
                tokio::spawn(async move {
                    let Ok(mut secured) = acceptor.accept(stream).await else { return };
                    let mut plain = TcpStream::connect(server).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut secured, &mut plain).await;
                });
            }
        });
        Self { place, port }
    }

    fn sink(&self, ca: Option<&Path>) -> Arc<dyn Sink> {
        Arc::new(KafkaSink::new(&self.url("", ca)).unwrap())
    }

    fn source(&self, ca: Option<&Path>) -> Arc<dyn Source> {
        Arc::new(KafkaSource::new(&self.url("&group=billing", ca)).unwrap())
    }
}

pillarbox_conformance::tls_conformance!(Secured);
