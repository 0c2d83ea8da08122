//! The whole way: an outbox, a relay, the broker, a consumer, an inbox.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox_core::{Event, EventId, Status};
use pillarbox_engine::{Consumer, ConsumerOptions, Relay};
use pillarbox_testkit::{MemoryInbox, MemoryOutbox, MemoryStore, eventually};
use pillarbox_transport_amqp::{AmqpSink, AmqpSource};

use crate::harness::{Broker, deliver, server};

const SOON: Duration = Duration::from_secs(60);

async fn stage(store: &MemoryStore, count: usize) {
    let outbox = MemoryOutbox::new(store, "orders");
    let mut tx = store.begin();
    for n in 0..count {
        let event = Event::new("order.placed", format!("{{\"n\":{n}}}")).key(format!("o-{}", n % 7));
        outbox.stage(&mut tx, event).await.unwrap();
    }
    tx.commit();
}

#[tokio::test]
async fn what_is_staged_is_delivered_and_applied_once_although_it_is_published_twice() {
    let broker = Broker::start().await;
    let queue = broker.queue("quorum", &[]).await;
    let store = MemoryStore::new();
    stage(&store, 300).await;
    let sink = Arc::new(AmqpSink::new(&format!("{}?routing_key={queue}", server())).unwrap());
    let relay = Relay::builder(Arc::new(store.clone()), sink.clone()).route("orders").build().unwrap();
    assert_eq!(relay.drain().await.unwrap().delivered, 300);
    assert!(store.entries().iter().all(|entry| entry.status == Status::Delivered && entry.attempts == 1));
    // As after a confirm that was lost.
    deliver(&sink, &store.entries()[..50]).await;

    let source = Arc::new(AmqpSource::new(&format!("{}?queue={queue}", server())).unwrap());
    let inbox = Arc::new(MemoryInbox::new(&store));
    let mut options = ConsumerOptions::default();
    options.idle = Some(Duration::from_secs(1));
    let consumer = Consumer::builder(source, inbox).name("billing").options(options).build().unwrap();
    let applied: Mutex<BTreeMap<EventId, u32>> = Mutex::default();
    let order: Mutex<BTreeMap<String, Vec<u64>>> = Mutex::default();
    let tally = consumer
        .run(std::future::pending(), async |_tx, event| {
            *applied.lock().unwrap().entry(event.event_id).or_default() += 1;
            let key = event.key.clone().unwrap();
            let event = event.json::<serde_json::Value>().unwrap();
            order.lock().unwrap().entry(key).or_default().push(event.payload["n"].as_u64().unwrap());
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!((tally.processed, tally.duplicates, tally.parked, tally.failed), (300, 50, 0, 0));
    let applied = applied.into_inner().unwrap();
    assert_eq!(applied.len(), 300);
    assert!(applied.values().all(|times| *times == 1));
    for (key, numbers) in order.into_inner().unwrap() {
        assert!(numbers.is_sorted(), "{key}: {numbers:?}");
    }
    eventually(SOON, async || broker.waiting(&queue).await == 0).await;
}

#[tokio::test]
async fn a_message_that_fails_too_often_is_parked_without_running_the_handler() {
    let broker = Broker::start().await;
    let queue = broker.queue("quorum", &[]).await;
    let store = MemoryStore::new();
    stage(&store, 1).await;
    let sink = Arc::new(AmqpSink::new(&format!("{}?routing_key={queue}", server())).unwrap());
    Relay::builder(Arc::new(store.clone()), sink).route("orders").build().unwrap().drain().await.unwrap();

    let url = format!("{}?queue={queue}&queue_type=quorum", server());
    let source = Arc::new(AmqpSource::new(&url).unwrap());
    let mut options = ConsumerOptions::default();
    options.idle = Some(Duration::from_secs(1));
    options.max_deliveries = Some(3);
    options.redeliver_after = Duration::ZERO;
    let inbox = Arc::new(MemoryInbox::new(&store));
    let consumer = Consumer::builder(source, inbox).name("billing").options(options).build().unwrap();
    let runs = Mutex::new(0);
    let tally = consumer
        .run(std::future::pending(), async |_tx, _event| {
            *runs.lock().unwrap() += 1;
            Err(pillarbox_engine::sink::HandlerError::retry("no", "not today"))
        })
        .await
        .unwrap();
    assert_eq!((tally.processed, tally.failed, tally.parked), (0, 3, 1));
    assert_eq!(runs.into_inner().unwrap(), 3, "at most as often as allowed");
    assert_eq!(broker.waiting(&queue).await, 0);
}
