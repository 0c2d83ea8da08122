//! How long to wait before the next attempt.

use std::time::Duration;

use crate::duration::format_duration;
use crate::error::{Error, Result};
use crate::limits::DELAY_MAX;

/// Whether the computed delay is randomised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Jitter {
    /// The delay is deterministic.
    #[default]
    None,
    /// A random fraction of the delay, from nothing to all of it. It keeps entries that failed together from coming
    /// back together.
    Full,
}

/// The policy `min(base * multiplier^(attempts-1), max)`, with or without jitter. Default of the multiplier: 2.
///
/// A policy is checked when it is built, so that it cannot turn out to be invalid when an entry has just failed.
///
/// ```
/// use std::time::Duration;
/// use pillarbox_core::{Backoff, Jitter};
///
/// let second = Duration::from_secs(1);
/// let backoff = Backoff::new(second, 60 * second, Jitter::None)?;
/// assert_eq!(backoff.delay(1, 0)?, second);
/// assert_eq!(backoff.delay(4, 0)?, 8 * second);
/// # Ok::<_, pillarbox_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    base: Duration,
    max: Duration,
    /// How much longer each wait is than the one before, in hundredths. It is not a float, because policies are
    /// compared.
    hundredths: u32,
    jitter: Jitter,
}

/// In hundredths: each wait is twice the one before.
const DOUBLING: u32 = 200;
/// The allowed multipliers, in hundredths. With the lowest, waits do not grow. The highest is 100.
const MULTIPLIERS: std::ops::RangeInclusive<u32> = 100..=10_000;

impl Backoff {
    /// For brokers: 1 s doubling to 5 min, with full jitter.
    pub const BROKER: Self =
        Self::doubling(Duration::from_secs(1), Duration::from_secs(5 * 60), Jitter::Full);

    /// For handlers: 30 s doubling to 1 h, deterministic.
    pub const HANDLER: Self =
        Self::doubling(Duration::from_secs(30), Duration::from_secs(3600), Jitter::None);

    /// For probing a destination that is down: 500 ms doubling to 30 s, deterministic.
    pub const CIRCUIT: Self =
        Self::doubling(Duration::from_millis(500), Duration::from_secs(30), Jitter::None);

    const fn doubling(base: Duration, max: Duration, jitter: Jitter) -> Self {
        Self { base, max, hundredths: DOUBLING, jitter }
    }

    /// A checked policy that doubles each wait. [`with_multiplier`](Self::with_multiplier) changes that.
    ///
    /// # Errors
    /// When `base` is zero, `max` is below `base`, or `max` is over [`DELAY_MAX`].
    pub fn new(base: Duration, max: Duration, jitter: Jitter) -> Result<Self> {
        if base.is_zero() {
            return Err(Error::invalid("backoff: base must be longer than zero"));
        }
        if max < base {
            return Err(Error::invalid(format!(
                "backoff: max ({}) must not be shorter than base ({})",
                format_duration(max),
                format_duration(base)
            )));
        }
        if max > DELAY_MAX {
            return Err(Error::invalid(format!(
                "backoff: max must be at most {} days",
                DELAY_MAX.as_secs() / 86_400
            )));
        }
        Ok(Self::doubling(base, max, jitter))
    }

    /// The same policy with another multiplier, to two decimal places. 1 keeps the waits as they are, 2 doubles
    /// them.
    ///
    /// # Errors
    /// When it is not a number from 1 to 100.
    pub fn with_multiplier(self, multiplier: f64) -> Result<Self> {
        let hundredths = (multiplier * 100.0).round();
        let allowed = f64::from(*MULTIPLIERS.start())..=f64::from(*MULTIPLIERS.end());
        if !allowed.contains(&hundredths) {
            return Err(Error::invalid(format!(
                "backoff: multiplier is {multiplier}; it must be a number from 1 to 100"
            )));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in the range")]
        let hundredths = hundredths as u32;
        Ok(Self { hundredths, ..self })
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

    /// How much longer each delay is than the one before.
    #[must_use]
    pub fn multiplier(&self) -> f64 {
        f64::from(self.hundredths) / 100.0
    }

    /// Whether the delay is randomised.
    #[must_use]
    pub const fn jitter(&self) -> Jitter {
        self.jitter
    }

    /// The wait after `attempts` attempts. `random` is used only with [`Jitter::Full`]: 0 gives no wait, `u64::MAX`
    /// gives the whole deterministic one.
    ///
    /// # Errors
    /// When `attempts` is zero: nothing has failed yet.
    pub fn delay(&self, attempts: u32, random: u64) -> Result<Duration> {
        let steps =
            attempts.checked_sub(1).ok_or_else(|| Error::invalid("backoff: attempts are counted from 1"))?;
        let full = self.grown(steps);
        Ok(from_nanos(match self.jitter {
            Jitter::None => full,
            // No overflow: `DELAY_MAX` is below 2^59 nanoseconds, the fraction below 2^64.
            Jitter::Full => full * u128::from(random) / u128::from(u64::MAX),
        }))
    }

    /// The base after this many multiplications, in nanoseconds. The loop stops as soon as the value does not
    /// change any more.
    fn grown(&self, steps: u32) -> u128 {
        let (mut nanos, max) = (self.base.as_nanos(), self.max.as_nanos());
        for _ in 0..steps {
            // No overflow: `DELAY_MAX` is below 2^59 nanoseconds.
            let next = (nanos * u128::from(self.hundredths) / 100).min(max);
            if next == nanos {
                break;
            }
            nanos = next;
        }
        nanos
    }
}

fn from_nanos(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::duration::parse_duration;

    fn policies() -> impl Strategy<Value = Backoff> {
        let max_nanos = u64::try_from(DELAY_MAX.as_nanos()).unwrap();
        (1..=max_nanos, 1..=max_nanos, any::<bool>(), MULTIPLIERS).prop_map(|(a, b, full, hundredths)| {
            let jitter = if full { Jitter::Full } else { Jitter::None };
            let (base, max) = (Duration::from_nanos(a.min(b)), Duration::from_nanos(a.max(b)));
            Backoff { hundredths, ..Backoff::new(base, max, jitter).unwrap() }
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
            (second * 2, second, "max (1s) must not be shorter than base (2s)"),
            (second, DELAY_MAX + Duration::from_nanos(1), "max must be at most 3660 days"),
        ] {
            let error = Backoff::new(base, max, Jitter::None).unwrap_err();
            assert!(error.to_string().contains(refused_with), "{error}");
        }
    }

    #[test]
    fn the_multiplier_says_how_much_longer_each_wait_is() {
        let second = Duration::from_secs(1);
        let plain = Backoff::new(second, second * 60, Jitter::None).unwrap();
        for (multiplier, waits) in [
            (1.0, ["1s", "1s", "1s", "1s"]),
            (1.5, ["1s", "1s500ms", "2s250ms", "3s375ms"]),
            (2.0, ["1s", "2s", "4s", "8s"]),
            (10.0, ["1s", "10s", "1m", "1m"]),
        ] {
            let backoff = plain.with_multiplier(multiplier).unwrap();
            let given = [1, 2, 3, 4].map(|attempts| format_duration(backoff.delay(attempts, 0).unwrap()));
            assert_eq!((given.each_ref().map(String::as_str), backoff.multiplier()), (waits, multiplier));
        }
        for wrong in [0.0, 0.99, -2.0, 100.1, f64::NAN, f64::INFINITY] {
            let error = plain.with_multiplier(wrong).unwrap_err();
            assert!(error.to_string().contains("from 1 to 100"), "{error}");
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
