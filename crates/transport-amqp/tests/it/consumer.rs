//! The suite for consuming on classic and quorum queues, with the inbox in memory.

use std::sync::Arc;

use async_trait::async_trait;
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::{BasicProperties, ExchangeKind};
use pillarbox_conformance::SourceHarness;
use pillarbox_core::port::Source;
use pillarbox_testkit::{Fault, FaultProxy, Published};
use pillarbox_transport_amqp::AmqpSource;

use crate::harness::{Broker, server};

/// A queue with dead letters, and a proxy before the broker.
struct Queue {
    broker: Broker,
    proxy: FaultProxy,
    url: String,
    queue: String,
    dead_letters: String,
}

impl Queue {
    async fn of(queue_type: &str) -> Self {
        let broker = Broker::start().await;
        let exchange = broker.exchange(ExchangeKind::Fanout).await;
        let dead_letters = broker.named_queue("dead", "classic", &[]).await;
        broker.bind(&dead_letters, &exchange, "").await;
        let to = ("x-dead-letter-exchange", AMQPValue::LongString(exchange.as_str().into()));
        let queue = broker.queue(queue_type, &[to]).await;
        let (proxy, through) = FaultProxy::before(&server());
        let url = format!("{through}?queue={queue}&queue_type={queue_type}");
        Self { broker, proxy, url, queue, dead_letters }
    }

    async fn publish(&self, message: Published) {
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
        self.broker.publish(&self.queue, properties.with_headers(headers), &message.body).await;
    }
}

macro_rules! suite {
    ($module:ident) => {
        mod $module {
            use super::*;

            struct Harness(Queue);

            #[async_trait]
            impl SourceHarness for Harness {
                const NAME: &'static str = concat!("amqp, ", stringify!($module), " queue");

                async fn start() -> Self {
                    Self(Queue::of(stringify!($module)).await)
                }

                fn source(&self) -> Arc<dyn Source> {
                    Arc::new(AmqpSource::new(&self.0.url).unwrap())
                }

                async fn publish(&self, message: Published) {
                    self.0.publish(message).await;
                }

                async fn parked(&self) -> Option<usize> {
                    usize::try_from(self.0.broker.waiting(&self.0.dead_letters).await).ok()
                }

                async fn cut(&self) -> bool {
                    self.0.proxy.set(Fault::Cut);
                    true
                }
            }

            pillarbox_conformance::consumer_conformance!(Harness);
        }
    };
}

suite!(classic);
suite!(quorum);
