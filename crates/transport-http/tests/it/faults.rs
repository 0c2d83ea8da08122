//! The suite for faults, with a proxy before a server.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_conformance::{FaultHarness, Timeouts, Told};
use pillarbox_core::EventId;
use pillarbox_core::port::Sink;
use pillarbox_transport_http::HttpSink;

use super::harness::{Server, private};

struct Harness(Server);

#[async_trait]
impl FaultHarness for Harness {
    const NAME: &'static str = "http";

    async fn start() -> Self {
        Self(Server::status(200).await)
    }

    fn server(&self) -> String {
        self.0.url()
    }

    fn sink(&self, server: &str, timeouts: Timeouts) -> Arc<dyn Sink> {
        let mut options = private(server);
        options.connect_timeout = timeouts.connect.unwrap_or(options.connect_timeout);
        options.timeout = timeouts.confirm.unwrap_or(options.timeout);
        Arc::new(HttpSink::with_options(options).unwrap())
    }

    async fn received(&self) -> Vec<EventId> {
        let id = |headers: &axum::http::HeaderMap| headers["webhook-id"].to_str().unwrap().parse().unwrap();
        self.0.seen().iter().map(|seen| id(&seen.headers)).collect()
    }

    fn told(&self) -> Told {
        let mut told = Told::default();
        (told.withheld, told.unreachable) = ("unknown/timeout", "down/refused");
        // Each request has a connection of its own, and the receiver may have worked on it.
        told.asks = false;
        told
    }
}

pillarbox_conformance::fault_conformance!(Harness);
