//! A broker to test on: queues and exchanges of a test's own, and a way to look into them.

use std::fs::File;
use std::path::PathBuf;

use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicGetOptions, BasicPublishOptions, BasicQosOptions,
    ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable, LongString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};
use pillarbox_conformance::delivery::random;
use pillarbox_core::EventId;
use pillarbox_transport_amqp::AmqpSink;
use tokio::task::spawn_blocking;

/// Settings of the whole node are changed by a few tests, and felt by all: those take it for themselves. A lock of a file
/// beside the node, because tests may be processes of their own; it ends with the file.
async fn lock(alone: bool) -> File {
    let path = PathBuf::from(variable("PILLARBOX_TEST_RABBITMQCTL")).with_file_name("node.lock");
    let locked = spawn_blocking(move || {
        let file = File::options().create(true).truncate(false).write(true).open(path)?;
        if alone { file.lock() } else { file.lock_shared() }.map(|()| file)
    });
    locked.await.unwrap().unwrap()
}

pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run the tests by `cargo xtask services rabbitmq -- cargo test`")
    })
}

/// The broker's URL without a query.
pub(crate) fn server() -> String {
    variable("PILLARBOX_TEST_AMQP")
}

/// Runs the node's own `rabbitmqctl`.
pub(crate) async fn control(arguments: &[&str]) -> String {
    let mut command = tokio::process::Command::new(variable("PILLARBOX_TEST_RABBITMQCTL"));
    let output = command.args(arguments).output().await.unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The node for a test that changes what all others feel.
pub(crate) async fn node() -> File {
    lock(true).await
}

/// What a test works on: a connection that no fault touches, and names of its own.
pub(crate) struct Broker {
    pub(crate) channel: Channel,
    _connection: Connection,
    suffix: String,
    _shared: Option<File>,
}

impl Broker {
    pub(crate) async fn start() -> Self {
        let shared = lock(false).await;
        Self { _shared: Some(shared), ..Self::alone().await }
    }

    /// For whoever holds [`node`].
    pub(crate) async fn alone() -> Self {
        let connection = Connection::connect(&server(), ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        Self { channel, _connection: connection, suffix: format!("{:016x}", random()), _shared: None }
    }

    /// A name of this test's own.
    pub(crate) fn name(&self, what: &str) -> String {
        format!("{what}-{}", self.suffix)
    }

    /// Declares a durable queue of this type with these arguments.
    pub(crate) async fn queue(&self, queue_type: &str, arguments: &[(&str, AMQPValue)]) -> String {
        self.named_queue(queue_type, queue_type, arguments).await
    }

    pub(crate) async fn named_queue(
        &self,
        name: &str,
        queue_type: &str,
        arguments: &[(&str, AMQPValue)],
    ) -> String {
        let name = self.name(name);
        let mut table = FieldTable::default();
        table.insert("x-queue-type".into(), AMQPValue::LongString(queue_type.into()));
        for (argument, value) in arguments {
            table.insert((*argument).into(), value.clone());
        }
        let options = QueueDeclareOptions { durable: true, ..Default::default() };
        self.channel.queue_declare(name.as_str().into(), options, table).await.unwrap();
        name
    }

    pub(crate) async fn delete_queue(&self, queue: &str) {
        self.channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await.unwrap();
    }

    pub(crate) async fn exchange(&self, kind: ExchangeKind) -> String {
        let name = self.name("exchange");
        self.declare_exchange(&name, kind).await;
        name
    }

    pub(crate) async fn declare_exchange(&self, name: &str, kind: ExchangeKind) {
        let options = ExchangeDeclareOptions { durable: true, ..Default::default() };
        self.channel.exchange_declare(name.into(), kind, options, FieldTable::default()).await.unwrap();
    }

    pub(crate) async fn bind(&self, queue: &str, exchange: &str, routing_key: &str) {
        let (queue, exchange, key) = (queue.into(), exchange.into(), routing_key.into());
        let options = QueueBindOptions::default();
        self.channel.queue_bind(queue, exchange, key, options, FieldTable::default()).await.unwrap();
    }

    /// Publishes as anybody might, into a queue, and waits for the confirm.
    pub(crate) async fn publish(&self, queue: &str, properties: BasicProperties, body: &[u8]) {
        let options = BasicPublishOptions { mandatory: true, ..Default::default() };
        let published = self.channel.basic_publish("".into(), queue.into(), options, body, properties).await;
        let confirmation = published.unwrap().await.unwrap();
        assert!(confirmation.is_ack() && confirmation.take_message().is_none(), "not in the queue");
    }

    /// How many messages wait in a queue.
    pub(crate) async fn waiting(&self, queue: &str) -> u32 {
        let options = QueueDeclareOptions { passive: true, ..Default::default() };
        let declared = self.channel.queue_declare(queue.into(), options, FieldTable::default()).await;
        declared.unwrap().message_count()
    }

    /// Takes everything out of a classic or quorum queue.
    pub(crate) async fn take(&self, queue: &str) -> Vec<Delivery> {
        let mut all = Vec::new();
        let options = BasicGetOptions { no_ack: true };
        while let Some(message) = self.channel.basic_get(queue.into(), options).await.unwrap() {
            all.push(message.delivery);
        }
        all
    }

    /// Reads a stream from its beginning up to a mark that is published now.
    pub(crate) async fn read_stream(&self, queue: &str) -> Vec<Delivery> {
        let mark = self.name(&format!("mark-{}", random()));
        self.publish(queue, BasicProperties::default().with_message_id(mark.as_str().into()), b"").await;
        self.channel.basic_qos(500, BasicQosOptions::default()).await.unwrap();
        let mut from = FieldTable::default();
        from.insert("x-stream-offset".into(), AMQPValue::LongString("first".into()));
        let options = BasicConsumeOptions::default();
        let consuming = self.channel.basic_consume(queue.into(), mark.as_str().into(), options, from);
        let mut consumer = consuming.await.unwrap();
        let mut all = Vec::new();
        while let Some(delivery) = consumer.next().await {
            let delivery = delivery.unwrap();
            delivery.acker.ack(BasicAckOptions::default()).await.unwrap();
            match delivery.properties.message_id() {
                Some(id) if id.as_str() == mark => break,
                Some(id) if id.as_str().starts_with("mark-") => {}
                _ => all.push(delivery),
            }
        }
        all
    }
}

/// The event ids of messages, by their property.
pub(crate) fn ids(deliveries: &[Delivery]) -> Vec<EventId> {
    let id =
        |delivery: &Delivery| delivery.properties.message_id().as_ref().unwrap().as_str().parse().unwrap();
    deliveries.iter().map(id).collect()
}

/// A header of a message, as a text.
pub(crate) fn header(delivery: &Delivery, name: &str) -> Option<String> {
    let value = delivery.properties.headers().as_ref()?.inner().get(name)?;
    value.as_long_string().map(LongString::to_string)
}

/// A sink that publishes into one queue, through this server.
pub(crate) fn sink_into(server: &str, queue: &str) -> AmqpSink {
    AmqpSink::new(&format!("{server}?routing_key={queue}")).unwrap()
}
