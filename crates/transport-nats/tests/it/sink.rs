//! The suite for sinks, on both servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_nats::jetstream::message::StreamMessage;
use async_trait::async_trait;
use pillarbox_conformance::{Received, SinkHarness};
use pillarbox_core::Outcome;
use pillarbox_core::port::Sink;
use pillarbox_transport_nats::NatsSink;

use crate::harness::{DEBIAN, LATEST, Place, deliver, entries};

struct Here {
    place: Place,
    sink: Arc<NatsSink>,
}

impl Here {
    async fn start(variable: &str) -> Self {
        let place = Place::new(variable).await;
        let sink = Arc::new(NatsSink::new(&place.to()).unwrap());
        Self { place, sink }
    }

    async fn received(&self) -> Vec<Received> {
        let stored = self.place.stored().await.into_iter();
        let received = stored.map(|message| {
            let header = |name: &str| message.headers.get(name).map(ToString::to_string);
            Received {
                event_id: header("Nats-Msg-Id").unwrap().parse().unwrap(),
                event_type: header("ce-type").unwrap(),
                key: header("ce-subject"),
                payload: message.payload.to_vec(),
            }
        });
        received.collect()
    }

    /// Attributes and headers. What begins with `Nats-` is the server's own.
    async fn contexts(&self) -> Vec<BTreeMap<String, String>> {
        let context = |message: StreamMessage| {
            let headers = message.headers.iter().filter(|(name, _)| !name.to_string().starts_with("Nats-"));
            let headers = headers.map(|(name, values)| match name.to_string().strip_prefix("ce-") {
                Some(attribute) => (attribute.to_owned(), percent_decoded(values[0].as_str())),
                None => (name.to_string(), values[0].to_string()),
            });
            headers.collect()
        };
        self.place.stored().await.into_iter().map(context).collect()
    }
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((plain, encoded)) = rest.split_once('%') {
        bytes.extend_from_slice(plain.as_bytes());
        bytes.push(u8::from_str_radix(&encoded[..2], 16).unwrap());
        rest = &encoded[2..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).unwrap()
}

struct Debian(Here);

#[async_trait]
impl SinkHarness for Debian {
    const NAME: &'static str = "nats";

    async fn start() -> Self {
        Self(Here::start(DEBIAN).await)
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

struct Latest(Here);

#[async_trait]
impl SinkHarness for Latest {
    const NAME: &'static str = "nats-latest";

    async fn start() -> Self {
        Self(Here::start(LATEST).await)
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

mod debian {
    pillarbox_conformance::sink_conformance!(super::Debian);
}

mod latest {
    pillarbox_conformance::sink_conformance!(super::Latest);
}

#[tokio::test]
async fn a_batch_beyond_every_buffer_stays_in_order() {
    let place = Place::new(DEBIAN).await;
    let sink = NatsSink::new(&place.to()).unwrap();
    let batch = entries(10_000);
    assert!(deliver(&sink, &batch).await.iter().all(|outcome| *outcome == Outcome::Confirmed));
    let sent: Vec<_> = batch.iter().map(|entry| entry.event_id.to_string()).collect();
    assert_eq!(place.stored_ids().await, sent);
}

#[tokio::test]
async fn deliveries_that_wait_for_the_connection_are_written_in_their_order() {
    let place = Place::new(LATEST).await;
    let sink = NatsSink::new(&place.to()).unwrap();
    let batch = entries(1000);
    let outcomes = futures_util::future::join_all(batch.chunks(100).map(|part| deliver(&sink, part))).await;
    assert!(outcomes.iter().flatten().all(|outcome| *outcome == Outcome::Confirmed));
    let sent: Vec<_> = batch.iter().map(|entry| entry.event_id.to_string()).collect();
    assert_eq!(place.stored_ids().await, sent);
}
