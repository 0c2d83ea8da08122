//! A server without memory costs no attempt.

use std::sync::Arc;

use pillarbox_conformance::OutageHarness;
use pillarbox_conformance::outage::{by_lanes, by_rows};
use pillarbox_core::EventId;
use pillarbox_core::port::Sink;
use pillarbox_transport_redis::RedisSink;

use crate::harness::{OwnStream, Server};

/// A server without memory.
struct Full {
    place: OwnStream,
    _server: Server,
}

impl Full {
    async fn new() -> Self {
        let server = Server::start("maxmemory-policy noeviction").await;
        Self { place: OwnStream::on(&server.url()).await, _server: server }
    }
}

impl OutageHarness for Full {
    fn sink(&self) -> Arc<dyn Sink> {
        Arc::new(RedisSink::new(&self.place.to()).unwrap())
    }

    async fn begin(&self) {
        self.place.ask(&["CONFIG", "SET", "maxmemory", "1"]).await.unwrap();
    }

    async fn end(&self) {
        self.place.ask(&["CONFIG", "SET", "maxmemory", "0"]).await.unwrap();
    }

    async fn received(&self) -> Vec<EventId> {
        self.place.stored_ids().await
    }
}

#[tokio::test]
async fn a_server_without_memory_spends_no_attempt_and_gets_all_once_there_is_room() {
    by_rows(&Full::new().await).await;
    let full = Full::new().await;
    by_lanes(&full).await;
}
