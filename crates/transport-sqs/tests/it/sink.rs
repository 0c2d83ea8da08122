//! What only this sink does: groups, repetitions, order behind a failure, queues by template.

use aws_sdk_sqs::types::{MessageSystemAttributeName, QueueAttributeName};
use pillarbox_conformance::delivery::{confirm, deliver, entries, entry};
use pillarbox_core::port::Sink;
use pillarbox_core::{Entry, Event, Outcome};
use pillarbox_transport_sqs::SqsSink;

use crate::harness::{OwnQueue, create, read, system};

fn keyed(key: &str, bytes: usize) -> Entry {
    entry(Event::new("order.placed", format!("\"{}\"", "x".repeat(bytes))).key(key))
}

#[tokio::test]
async fn a_fifo_queue_gets_the_key_as_group_and_the_events_id_against_repetitions() {
    let queue = OwnQueue::fifo().await;
    let sink = SqsSink::new(&queue.at("")).unwrap();
    let capabilities = sink.capabilities();
    assert!(capabilities.ordered_prefix && capabilities.deduplicates);
    let batch = [keyed("o-1", 1), entries(1).remove(0), keyed("o \u{fc}", 1), keyed("o-1", 1)];
    confirm(&sink, &batch).await;
    confirm(&sink, &batch).await;
    let messages = queue.messages().await;
    assert_eq!(messages.len(), 4, "what came again was dropped");
    let group = |n: usize| system(&messages[n], &MessageSystemAttributeName::MessageGroupId).unwrap();
    let ids: Vec<_> = messages
        .iter()
        .map(|message| {
            system(message, &MessageSystemAttributeName::MessageDeduplicationId).unwrap().to_owned()
        })
        .collect();
    let mut expected: Vec<_> = batch.iter().map(|entry| entry.event_id.to_string()).collect();
    assert_eq!(ids, expected);
    expected.truncate(2);
    assert_eq!((group(0), group(1), group(3)), ("o-1", expected[1].as_str(), "o-1"));
    assert!(group(2).starts_with("sha256-"), "{}", group(2));
}

#[tokio::test]
async fn a_standard_queue_promises_no_order_and_drops_nothing() {
    let queue = OwnQueue::standard().await;
    let sink = SqsSink::new(&queue.at("")).unwrap();
    let capabilities = sink.capabilities();
    assert!(!capabilities.ordered_prefix && !capabilities.deduplicates && capabilities.durable);
    let batch = entries(25);
    confirm(&sink, &batch).await;
    confirm(&sink, &batch[..5]).await;
    assert_eq!(queue.ids().await.len(), 30);
}

/// The queue takes 2 KiB at most and refuses one message of the request, so that the server, and not we, refuses it.
#[tokio::test]
async fn nothing_of_a_key_overtakes_what_a_fifo_queue_refused() {
    let queue = OwnQueue::fifo().await;
    let asking = queue.client.set_queue_attributes().queue_url(queue.url());
    asking.attributes(QueueAttributeName::MaximumMessageSize, "2048").send().await.unwrap();
    let sink = SqsSink::new(&queue.at("")).unwrap();
    let batch = [
        keyed("a", 1),
        keyed("b", 1),
        keyed("a", 5000),
        keyed("a", 1),
        keyed("b", 1),
        entries(1).remove(0),
        keyed("a", 1),
    ];
    let outcomes = deliver(&sink, &batch).await;
    assert!(matches!(outcomes[2], Outcome::Rejected(_)), "{:?}", outcomes[2]);
    for (index, outcome) in outcomes.iter().enumerate().filter(|(index, _)| *index != 2) {
        let wanted = if [3, 6].contains(&index) { Outcome::Untried } else { Outcome::Confirmed };
        assert_eq!(*outcome, wanted, "{index}");
    }
    let arrived = queue.ids().await;
    assert_eq!(arrived.len(), 4);
    assert!(!arrived.contains(&batch[3].event_id) && !arrived.contains(&batch[6].event_id));
}

#[tokio::test]
async fn the_order_of_every_key_holds_with_several_requests_at_once() {
    let queue = OwnQueue::fifo().await;
    let sink = SqsSink::new(&queue.at("in_flight=8")).unwrap();
    let batch: Vec<_> = (0..300).map(|n| keyed(&format!("k-{}", n % 17), 1)).collect();
    confirm(&sink, &batch).await;
    let arrived = queue.ids().await;
    assert_eq!(arrived.len(), 300);
    for key in 0..17 {
        let of_key = |id: &&pillarbox_core::EventId| {
            batch.iter().position(|entry| entry.event_id == **id).unwrap() % 17 == key
        };
        let places =
            arrived.iter().filter(of_key).map(|id| batch.iter().position(|entry| entry.event_id == *id));
        assert!(places.is_sorted(), "k-{key}");
    }
}

#[tokio::test]
async fn the_name_of_the_queue_may_come_from_the_entry() {
    let queue = OwnQueue::standard().await;
    let url = format!("sqs://eu-west-1/{}-{{type}}?endpoint={}", queue.name, queue.server);
    let (one, two) = (format!("{}-order_placed", queue.name), format!("{}-paid", queue.name));
    let (one, two) = (create(&queue.client, &one, &[]).await, create(&queue.client, &two, &[]).await);
    let of = |event_type: &str| entry(Event::new(event_type, "{}"));
    let batch = [of("order.placed"), of("paid"), of("order.placed")];
    confirm(&SqsSink::new(&url).unwrap(), &batch).await;
    assert_eq!(read(&queue.client, &one).await.len(), 2);
    assert_eq!(read(&queue.client, &two).await.len(), 1);
}
