//! The suite for sinks, on both servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_conformance::{Received, SinkHarness};
use pillarbox_core::port::Sink;
use pillarbox_core::{Event, Outcome};
use pillarbox_transport_redis::RedisSink;

use crate::harness::{Place, REDIS, Stored, VALKEY, deliver, entries, entry};

struct Here {
    place: Place,
    sink: Arc<RedisSink>,
}

impl Here {
    async fn start(variable: &str) -> Self {
        let place = Place::new(variable).await;
        let sink = Arc::new(RedisSink::new(&place.to()).unwrap());
        Self { place, sink }
    }

    async fn received(&self) -> Vec<Received> {
        let stored = self.place.stored().await.into_iter();
        let received = stored.map(|stored| Received {
            event_id: stored.text("ce-id").unwrap().parse().unwrap(),
            event_type: stored.text("ce-type").unwrap(),
            key: stored.text("ce-subject"),
            payload: stored.fields["data"].clone(),
        });
        received.collect()
    }

    async fn contexts(&self) -> Vec<BTreeMap<String, String>> {
        let context = |stored: Stored| {
            let names = stored.fields.keys().filter(|name| *name != "data");
            let bare = |name: &String| {
                let bare = name.strip_prefix("ce-").or_else(|| name.strip_prefix("h-")).unwrap_or(name);
                (bare.to_owned(), stored.text(name).unwrap())
            };
            names.map(bare).collect()
        };
        self.place.stored().await.into_iter().map(context).collect()
    }
}

struct Redis(Here);

#[async_trait]
impl SinkHarness for Redis {
    const NAME: &'static str = "redis";

    async fn start() -> Self {
        Self(Here::start(REDIS).await)
    }

    fn sink(&self) -> Arc<dyn Sink> {
        self.0.sink.clone()
    }

    async fn received(&self) -> Vec<Received> {
        self.0.received().await
    }

    async fn contexts(&self) -> Option<Vec<BTreeMap<String, String>>> {
        Some(self.0.contexts().await)
    }
}

struct Valkey(Here);

#[async_trait]
impl SinkHarness for Valkey {
    const NAME: &'static str = "valkey";

    async fn start() -> Self {
        Self(Here::start(VALKEY).await)
    }

    fn sink(&self) -> Arc<dyn Sink> {
        self.0.sink.clone()
    }

    async fn received(&self) -> Vec<Received> {
        self.0.received().await
    }

    async fn contexts(&self) -> Option<Vec<BTreeMap<String, String>>> {
        Some(self.0.contexts().await)
    }
}

mod redis {
    pillarbox_conformance::sink_conformance!(super::Redis);
}

mod valkey {
    pillarbox_conformance::sink_conformance!(super::Valkey);
}

#[tokio::test]
async fn a_batch_beyond_every_buffer_stays_in_order() {
    let place = Place::new(REDIS).await;
    let sink = RedisSink::new(&place.to()).unwrap();
    let batch = entries(5000);
    assert!(deliver(&sink, &batch).await.iter().all(|outcome| *outcome == Outcome::Confirmed));
    let sent: Vec<_> = batch.iter().map(|entry| entry.event_id.to_string()).collect();
    assert_eq!(place.stored_ids().await, sent);
}

#[tokio::test]
async fn deliveries_that_wait_for_the_connection_are_written_in_their_order() {
    let place = Place::new(VALKEY).await;
    let sink = RedisSink::new(&place.to()).unwrap();
    let batch = entries(1000);
    let outcomes = futures_util::future::join_all(batch.chunks(100).map(|part| deliver(&sink, part))).await;
    assert!(outcomes.iter().flatten().all(|outcome| *outcome == Outcome::Confirmed));
    let sent: Vec<_> = batch.iter().map(|entry| entry.event_id.to_string()).collect();
    assert_eq!(place.stored_ids().await, sent);
}

#[tokio::test]
async fn each_entry_goes_to_the_stream_of_its_type() {
    let place = Place::new(VALKEY).await;
    let sink = RedisSink::new(&format!("{}?stream={}:{{type}}", place.server, place.stream)).unwrap();
    let batch = ["a", "b", "a"].map(|event_type| entry(Event::new(event_type, "{}")));
    assert!(deliver(&sink, &batch).await.iter().all(|outcome| *outcome == Outcome::Confirmed));
    assert_eq!(place.stored_in(&format!("{}:a", place.stream)).await.len(), 2);
    assert_eq!(place.stored_in(&format!("{}:b", place.stream)).await.len(), 1);
}

#[tokio::test]
async fn a_stream_is_trimmed_to_about_its_length() {
    for server in [REDIS, VALKEY] {
        let place = Place::new(server).await;
        let sink = RedisSink::new(&format!("{}&maxlen=100", place.to())).unwrap();
        assert!(deliver(&sink, &entries(2000)).await.iter().all(|outcome| *outcome == Outcome::Confirmed));
        let left = place.stored().await.len();
        assert!((100..1000).contains(&left), "{left}");
    }
}
