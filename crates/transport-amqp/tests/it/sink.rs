//! The suite for sinks on every kind of queue, and what only RabbitMQ can do wrong.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use lapin::ExchangeKind;
use lapin::message::Delivery;
use lapin::types::AMQPValue;
use pillarbox_conformance::{Received, SinkHarness};
use pillarbox_core::port::Sink;
use pillarbox_core::{Event, Outcome};
use pillarbox_transport_amqp::{AmqpSink, Options};

use crate::harness::{
    Broker, all_confirmed, assert_outcome, deliver, entries, entry, header, ids, server, sink_into,
};

/// A queue of one type that everything is routed to.
struct Target {
    broker: Broker,
    queue: String,
    sink: Arc<AmqpSink>,
    taken: Mutex<Vec<Received>>,
}

impl Target {
    async fn of(queue_type: &str) -> Self {
        let broker = Broker::start().await;
        let queue = broker.queue(queue_type, &[]).await;
        let url = format!("{}?routing_key={queue}", server());
        let options = Options::of_sink(&url).unwrap().payload_bytes_max(100_000);
        let sink = Arc::new(AmqpSink::with_options(options).unwrap());
        Self { broker, queue, sink, taken: Mutex::default() }
    }

    /// What nobody looked at yet; of a stream, everything.
    async fn fresh(&self) -> Vec<Delivery> {
        if self.queue.starts_with("stream") {
            return self.broker.read_stream(&self.queue).await;
        }
        self.broker.take(&self.queue).await
    }

    async fn received(&self) -> Vec<Received> {
        let fresh = self.fresh().await;
        if self.queue.starts_with("stream") {
            return fresh.into_iter().map(received).collect();
        }
        let mut taken = self.taken.lock().unwrap();
        taken.extend(fresh.into_iter().map(received));
        taken.clone()
    }
}

fn received(delivery: Delivery) -> Received {
    let attribute = |name: &str| header(&delivery, &format!("cloudEvents:{name}"));
    Received {
        event_id: attribute("id").unwrap().parse().unwrap(),
        event_type: attribute("type").unwrap(),
        key: attribute("subject"),
        payload: delivery.data.clone(),
    }
}

/// Attributes and headers of a message. What begins with `x-` is the broker's own.
fn context(delivery: Delivery) -> BTreeMap<String, String> {
    let content_type = delivery.properties.content_type().as_ref().map(ToString::to_string);
    let headers = delivery.properties.headers().clone().unwrap_or_default();
    let text = |value: &AMQPValue| value.as_long_string().map(ToString::to_string);
    let headers = headers.inner().iter().filter_map(|(name, value)| {
        let name = name.as_str();
        Some((name.strip_prefix("cloudEvents:").unwrap_or(name).to_owned(), text(value)?))
    });
    let headers = headers.filter(|(name, _)| !name.starts_with("x-"));
    headers.chain(content_type.map(|value| ("datacontenttype".to_owned(), value))).collect()
}

macro_rules! suite {
    ($module:ident) => {
        mod $module {
            use super::*;

            struct Harness(Target);

            #[async_trait]
            impl SinkHarness for Harness {
                const NAME: &'static str = concat!("amqp, ", stringify!($module), " queue");

                async fn start() -> Self {
                    Self(Target::of(stringify!($module)).await)
                }

                fn sink(&self) -> Arc<dyn Sink> {
                    Arc::clone(&self.0.sink) as _
                }

                async fn received(&self) -> Vec<Received> {
                    self.0.received().await
                }

                async fn contexts(&self) -> Option<Vec<BTreeMap<String, String>>> {
                    Some(self.0.fresh().await.into_iter().map(context).collect())
                }
            }

            pillarbox_conformance::sink_conformance!(Harness);
        }
    };
}

suite!(classic);
suite!(quorum);
suite!(stream);

#[tokio::test]
async fn a_sink_does_not_connect_before_it_delivers() {
    // Nobody listens on port 1.
    let sink = AmqpSink::new("amqp://127.0.0.1:1/%2f").unwrap();
    sink.deliver(&[], &crate::harness::Reports::default()).await;
    assert_outcome(&deliver(&sink, &entries("t", 1)).await[0], "down/connection_lost");
}

#[tokio::test]
async fn exchange_and_routing_key_are_filled_from_the_entry() {
    let broker = Broker::start().await;
    let exchange = broker.exchange(ExchangeKind::Topic).await;
    let queue = broker.queue("classic", &[]).await;
    broker.bind(&queue, &exchange, "order.*.o-1").await;
    let prefix = exchange.strip_suffix(|_: char| true).unwrap();
    let last = exchange.chars().last().unwrap();
    // The last character of the exchange's name comes from the type.
    let url = format!("{}?exchange={prefix}{{type}}&routing_key=order.{{type}}.{{key}}", server());
    let sink = AmqpSink::new(&url).unwrap();
    all_confirmed(&deliver(&sink, &[entry(Event::new(last, "{}").key("o-1"))]).await);
    let taken = broker.take(&queue).await;
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].routing_key.as_str(), format!("order.{last}.o-1"));
}

/// The client gives a returned message to any confirm that it resolves: this must not reach the outcomes.
#[tokio::test(flavor = "multi_thread")]
async fn exactly_the_messages_without_a_queue_are_rejected() {
    let broker = Broker::start().await;
    let exchange = broker.exchange(ExchangeKind::Direct).await;
    for queue_type in ["classic", "quorum"] {
        let queue = broker.queue(queue_type, &[]).await;
        broker.bind(&queue, &exchange, queue_type).await;
    }
    let sink = AmqpSink::new(&format!("{}?exchange={exchange}&routing_key={{type}}", server())).unwrap();
    let batch = |round: usize| -> Vec<_> {
        let types = (0..400).map(|n: usize| match (n * 7 + n / 13 + round) % 5 {
            0 | 1 => "classic",
            2 => "quorum",
            _ => "nowhere",
        });
        types.map(|event_type| entry(Event::new(event_type, "{}"))).collect()
    };
    let mut routed = Vec::new();
    for round in 0..8 {
        let (left, right) = (batch(round), batch(round + 1));
        let (of_left, of_right) = tokio::join!(deliver(&sink, &left), deliver(&sink, &right));
        let both = left.iter().chain(&right).zip(of_left.iter().chain(&of_right));
        for (entry, outcome) in both {
            if entry.event_type == "nowhere" {
                assert_outcome(outcome, "rejected/unroutable");
            } else {
                assert_eq!(*outcome, Outcome::Confirmed, "{}", entry.event_type);
                routed.push(entry.event_id);
            }
        }
    }
    let mut arrived = ids(&broker.take(&broker.name("classic")).await);
    arrived.extend(ids(&broker.take(&broker.name("quorum")).await));
    arrived.sort_unstable();
    routed.sort_unstable();
    assert_eq!(arrived, routed);
}

#[tokio::test]
async fn deliveries_that_share_a_channel_keep_the_order_of_each() {
    let broker = Broker::start().await;
    let queue = broker.queue("classic", &[]).await;
    let sink = sink_into(&server(), &queue);
    let batches = [entries("t", 200), entries("t", 200), entries("t", 200)];
    let [a, b, c] = &batches;
    let outcomes = tokio::join!(deliver(&sink, a), deliver(&sink, b), deliver(&sink, c));
    [outcomes.0, outcomes.1, outcomes.2].iter().for_each(|outcomes| all_confirmed(outcomes));
    let wanted: Vec<_> = batches.iter().flatten().map(|entry| entry.event_id).collect();
    let arrived = ids(&broker.take(&queue).await);
    assert!(
        arrived == wanted,
        "the first that was begun is the first that arrives, also at the first connect"
    );
}
