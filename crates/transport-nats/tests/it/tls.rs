//! `tls://` with certificates of our own.

use std::path::Path;
use std::sync::Arc;

use async_nats::jetstream::stream::Config;
use async_trait::async_trait;
use pillarbox_conformance::delivery::{assert_outcome, deliver_one, entries};
use pillarbox_conformance::tls::{Authority, Issued, TlsHarness};
use pillarbox_core::port::{Sink, Source};
use pillarbox_transport_nats::{NatsSink, NatsSource};

use crate::harness::{JETSTREAM, Server};

struct Secured(Server);

impl Secured {
    fn url(&self, ca: Option<&Path>) -> String {
        let ca = ca.map(|ca| format!("&ca={}", ca.display())).unwrap_or_default();
        format!("tls://localhost:{}/orders?connect_timeout=5s{ca}", self.0.port())
    }
}

#[async_trait]
impl TlsHarness for Secured {
    const NAME: &'static str = "nats over TLS";

    async fn start(issued: &Issued) -> Self {
        let (certificate, key) = (issued.certificate(), issued.key());
        let files = format!("cert_file: {certificate:?}, key_file: {key:?}");
        let server = Server::start(&format!("{JETSTREAM}\ntls {{ {files} }}")).await;
        // A client that trusts nobody else makes the stream, if it can.
        let client = async_nats::ConnectOptions::new().add_root_certificates(issued.ca()).require_tls(true);
        if let Ok(client) = client.connect(format!("tls://localhost:{}", server.port())).await {
            let config = Config { name: "orders".into(), ..Config::default() };
            async_nats::jetstream::new(client).create_stream(config).await.unwrap();
        }
        Self(server)
    }

    fn sink(&self, ca: Option<&Path>) -> Arc<dyn Sink> {
        Arc::new(NatsSink::new(&self.url(ca)).unwrap())
    }

    fn source(&self, ca: Option<&Path>) -> Arc<dyn Source> {
        let url = self.url(ca).replacen("?", "?durable=d&", 1);
        Arc::new(NatsSource::new(&url).unwrap())
    }
}

pillarbox_conformance::tls_conformance!(Secured);

#[tokio::test]
async fn a_server_that_asks_for_tls_is_checked_whatever_the_url_says() {
    let secured = Secured::start(&Authority::new("ours").issue("localhost", |_| ())).await;
    let stranger = Authority::new("stranger").issue("localhost", |_| ());
    let url = secured.url(Some(&stranger.ca())).replacen("tls://", "nats://", 1);
    assert_outcome(&deliver_one(&NatsSink::new(&url).unwrap(), &entries(1)[0]).await, "down/tls");
}
