//! The suites for sinks, sources, consumers and faults.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use krafka::producer::Record;
use pillarbox_conformance::{
    FaultHarness, Received, Refusal, SinkHarness, SourceHarness, Timeouts, Told, Wanted,
};
use pillarbox_core::port::{Sink, Source};
use pillarbox_core::{Event, EventId};
use pillarbox_testkit::Published;
use pillarbox_transport_kafka::{KafkaSink, KafkaSource};

use crate::harness::{Fake, context, event_id, received};

/// On the fake cluster.
struct OnFake {
    place: Fake,
    sink: Arc<KafkaSink>,
}

impl OnFake {
    async fn new() -> Self {
        let place = Fake::new(1).await;
        let sink = Arc::new(KafkaSink::new(&place.url()).unwrap());
        Self { place, sink }
    }

    /// The topic of what was parked.
    fn parked(&self) -> String {
        format!("{}.parked", self.place.topic)
    }

    fn source_of(&self, more: &str) -> Arc<dyn Source> {
        let url = format!("{}?group=billing&parked={}{more}", self.place.url(), self.parked());
        Arc::new(KafkaSource::new(&url).unwrap())
    }
}

#[async_trait]
impl SinkHarness for OnFake {
    fn name() -> &'static str {
        "fake cluster"
    }

    async fn start() -> Self {
        Self::new().await
    }

    fn sink(&self) -> Arc<dyn Sink> {
        self.sink.clone()
    }

    async fn received(&self) -> Vec<Received> {
        self.place.records().iter().map(received).collect()
    }

    async fn contexts(&self) -> Option<Vec<BTreeMap<String, String>>> {
        Some(self.place.records().iter().map(context).collect())
    }

    /// The topic of one type does not exist.
    async fn refusal(&self) -> Option<Refusal> {
        let sink = KafkaSink::new(&format!("{}/{{type}}?connect_timeout=1s", self.place.server())).unwrap();
        let of = |event_type: &str| Event::new(event_type, "{}");
        Some(Refusal { sink: Arc::new(sink), taken: of(&self.place.topic), refused: of("missing") })
    }
}

#[async_trait]
impl SourceHarness for OnFake {
    fn name() -> &'static str {
        "fake cluster"
    }

    async fn start() -> Self {
        let on = Self::new().await;
        on.place.broker.create_topic(&on.parked(), 1);
        on
    }

    fn source(&self) -> Arc<dyn Source> {
        self.source_of("")
    }

    fn source_with(&self, wanted: Wanted) -> Option<Arc<dyn Source>> {
        match wanted {
            Wanted::Ahead(messages) => Some(self.source_of(&format!("&prefetch={messages}"))),
            Wanted::GivenBackLate => Some(self.source_of("&nack_delay=1h")),
            Wanted::Missing => {
                let url = format!("{}/missing?group=billing", self.place.server());
                Some(Arc::new(KafkaSource::new(&url).unwrap()))
            }
            Wanted::Nobody => {
                Some(Arc::new(KafkaSource::new("kafka://127.0.0.1:1/orders?group=billing").unwrap()))
            }
            // What was answered behind an unanswered one comes again to the next owner: `source.rs` has it.
            _ => None,
        }
    }

    fn sink(&self) -> Option<Arc<dyn Sink>> {
        Some(self.sink.clone())
    }

    async fn publish(&self, message: Published) {
        self.place.publish(foreign(&self.place.topic, message)).await;
    }

    /// A partition has one owner: `rebalance.rs` shows how they are shared.
    fn shares_single_messages(&self) -> bool {
        false
    }

    async fn parked(&self) -> Option<usize> {
        Some(self.place.broker.all_records(&self.parked()).unwrap().len())
    }
}

/// A message as somebody else would write it.
pub(crate) fn foreign(topic: &str, message: Published) -> Record {
    let mut record = Record::new(topic, message.body);
    for (name, value) in message.attributes {
        record = record.header(
            if name == "datacontenttype" { "content-type".into() } else { format!("ce_{name}") },
            value,
        );
    }
    for (name, value) in message.headers {
        record = record.header(name, value);
    }
    record
}

#[async_trait]
impl FaultHarness for OnFake {
    const NAME: &'static str = "fake cluster";

    async fn start() -> Self {
        Self::new().await
    }

    fn server(&self) -> String {
        self.place.server()
    }

    fn sink(&self, server: &str, timeouts: Timeouts) -> Arc<dyn Sink> {
        // A client goes where the cluster says it is.
        self.place.advertise(server);
        let url = format!("{server}/{}?{}", self.place.topic, timeouts.parameters());
        Arc::new(KafkaSink::new(&url).unwrap())
    }

    async fn received(&self) -> Vec<EventId> {
        self.place.records().iter().map(event_id).collect()
    }

    fn told(&self) -> Told {
        let mut told = Told::default();
        told.repeats = true;
        // A server that says nothing to a new connection either is down.
        told.withheld = "down/no_answer";
        // The client connects again for its requests and to ask where the topic is, and the sink asks beside it.
        told.connections_max = 6;
        told
    }
}

mod fake {
    use super::*;

    pillarbox_conformance::transport_conformance!(OnFake: sink, source, consumer, faults);
}
