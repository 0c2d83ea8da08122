//! What the in-memory store and sink promise beyond the suites.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join;
use pillarbox_core::port::{Report, Sink, Stage};
use pillarbox_core::{ErrorKind, Event, EventId, Outcome, RouteName, Staged};
use pillarbox_testkit::{ManualClock, MemoryOutbox, MemorySink, MemoryStore, Reply, Which, sample_entry};
use uuid::Uuid;

fn event(n: u128) -> Event {
    Event::new("order.placed", "{}").id(EventId(Uuid::from_u128(n)))
}

/// Lets everything that can go on go on.
async fn settle_down() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_dropped_transaction_is_rolled_back() {
    let store = MemoryStore::new();
    let outbox = MemoryOutbox::new(&store, "orders");
    let mut tx = store.begin();
    assert_eq!(outbox.stage(&mut tx, event(1)).await.unwrap(), Staged::Fresh(EventId(Uuid::from_u128(1))));
    drop(tx);
    assert!(store.entries().is_empty());
    let mut tx = store.begin();
    assert!(!outbox.stage(&mut tx, event(1)).await.unwrap().is_duplicate());
}

#[tokio::test]
async fn staging_an_id_of_an_open_transaction_waits_for_its_end() {
    for (commits, duplicate) in [(true, true), (false, false)] {
        let store = MemoryStore::new();
        let outbox = MemoryOutbox::new(&store, "orders");
        let (mut first, mut second) = (store.begin(), store.begin());
        assert!(!outbox.stage(&mut first, event(1)).await.unwrap().is_duplicate());
        let ends = async {
            settle_down().await;
            if commits { first.commit() } else { first.rollback() }
        };
        let (staged, ()) = join(outbox.stage(&mut second, event(1)), ends).await;
        assert_eq!(staged.unwrap().is_duplicate(), duplicate);
        second.commit();
        assert_eq!(store.entries().len(), 1);
    }
}

#[tokio::test]
async fn transactions_that_wait_for_each_other_are_told() {
    let store = MemoryStore::new();
    let outbox = MemoryOutbox::new(&store, "orders");
    let (mut first, mut second) = (store.begin(), store.begin());
    assert!(!outbox.stage(&mut first, event(1)).await.unwrap().is_duplicate());
    assert!(!outbox.stage(&mut second, event(2)).await.unwrap().is_duplicate());
    let waits = outbox.stage(&mut first, event(2));
    let meets = async {
        settle_down().await;
        let error = outbox.stage(&mut second, event(1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Contention);
        second.rollback();
    };
    let (staged, ()) = join(waits, meets).await;
    assert!(!staged.unwrap().is_duplicate());
}

#[tokio::test]
async fn a_staging_call_dropped_while_it_waits_has_staged_nothing() {
    let store = MemoryStore::new();
    let outbox = MemoryOutbox::new(&store, "orders");
    let (mut first, mut second) = (store.begin(), store.begin());
    assert!(!outbox.stage(&mut first, event(2)).await.unwrap().is_duplicate());
    {
        let mut waits = pin!(outbox.stage_all(&mut second, vec![event(1), event(2), event(3)]));
        let polled =
            std::future::poll_fn(|context| std::task::Poll::Ready(waits.as_mut().poll(context))).await;
        assert!(polled.is_pending());
    }
    second.commit();
    assert!(store.entries().is_empty());
    first.commit();
    assert_eq!(store.entries().len(), 1);
}

#[tokio::test]
async fn the_same_run_makes_the_same_entries() {
    let run = async |seed| {
        let store = MemoryStore::with_clock(Arc::new(ManualClock::default())).with_seed(seed);
        let outbox = MemoryOutbox::new(&store, "orders");
        let mut tx = store.begin();
        let events = (0..5).map(|_| Event::new("order.placed", "{}")).collect();
        assert_eq!(outbox.stage_all(&mut tx, events).await.unwrap().len(), 5);
        tx.commit();
        store.entries()
    };
    assert_eq!(run(7).await, run(7).await);
    assert_ne!(run(7).await, run(8).await);
}

#[tokio::test]
async fn a_transaction_of_another_store_is_refused() {
    let (store, other) = (MemoryStore::new(), MemoryStore::new());
    let mut tx = other.begin();
    let error = MemoryOutbox::new(&store, "orders").stage(&mut tx, event(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

/// Keeps reports in their order.
#[derive(Default)]
struct Reports(Mutex<Vec<(usize, Outcome)>>);

impl Report for Reports {
    fn outcome(&self, index: usize, outcome: Outcome) {
        self.0.lock().unwrap().push((index, outcome));
    }
}

#[tokio::test(start_paused = true)]
async fn the_sink_does_as_it_is_told() {
    let sink = MemorySink::new();
    sink.set_latency(Duration::from_secs(60));
    let id = |n| EventId(Uuid::from_u128(n));
    sink.on(Which::Type("order.placed".into()), Reply::Answer(Outcome::failed("busy", "")));
    sink.on_nth(Which::Event(id(1)), 1, Reply::Hang);
    sink.on(Which::Event(id(3)), Reply::Lose);
    sink.on(Which::Event(id(4)), Reply::Confirm);
    let batch: Vec<_> = (1..=4).map(|n| sample_entry(RouteName::new("orders").unwrap(), event(n))).collect();
    let reports = Reports::default();
    let began = tokio::time::Instant::now();
    let within = tokio::time::timeout(Duration::from_secs(3600), sink.deliver(&batch, &reports)).await;
    assert!(within.is_err(), "one of them hangs");
    assert!(began.elapsed() >= Duration::from_secs(3600));
    let reported = reports.0.into_inner().unwrap();
    assert_eq!(reported, [(1, Outcome::failed("busy", "")), (3, Outcome::Confirmed)]);
    assert_eq!(sink.received_ids(), [id(3), id(4)]);
    assert_eq!(sink.attempts().iter().map(|attempt| attempt.nth).collect::<Vec<_>>(), [1; 4]);
    sink.heal();
    let reports = Reports::default();
    sink.deliver(&batch, &reports).await;
    assert_eq!(sink.received_ids().len(), 6);
    assert!(sink.attempts()[4..].iter().all(|attempt| attempt.nth == 2));
}

#[tokio::test]
#[should_panic(expected = "the test told the sink to panic")]
async fn the_sink_panics_when_told() {
    let sink = MemorySink::new();
    sink.on(Which::Any, Reply::Panic);
    let entry = sample_entry(RouteName::new("orders").unwrap(), event(1));
    sink.deliver(&[entry], &Reports::default()).await;
}
