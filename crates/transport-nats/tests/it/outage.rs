//! Outages of every kind cost no attempt: a full stream, a server that is killed.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_nats::jetstream::stream::{Config, DiscardPolicy};
use pillarbox_conformance::OutageHarness;
use pillarbox_conformance::outage::{
    an_outage_of_an_ordered_route_spends_no_attempt_and_all_is_delivered_after_it,
    an_outage_spends_no_attempt_and_all_is_delivered_after_it,
};
use pillarbox_core::EventId;
use pillarbox_core::port::Sink;
use pillarbox_transport_nats::NatsSink;
use tokio::sync::Mutex;

use crate::harness::{LATEST, Place, Server, variable};

async fn received(place: &Place) -> BTreeSet<EventId> {
    place.stored_ids().await.iter().map(|id| id.parse().unwrap()).collect()
}

/// A stream that is at its limit.
struct Full(Place);

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

    async fn received(&self) -> BTreeSet<EventId> {
        received(&self.0).await
    }
}

fn discards_new(config: Config) -> Config {
    Config { discard: DiscardPolicy::New, ..config }
}

#[tokio::test]
async fn a_full_stream_spends_no_attempt_and_gets_all_once_there_is_room() {
    let full = Full(Place::with(discards_new).await);
    an_outage_spends_no_attempt_and_all_is_delivered_after_it(&full).await;
    let full = Full(Place::on(&variable(LATEST), discards_new).await);
    an_outage_of_an_ordered_route_spends_no_attempt_and_all_is_delivered_after_it(&full).await;
}

/// A server of this test's own.
struct Killed {
    server: Mutex<Server>,
    place: Place,
}

impl OutageHarness for Killed {
    fn sink(&self) -> Arc<dyn Sink> {
        Arc::new(NatsSink::new(&self.place.to()).unwrap())
    }

    async fn begin(&self) {
        self.server.lock().await.stop();
    }

    async fn end(&self) {
        self.server.lock().await.restart().await;
    }

    async fn received(&self) -> BTreeSet<EventId> {
        received(&self.place).await
    }
}

#[tokio::test]
async fn a_server_that_is_killed_and_started_again_loses_nothing_and_spends_no_attempt() {
    let server = Server::start("jetstream { store_dir: \"DATA\" }").await;
    let place = Place::on(&server.url(), |config| config).await;
    let killed = Killed { server: Mutex::new(server), place };
    an_outage_spends_no_attempt_and_all_is_delivered_after_it(&killed).await;
}
