//! Running: a real relay on the store under test. Time is the store's own here, so nothing is pinned and nothing
//! depends on how long it takes.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::{join, join_all};
use pillarbox_core::port::{ClaimRequest, Company, Report, Sink, SinkCapabilities, Store};
use pillarbox_core::{Entry, ErrorKind, Outcome, Status};
use pillarbox_engine::sink::Handlers;
use pillarbox_engine::{Relay, Tally};
use tokio::sync::{Barrier, oneshot};

use super::between::*;
use super::steps::*;
use crate::StoreHarness;
use pillarbox_testkit::{MemorySink, Reply, Which, eventually};

/// One batch, and what it did.
pub async fn run_once_processes_one_batch<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(5)).await.len(), 5);
    let sink = MemorySink::new();
    let mut two = options();
    two.batch = 2;
    let relay = relay_to(harness, sink.clone()).options(two).build().unwrap();
    let tally = relay.run_once().await.unwrap();
    assert_eq!((tally.claimed, tally.delivered), (2, 2));
    assert_eq!(sink.received_ids(), ids_of([1, 2]));
    assert_eq!(count(harness, Status::Pending).await, 3);
}

/// Batch after batch until nothing is due; what is due later stays.
pub async fn drain_works_until_nothing_is_due<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(25)).await.len(), 25);
    assert_eq!(stage(harness, vec![event(99).delay(HOUR)]).await.len(), 1);
    let sink = MemorySink::new();
    let mut four = options();
    four.batch = 4;
    let relay = relay_to(harness, sink.clone()).options(four).build().unwrap();
    let tally = relay.drain().await.unwrap();
    assert_eq!((tally.claimed, tally.delivered, tally.fenced), (25, 25, 0));
    assert_eq!(sink.received_ids(), ids_of(1..=25));
    assert_eq!((undrained(harness).await, entry(harness, 99).await.attempts), (1, 0));
    let mut idle = relay.drain().await.unwrap();
    idle.elapsed = std::time::Duration::ZERO;
    assert_eq!(idle, Tally::default());
}

/// It goes on with what is staged while it runs, and ends cleanly when told.
pub async fn run_goes_on_until_it_is_stopped<H: StoreHarness>(harness: &H) {
    let sink = MemorySink::new();
    let relay = relay_to(harness, sink.clone()).build().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let application = async {
        for n in 1..=3 {
            assert_eq!(stage(harness, vec![event(n)]).await.len(), 1);
            relay.handle().wake();
            eventually(PATIENCE, async || sink.received_ids().contains(&id(n))).await;
        }
        stop.send(()).unwrap();
    };
    let (tally, ()) = join(relay.run(async { drop(stopped.await) }), application).await;
    assert_eq!(tally.unwrap().delivered, 3);
    assert_eq!(count(harness, Status::Delivered).await, 3);
}

/// Stopping gives back what is in flight: nothing stays leased, and the attempt is not spent.
pub async fn a_stopped_relay_releases_what_is_in_flight<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(3)).await.len(), 3);
    let sink = MemorySink::new();
    sink.on(Which::Event(id(2)), Reply::Hang);
    let mut hurried = options();
    hurried.grace = std::time::Duration::from_millis(1);
    let relay = relay_to(harness, sink.clone()).options(hurried).build().unwrap();
    let shutdown = eventually(PATIENCE, async || count(harness, Status::Delivered).await == 2);
    let tally = relay.run(shutdown).await.unwrap();
    assert_eq!((tally.delivered, tally.released), (2, 1));
    let released = entry(harness, 2).await;
    assert_eq!((released.status, released.attempts, released.due_at), (Status::Pending, 0, None));
}

/// Several drains at once, as overlapping cron jobs make them: each entry is delivered by one of them.
pub async fn overlapping_drains_are_safe<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(200)).await.len(), 200);
    let sink = MemorySink::new();
    let mut small = options();
    small.batch = 9;
    small.in_flight_max = 18;
    let relays: Vec<_> =
        (0..4).map(|_| relay_to(harness, sink.clone()).options(small.clone()).build().unwrap()).collect();
    let tallies = join_all(relays.iter().map(Relay::drain)).await;
    let delivered: u64 = tallies.into_iter().map(|tally| tally.unwrap().delivered).sum();
    assert_eq!(delivered, 200);
    let received = sink.received_ids();
    assert_eq!(
        (received.len(), BTreeSet::from_iter(received).len()),
        (200, 200),
        "no entry was delivered twice"
    );
}

/// Delivered, retried, dead and reaped, each counted as what it is.
pub async fn the_tally_says_what_happened<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(4)).await.len(), 4);
    // A claim of an hour ago, by a worker that is gone.
    let long_ago = harness.now().await.saturating_sub(HOUR);
    assert_eq!(claim(harness, 1, long_ago).await.len(), 1);
    let sink = MemorySink::new();
    let busy = Outcome::Failed { failure: failure(), retry_after: Some(HOUR) };
    sink.on(Which::Event(id(2)), Reply::Answer(busy));
    sink.on(Which::Event(id(3)), Reply::Answer(Outcome::rejected("unroutable", "")));
    let relay = relay_to(harness, sink).build().unwrap();
    let tally = relay.drain().await.unwrap();
    assert_eq!((tally.claimed, tally.delivered, tally.retried, tally.dead), (4, 2, 1, 1));
    assert_eq!((tally.released, tally.fenced, tally.reaped), (0, 0, 1));
    assert_eq!(relay.handle().state().tally.delivered, 2);
}

/// A sink during whose delivery another relay takes the entries over.
struct Overtaken {
    store: Arc<dyn Store>,
    later: pillarbox_core::Timestamp,
}

#[async_trait]
impl Sink for Overtaken {
    fn capabilities(&self) -> SinkCapabilities {
        SinkCapabilities::default()
    }

    async fn deliver(&self, batch: &[Entry], report: &dyn Report) {
        let thief = ClaimRequest {
            owner: "worker-2".into(),
            company: Company::Suspects { beside: 0 },
            ..claim_request(10, self.later)
        };
        assert_eq!(self.store.reap(reap_request(self.later)).await.unwrap().released, batch.len() as u64);
        assert_eq!(self.store.claim(thief).await.unwrap().entries.len(), batch.len());
        for index in 0..batch.len() {
            report.outcome(index, Outcome::Confirmed);
        }
    }
}

/// A relay that was overtaken changes nothing, and says so.
pub async fn an_overtaken_relay_is_fenced_and_counts_it<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let later = harness.now().await.saturating_add(HOUR);
    let relay = relay_to(harness, Overtaken { store: harness.store(), later }).build().unwrap();
    let tally = relay.run_once().await.unwrap();
    assert_eq!((tally.claimed, tally.delivered, tally.fenced), (1, 0, 1));
    let taken = entry(harness, 1).await;
    assert_eq!((taken.status, taken.attempts), (Status::InFlight, 2));
    assert_eq!(taken.owner.as_deref(), Some("worker-2"));
}

/// A store that fails for a while does not end the loop, nor lose anything.
pub async fn a_lost_database_does_not_end_the_run<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(5)).await.len(), 5);
    let sink = MemorySink::new();
    let faults = [ErrorKind::Unavailable, ErrorKind::Timeout, ErrorKind::Contention];
    let store = Arc::new(Between::new(harness.store(), faults));
    let relay = Relay::builder(store, sink).route(ROUTE).options(options()).build().unwrap();
    let shutdown = eventually(PATIENCE, async || count(harness, Status::Delivered).await == 5);
    let tally = relay.run(shutdown).await.unwrap();
    assert_eq!(tally.delivered, 5);
}

/// What waiting cannot mend ends it at once.
pub async fn a_wrong_configuration_ends_the_run_at_once<H: StoreHarness>(harness: &H) {
    let mut zero = options();
    zero.batch = 0;
    assert!(relay_to(harness, MemorySink::new()).options(zero).build().is_err());
    assert!(Relay::builder(harness.store(), MemorySink::new()).build().is_err(), "without a route");
    let store = Arc::new(Between::new(harness.store(), [ErrorKind::Schema]));
    let relay = Relay::builder(store, MemorySink::new()).route(ROUTE).build().unwrap();
    let error = relay.run(std::future::pending()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Schema);
}

/// One delivery that takes for ever does not keep the others from being settled.
pub async fn one_slow_delivery_does_not_delay_settling_the_others<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(20)).await.len(), 20);
    let sink = MemorySink::new();
    sink.on(Which::Event(id(1)), Reply::Hang);
    let mut hurried = options();
    hurried.grace = std::time::Duration::from_millis(1);
    let relay = relay_to(harness, sink).options(hurried).build().unwrap();
    let others_done = eventually(PATIENCE, async || {
        let held = entry(harness, 1).await.status == Status::InFlight;
        held && count(harness, Status::Delivered).await == 19
    });
    let tally = relay.run(others_done).await.unwrap();
    assert_eq!(tally.delivered, 19);
}

/// Many at once: eight handlers wait for each other, and the run ends.
pub async fn many_entries_are_delivered_at_once<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(8)).await.len(), 8);
    let barrier = Arc::new(Barrier::new(8));
    let handlers = Handlers::new()
        .on("order.placed", move |_| {
            let barrier = Arc::clone(&barrier);
            async move {
                barrier.wait().await;
                Ok(())
            }
        })
        .unwrap();
    let relay = relay_to(harness, handlers).build().unwrap();
    assert_eq!(relay.drain().await.unwrap().delivered, 8);
}
