//! Kafka: a topic on the client's fake cluster, which listens on a socket of the loopback.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use krafka::testing::FakeBroker;
use krafka::{Kafka as Client, Record};
use pillarbox::Source;
use pillarbox::kafka::KafkaSource;
use pillarbox_conformance::SourceHarness;
use pillarbox_testkit::Published;

use crate::unique;

pub(crate) struct Kafka {
    broker: FakeBroker,
    topic: String,
}

#[async_trait]
impl SourceHarness for Kafka {
    fn name() -> &'static str {
        "fake cluster of Kafka"
    }

    async fn start() -> Self {
        let (broker, topic) = (FakeBroker::start().await.unwrap(), unique());
        assert!(broker.create_topic(&topic, 1));
        Self { broker, topic }
    }

    fn source(&self) -> Arc<dyn Source> {
        let server = self.broker.bootstrap_servers();
        Arc::new(KafkaSource::new(&format!("kafka://{server}/{}?group=billing", self.topic)).unwrap())
    }

    async fn publish(&self, message: Published) {
        let mut record = Record::new(&*self.topic, message.body);
        for (name, value) in message.attributes {
            record = record.header(format!("ce_{name}"), value);
        }
        for (name, value) in message.headers {
            record = record.header(name, value);
        }
        let client = Client::builder(self.broker.bootstrap_servers()).connect().await.unwrap();
        let producer = client.producer().linger(Duration::ZERO).build().await.unwrap();
        drop(producer.send(record).await.unwrap());
        producer.close().await.unwrap();
    }
}
