//! The same on nisshi, a broker that is no part of the client. `cargo xtask ci --all` runs it, and
//! `cargo xtask services kafka -- cargo test -p pillarbox-transport-kafka on_nisshi`.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use krafka::admin::{CreateTopicsOptions, NewTopic};
use krafka::consumer::AutoOffsetReset;
use krafka::{ConsumerRecord, Kafka, Record};
use pillarbox_conformance::delivery::{SOON, fresh};
use pillarbox_conformance::process::OwnServer;
use pillarbox_conformance::transcript::TranscriptHarness;
use pillarbox_conformance::{Received, ServerHarness, SinkHarness, SourceHarness, Timeouts, Wanted};
use pillarbox_core::port::{Sink, Source, Transcript};
use pillarbox_core::{EventId, RouteName};
use pillarbox_testkit::{Published, eventually};
use pillarbox_transport_kafka::{KafkaSink, KafkaSource, KafkaTranscript};

use crate::harness::{context, event_id, received, variable};
use crate::readback::python_reads;
use crate::rebalance::{Members, come_and_go};
use crate::suites::foreign;

/// A topic on a real broker.
struct Place {
    /// The server's URL, without a topic.
    server: String,
    topic: String,
}

impl Place {
    async fn new(partitions: i32) -> Self {
        Self::on(variable("PILLARBOX_TEST_KAFKA"), partitions).await
    }

    async fn on(server: String, partitions: i32) -> Self {
        let place = Self { server, topic: fresh("orders") };
        place.create(&place.topic, partitions).await;
        place.create(&place.parked(), 1).await;
        place
    }

    async fn create(&self, topic: &str, partitions: i32) {
        let topic = NewTopic::new(topic, partitions, 1).unwrap();
        let made = self.client().await.admin().create_topics([topic], CreateTopicsOptions::default()).await;
        assert!(made.unwrap().into_values().all(|made| made.is_ok()));
    }

    fn url(&self) -> String {
        format!("{}/{}", self.server, self.topic)
    }

    fn parked(&self) -> String {
        format!("{}.parked", self.topic)
    }

    fn source(&self, more: &str) -> Arc<dyn Source> {
        let url = format!("{}?group={}&parked={}{more}", self.url(), self.topic, self.parked());
        Arc::new(KafkaSource::new(&url).unwrap())
    }

    async fn client(&self) -> Kafka {
        Kafka::builder(self.server.strip_prefix("kafka://").unwrap()).connect().await.unwrap()
    }

    /// What is in a topic.
    async fn records(&self, topic: &str) -> Vec<ConsumerRecord> {
        let consumer = self.client().await.consumer_without_group();
        let consumer = consumer.auto_offset_reset(AutoOffsetReset::Earliest).build().await.unwrap();
        let partitions = consumer.fetch_metadata(Some(topic)).await.unwrap().topics.remove(0).partitions;
        let mut end = 0;
        for number in partitions.keys() {
            end += consumer.fetch_watermarks(topic, *number).await.unwrap().1;
        }
        consumer.assign(topic, partitions.into_keys().collect()).await.unwrap();
        let mut records = Vec::new();
        let reading = async {
            while i64::try_from(records.len()).unwrap() < end {
                records.extend(consumer.poll(Duration::from_secs(1)).await.unwrap());
            }
        };
        tokio::time::timeout(SOON, reading).await.expect("all records are read");
        records
    }

    async fn publish(&self, record: Record) {
        let producer = self.client().await.producer().linger(Duration::ZERO).build().await.unwrap();
        drop(producer.send(record).await.unwrap());
        producer.close().await.unwrap();
    }
}

#[async_trait]
impl SinkHarness for Place {
    fn name() -> &'static str {
        "nisshi"
    }

    async fn start() -> Self {
        Self::new(1).await
    }

    fn sink(&self) -> Arc<dyn Sink> {
        Arc::new(KafkaSink::new(&self.url()).unwrap())
    }

    async fn received(&self) -> Vec<Received> {
        self.records(&self.topic).await.iter().map(received).collect()
    }

    async fn contexts(&self) -> Option<Vec<BTreeMap<String, String>>> {
        Some(self.records(&self.topic).await.iter().map(context).collect())
    }
}

#[async_trait]
impl SourceHarness for Place {
    fn name() -> &'static str {
        "nisshi"
    }

    async fn start() -> Self {
        Self::new(1).await
    }

    fn source(&self) -> Arc<dyn Source> {
        self.source("")
    }

    fn source_with(&self, wanted: Wanted) -> Option<Arc<dyn Source>> {
        match wanted {
            Wanted::Ahead(messages) => Some(self.source(&format!("&prefetch={messages}"))),
            Wanted::GivenBackLate => Some(self.source("&nack_delay=1h")),
            _ => None,
        }
    }

    fn sink(&self) -> Option<Arc<dyn Sink>> {
        Some(SinkHarness::sink(self))
    }

    async fn publish(&self, message: Published) {
        self.publish(foreign(&self.topic, message)).await;
    }

    fn shares_single_messages(&self) -> bool {
        false
    }

    async fn parked(&self) -> Option<usize> {
        Some(self.records(&self.parked()).await.len())
    }
}

#[async_trait]
impl TranscriptHarness for Place {
    const NAME: &'static str = "nisshi";

    async fn start() -> Self {
        Self::new(1).await
    }

    fn sink(&self) -> Arc<dyn Sink> {
        SinkHarness::sink(self)
    }

    fn transcripts(&self) -> Vec<Box<dyn Transcript>> {
        let route = RouteName::new(&*self.topic).unwrap();
        vec![
            Box::new(KafkaTranscript::new(&self.url()).unwrap()),
            Box::new(KafkaTranscript::of_sink(&format!("{}/{{route}}", self.server), &route).unwrap()),
        ]
    }

    async fn publish_foreign(&self) {
        self.publish(Record::tombstone(&*self.topic, "k")).await;
    }

    // nisshi makes a topic that somebody asks for.
    fn missing(&self) -> Vec<Box<dyn Transcript>> {
        Vec::new()
    }
}

mod suite {
    use super::Place;

    pillarbox_conformance::transport_conformance!(Place: sink, source, consumer, transcript);
}

/// A broker of a test's own, which keeps its data.
struct Own {
    process: OwnServer,
    place: Place,
}

#[async_trait]
impl ServerHarness for Own {
    const NAME: &'static str = "nisshi, a server of its own";

    async fn start() -> Self {
        let program = variable("PILLARBOX_TEST_NISSHI");
        let process = OwnServer::start(|port| {
            let directory = tempfile::tempdir().unwrap();
            move || {
                let listener = format!("tcp://127.0.0.1:{port}");
                let mut command = Command::new(&program);
                command.current_dir(directory.path());
                command.args(["broker", "--listener-url", &listener, "--advertised-listener-url", &listener]);
                command.args(["--storage-engine", "sqlite://nisshi.db"]);
                command
            }
        })
        .await;
        let server = format!("kafka://127.0.0.1:{}", process.port());
        // It listens before it knows its topics.
        let address = format!("127.0.0.1:{}", process.port());
        eventually(SOON, async || Kafka::builder(address.clone()).connect().await.is_ok()).await;
        let place = Place::on(server, 1).await;
        Self { process, place }
    }

    fn sink(&self, timeouts: Timeouts) -> Arc<dyn Sink> {
        Arc::new(KafkaSink::new(&format!("{}?{}", self.place.url(), timeouts.parameters())).unwrap())
    }

    async fn received(&self) -> Vec<EventId> {
        self.place.records(&self.place.topic).await.iter().map(event_id).collect()
    }

    fn process(&self) -> Option<&OwnServer> {
        Some(&self.process)
    }
}

mod server {
    use super::Own;

    pillarbox_conformance::server_conformance!(Own);
}

#[tokio::test]
async fn members_that_come_and_go_lose_and_invert_nothing() {
    let place = Place::new(6).await;
    come_and_go(&place.url(), Members { group: &place.topic, batch_max: 1 }).await;
}

#[tokio::test]
async fn members_that_come_and_go_in_the_middle_of_batches_lose_and_invert_nothing() {
    let place = Place::new(6).await;
    come_and_go(&place.url(), Members { group: &place.topic, batch_max: 20 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn python_reads_every_attribute_header_and_byte() {
    let place = Place::new(1).await;
    python_reads(&place.server, &place.topic).await;
}
