//! The source of clock stamps of a process.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::Hlc;
use super::stamp::COUNTER_BITS;
use crate::duration::format_duration;
use crate::error::{Error, Result};
use crate::port::Clock;

/// The highest stamp to which a clock follows a remote stamp, a stored mark or its own wall clock. Above it are
/// still 2^52 stamps, more than a process can ever give out. So no stamp, forged or not, can make a clock overflow.
const CEILING: i64 = i64::MAX - (1 << 52);

/// The source of clock stamps. Share one per process.
///
/// It is lock-free. Every stamp that it gives is above every stamp that it gave or merged before, on any thread.
pub struct HybridClock {
    clock: Arc<dyn Clock>,
    drift_max_millis: i64,
    last: AtomicI64,
}

impl HybridClock {
    /// A clock based on this wall clock. It refuses remote stamps that are further ahead than `drift_max`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, drift_max: Duration) -> Self {
        let drift_max_millis = i64::try_from(drift_max.as_millis()).unwrap_or(i64::MAX);
        Self { clock, drift_max_millis, last: AtomicI64::new(0) }
    }

    /// The next stamp. It is strictly above every earlier one, even if the wall clock steps back.
    pub fn now(&self) -> Hlc {
        self.advance(self.wall())
    }

    /// Merges a stamp that came with a consumed event, and returns the next stamp, which is above it.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) with the code `hlc_drift` when the stamp is further ahead of this
    /// wall clock than the drift allowed; the clock is as it was then.
    pub fn merge(&self, remote: Hlc) -> Result<Hlc> {
        let wall = self.wall();
        let ahead_millis = remote.millis() - (wall >> COUNTER_BITS);
        if ahead_millis > self.drift_max_millis || remote.0 > CEILING {
            let millis = |millis: i64| format_duration(Duration::from_millis(millis.unsigned_abs()));
            return Err(Error::invalid(format!(
                "the event's clock stamp is {} ahead of this machine's clock; at most {} is allowed. Check \
                 the clocks of both machines",
                millis(ahead_millis),
                millis(self.drift_max_millis)
            ))
            .with_code("hlc_drift"));
        }
        Ok(self.advance(wall.max(remote.0 + 1)))
    }

    /// Continues after a restart. Every stamp from now on is above the stored mark, even if the wall clock is
    /// behind the mark by more than the allowed drift. If no clock can have given the mark, it is followed only as
    /// far as stamps cannot run out.
    pub fn resume(&self, mark: Hlc) {
        self.last.fetch_max(mark.0.min(CEILING), Ordering::Relaxed);
    }

    /// The stamp of this wall clock with a counter of zero.
    fn wall(&self) -> i64 {
        let millis = self.clock.now().as_millis().clamp(0, CEILING >> COUNTER_BITS);
        millis << COUNTER_BITS
    }

    /// Moves to at least `floor`. The counter and the milliseconds are one number, so an overflowing counter
    /// carries over by itself. Relaxed ordering is enough: there is one atomic, and all threads see its changes in
    /// one order.
    fn advance(&self, floor: i64) -> Hlc {
        let next = |last: i64| floor.max(last.saturating_add(1));
        let last = self
            .last
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)))
            .unwrap_or_else(|last| last);
        Hlc(next(last))
    }
}

impl fmt::Debug for HybridClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HybridClock")
            .field("last", &Hlc(self.last.load(Ordering::Relaxed)))
            .field("drift_max_millis", &self.drift_max_millis)
            .finish_non_exhaustive()
    }
}
