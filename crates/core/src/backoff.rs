//! How long to wait before the next attempt.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::limits::DELAY_MAX;

/// Whether the computed delay is taken as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Jitter {
    /// The delay is deterministic.
    #[default]
    None,
    /// A random fraction of the delay, from nothing to all of it, so that entries that failed together do
    /// not come back together.
    Full,
}

/// The policy `min(base * 2^(attempts-1), max)`, with or without jitter.
///
/// Checked when built, so that nothing can be wrong with it when an entry has just failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    base: Duration,
    max: Duration,
    jitter: Jitter,
}

impl Backoff {
    /// For brokers: 1 s doubling to 5 min, with full jitter.
    pub const BROKER: Self =
        Self { base: Duration::from_secs(1), max: Duration::from_secs(5 * 60), jitter: Jitter::Full };

    /// For handlers: 30 s doubling to 1 h, deterministic.
    pub const HANDLER: Self =
        Self { base: Duration::from_secs(30), max: Duration::from_secs(3600), jitter: Jitter::None };

    /// For probing a destination that is down: 500 ms doubling to 30 s, deterministic.
    pub const CIRCUIT: Self =
        Self { base: Duration::from_millis(500), max: Duration::from_secs(30), jitter: Jitter::None };

    /// A checked policy.
    ///
    /// # Errors
    /// When `base` is zero, `max` is below `base`, or `max` is over [`DELAY_MAX`].
    pub fn new(base: Duration, max: Duration, jitter: Jitter) -> Result<Self> {
        if base.is_zero() {
            return Err(Error::invalid("backoff: base must be longer than zero"));
        }
        if max < base {
            return Err(Error::invalid("backoff: max must not be below base"));
        }
        if max > DELAY_MAX {
            return Err(Error::invalid(format!(
                "backoff: max must be at most {} days",
                DELAY_MAX.as_secs() / 86_400
            )));
        }
        Ok(Self { base, max, jitter })
    }

    /// The delay after the first attempt.
    #[must_use]
    pub const fn base(&self) -> Duration {
        self.base
    }

    /// The longest delay.
    #[must_use]
    pub const fn max(&self) -> Duration {
        self.max
    }

    /// Whether the delay is randomised.
    #[must_use]
    pub const fn jitter(&self) -> Jitter {
        self.jitter
    }

    /// The wait after `attempts` attempts. `random` is looked at only with [`Jitter::Full`]: 0 gives no
    /// wait, `u64::MAX` the whole deterministic one.
    ///
    /// # Errors
    /// When `attempts` is zero: nothing has failed yet.
    pub fn delay(&self, attempts: u32, random: u64) -> Result<Duration> {
        let doublings =
            attempts.checked_sub(1).ok_or_else(|| Error::invalid("backoff: attempts are counted from 1"))?;
        let full = 1u128
            .checked_shl(doublings)
            .and_then(|factor| self.base.as_nanos().checked_mul(factor))
            .map_or(self.max.as_nanos(), |nanos| nanos.min(self.max.as_nanos()));
        Ok(from_nanos(match self.jitter {
            Jitter::None => full,
            // No overflow: `DELAY_MAX` is below 2^59 nanoseconds, the fraction below 2^64.
            Jitter::Full => full * u128::from(random) / u128::from(u64::MAX),
        }))
    }
}

fn from_nanos(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
