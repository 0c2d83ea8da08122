//! RabbitMQ: a quorum queue.

use std::sync::Arc;

use async_trait::async_trait;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use pillarbox::Source;
use pillarbox::amqp::AmqpSource;
use pillarbox_conformance::SourceHarness;
use pillarbox_testkit::Published;

use super::Path;
use crate::{unique, variable};

pub(crate) struct RabbitMq {
    path: Path,
    url: String,
    queue: String,
    channel: Channel,
    _connection: Connection,
}

#[async_trait]
impl SourceHarness for RabbitMq {
    fn name() -> &'static str {
        "rabbitmq"
    }

    async fn start() -> Self {
        let server = variable("PILLARBOX_TEST_AMQP");
        let connection = Connection::connect(&server, ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let queue = unique();
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(queue.as_str().into(), durable, arguments).await.unwrap();
        let (path, through) = Path::to(&server);
        let url = format!("{through}?queue={queue}&queue_type=quorum");
        Self { path, url, queue, channel, _connection: connection }
    }

    fn source(&self) -> Arc<dyn Source> {
        self.path.lead(Arc::new(AmqpSource::new(&self.url).unwrap()))
    }

    async fn publish(&self, message: Published) {
        self.path.settle().await;
        let mut headers = FieldTable::default();
        let mut add = |name: String, value: String| {
            headers.insert(ShortString::from(name), AMQPValue::LongString(LongString::from(value)));
        };
        let mut properties = BasicProperties::default();
        for (name, value) in message.attributes {
            if name == "datacontenttype" {
                properties = properties.with_content_type(value.as_str().into());
            } else {
                add(format!("cloudEvents:{name}"), value);
            }
        }
        message.headers.into_iter().for_each(|(name, value)| add(name, value));
        let (queue, options) = (self.queue.as_str().into(), BasicPublishOptions::default());
        let properties = properties.with_headers(headers);
        let published =
            self.channel.basic_publish("".into(), queue, options, &message.body, properties).await;
        assert!(published.unwrap().await.unwrap().is_ack());
    }

    async fn cut(&self) -> bool {
        self.path.cut()
    }
}
