//! What only the queues of RabbitMQ do.

use lapin::types::{AMQPValue, FieldArray, FieldTable};
use lapin::{BasicProperties, ExchangeKind};
use pillarbox_conformance::delivery::{SOON, confirm, entries};
use pillarbox_core::port::{Message, Source, Subscription};
use pillarbox_core::{ErrorKind, Received};
use pillarbox_testkit::{Fault, FaultProxy, eventually};
use pillarbox_transport_amqp::AmqpSource;

use crate::harness::{Broker, ids, server, sink_into};

fn source(queue: &str, more: &str) -> AmqpSource {
    AmqpSource::new(&format!("{}?queue={queue}{more}", server())).unwrap()
}

/// Puts events into a queue through the sink.
async fn fill(queue: &str, count: usize) {
    confirm(&sink_into(&server(), queue), &entries(count)).await;
}

async fn next(subscription: &mut Box<dyn Subscription>) -> Message {
    let next = tokio::time::timeout(SOON, subscription.next()).await.expect("a message in time");
    next.unwrap().expect("the stream goes on")
}

#[tokio::test]
async fn a_quorum_queue_is_known_by_its_count() {
    let broker = Broker::start().await;
    let queue = broker.queue("quorum", &[]).await;
    fill(&queue, 1).await;
    let source = source(&queue, "");
    assert!(!source.capabilities().delivery_count);
    let mut subscription = source.subscribe().await.unwrap();
    let message = next(&mut subscription).await;
    assert_eq!(message.delivery_count, None, "the first time it says nothing");
    message.receipt.nack().await.unwrap();
    let message = next(&mut subscription).await;
    assert_eq!(message.delivery_count, Some(2));
    assert!(source.capabilities().delivery_count);
    message.receipt.ack().await.unwrap();
    fill(&queue, 1).await;
    assert_eq!(next(&mut subscription).await.delivery_count, Some(1));
}

#[tokio::test]
async fn an_acknowledged_message_is_gone_and_a_parked_one_is_a_dead_letter() {
    let broker = Broker::start().await;
    let dead_letters = broker.exchange(ExchangeKind::Fanout).await;
    let dead = broker.queue("classic", &[]).await;
    broker.bind(&dead, &dead_letters, "").await;
    let to = ("x-dead-letter-exchange", AMQPValue::LongString(dead_letters.as_str().into()));
    let queue = broker.queue("quorum", &[to]).await;
    let batch = entries(2);
    confirm(&sink_into(&server(), &queue), &batch).await;

    let mut subscription = source(&queue, "").subscribe().await.unwrap();
    next(&mut subscription).await.receipt.ack().await.unwrap();
    next(&mut subscription).await.receipt.park().await.unwrap();
    eventually(SOON, async || broker.waiting(&dead).await == 1).await;
    drop(subscription);
    assert_eq!(ids(&broker.take(&dead).await), [batch[1].event_id]);
    assert_eq!(broker.waiting(&queue).await, 0);
}

#[tokio::test]
async fn an_answer_to_a_stream_that_is_over_is_refused() {
    let broker = Broker::start().await;
    let queue = broker.queue("quorum", &[]).await;
    fill(&queue, 2).await;
    let (proxy, through) = FaultProxy::before(&server());
    let source = AmqpSource::new(&format!("{through}?queue={queue}")).unwrap();
    let mut subscription = source.subscribe().await.unwrap();
    let held = next(&mut subscription).await;
    next(&mut subscription).await;
    proxy.set(Fault::Cut);
    assert!(subscription.next().await.is_err());
    assert_eq!(held.receipt.ack().await.unwrap_err().kind(), ErrorKind::Unavailable);
    let mut subscription = source.subscribe().await.unwrap();
    let held = next(&mut subscription).await;
    assert_eq!(held.delivery_count, Some(2));
    drop(subscription);
    eventually(SOON, async || broker.waiting(&queue).await == 2).await;
    assert_eq!(held.receipt.ack().await.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn a_deleted_queue_ends_the_stream_and_is_then_not_found() {
    let broker = Broker::start().await;
    let queue = broker.queue("classic", &[]).await;
    let source = source(&queue, "");
    let mut subscription = source.subscribe().await.unwrap();
    broker.delete_queue(&queue).await;
    assert!(tokio::time::timeout(SOON, subscription.next()).await.unwrap().unwrap().is_none());
    assert_eq!(source.subscribe().await.err().unwrap().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn no_more_than_the_prefetch_is_taken_from_the_queue() {
    let broker = Broker::start().await;
    let queue = broker.queue("classic", &[]).await;
    fill(&queue, 10).await;
    let mut subscription = source(&queue, "&prefetch=3").subscribe().await.unwrap();
    let first = next(&mut subscription).await;
    eventually(SOON, async || broker.waiting(&queue).await == 7).await;
    first.receipt.ack().await.unwrap();
    eventually(SOON, async || broker.waiting(&queue).await == 6).await;
}

#[tokio::test]
async fn a_message_of_any_shape_arrives_and_only_decoding_refuses_it() {
    let broker = Broker::start().await;
    let queue = broker.queue("classic", &[]).await;
    let mut odd = FieldTable::default();
    odd.insert("bytes".into(), AMQPValue::LongString(vec![0xff, 0xfe].into()));
    odd.insert("list".into(), AMQPValue::FieldArray(FieldArray::default()));
    odd.insert("x-delivery-count".into(), AMQPValue::LongString("many".into()));
    odd.insert("cloudEvents:specversion".into(), AMQPValue::Boolean(true));
    broker.publish(&queue, BasicProperties::default(), b"").await;
    broker.publish(&queue, BasicProperties::default().with_headers(odd), &[0xff; 10]).await;
    let mut subscription = source(&queue, "").subscribe().await.unwrap();
    for body in [vec![], vec![0xff; 10]] {
        let message = next(&mut subscription).await;
        assert_eq!((&message.body, message.delivery_count), (&body, None));
        let error = Received::decode(message.attributes, message.headers, message.body).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        message.receipt.park().await.unwrap();
    }
}
