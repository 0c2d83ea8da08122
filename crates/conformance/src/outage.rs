//! Outages: a destination takes nothing for a while, for whatever reason. That must not count against any
//! message.
//!
//! There is one case for every way in which a destination can fail: full, stopped, without a majority. The
//! tests of a transport say how its destination fails and how it recovers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::port::{Lanes, Sink, Stage as _, Store};
use pillarbox_core::{Backoff, Entry, Event, EventId, FailureKind, Jitter, Status};
use pillarbox_engine::{Handle, Relay, RelayBuilder, RelayOptions};
use tokio::sync::oneshot;

use pillarbox_testkit::{MemoryOutbox, MemoryStore, eventually};

/// A destination, how it fails, and how it recovers.
#[allow(async_fn_in_trait, reason = "run on the spot, never sent to another thread")]
pub trait OutageHarness {
    /// A sink to the destination.
    fn sink(&self) -> Arc<dyn Sink>;

    /// Starts the outage: from now on the destination takes nothing.
    async fn begin(&self);

    /// Ends the outage: the destination takes messages again.
    async fn end(&self);

    /// The event ids of all messages that the destination has taken so far.
    async fn received(&self) -> Vec<EventId>;

    /// How many attempts an entry may have had when the outage is over. Default: 1, because an outage spends
    /// no attempt. Use 2 if the outage begins with missing confirmations: the outcome of the messages just
    /// written is then unknown.
    fn attempts_max(&self) -> u32 {
        1
    }
}

/// Only a guard against hanging.
const SOON: Duration = Duration::from_secs(180);
const ROUTE: &str = "orders";
/// More probes in vain than an entry has attempts by default.
const PROBES_MIN: u32 = 8;

/// By rows: no attempt is spent while the destination takes nothing, and all is delivered once it does.
pub async fn by_rows(harness: &impl OutageHarness) {
    let store = MemoryStore::new();
    let builder = Relay::builder(Arc::new(store.clone()) as Arc<dyn Store>, harness.sink());
    outlast(harness, &store, builder).await;
}

/// By lanes as well.
pub async fn by_lanes(harness: &impl OutageHarness) {
    let store = MemoryStore::new();
    let builder = Relay::ordered(Arc::new(store.clone()) as Arc<dyn Lanes>, harness.sink());
    outlast(harness, &store, builder).await;
}

async fn outlast(harness: &impl OutageHarness, store: &MemoryStore, builder: RelayBuilder) {
    let mut options = RelayOptions::broker();
    options.circuit =
        Backoff::new(Duration::from_millis(20), Duration::from_millis(200), Jitter::None).unwrap();
    let relay = builder.route(ROUTE).options(options).build().unwrap();
    let handle = relay.handle();
    let (stop, stopped) = oneshot::channel::<()>();
    let steps = async {
        let mut staged = stage(store, 20).await;
        wait_for_deliveries(store, staged.len(), &handle).await;
        let ((), more) = tokio::join!(harness.begin(), stage(store, 200));
        staged.extend(more);
        staged.extend(stage(store, 30).await);
        wait_for_probes(&handle).await;
        tell_what_waits(store, harness.attempts_max());
        harness.end().await;
        wait_for_deliveries(store, staged.len(), &handle).await;
        let attempts: Vec<u32> = store.entries().iter().map(|entry| entry.attempts).collect();
        let within = |attempts: &u32| (1..=harness.attempts_max()).contains(attempts);
        assert!(attempts.iter().all(within), "the outage spent attempts: {attempts:?}");
        let received = async || BTreeSet::from_iter(harness.received().await);
        eventually(SOON, async || received().await.is_superset(&staged)).await;
        let _ = stop.send(());
    };
    let (tally, ()) = tokio::join!(relay.run(async { drop(stopped.await) }), steps);
    let tally = tally.unwrap();
    assert_eq!(tally.dead, 0, "{tally:?}");
    assert!(tally.retried == 0 || harness.attempts_max() > 1, "{tally:?}");
}

async fn stage(store: &MemoryStore, count: usize) -> BTreeSet<EventId> {
    let outbox = MemoryOutbox::new(store, ROUTE);
    let mut tx = store.begin();
    let events = (0..count).map(|n| Event::new("order.placed", format!("{n}")).key(format!("k{n}")));
    let staged = outbox.stage_all(&mut tx, events.collect()).await.unwrap();
    tx.commit();
    staged.iter().map(|staged| staged.event_id()).collect()
}

fn delivered(store: &MemoryStore) -> usize {
    store.entries().iter().filter(|entry| entry.status == Status::Delivered).count()
}

async fn wait_for_deliveries(store: &MemoryStore, count: usize, handle: &Handle) {
    let all = eventually(2 * SOON, async || delivered(store) == count);
    if tokio::time::timeout(SOON, all).await.is_err() {
        let entries = store.entries();
        let first = entries.iter().find(|entry| entry.status != Status::Delivered);
        let (delivered, state) = (delivered(store), handle.state());
        panic!("{delivered} of {count} delivered, {state:?}, the first that waits: {first:?}");
    }
}

async fn wait_for_probes(handle: &Handle) {
    eventually(SOON, async || handle.state().outage().is_some_and(|outage| outage.found >= PROBES_MIN)).await;
}

/// Nothing is dead, no attempt is gone, and what was tried says why it waits.
fn tell_what_waits(store: &MemoryStore, attempts_max: u32) {
    let entries = store.entries();
    let waiting: Vec<_> = entries.iter().filter(|entry| entry.status != Status::Delivered).collect();
    assert!(!waiting.is_empty(), "the destination took everything: this is no outage");
    for entry in &waiting {
        assert!(!entry.status.is_terminal() && entry.attempts <= attempts_max, "{entry:?}");
    }
    if attempts_max > 1 {
        let told =
            |entry: &&Entry| entry.last_error.as_ref().is_some_and(|why| why.kind == FailureKind::Down);
        return assert!(waiting.iter().any(told), "nobody says that the destination is down");
    }
    let oldest = waiting.iter().min_by_key(|entry| entry.seq).and_then(|entry| entry.last_error.as_ref());
    let oldest = oldest.expect("the oldest entry that waits says why");
    assert_eq!(oldest.kind, FailureKind::Down, "{oldest}");
}
