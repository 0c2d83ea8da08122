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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::duration::{format_duration, parse_duration};

    fn policies() -> impl Strategy<Value = Backoff> {
        let max_nanos = u64::try_from(DELAY_MAX.as_nanos()).unwrap();
        (1..=max_nanos, 1..=max_nanos, any::<bool>()).prop_map(|(a, b, full)| {
            let jitter = if full { Jitter::Full } else { Jitter::None };
            Backoff::new(Duration::from_nanos(a.min(b)), Duration::from_nanos(a.max(b)), jitter).unwrap()
        })
    }

    #[test]
    fn delays_are_as_in_the_table() {
        let rows = include_str!("../testdata/backoff.txt").lines().filter(|line| !line.starts_with('#'));
        for row in rows {
            let [base, max, jitter, attempts, random, delay] =
                row.split_whitespace().collect::<Vec<_>>().try_into().unwrap();
            let jitter = if jitter == "full" { Jitter::Full } else { Jitter::None };
            let random = match random {
                "none" => 0,
                "half" => u64::MAX / 2,
                _ => u64::MAX,
            };
            let backoff =
                Backoff::new(parse_duration(base).unwrap(), parse_duration(max).unwrap(), jitter).unwrap();
            let given = backoff.delay(attempts.parse().unwrap(), random).unwrap();
            assert_eq!(format_duration(given), delay, "{row}");
        }
    }

    #[test]
    fn the_delay_of_attempt_0_is_an_error() {
        for backoff in [Backoff::BROKER, Backoff::HANDLER] {
            assert!(backoff.delay(0, 0).unwrap_err().to_string().contains("counted from 1"));
        }
    }

    #[test]
    fn a_policy_that_means_nothing_is_refused_when_built() {
        let second = Duration::from_secs(1);
        for (base, max, refused_with) in [
            (Duration::ZERO, second, "base must be longer than zero"),
            (second * 2, second, "max must not be below base"),
            (second, DELAY_MAX + Duration::from_nanos(1), "max must be at most 3660 days"),
        ] {
            let error = Backoff::new(base, max, Jitter::None).unwrap_err();
            assert!(error.to_string().contains(refused_with), "{error}");
        }
    }

    #[test]
    fn the_defaults_would_be_accepted() {
        for backoff in [Backoff::BROKER, Backoff::HANDLER] {
            assert_eq!(Backoff::new(backoff.base(), backoff.max(), backoff.jitter()).unwrap(), backoff);
        }
    }

    proptest! {
        #[test]
        fn a_later_attempt_never_waits_less(backoff in policies(), attempts in 1..u32::MAX, random: u64) {
            let (now, next) = (backoff.delay(attempts, random).unwrap(), backoff.delay(attempts + 1, random).unwrap());
            prop_assert!(now <= next, "{now:?} {next:?}");
        }

        #[test]
        fn a_delay_stays_within_its_bounds(backoff in policies(), attempts in 1..=u32::MAX, random: u64) {
            let delay = backoff.delay(attempts, random).unwrap();
            let plain = Backoff { jitter: Jitter::None, ..backoff }.delay(attempts, random).unwrap();
            prop_assert!(plain >= backoff.base() && plain <= backoff.max());
            prop_assert!(delay <= plain);
            prop_assert!(backoff.jitter() == Jitter::Full || delay == plain);
        }

        #[test]
        fn jitter_follows_the_random_number(backoff in policies(), attempts in 1..=u32::MAX, a: u64, b: u64) {
            let delay = |random| backoff.delay(attempts, random).unwrap();
            prop_assert!(delay(a.min(b)) <= delay(a.max(b)));
        }
    }
}
