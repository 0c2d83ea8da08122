//! Outages that only RabbitMQ has cost no attempt: full queues, a quorum queue without a majority.

use std::sync::{Arc, Mutex};

use lapin::options::{BasicGetOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, ConnectionProperties};
use pillarbox_conformance::OutageHarness;
use pillarbox_conformance::delivery::{SOON, random};
use pillarbox_conformance::outage::{by_lanes, by_rows};
use pillarbox_core::EventId;
use pillarbox_core::port::Sink;
use pillarbox_testkit::eventually;
use pillarbox_transport_amqp::AmqpSink;

use crate::harness::{Broker, ids, server, sink_into};
use crate::node::Cluster;

/// How much a queue takes; more is staged, also after it is full.
const LIMIT: u32 = 50;

/// A queue that refuses what is over its limit until somebody begins to take from it. By arguments and not by a policy:
/// RabbitMQ drops messages when a policy gives a queue its first limit.
struct Full {
    broker: Broker,
    queue: String,
    taken: Arc<Mutex<Vec<EventId>>>,
}

impl Full {
    async fn new(queue_type: &str) -> Self {
        let broker = Broker::start().await;
        let bounds = [
            ("x-max-length", AMQPValue::LongInt(i32::try_from(LIMIT).unwrap())),
            ("x-overflow", AMQPValue::LongString("reject-publish".into())),
        ];
        let queue = broker.queue(queue_type, &bounds).await;
        Self { broker, queue, taken: Arc::default() }
    }
}

impl OutageHarness for Full {
    fn sink(&self) -> Arc<dyn Sink> {
        Arc::new(sink_into(&server(), &self.queue))
    }

    async fn begin(&self) {
        eventually(SOON, async || self.broker.waiting(&self.queue).await >= LIMIT).await;
    }

    #[expect(clippy::disallowed_methods, reason = "somebody else empties the queue beside the test")]
    async fn end(&self) {
        let (channel, queue, taken) = (self.broker.channel.clone(), self.queue.clone(), self.taken.clone());
        // Until the channel is closed, which it is at the end of the test.
        tokio::spawn(async move {
            let options = BasicGetOptions { no_ack: true };
            while let Ok(message) = channel.basic_get(queue.as_str().into(), options).await {
                taken.lock().unwrap().extend(message.map(|message| ids(&[message.delivery])[0]));
            }
        });
    }

    async fn received(&self) -> Vec<EventId> {
        self.taken.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn a_full_classic_queue_spends_no_attempt_and_gets_all_once_there_is_room() {
    by_rows(&Full::new("classic").await).await;
}

#[tokio::test]
async fn a_full_quorum_queue_spends_no_attempt_and_gets_all_once_there_is_room() {
    let full = Full::new("quorum").await;
    by_lanes(&full).await;
}

/// Nodes of this test's own, some of which are killed.
pub(crate) struct Killed {
    cluster: Cluster,
    queue: String,
    killed: Vec<usize>,
}

impl Killed {
    pub(crate) async fn new(queue_type: &str, nodes: usize, killed: Vec<usize>) -> Self {
        let cluster = Cluster::start(nodes).await;
        let queue = format!("{queue_type}-{:016x}", random());
        let connection = Connection::connect(&cluster.url(0), ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        let mut table = FieldTable::default();
        table.insert("x-queue-type".into(), AMQPValue::LongString(queue_type.into()));
        if nodes > 1 {
            let members = AMQPValue::LongInt(i32::try_from(nodes).unwrap());
            table.insert("x-quorum-initial-group-size".into(), members);
        }
        let options = QueueDeclareOptions { durable: true, ..Default::default() };
        channel.queue_declare(queue.as_str().into(), options, table).await.unwrap();
        killed.iter().for_each(|node| cluster.store(*node));
        Self { cluster, queue, killed }
    }
    /// A sink with these parameters.
    pub(crate) fn sink(&self, more: &str) -> Arc<dyn Sink> {
        let url = format!("{}?routing_key={}&{more}", self.cluster.url(0), self.queue);
        Arc::new(AmqpSink::new(&url).unwrap())
    }

    pub(crate) fn kill(&self) {
        self.killed.iter().for_each(|node| self.cluster.kill(*node));
    }

    pub(crate) async fn restart(&self) {
        for node in &self.killed {
            self.cluster.restart(*node).await;
        }
    }

    pub(crate) async fn received(&self) -> Vec<EventId> {
        let connection =
            Connection::connect(&self.cluster.url(0), ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        let mut all = Vec::new();
        // Given back when the connection ends.
        let options = BasicGetOptions { no_ack: false };
        while let Some(message) = channel.basic_get(self.queue.as_str().into(), options).await.unwrap() {
            all.push(message.delivery);
        }
        ids(&all)
    }
}

/// A cluster that has lost its majority.
struct Minority(Killed);

impl OutageHarness for Minority {
    fn sink(&self) -> Arc<dyn Sink> {
        self.0.sink("confirm_timeout=500ms")
    }

    async fn begin(&self) {
        self.0.kill();
    }

    async fn end(&self) {
        self.0.restart().await;
    }

    async fn received(&self) -> Vec<EventId> {
        self.0.received().await
    }
}

#[tokio::test]
async fn a_quorum_queue_without_a_majority_loses_nothing_and_spends_no_attempt() {
    by_rows(&Minority(Killed::new("quorum", 3, vec![1, 2]).await)).await;
}
