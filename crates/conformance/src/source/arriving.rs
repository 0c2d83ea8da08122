//! What was published arrives.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use pillarbox_core::{Event, EventId, Received, Status};
use pillarbox_engine::{Consumer, ConsumerOptions, Relay};

use super::steps::*;
use crate::case::skip;
use crate::consumer::SourceHarness;
use crate::delivery::{SOON, confirm, entries, entry, ids};
use pillarbox_testkit::{MemoryInbox, MemoryOutbox, MemoryStore, Published, eventually};

/// Every byte, every header, and every answer is heard.
pub async fn what_was_published_arrives_whole_and_in_order(harness: &dyn SourceHarness) {
    let sent = entry(
        Event::new("order.placed", vec![0, 0xff, 13, 10])
            .key("k \u{fc}")
            .tenant("acme")
            .content_type("application/octet-stream")
            .header("shop", "north \u{2603}\n")
            .header("Nats-Rollup", "all")
            .header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    );
    publish_all(harness, std::slice::from_ref(&sent)).await;
    let more = publish(harness, 200).await;
    let source = harness.source();
    let mut subscription = source.subscribe().await.unwrap();
    let message = next(&mut subscription).await;
    assert_eq!(message.delivery_count, source.capabilities().delivery_count.then_some(1));
    let received = Received::decode(message.attributes, message.headers, message.body).unwrap();
    assert_eq!((received.event_id, received.payload), (sent.event_id, sent.payload));
    assert_eq!((received.key, received.headers), (sent.key, sent.headers));
    assert_eq!((received.tenant, received.content_type.as_str()), (sent.tenant, "application/octet-stream"));
    message.receipt.ack().await.unwrap();
    assert_eq!(take(&mut subscription, 200).await, more);
    handed_out(harness, 0).await;
    eventually(SOON, async || harness.left().await.is_none_or(|left| left == 0)).await;
}

/// A consumer waits for it already.
pub async fn what_comes_later_arrives_too(harness: &dyn SourceHarness) {
    let mut subscription = harness.source().subscribe().await.unwrap();
    let (message, ids) = tokio::join!(next(&mut subscription), publish(harness, 1));
    assert_eq!(id(&message), ids[0]);
}

/// Dropped after a single look, again and again.
pub async fn a_dropped_wait_loses_nothing(harness: &dyn SourceHarness) {
    let source = source_with(harness, Wanted::Ahead(3));
    let mut subscription = source.subscribe().await.unwrap();
    let batch = entries(50);
    let mut arrived = Vec::new();
    let receiving = async {
        while arrived.len() < batch.len() {
            match subscription.next().now_or_never() {
                Some(message) => {
                    let message = message.unwrap().unwrap();
                    assert_eq!(message.delivery_count, source.capabilities().delivery_count.then_some(1));
                    arrived.push(id(&message));
                    message.receipt.ack().await.unwrap();
                }
                None => tokio::task::yield_now().await,
            }
        }
    };
    let publishing = async {
        for entry in &batch {
            publish_all(harness, std::slice::from_ref(entry)).await;
        }
    };
    let both = async { tokio::join!(receiving, publishing) };
    tokio::time::timeout(SOON, both).await.expect("messages are lost");
    assert_eq!(arrived, ids(&batch));
}

/// One each, and none to both.
pub async fn sources_of_one_queue_share_its_messages(harness: &dyn SourceHarness) {
    if !harness.shares_single_messages() {
        return skip("the broker gives whole parts of a queue to each source");
    }
    let (one, two) = (source_with(harness, Wanted::Ahead(1)), source_with(harness, Wanted::Ahead(1)));
    let (mut one, mut two) = (one.subscribe().await.unwrap(), two.subscribe().await.unwrap());
    let ids = publish(harness, 2).await;
    let (first, second) = tokio::join!(next(&mut one), next(&mut two));
    let mut arrived = [id(&first), id(&second)];
    arrived.sort_unstable();
    assert_eq!(arrived[..], ids);
}

/// Every message arrives with its body, whatever wrote it; only decoding refuses it. It does not delay other
/// messages.
pub async fn a_message_of_someone_else_is_no_event_and_can_be_parked(harness: &dyn SourceHarness) {
    let foreign = |body: &str| Published { body: body.as_bytes().to_vec(), ..Published::default() };
    harness.publish(foreign("not an event")).await;
    let headers = (0..500).map(|n| (format!("h{n}"), "x".to_owned())).collect();
    harness.publish(Published { headers, ..foreign("flooded") }).await;
    let ids = publish(harness, 1).await;
    let mut subscription = harness.source().subscribe().await.unwrap();
    for body in ["not an event", "flooded"] {
        let message = next(&mut subscription).await;
        assert_eq!(message.body, body.as_bytes());
        let refused = Received::decode(message.attributes, message.headers, message.body).unwrap_err();
        assert_eq!(refused.kind(), pillarbox_core::ErrorKind::Corrupt, "{refused}");
        message.receipt.park().await.unwrap();
    }
    assert_eq!(id(&next(&mut subscription).await), ids[0], "the others are not held up");
    if harness.parked().await.is_some() {
        eventually(SOON, async || harness.parked().await == Some(2)).await;
    }
}

/// The whole way: an outbox, a relay, the broker, a consumer, an inbox. Some of it is published twice.
pub async fn what_is_staged_is_delivered_and_applied_once(harness: &dyn SourceHarness) {
    let Some(sink) = harness.sink() else { return skip("the harness has no sink") };
    let store = MemoryStore::new();
    let outbox = MemoryOutbox::new(&store, "orders");
    let mut tx = store.begin();
    for n in 0..300 {
        let event = Event::new("order.placed", n.to_string()).key(format!("o-{}", n % 7));
        outbox.stage(&mut tx, event).await.unwrap();
    }
    tx.commit();
    let relay = Relay::builder(Arc::new(store.clone()), Arc::clone(&sink)).route("orders").build().unwrap();
    let tally = relay.drain().await.unwrap();
    assert_eq!((tally.delivered, tally.retried, tally.dead), (300, 0, 0));
    assert!(store.entries().iter().all(|entry| entry.status == Status::Delivered && entry.attempts == 1));
    // As after a confirmation that was lost.
    confirm(&*sink, &store.entries()[..50]).await;

    let inbox = Arc::new(MemoryInbox::new(&store));
    let mut options = ConsumerOptions::default();
    options.idle = Some(Duration::from_secs(1));
    let consumer = Consumer::builder(harness.source(), inbox).name("billing").options(options);
    let consumer = consumer.build().unwrap();
    let applied: Mutex<BTreeMap<EventId, u32>> = Mutex::default();
    let order: Mutex<BTreeMap<String, Vec<u64>>> = Mutex::default();
    let tally = consumer
        .run(std::future::pending(), async |_tx, event| {
            *applied.lock().unwrap().entry(event.event_id).or_default() += 1;
            let n = std::str::from_utf8(&event.payload).unwrap().parse().unwrap();
            order.lock().unwrap().entry(event.key.unwrap()).or_default().push(n);
            Ok(())
        })
        .await
        .unwrap();
    let duplicates = if sink.capabilities().deduplicates { 0 } else { 50 };
    assert_eq!((tally.processed, tally.duplicates, tally.parked, tally.failed), (300, duplicates, 0, 0));
    let applied = applied.into_inner().unwrap();
    assert_eq!(applied.len(), 300);
    assert!(applied.values().all(|times| *times == 1));
    for (key, numbers) in order.into_inner().unwrap() {
        assert!(numbers.is_sorted(), "{key}: {numbers:?}");
    }
    handed_out(harness, 0).await;
}
