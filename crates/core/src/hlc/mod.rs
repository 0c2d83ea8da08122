//! Hybrid logical clock stamps: close to wall time, and always above anything this process has seen.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::duration::format_duration;
use crate::error::{Error, Result};
use crate::port::Clock;

const COUNTER_BITS: u32 = 16;
const TEXT_LEN: usize = 16;

/// What no clock follows a remote stamp, a stored mark or its own wall clock beyond. Above it are still 2^52
/// stamps, more than a process can ever give out: so no stamp, forged or not, can make a clock overflow.
const CEILING: i64 = i64::MAX - (1 << 52);

/// A clock stamp: 47 bits of milliseconds since 1970 above 16 bits of counter, never negative.
///
/// As text it is 16 lower-case hexadecimal digits, so that texts sort like stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hlc(i64);

impl Hlc {
    /// From its 64 bits, as the database keeps them.
    ///
    /// # Errors
    /// When negative: no stamp is.
    pub fn from_raw(raw: i64) -> Result<Self> {
        if raw < 0 {
            return Err(Error::invalid("a clock stamp must not be negative"));
        }
        Ok(Self(raw))
    }

    /// Its 64 bits, as the database keeps them.
    #[must_use]
    pub const fn raw(self) -> i64 {
        self.0
    }

    /// Milliseconds since 1970: the wall time it is close to.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0 >> COUNTER_BITS
    }

    /// The place among stamps of the same millisecond.
    #[must_use]
    pub const fn counter(self) -> u16 {
        let [.., high, low] = self.0.to_be_bytes();
        u16::from_be_bytes([high, low])
    }
}

impl fmt::Display for Hlc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for Hlc {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        // Upper-case digits and signs are refused, because such texts would not sort like the stamps.
        let well_formed =
            text.len() == TEXT_LEN && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        let raw = if well_formed { i64::from_str_radix(text, 16).ok() } else { None };
        raw.map(Self).ok_or_else(|| {
            Error::invalid("a clock stamp is 16 lower-case hexadecimal digits, at most 7fffffffffffffff")
        })
    }
}

impl Serialize for Hlc {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hlc {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

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
