//! What only a sink to RabbitMQ can do wrong.

use lapin::ExchangeKind;
use pillarbox_conformance::delivery::{Reports, all_confirmed, assert_outcome, deliver, entries_of, entry};
use pillarbox_core::port::Sink;
use pillarbox_core::{Event, Outcome};
use pillarbox_transport_amqp::AmqpSink;

use crate::harness::{Broker, ids, server};

#[tokio::test]
async fn a_sink_does_not_connect_before_it_delivers() {
    // Nobody listens on port 1.
    let sink = AmqpSink::new("amqp://127.0.0.1:1/%2f").unwrap();
    sink.deliver(&[], &Reports::default()).await;
    assert_outcome(&deliver(&sink, &entries_of("t", 1)).await[0], "down/connection_lost");
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
