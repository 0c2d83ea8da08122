//! What the core takes from its caller: time, fresh ids, and a way to wake a relay.

use std::sync::Arc;

use crate::event::EventId;
use crate::time::Timestamp;

/// The wall clock of this process. Only clock stamps and fresh ids use it. Due times and leases follow the
/// database's clock.
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> Timestamp;
}

/// The source of fresh event ids.
pub trait Entropy: Send + Sync {
    /// A unique id. Ids grow with time.
    fn event_id(&self) -> EventId;
}

/// Forwards every call to the shared value.
impl<T: Wake + ?Sized> Wake for Arc<T> {
    fn wake(&self) {
        (**self).wake();
    }
}

/// Tells a relay in the same process that there is work. Never called inside a transaction.
pub trait Wake: Send + Sync {
    /// Tells the relay that something was committed to the outbox.
    fn wake(&self);
}
