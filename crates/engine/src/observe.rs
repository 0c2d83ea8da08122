//! What a relay or a consumer tells an observer while it works, such as a collector of metrics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::{CircuitState, Entry};

use crate::tally::Tally;

/// Watches one relay or one consumer. Every method does nothing by default.
///
/// The relay calls these methods on its own task, between two steps of its work. They must return at once: no IO and no
/// waiting for a lock that is held for long. If one panics, nothing else changes.
///
/// A relay without an observer does none of the work that is only needed for one.
pub trait Observe: Send + Sync {
    /// The store answered a claim with these entries, maybe none.
    fn claimed(&self, entries: &[Entry], took: Duration) {
        let _ = (entries, took);
    }

    /// The sink has ended the delivery of these entries, with any outcome.
    fn published(&self, entries: &[Entry], took: Duration) {
        let _ = (entries, took);
    }

    /// The store recorded outcomes. The tally counts those of this call only.
    fn settled(&self, outcomes: &Tally, took: Duration) {
        let _ = (outcomes, took);
    }

    /// Entries of expired leases were returned to the queue (`reaped`), or had no attempt left (`dead`). The tally
    /// counts those of this call only.
    fn reaped(&self, outcomes: &Tally) {
        let _ = outcomes;
    }

    /// A call to the store failed.
    fn store_failed(&self, call: StoreCall) {
        let _ = call;
    }

    /// What the relay has in flight and how it takes its destination to be, after each step of its work.
    fn state(&self, circuit: CircuitState, in_flight: usize) {
        let _ = (circuit, in_flight);
    }

    /// How many lanes the relay holds. Only by lanes, at each heartbeat.
    fn lanes(&self, held: usize) {
        let _ = held;
    }

    /// The consumer has done with a message.
    fn consumed(&self, consumed: Consumed, took: Duration) {
        let _ = (consumed, took);
    }
}

/// A call of a relay to its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreCall {
    /// Taking entries.
    Claim,
    /// Renewing leases.
    Extend,
    /// Recording outcomes.
    Settle,
    /// Returning expired leases.
    Reap,
}

impl StoreCall {
    /// Every call.
    pub const ALL: [Self; 4] = [Self::Claim, Self::Extend, Self::Settle, Self::Reap];

    /// The name in logs and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Extend => "extend",
            Self::Settle => "settle",
            Self::Reap => "reap",
        }
    }
}

/// What a consumer did with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Consumed {
    /// The effect was committed.
    Processed,
    /// The event had been applied before.
    Duplicate,
    /// A relay had published it that no longer owned its lane.
    Stale,
    /// It was set aside: undecodable, rejected, or delivered too often.
    Parked,
    /// It failed and went back to the broker.
    Failed,
}

impl Consumed {
    /// Every end of a message.
    pub const ALL: [Self; 5] = [Self::Processed, Self::Duplicate, Self::Stale, Self::Parked, Self::Failed];

    /// The name in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Processed => "processed",
            Self::Duplicate => "duplicate",
            Self::Stale => "stale",
            Self::Parked => "parked",
            Self::Failed => "failed",
        }
    }
}

/// Forwards every call to the shared value.
impl<T: Observe + ?Sized> Observe for Arc<T> {
    fn claimed(&self, entries: &[Entry], took: Duration) {
        (**self).claimed(entries, took);
    }

    fn published(&self, entries: &[Entry], took: Duration) {
        (**self).published(entries, took);
    }

    fn settled(&self, outcomes: &Tally, took: Duration) {
        (**self).settled(outcomes, took);
    }

    fn reaped(&self, outcomes: &Tally) {
        (**self).reaped(outcomes);
    }

    fn store_failed(&self, call: StoreCall) {
        (**self).store_failed(call);
    }

    fn state(&self, circuit: CircuitState, in_flight: usize) {
        (**self).state(circuit, in_flight);
    }

    fn lanes(&self, held: usize) {
        (**self).lanes(held);
    }

    fn consumed(&self, consumed: Consumed, took: Duration) {
        (**self).consumed(consumed, took);
    }
}

/// An observer, or none.
#[derive(Clone, Default)]
pub(crate) struct Observer(Option<Arc<dyn Observe>>);

impl Observer {
    pub(crate) fn new(observer: impl Observe + 'static) -> Self {
        Self(Some(Arc::new(observer)))
    }

    /// Tells the observer, if there is one. Its panic is contained: delivery never depends on who watches it.
    pub(crate) fn tell(&self, tell: impl FnOnce(&dyn Observe)) {
        let Some(observer) = &self.0 else { return };
        if catch_unwind(AssertUnwindSafe(|| tell(&**observer))).is_err() {
            tracing::error!(
                "an observer panicked; deliveries continue, but its metrics miss this event. Fix the observer"
            );
        }
    }
}
