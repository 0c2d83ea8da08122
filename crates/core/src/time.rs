//! Points in time, as the databases store them: whole microseconds since 1970, UTC.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::error::{Error, Result};

/// A point in time in whole microseconds since the Unix epoch, UTC. Prints and parses as RFC 3339.
///
/// ```
/// use std::time::Duration;
/// use pillarbox_core::Timestamp;
///
/// let noon: Timestamp = "2026-01-31T12:00:00Z".parse()?;
/// assert_eq!(noon.saturating_add(Duration::from_millis(250)).to_string(), "2026-01-31T12:00:00.25Z");
/// # Ok::<_, pillarbox_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// 1970-01-01T00:00:00Z. No earlier time is accepted.
    pub const MIN: Self = Self(0);
    /// The last microsecond of the year 9999. No later time is accepted.
    pub const MAX: Self = Self(253_402_300_799_999_999);

    /// A time from microseconds since the epoch. `None`: outside 1970..=9999.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Option<Self> {
        if micros < Self::MIN.0 || micros > Self::MAX.0 { None } else { Some(Self(micros)) }
    }

    /// Microseconds since the epoch.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Milliseconds since the epoch, rounded down.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0 / 1000
    }

    /// This time moved later, at most to [`Self::MAX`].
    #[must_use]
    pub fn saturating_add(self, by: Duration) -> Self {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros).min(Self::MAX.0))
    }

    /// This time moved earlier, at most to [`Self::MIN`].
    #[must_use]
    pub fn saturating_sub(self, by: Duration) -> Self {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(micros).max(Self::MIN.0))
    }

    /// How long this time is after `earlier`. Zero: it is not after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }
}

impl TryFrom<OffsetDateTime> for Timestamp {
    type Error = Error;

    fn try_from(at: OffsetDateTime) -> Result<Self> {
        i64::try_from(at.unix_timestamp_nanos() / 1000)
            .ok()
            .and_then(Self::from_micros)
            .ok_or_else(|| Error::invalid("a time must lie between the years 1970 and 9999"))
    }
}

impl From<Timestamp> for OffsetDateTime {
    fn from(at: Timestamp) -> Self {
        // In range by construction: `Timestamp` covers less than `OffsetDateTime` does.
        Self::from_unix_timestamp_nanos(i128::from(at.0) * 1000).unwrap_or(Self::UNIX_EPOCH)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = OffsetDateTime::from(*self).format(&Rfc3339).map_err(|_| fmt::Error)?;
        f.write_str(&text)
    }
}

impl FromStr for Timestamp {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        OffsetDateTime::parse(text, &Rfc3339)
            .map_err(|_| {
                Error::invalid("a time must be in RFC 3339 with an offset, for example 2026-01-31T12:00:00Z")
            })
            .and_then(Self::try_from)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips_to_the_microsecond() {
        let at = Timestamp::from_micros(1_763_171_696_123_456).unwrap();
        assert_eq!(at.to_string(), "2025-11-15T01:54:56.123456Z");
        assert_eq!(at.to_string().parse::<Timestamp>().unwrap(), at);
    }

    #[test]
    fn naive_and_far_off_times_are_refused() {
        for text in ["2026-01-31T12:00:00", "yesterday", "", "1969-12-31T23:59:59Z", "+10000-01-01T00:00:00Z"]
        {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
        assert_eq!(Timestamp::from_micros(-1), None);
        assert_eq!(Timestamp::from_micros(i64::MAX), None);
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Timestamp::MAX.saturating_add(Duration::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::MIN.saturating_sub(Duration::MAX), Timestamp::MIN);
        assert_eq!(Timestamp::MIN.since(Timestamp::MAX), Duration::ZERO);
    }
}
