//! One stamp: how it is packed, and how it reads as text.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, Result};

/// Bits of the counter, below the milliseconds.
pub(super) const COUNTER_BITS: u32 = 16;
/// Digits of a stamp as text.
const TEXT_LEN: usize = 16;

/// A clock stamp: 47 bits of milliseconds since 1970 above 16 bits of counter, never negative.
///
/// As text it is 16 lower-case hexadecimal digits, so that texts sort like stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hlc(pub(super) i64);

impl Hlc {
    /// A stamp from its 64 bits, as the database stores them.
    ///
    /// # Errors
    /// When negative: no stamp is.
    pub fn from_raw(raw: i64) -> Result<Self> {
        if raw < 0 {
            return Err(Error::invalid("a clock stamp must not be negative"));
        }
        Ok(Self(raw))
    }

    /// The stamp's 64 bits, as the database stores them.
    #[must_use]
    pub const fn raw(self) -> i64 {
        self.0
    }

    /// The milliseconds since 1970. They are close to the wall time.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0 >> COUNTER_BITS
    }

    /// The stamp's position among stamps of the same millisecond.
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
