//! What the core does not have by itself: time, randomness, and a way to wake a relay.

use std::sync::Arc;

use crate::event::EventId;
use crate::time::Timestamp;

/// The wall clock of this process. Only stamps and fresh ids use it: due times and leases follow the
/// database's clock.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// Where fresh event ids come from.
pub trait Entropy: Send + Sync {
    /// An id that nobody else has, growing with time.
    fn event_id(&self) -> EventId;
}

/// Whoever shares one passes it on as it is.
impl<T: Wake + ?Sized> Wake for Arc<T> {
    fn wake(&self) {
        (**self).wake();
    }
}

/// Tells a relay in the same process that there is work. Never called inside a transaction.
pub trait Wake: Send + Sync {
    /// Something was committed to the outbox.
    fn wake(&self);
}
