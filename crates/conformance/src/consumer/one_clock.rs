//! The clock of the process, which outboxes and consumers share.

use std::sync::Arc;

use pillarbox_core::port::Entropy;
use pillarbox_core::{Event, Hlc, RouteName};
use pillarbox_engine::Consumer;
use pillarbox_host::{OsEntropy, process_clock};
use pillarbox_testkit::{MemoryBroker, Published, sample_entry};

use super::harness::InboxHarness;

/// The outbox and the consumer go by the clock of the process: no clock is passed around. For inboxes whose outbox stamps
/// what it stages.
pub async fn the_process_has_one_clock<I: InboxHarness>() {
    let (effects, broker) = (Arc::new(I::start().await), MemoryBroker::new());
    let cause = Event::new("order.placed", "1").id(OsEntropy.event_id());
    let mut message = Published::of(&sample_entry(RouteName::new("orders").unwrap(), cause));
    let ahead = Hlc::from_raw(process_clock().now().raw() + (120_000 << 16)).unwrap();
    message.attributes.insert("pillarboxhlc".into(), ahead.to_string());
    broker.publish("orders", message);
    let consumer = Consumer::builder(Arc::new(broker.source("orders")), effects.inbox()).name("billing");
    let (done, mut finished) = tokio::sync::mpsc::unbounded_channel();
    let handler = Arc::clone(&effects);
    let tally = consumer
        .build()
        .unwrap()
        .run(async move { finished.recv().await.unwrap() }, async move |tx, event| {
            handler.apply(tx, event.causes(Event::new("applied", "1"))).await?;
            done.send(()).unwrap();
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(tally.processed, 1);
    assert!(effects.applied().await[0].hlc > Some(ahead));
}
