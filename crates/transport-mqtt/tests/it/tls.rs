//! `mqtts://` with certificates of our own.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_conformance::tls::{Issued, TlsHarness};
use pillarbox_core::port::{Sink, Source};
use pillarbox_transport_mqtt::{MqttSink, MqttSource};

use crate::harness::Server;

struct Secured(Server);

impl Secured {
    fn url(&self, ca: Option<&Path>) -> String {
        let ca = ca.map(|ca| format!("&ca={}", ca.display())).unwrap_or_default();
        format!("mqtts://localhost:{}/orders?connect_timeout=5s{ca}", self.0.port())
    }
}

#[async_trait]
impl TlsHarness for Secured {
    const NAME: &'static str = "mosquitto over TLS";

    async fn start(issued: &Issued) -> Self {
        let (certificate, key) = (issued.certificate(), issued.key());
        let files = format!("certfile {}\nkeyfile {}", certificate.display(), key.display());
        let secured = Self(Server::start(&format!("allow_anonymous true\n{files}")).await);
        // The session is there before anything is published, if the certificate lets it.
        if let Ok(mut subscription) = secured.source(Some(&issued.ca())).subscribe().await {
            subscription.close().await;
        }
        secured
    }

    fn sink(&self, ca: Option<&Path>) -> Arc<dyn Sink> {
        Arc::new(MqttSink::new(&self.url(ca)).unwrap())
    }

    fn source(&self, ca: Option<&Path>) -> Arc<dyn Source> {
        let url = self.url(ca).replacen("?", "?client_id=c&", 1);
        Arc::new(MqttSource::new(&url).unwrap())
    }
}

pillarbox_conformance::tls_conformance!(Secured);
