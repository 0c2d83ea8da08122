//! Delivering in a test: one call from store to sink, and a check that delivering twice is as good as once.

use std::fmt::Debug;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use pillarbox_core::port::{Report, Sink, Store};
use pillarbox_core::{Entry, Event, Outcome, RouteName};
use pillarbox_engine::{Relay, Tally};

use crate::memory::sample_entry;

/// Delivers all due entries of a route through a real relay, and returns its tally.
///
/// A failed entry waits for its backoff, as in production. Drain again once it is due.
///
/// ```
/// # use pillarbox_core::Event;
/// # use pillarbox_testkit::{MemoryOutbox, MemorySink, MemoryStore, drain};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> pillarbox_core::Result<()> {
/// let (store, sink) = (MemoryStore::new(), MemorySink::new());
/// let outbox = MemoryOutbox::new(&store, "orders");
/// let mut tx = store.begin();
/// outbox.stage(&mut tx, Event::new("order.placed", "{}")).await?;
/// tx.commit();
///
/// assert_eq!(drain(&store, &sink, "orders").await.delivered, 1);
/// assert_eq!(sink.received().len(), 1);
/// # Ok(()) }
/// ```
///
/// # Panics
/// When the route's name breaks a rule, or the store fails.
pub async fn drain<S, K>(store: &S, sink: &K, route: &str) -> Tally
where
    S: Store + Clone + 'static,
    K: Sink + Clone + 'static,
{
    drain_to(Arc::new(store.clone()), Arc::new(sink.clone()), route).await
}

/// [`drain`] for a store or a sink that is not cloned, such as a registry of handlers.
///
/// # Panics
/// When the route's name breaks a rule, or the store fails.
// In a test a panic is the report.
#[allow(clippy::panic)]
pub async fn drain_to(store: Arc<dyn Store>, sink: Arc<dyn Sink>, route: &str) -> Tally {
    let drained = match Relay::builder(store, sink).route(route).build() {
        Ok(relay) => relay.drain().await,
        Err(error) => Err(error),
    };
    drained.unwrap_or_else(|error| panic!("route {route:?} could not be drained: {error}"))
}

/// Delivers one event twice, as a relay does after a lost confirmation. Asserts that the second delivery
/// changed nothing. `observe` reads the state that the handler changes. It is called after each delivery.
///
/// ```
/// # use std::sync::{Arc, Mutex};
/// # use std::collections::BTreeSet;
/// # use pillarbox_core::Event;
/// # use pillarbox_engine::sink::Handlers;
/// # use pillarbox_testkit::assert_idempotent;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> pillarbox_core::Result<()> {
/// let sent = Arc::new(Mutex::new(BTreeSet::new()));
/// let writes = Arc::clone(&sent);
/// let handlers = Handlers::new().on("mail.send", move |handling| {
///     // Remembering the idempotency key makes the second time harmless.
///     writes.lock().unwrap().insert(handling.event_id());
///     async { Ok(()) }
/// })?;
/// assert_idempotent(&handlers, Event::new("mail.send", "{}"), async || sent.lock().unwrap().len()).await;
/// # Ok(()) }
/// ```
///
/// # Panics
/// When a delivery is not confirmed, or the second one changed what `observe` sees.
pub async fn assert_idempotent<T, F, Fut>(sink: &dyn Sink, event: Event, mut observe: F)
where
    T: PartialEq + Debug,
    F: FnMut() -> Fut,
    Fut: Future<Output = T>,
{
    let Ok(route) = RouteName::new("idempotency") else { return };
    let mut entry = sample_entry(route, event);
    let mut seen = Vec::new();
    for attempt in 1..=2 {
        entry.attempts = attempt;
        let outcome = deliver_one(sink, &entry).await;
        assert_eq!(outcome, Some(Outcome::Confirmed), "the handler did not confirm delivery {attempt}");
        seen.push(observe().await);
    }
    assert!(seen[0] == seen[1], "the second delivery changed {:?} to {:?}", seen[0], seen[1]);
}

/// Keeps the outcome of one entry.
#[derive(Default)]
struct One(Mutex<Option<Outcome>>);

impl Report for One {
    fn outcome(&self, _index: usize, outcome: Outcome) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(outcome);
    }
}

async fn deliver_one(sink: &dyn Sink, entry: &Entry) -> Option<Outcome> {
    let report = One::default();
    sink.deliver(std::slice::from_ref(entry), &report).await;
    report.0.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use pillarbox_engine::sink::Handlers;

    use super::*;
    use crate::{MemorySink, Reply, Which};

    #[tokio::test]
    #[should_panic(expected = "the second delivery changed 1 to 2")]
    async fn a_handler_that_counts_twice_is_caught() {
        let count = Arc::new(AtomicU32::new(0));
        let writes = Arc::clone(&count);
        let handlers = Handlers::new()
            .on("count", move |_| {
                writes.fetch_add(1, Ordering::Relaxed);
                async { Ok(()) }
            })
            .unwrap();
        assert_idempotent(&handlers, Event::new("count", "{}"), async || count.load(Ordering::Relaxed)).await;
    }

    #[tokio::test]
    #[should_panic(expected = "the handler did not confirm delivery 2")]
    async fn a_second_delivery_that_fails_is_caught() {
        let sink = MemorySink::new();
        sink.on_nth(Which::Any, 2, Reply::Answer(Outcome::failed("again", "")));
        assert_idempotent(&sink, Event::new("t", "{}"), async || ()).await;
    }
}
