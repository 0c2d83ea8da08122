//! A cheap handle on a running relay: wake it, look at it.

use std::sync::{Arc, Mutex, PoisonError};

use pillarbox_core::CircuitState;
use pillarbox_core::port::{Outage, Wake};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::circuit::Down;
use crate::tally::Tally;

/// What a relay is doing, as of its last update.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RelayState {
    /// The state of the circuit: whether the relay takes its destination to be up.
    pub circuit: CircuitState,
    /// Entries claimed and not yet settled.
    pub in_flight: usize,
    /// Why the store cannot be used at the moment. `None`: the store answers.
    pub stalled: Option<String>,
    /// What the relay has done since it started.
    pub tally: Tally,
    pub(crate) down: Option<Down>,
}

impl RelayState {
    /// Whether the relay can claim and deliver: the store answers and the circuit is closed.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.stalled.is_none() && self.circuit == CircuitState::Closed
    }

    /// The outage of the destination, while the circuit is not closed.
    #[must_use]
    pub fn outage(&self) -> Option<Outage> {
        self.down.as_ref().map(|down| Outage {
            lasted: Instant::now().saturating_duration_since(down.since),
            found: down.found,
            failure: down.failure.clone(),
        })
    }
}

#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) wake: Notify,
    /// Rung when the circuit changed.
    pub(crate) turned: Notify,
    state: Mutex<RelayState>,
}

impl Shared {
    pub(crate) fn update(&self, change: impl FnOnce(&mut RelayState)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Wakes a relay and shows its state. All clones belong to the same relay.
///
/// ```
/// use pillarbox_engine::{Relay, sink::NullSink};
/// use pillarbox_testkit::MemoryStore;
///
/// let relay = Relay::builder(MemoryStore::new(), NullSink).route("orders").build()?;
/// let handle = relay.handle();
/// handle.wake();
/// assert!(handle.state().is_healthy());
/// # Ok::<_, pillarbox_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Handle(pub(crate) Arc<Shared>);

impl Handle {
    /// Tells the relay that there is work, so that it claims now instead of at its next poll. Call it after
    /// the commit.
    pub fn wake(&self) {
        self.0.wake.notify_one();
    }

    /// The current state of the relay.
    #[must_use]
    pub fn state(&self) -> RelayState {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Wake for Handle {
    fn wake(&self) {
        Self::wake(self);
    }
}
