//! A clock that runs with paused time, and jumps when it is told to.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use pillarbox_core::Timestamp;
use pillarbox_core::port::Clock;
use tokio::time::Instant;

use super::clock::ORIGIN_MICROS;

/// A clock on tokio's time that can jump, as a server's clock does when an operator sets it.
#[derive(Debug)]
pub struct JumpingClock {
    began: Instant,
    offset_micros: AtomicI64,
}

impl JumpingClock {
    /// The time at which a clock without a jump starts: 2026-01-01T00:00:00Z, in microseconds.
    pub const ORIGIN_MICROS: i64 = ORIGIN_MICROS;

    /// A clock that starts now, `ahead_millis` ahead of other clocks that start now.
    #[must_use]
    pub fn new(ahead_millis: i64) -> Self {
        Self { began: Instant::now(), offset_micros: AtomicI64::new(ahead_millis * 1000) }
    }

    /// Moves the clock forward, or back if `millis` is negative.
    pub fn jump(&self, millis: i64) {
        self.offset_micros.fetch_add(millis * 1000, Ordering::Relaxed);
    }

    /// How far `ahead_millis` and the jumps have moved the clock, in milliseconds.
    #[must_use]
    pub fn offset_millis(&self) -> i64 {
        self.offset_micros.load(Ordering::Relaxed) / 1000
    }

    /// The time since the clock started, without its jumps.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

impl Clock for JumpingClock {
    fn now(&self) -> Timestamp {
        let elapsed = i64::try_from(self.began.elapsed().as_micros()).unwrap_or(i64::MAX);
        let micros = ORIGIN_MICROS.saturating_add(elapsed) + self.offset_micros.load(Ordering::Relaxed);
        Timestamp::from_micros(micros).unwrap_or(Timestamp::MIN)
    }
}
