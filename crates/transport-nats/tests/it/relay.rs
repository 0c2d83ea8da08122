//! A repetition that comes later than the server remembers ids.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::jetstream::stream::Config;
use pillarbox_conformance::delivery::{SOON, confirm, entries};
use pillarbox_core::EventId;
use pillarbox_engine::sink::HandlerError;
use pillarbox_engine::{Consumer, ConsumerOptions};
use pillarbox_testkit::{MemoryInbox, MemoryStore, eventually};
use pillarbox_transport_nats::{NatsSink, NatsSource};

use crate::harness::{DEBIAN, LATEST, OwnStream, variable};

#[tokio::test]
async fn a_repetition_that_the_server_does_not_know_any_more_is_applied_once() {
    for server in [DEBIAN, LATEST] {
        let window = Duration::from_millis(100);
        let place =
            OwnStream::on(&variable(server), |config| Config { duplicate_window: window, ..config }).await;
        let (sink, batch) = (NatsSink::new(&place.to()).unwrap(), entries(100));
        confirm(&sink, &batch).await;
        // As after a crash between the confirmation and the record of it.
        eventually(SOON, async || {
            confirm(&sink, &batch[..10]).await;
            place.stored().await.len() >= 110
        })
        .await;
        let inbox = Arc::new(MemoryInbox::new(&MemoryStore::new()));
        let source = Arc::new(NatsSource::new(&place.from("&nack_delay=0s")).unwrap());
        let mut options = ConsumerOptions::default();
        options.restart_backoff = Duration::from_millis(10);
        let consumer = Consumer::builder(source, inbox).name("billing").options(options).build().unwrap();
        let applied: Mutex<BTreeMap<EventId, u32>> = Mutex::default();
        let tries = AtomicU32::new(0);
        let done = async { eventually(SOON, async || applied.lock().unwrap().len() == 100).await };
        let handle = async |_tx: &mut _, event: pillarbox_core::Received| {
            if tries.fetch_add(1, Ordering::Relaxed) < 3 {
                return Err(HandlerError::retry("busy", "try again"));
            }
            *applied.lock().unwrap().entry(event.event_id).or_default() += 1;
            Ok(())
        };
        consumer.run(done, handle).await.unwrap();
        assert!(applied.into_inner().unwrap().values().all(|times| *times == 1));
    }
}
