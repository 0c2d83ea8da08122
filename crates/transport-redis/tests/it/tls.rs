//! `rediss://` with certificates of our own.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_conformance::tls::{Issued, TlsHarness};
use pillarbox_core::port::{Sink, Source};
use pillarbox_transport_redis::{RedisSink, RedisSource};

use crate::harness::Server;

struct Secured(Server);

impl Secured {
    fn url(&self, ca: Option<&Path>) -> String {
        let ca = ca.map(|ca| format!("&ca={}", ca.display())).unwrap_or_default();
        format!("rediss://localhost:{}?stream=orders{ca}", self.0.port())
    }
}

#[async_trait]
impl TlsHarness for Secured {
    const NAME: &'static str = "redis over TLS";

    async fn start(issued: &Issued) -> Self {
        let [ca, certificate, key] = [issued.ca(), issued.certificate(), issued.key()];
        let configuration = format!(
            "port 0\ntls-port PORT\ntls-auth-clients no\ntls-ca-cert-file {}\ntls-cert-file {}\ntls-key-file {}",
            ca.display(),
            certificate.display(),
            key.display()
        );
        Self(Server::start(&configuration).await)
    }

    fn sink(&self, ca: Option<&Path>) -> Arc<dyn Sink> {
        Arc::new(RedisSink::new(&self.url(ca)).unwrap())
    }

    fn source(&self, ca: Option<&Path>) -> Arc<dyn Source> {
        Arc::new(RedisSource::new(&format!("{}&group=g", self.url(ca))).unwrap())
    }
}

pillarbox_conformance::tls_conformance!(Secured);
