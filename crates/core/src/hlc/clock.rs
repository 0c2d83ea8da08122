//! The source of stamps of a process.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::Hlc;
use super::stamp::COUNTER_BITS;
use crate::duration::format_duration;
use crate::error::{Error, Result};
use crate::port::Clock;

/// What no clock follows a remote stamp, a stored mark or its own wall clock beyond. Above it are still 2^52
/// stamps, more than a process can ever give out: so no stamp, forged or not, can make a clock overflow.
const CEILING: i64 = i64::MAX - (1 << 52);

/// The source of stamps: share one per process.
///
/// Lock-free; every stamp it gives is above every stamp that it gave or merged before, on any thread.
pub struct HybridClock {
    clock: Arc<dyn Clock>,
    drift_max_millis: i64,
    last: AtomicI64,
}

impl HybridClock {
    /// A clock on this wall clock, which refuses to follow remote stamps further ahead than `drift_max`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, drift_max: Duration) -> Self {
        let drift_max_millis = i64::try_from(drift_max.as_millis()).unwrap_or(i64::MAX);
        Self { clock, drift_max_millis, last: AtomicI64::new(0) }
    }

    /// The next stamp: strictly above every earlier one, also when the wall clock steps back.
    pub fn now(&self) -> Hlc {
        self.advance(self.wall())
    }

    /// Takes note of a stamp that came with a consumed event and gives the next one, above it.
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
                "a clock stamp is {} ahead of this process; at most {} is allowed",
                millis(ahead_millis),
                millis(self.drift_max_millis)
            ))
            .with_code("hlc_drift"));
        }
        Ok(self.advance(wall.max(remote.0 + 1)))
    }

    /// Continues after a restart: every stamp from now on is above the stored mark, even when the wall clock
    /// is behind it by more than the drift allowed. A mark that no clock can have given is followed only as far
    /// as the stamps cannot run out.
    pub fn resume(&self, mark: Hlc) {
        self.last.fetch_max(mark.0.min(CEILING), Ordering::Relaxed);
    }

    /// The stamp of this wall clock with a counter of zero.
    fn wall(&self) -> i64 {
        let millis = self.clock.now().as_millis().clamp(0, CEILING >> COUNTER_BITS);
        millis << COUNTER_BITS
    }

    /// Moves to at least `floor`. An overflowing counter carries over into the milliseconds by itself, because
    /// both are one number. Relaxed is enough: there is one atomic, and its changes have one order for all threads.
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
