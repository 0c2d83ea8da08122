//! Outages of every kind cost no attempt: full queues, a server that is killed, a quorum queue without a majority.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lapin::options::{BasicGetOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, ConnectionProperties};
use pillarbox_conformance::OutageHarness;
use pillarbox_conformance::outage::{
    an_outage_of_an_ordered_route_spends_no_attempt_and_all_is_delivered_after_it,
    an_outage_spends_no_attempt_and_all_is_delivered_after_it,
};
use pillarbox_core::EventId;
use pillarbox_core::port::Sink;
use pillarbox_testkit::eventually;
use pillarbox_transport_amqp::AmqpSink;

use crate::harness::{Broker, ids, random, server};
use crate::node::Cluster;

/// Only a guard against hanging.
const SOON: Duration = Duration::from_secs(60);
/// How much a queue takes; more is staged, also after it is full.
const LIMIT: u32 = 50;

/// A queue that refuses what is over its limit until somebody begins to take from it. By arguments and not by a policy:
/// RabbitMQ drops messages when a policy gives a queue its first limit.
struct Full {
    broker: Broker,
    queue: String,
    taken: Arc<Mutex<BTreeSet<EventId>>>,
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
        Arc::new(AmqpSink::new(&format!("{}?routing_key={}", server(), self.queue)).unwrap())
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

    async fn received(&self) -> BTreeSet<EventId> {
        self.taken.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn a_full_classic_queue_spends_no_attempt_and_gets_all_once_there_is_room() {
    an_outage_spends_no_attempt_and_all_is_delivered_after_it(&Full::new("classic").await).await;
}

#[tokio::test]
async fn a_full_quorum_queue_spends_no_attempt_and_gets_all_once_there_is_room() {
    let full = Full::new("quorum").await;
    an_outage_of_an_ordered_route_spends_no_attempt_and_all_is_delivered_after_it(&full).await;
}

/// Nodes of this test's own, some of which are killed.
struct Killed {
    cluster: Cluster,
    queue: String,
    killed: Vec<usize>,
}

impl Killed {
    async fn new(queue_type: &str, nodes: usize, killed: Vec<usize>) -> Self {
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
}

impl OutageHarness for Killed {
    fn sink(&self) -> Arc<dyn Sink> {
        let url = format!("{}?routing_key={}&confirm_timeout=500ms", self.cluster.url(0), self.queue);
        Arc::new(AmqpSink::new(&url).unwrap())
    }

    async fn begin(&self) {
        self.killed.iter().for_each(|node| self.cluster.kill(*node));
    }

    async fn end(&self) {
        for node in &self.killed {
            self.cluster.restart(*node).await;
        }
    }

    async fn received(&self) -> BTreeSet<EventId> {
        let connection =
            Connection::connect(&self.cluster.url(0), ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        let mut all = Vec::new();
        // Given back when the connection ends.
        let options = BasicGetOptions { no_ack: false };
        while let Some(message) = channel.basic_get(self.queue.as_str().into(), options).await.unwrap() {
            all.push(message.delivery);
        }
        ids(&all).into_iter().collect()
    }
}

/// With a classic queue: a quorum queue of a single member confirmed nothing after its node had been killed (RabbitMQ 3.10).
#[tokio::test]
async fn a_server_that_is_killed_and_started_again_loses_nothing_and_spends_no_attempt() {
    an_outage_spends_no_attempt_and_all_is_delivered_after_it(&Killed::new("classic", 1, vec![0]).await)
        .await;
}

#[tokio::test]
async fn a_quorum_queue_without_a_majority_loses_nothing_and_spends_no_attempt() {
    an_outage_spends_no_attempt_and_all_is_delivered_after_it(&Killed::new("quorum", 3, vec![1, 2]).await)
        .await;
}
