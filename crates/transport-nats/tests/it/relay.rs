//! From an outbox through a relay and the server to a consumer: delivered, and applied once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox_core::port::Stage;
use pillarbox_core::{Backoff, Event, Jitter, Outcome, Status};
use pillarbox_engine::sink::HandlerError;
use pillarbox_engine::{CircuitState, Consumer, ConsumerOptions, Relay, RelayOptions};
use pillarbox_testkit::{Fault, FaultProxy, MemoryInbox, MemoryOutbox, MemoryStore, eventually};
use pillarbox_transport_nats::{NatsSink, NatsSource};
use tokio::sync::oneshot;

use crate::harness::{DEBIAN, LATEST, Place, SOON, deliver};

async fn stage(store: &MemoryStore, count: usize) {
    let outbox = MemoryOutbox::new(store, "orders");
    let mut tx = store.begin();
    let events = (0..count).map(|n| Event::new("order.placed", format!("{n}")).key(format!("k{}", n % 5)));
    outbox.stage_all(&mut tx, events.collect()).await.unwrap();
    tx.commit();
}

fn quick() -> RelayOptions {
    let backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(20), Jitter::None).unwrap();
    let mut options = RelayOptions::broker();
    (options.circuit, options.backoff) = (backoff, backoff);
    options
}

/// How often each payload was applied.
type Applied = Arc<Mutex<BTreeMap<String, u32>>>;

/// Consumes until as many events as staged were applied.
async fn consume(place: &Place, more: &str, count: usize, fail_first: bool) -> Applied {
    let inbox = Arc::new(MemoryInbox::new(&MemoryStore::new()));
    let source = Arc::new(NatsSource::new(&place.from(more)).unwrap());
    let mut options = ConsumerOptions::default();
    options.restart_backoff = Duration::from_millis(10);
    let consumer = Consumer::builder(source, inbox).name("billing").options(options).build().unwrap();
    let applied = Applied::default();
    let tries = AtomicU32::new(0);
    let done = async {
        eventually(SOON, async || applied.lock().unwrap().len() == count).await;
    };
    let handle = async |_tx: &mut _, event: pillarbox_core::Received| {
        if fail_first && tries.fetch_add(1, Ordering::Relaxed) < 3 {
            return Err(HandlerError::retry("busy", "try again"));
        }
        *applied.lock().unwrap().entry(String::from_utf8(event.payload).unwrap()).or_default() += 1;
        Ok(())
    };
    consumer.run(done, handle).await.unwrap();
    applied
}

#[tokio::test]
async fn what_is_staged_is_delivered_and_applied_once() {
    for server in [DEBIAN, LATEST] {
        let place = Place::new(server).await;
        // Before anything is published: the server has no timer for the old window then.
        let stream = place.stream().await;
        let config = stream.cached_info().config.clone();
        let window = Duration::from_millis(100);
        let config = async_nats::jetstream::stream::Config { duplicate_window: window, ..config };
        place.context.update_stream(config).await.unwrap();
        let store = MemoryStore::new();
        stage(&store, 100).await;
        let sink = Arc::new(NatsSink::new(&place.to()).unwrap());
        let relay = Relay::builder(Arc::new(store.clone()), sink.clone()).route("orders").build().unwrap();
        let tally = relay.drain().await.unwrap();
        assert_eq!((tally.delivered, tally.retried, tally.dead), (100, 0, 0));
        // As after a crash between the confirmation and the record of it, but later than the server remembers.
        let repeated: Vec<_> = store.entries().into_iter().take(10).collect();
        eventually(SOON, async || {
            let outcomes = deliver(&*sink, &repeated).await;
            assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Confirmed));
            place.stored().await.len() >= 110
        })
        .await;
        let applied = consume(&place, "&nack_delay=0s", 100, true).await;
        assert!(applied.lock().unwrap().values().all(|times| *times == 1));
    }
}

#[tokio::test]
async fn an_outage_spends_no_attempt_and_all_is_delivered_after_it() {
    let place = Place::new(DEBIAN).await;
    let (proxy, through) = FaultProxy::before(&place.server);
    let store = MemoryStore::new();
    let sink = Arc::new(NatsSink::new(&place.via(&through)).unwrap());
    let relay =
        Relay::builder(Arc::new(store.clone()), sink).route("orders").options(quick()).build().unwrap();
    let handle = relay.handle();
    let (stop, stopped) = oneshot::channel::<()>();
    let steps = async {
        stage(&store, 20).await;
        let delivered = || store.entries().iter().filter(|entry| entry.status == Status::Delivered).count();
        eventually(SOON, async || delivered() == 20).await;
        proxy.set(Fault::Down);
        stage(&store, 30).await;
        eventually(SOON, async || handle.state().circuit == CircuitState::Open).await;
        let waiting = || store.entries().into_iter().filter(|entry| entry.status != Status::Delivered);
        eventually(SOON, async || waiting().any(|entry| entry.last_error.is_some())).await;
        assert!(waiting().all(|entry| entry.attempts <= 1), "an outage gives the attempt back");
        proxy.heal();
        eventually(SOON, async || delivered() == 50).await;
        assert!(
            store.entries().iter().all(|entry| entry.attempts == 1),
            "no attempt was spent on the outage"
        );
        let _ = stop.send(());
    };
    let run = relay.run(async { drop(stopped.await) });
    let (tally, ()) = tokio::join!(run, steps);
    assert_eq!((tally.unwrap().delivered, place.stored().await.len()), (50, 50));
}
