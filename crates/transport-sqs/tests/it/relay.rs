//! A repetition, as after a crash between the confirmation and the record of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox_conformance::delivery::{SOON, confirm, entries};
use pillarbox_core::EventId;
use pillarbox_engine::sink::HandlerError;
use pillarbox_engine::{Consumer, ConsumerOptions};
use pillarbox_testkit::{MemoryInbox, MemoryStore, eventually};
use pillarbox_transport_sqs::{SqsSink, SqsSource};

use crate::harness::OwnQueue;

#[tokio::test]
async fn what_was_sent_twice_is_applied_once() {
    let queue = OwnQueue::standard().await;
    let source = Arc::new(SqsSource::new(&queue.at("wait=1s&nack_delay=0s")).unwrap());
    let (sink, batch) = (SqsSink::new(&queue.at("")).unwrap(), entries(100));
    confirm(&sink, &batch).await;
    confirm(&sink, &batch[..10]).await;
    assert_eq!(queue.counts(&queue.name).await.0, 110, "a standard queue keeps what comes twice");

    let inbox = Arc::new(MemoryInbox::new(&MemoryStore::new()));
    let mut options = ConsumerOptions::default();
    options.restart_backoff = Duration::from_millis(10);
    options.idle = Some(Duration::from_secs(2));
    let consumer = Consumer::builder(source, inbox).name("billing").options(options).build().unwrap();
    let (applied, tries): (Mutex<BTreeMap<EventId, u32>>, _) = (Mutex::default(), AtomicU32::new(0));
    let done = async {
        eventually(SOON, async || applied.lock().unwrap().len() == 100).await;
        std::future::pending::<()>().await;
    };
    let handle = async |_tx: &mut _, event: pillarbox_core::Received| {
        if tries.fetch_add(1, Ordering::Relaxed) < 3 {
            return Err(HandlerError::retry("busy", "try again"));
        }
        *applied.lock().unwrap().entry(event.event_id).or_default() += 1;
        Ok(())
    };
    let tally = consumer.run(done, handle).await.unwrap();
    assert_eq!((tally.processed, tally.duplicates), (100, 10));
    assert!(applied.into_inner().unwrap().values().all(|times| *times == 1));
}
