//! `https://` with certificates of our own.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_conformance::process::OwnServer;
use pillarbox_conformance::tls::{Issued, TlsHarness};
use pillarbox_core::port::{Sink, Source};
use pillarbox_transport_sqs::{SqsSink, SqsSource};

use crate::harness::own_server;

struct Secured(OwnServer);

impl Secured {
    fn url(&self, ca: Option<&Path>) -> String {
        let ca = ca.map(|ca| format!("&ca={}", ca.display())).unwrap_or_default();
        format!("sqs://eu-west-1/orders?endpoint=https://localhost:{}{ca}", self.0.port())
    }
}

#[async_trait]
impl TlsHarness for Secured {
    const NAME: &'static str = "fauxqs over TLS";

    async fn start(issued: &Issued) -> Self {
        let file = |path: std::path::PathBuf| path.display().to_string();
        Self(own_server(Some((file(issued.certificate()), file(issued.key())))).await)
    }

    fn sink(&self, ca: Option<&Path>) -> Arc<dyn Sink> {
        // One request at a time, because the suite looks at the first message.
        Arc::new(SqsSink::new(&format!("{}&in_flight=1", self.url(ca))).unwrap())
    }

    fn source(&self, ca: Option<&Path>) -> Arc<dyn Source> {
        Arc::new(SqsSource::new(&self.url(ca)).unwrap())
    }
}

pillarbox_conformance::tls_conformance!(Secured);
