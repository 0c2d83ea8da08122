//! Outages of every kind cost no attempt: a server without memory, a server that is killed.

use std::collections::BTreeSet;
use std::sync::Arc;

use pillarbox_conformance::OutageHarness;
use pillarbox_conformance::outage::{
    an_outage_of_an_ordered_route_spends_no_attempt_and_all_is_delivered_after_it,
    an_outage_spends_no_attempt_and_all_is_delivered_after_it,
};
use pillarbox_core::EventId;
use pillarbox_core::port::Sink;
use pillarbox_transport_redis::RedisSink;
use tokio::sync::Mutex;

use crate::harness::{Place, Server};

async fn received(place: &Place) -> BTreeSet<EventId> {
    place.stored_ids().await.iter().map(|id| id.parse().unwrap()).collect()
}

/// A server without memory.
struct Full {
    place: Place,
    _server: Server,
}

impl Full {
    async fn new() -> Self {
        let server = Server::start("maxmemory-policy noeviction").await;
        Self { place: Place::on(&server.url()).await, _server: server }
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

    async fn received(&self) -> BTreeSet<EventId> {
        received(&self.place).await
    }
}

#[tokio::test]
async fn a_server_without_memory_spends_no_attempt_and_gets_all_once_there_is_room() {
    an_outage_spends_no_attempt_and_all_is_delivered_after_it(&Full::new().await).await;
    let full = Full::new().await;
    an_outage_of_an_ordered_route_spends_no_attempt_and_all_is_delivered_after_it(&full).await;
}

/// A server of this test's own.
struct Killed {
    server: Mutex<Server>,
    place: Place,
}

impl OutageHarness for Killed {
    fn sink(&self) -> Arc<dyn Sink> {
        Arc::new(RedisSink::new(&self.place.to()).unwrap())
    }

    async fn begin(&self) {
        self.server.lock().await.stop();
    }

    async fn end(&self) {
        self.server.lock().await.restart().await;
    }

    async fn received(&self) -> BTreeSet<EventId> {
        // The connection of before ended with the server.
        let again = Place { stream: self.place.stream.clone(), ..Place::on(&self.place.server).await };
        received(&again).await
    }
}

#[tokio::test]
async fn a_server_that_is_killed_and_started_again_loses_nothing_and_spends_no_attempt() {
    let server = Server::start("appendonly yes\nappendfsync always").await;
    let place = Place::on(&server.url()).await;
    let killed = Killed { server: Mutex::new(server), place };
    an_outage_spends_no_attempt_and_all_is_delivered_after_it(&killed).await;
}
