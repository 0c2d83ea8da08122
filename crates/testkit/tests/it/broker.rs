//! The broker in memory: what is not acknowledged comes again, where it was.

use pillarbox_core::port::{Message, Source, Subscription};
use pillarbox_core::{Event, RouteName};
use pillarbox_testkit::{MemoryBroker, Published, sample_entry};

const QUEUE: &str = "orders";

fn event(n: u64) -> Published {
    let event = Event::new("order.placed", n.to_string());
    Published::of(&sample_entry(RouteName::new(QUEUE).unwrap(), event))
}

/// A broker with these events in its queue.
fn broker(events: impl IntoIterator<Item = u64>) -> MemoryBroker {
    let broker = MemoryBroker::new();
    events.into_iter().for_each(|n| broker.publish(QUEUE, event(n)));
    broker
}

async fn next(stream: &mut Box<dyn Subscription>) -> Message {
    stream.next().await.unwrap().unwrap()
}

fn number(message: &Message) -> &str {
    std::str::from_utf8(&message.body).unwrap()
}

#[tokio::test]
async fn what_was_nacked_or_dropped_comes_again_in_its_place_and_is_counted() {
    let broker = broker(1..=3);
    let mut stream = broker.source(QUEUE).subscribe().await.unwrap();
    let (first, second) = (next(&mut stream).await, next(&mut stream).await);
    assert_eq!((number(&first), first.delivery_count), ("1", Some(1)));
    assert_eq!((broker.ready(QUEUE), broker.unanswered(QUEUE)), (1, 2));
    second.receipt.nack().await.unwrap();
    drop(first.receipt);
    for (wanted, count) in [("1", 2), ("2", 2), ("3", 1)] {
        let message = next(&mut stream).await;
        assert_eq!((number(&message), message.delivery_count), (wanted, Some(count)));
        message.receipt.ack().await.unwrap();
    }
    assert_eq!((broker.ready(QUEUE), broker.unanswered(QUEUE)), (0, 0));
}

#[tokio::test]
async fn a_stream_that_ends_gives_back_what_it_has_not_answered() {
    let broker = broker(1..=2);
    let mut stream = broker.source(QUEUE).subscribe().await.unwrap();
    let mut other = broker.source(QUEUE).subscribe().await.unwrap();
    let (first, second) = (next(&mut stream).await, next(&mut other).await);
    drop(stream);
    assert_eq!(number(&next(&mut other).await), "1");
    assert!(first.receipt.ack().await.is_err(), "that delivery is over");
    broker.cut(QUEUE);
    assert!(other.next().await.is_err());
    assert!(second.receipt.ack().await.is_err());
    assert_eq!(broker.ready(QUEUE), 2);
}

#[tokio::test]
async fn what_was_parked_is_kept_aside() {
    let broker = broker([1]);
    let mut stream = broker.source(QUEUE).subscribe().await.unwrap();
    next(&mut stream).await.receipt.park().await.unwrap();
    assert_eq!(broker.parked(QUEUE), [event(1)]);
    assert_eq!((broker.ready(QUEUE), broker.unanswered(QUEUE)), (0, 0));
}

#[tokio::test]
async fn an_answer_that_was_lost_brings_the_message_again() {
    let broker = broker([1]);
    let mut stream = broker.source(QUEUE).subscribe().await.unwrap();
    broker.lose_answers(1);
    assert!(next(&mut stream).await.receipt.ack().await.is_err());
    assert!(next(&mut stream).await.receipt.ack().await.is_ok());
}

#[tokio::test]
async fn a_broker_that_is_down_cannot_be_subscribed_to() {
    let broker = MemoryBroker::new().without_delivery_counts();
    broker.set_down(true);
    assert!(broker.source(QUEUE).subscribe().await.is_err());
    broker.set_down(false);
    assert!(!broker.source(QUEUE).capabilities().delivery_count);
    assert!(broker.source(QUEUE).subscribe().await.is_ok());
}
