//! A full stream costs no attempt.

use std::sync::Arc;

use async_nats::jetstream::stream::{Config, DiscardPolicy};
use pillarbox_conformance::OutageHarness;
use pillarbox_conformance::outage::{by_lanes, by_rows};
use pillarbox_core::EventId;
use pillarbox_core::port::Sink;
use pillarbox_transport_nats::NatsSink;

use crate::harness::{LATEST, OwnStream, variable};

/// A stream that is at its limit.
struct Full(OwnStream);

impl Full {
    async fn limit(&self, max_messages: i64) {
        let config = self.0.stream().await.cached_info().config.clone();
        self.0.context.update_stream(Config { max_messages, ..config }).await.unwrap();
    }
}

impl OutageHarness for Full {
    fn sink(&self) -> Arc<dyn Sink> {
        Arc::new(NatsSink::new(&self.0.to()).unwrap())
    }

    /// Not below what the stream may hold by now: the server deletes what is over a new limit.
    async fn begin(&self) {
        self.limit(225).await;
    }

    async fn end(&self) {
        self.limit(-1).await;
    }

    async fn received(&self) -> Vec<EventId> {
        self.0.stored_ids().await
    }
}

fn discards_new(config: Config) -> Config {
    Config { discard: DiscardPolicy::New, ..config }
}

#[tokio::test]
async fn a_full_stream_spends_no_attempt_and_gets_all_once_there_is_room() {
    let full = Full(OwnStream::with(discards_new).await);
    by_rows(&full).await;
    let full = Full(OwnStream::on(&variable(LATEST), discards_new).await);
    by_lanes(&full).await;
}
