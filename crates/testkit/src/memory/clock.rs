//! Clocks for tests: one that is set by hand, one that follows tokio's pausable time.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pillarbox_core::Timestamp;
use pillarbox_core::port::Clock;
use tokio::time::Instant;

/// 2026-01-01T00:00:00Z: where the clocks of the test kit begin, so that runs are the same on every day.
pub(crate) const ORIGIN_MICROS: i64 = 1_767_225_600_000_000;

pub(crate) fn origin() -> Timestamp {
    Timestamp::from_micros(ORIGIN_MICROS).unwrap_or(Timestamp::MIN)
}

/// A clock that moves only when the test sets it, in either direction.
#[derive(Debug)]
pub struct ManualClock(Mutex<Timestamp>);

impl ManualClock {
    /// A clock that shows this time.
    #[must_use]
    pub const fn new(now: Timestamp) -> Self {
        Self(Mutex::new(now))
    }

    /// Sets the clock to this time. It may be earlier, because real clocks are set back too.
    pub fn set(&self, now: Timestamp) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *now = now.saturating_add(by);
    }
}

impl Default for ManualClock {
    /// A clock that shows 2026-01-01T00:00:00Z.
    fn default() -> Self {
        Self::new(origin())
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A clock that follows tokio's time. If tokio's time is paused, so is the clock, so that due times and
/// sleeps agree.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    origin: Timestamp,
    began: Instant,
}

impl TokioClock {
    /// A clock that shows `origin` now.
    #[must_use]
    pub fn new(origin: Timestamp) -> Self {
        Self { origin, began: Instant::now() }
    }
}

impl Default for TokioClock {
    /// A clock that starts at 2026-01-01T00:00:00Z.
    fn default() -> Self {
        Self::new(origin())
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.origin.saturating_add(self.began.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_when_told() {
        let clock = ManualClock::default();
        assert_eq!(clock.now().to_string(), "2026-01-01T00:00:00Z");
        clock.advance(Duration::from_secs(90));
        assert_eq!(clock.now().to_string(), "2026-01-01T00:01:30Z");
        clock.set(Timestamp::MIN);
        assert_eq!(clock.now(), Timestamp::MIN);
    }

    #[tokio::test(start_paused = true)]
    async fn a_tokio_clock_follows_paused_time() {
        let clock = TokioClock::default();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(clock.now().to_string(), "2026-01-01T01:00:00Z");
    }
}
