//! A cluster of a test's own, and what arrived there.

use std::collections::BTreeMap;
use std::time::Duration;

use krafka::testing::FakeBroker;
use krafka::{ConsumerRecord, Kafka, Record};
use pillarbox_conformance::Received;
use pillarbox_conformance::delivery::fresh;
use pillarbox_core::EventId;

/// The value of a variable that `cargo xtask services` sets.
pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!(
            "{name} is not set: run `cargo xtask services python -- cargo test -p pillarbox-transport-kafka`"
        )
    })
}

/// A topic on the client's fake cluster, which listens on sockets of the loopback.
pub(crate) struct Fake {
    pub(crate) broker: FakeBroker,
    pub(crate) topic: String,
}

impl Fake {
    pub(crate) async fn new(partitions: i32) -> Self {
        let broker = FakeBroker::start().await.unwrap();
        let topic = fresh("orders");
        assert!(broker.create_topic(&topic, partitions));
        Self { broker, topic }
    }

    pub(crate) fn server(&self) -> String {
        format!("kafka://{}", self.broker.bootstrap_servers())
    }

    /// The URL of the topic.
    pub(crate) fn url(&self) -> String {
        format!("{}/{}", self.server(), self.topic)
    }

    /// What is in the topic.
    pub(crate) fn records(&self) -> Vec<ConsumerRecord> {
        self.broker.all_records(&self.topic).unwrap()
    }

    /// Publishes a record with a client of the test's own.
    pub(crate) async fn publish(&self, record: Record) {
        let kafka = Kafka::builder(self.broker.bootstrap_servers()).connect().await.unwrap();
        let producer = kafka.producer().linger(Duration::ZERO).build().await.unwrap();
        drop(producer.send(record).await.unwrap());
        producer.close().await.unwrap();
    }

    /// Makes the cluster tell its clients to come through this server, a proxy before it.
    pub(crate) fn advertise(&self, server: &str) {
        let (host, port) = server.split_once("://").unwrap().1.rsplit_once(':').unwrap();
        self.broker.with_state(|state| {
            for broker in &mut state.brokers {
                (broker.host, broker.port) = (host.to_owned(), port.parse().unwrap());
            }
        });
    }
}

/// The value of a header.
pub(crate) fn header(record: &ConsumerRecord, name: &str) -> Option<String> {
    record.header_str(name).map(ToOwned::to_owned)
}

pub(crate) fn event_id(record: &ConsumerRecord) -> EventId {
    header(record, "ce_id").unwrap().parse().unwrap()
}

pub(crate) fn received(record: &ConsumerRecord) -> Received {
    Received {
        event_id: event_id(record),
        event_type: header(record, "ce_type").unwrap(),
        key: header(record, "ce_subject"),
        payload: record.value.clone().unwrap().to_vec(),
    }
}

/// Attributes by their bare names, and headers.
pub(crate) fn context(record: &ConsumerRecord) -> BTreeMap<String, String> {
    let text =
        |value: &Option<_>| String::from_utf8(Vec::from(<_ as Clone>::clone(value).unwrap_or_default()));
    let bare = |name: &str| match name {
        "content-type" => "datacontenttype".to_owned(),
        name => name.strip_prefix("ce_").unwrap_or(name).to_owned(),
    };
    record.headers.iter().map(|(name, value)| (bare(name), text(value).unwrap())).collect()
}
