//! The whole way: staged, relayed, consumed, applied once.

use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::Event;
use pillarbox_core::port::Stage;
use pillarbox_engine::{Consumer, Relay};
use pillarbox_testkit::{MemoryBroker, MemoryInbox, MemoryOutbox, MemoryStore};

use super::rig::*;

#[tokio::test]
async fn what_was_staged_is_relayed_and_applied_once() {
    let (orders, invoices, broker) = (MemoryStore::new(), MemoryStore::new(), MemoryBroker::new());
    let outbox = MemoryOutbox::new(&orders, QUEUE);
    let mut tx = orders.begin();
    let events = (1..=50).map(|n| Event::new("order.placed", n.to_string()).key(format!("k-{}", n % 5)));
    assert_eq!(outbox.stage_all(&mut tx, events.collect()).await.unwrap().len(), 50);
    tx.commit();
    let mut lost = orders.begin();
    let _ = outbox.stage(&mut lost, Event::new("order.placed", "lost")).await.unwrap();
    lost.rollback();

    let relay =
        Relay::builder(Arc::new(orders.clone()), Arc::new(broker.clone())).route(QUEUE).build().unwrap();
    assert_eq!(relay.drain().await.unwrap().delivered, 50);
    // As after a confirmation that was lost: everything is published a second time.
    for entry in orders.entries() {
        broker.publish(QUEUE, pillarbox_testkit::Published::of(&entry));
    }

    let inbox = Arc::new(MemoryInbox::new(&invoices));
    let effects = MemoryOutbox::new(&invoices, "invoices");
    let options = options(|options| options.idle = Some(Duration::from_millis(50)));
    let consumer = Consumer::builder(Arc::new(broker.source(QUEUE)), inbox).name("billing").options(options);
    let tally = consumer
        .build()
        .unwrap()
        .run(std::future::pending(), async move |tx, event| {
            let _ =
                effects.stage(tx, event.causes(Event::new("invoice.sent", event.payload.clone()))).await?;
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!((tally.processed, tally.duplicates, tally.failed), (50, 50, 0));
    let mut applied: Vec<u32> = invoices
        .entries()
        .iter()
        .map(|entry| std::str::from_utf8(&entry.payload).unwrap().parse().unwrap())
        .collect();
    applied.sort_unstable();
    assert_eq!(applied, Vec::from_iter(1..=50));
    assert_eq!((broker.ready(QUEUE), broker.unanswered(QUEUE)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_is_down_spends_no_attempts() {
    let (store, broker) = (MemoryStore::new(), MemoryBroker::new());
    let mut tx = store.begin();
    let _ = MemoryOutbox::new(&store, QUEUE).stage(&mut tx, Event::new("order.placed", "1")).await.unwrap();
    tx.commit();
    broker.set_down(true);
    let relay =
        Relay::builder(Arc::new(store.clone()), Arc::new(broker.clone())).route(QUEUE).build().unwrap();
    let tally = relay.run_once().await.unwrap();
    assert_eq!((tally.released, tally.dead), (1, 0));
    assert_eq!((store.entries()[0].attempts, broker.ready(QUEUE)), (0, 0));
}
