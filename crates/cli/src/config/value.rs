//! Values of the configuration that check themselves, so that an error names its line and key.

use std::fmt;
use std::time::Duration;

use pillarbox_core::{Ident, parse_duration};
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A duration in quotes, such as `"30s"`; zero is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Period(pub(crate) Duration);

/// A duration in quotes, longer than zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Positive(pub(crate) Duration);

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count<const MIN: u32, const MAX: u32>(pub(crate) u32);

/// A number, whole or not, as `2` or `1.5`. What is allowed the policy says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Multiplier(pub(crate) f64);

/// A name that may become part of an SQL identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name(pub(crate) Ident);

struct PeriodVisitor;

impl Visitor<'_> for PeriodVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"a duration in quotes, for example "500ms", "30s", "5m" or "1d""#)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        parse_duration(text).map_err(E::custom)
    }
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(PeriodVisitor).map(Self)
    }
}

impl<'de> Deserialize<'de> for Positive {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let period = deserializer.deserialize_str(PeriodVisitor)?;
        if period.is_zero() {
            return Err(D::Error::custom("must be longer than zero"));
        }
        Ok(Self(period))
    }
}

struct CountVisitor<const MIN: u32, const MAX: u32>;

impl<const MIN: u32, const MAX: u32> Visitor<'_> for CountVisitor<MIN, MAX> {
    type Value = u32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from {MIN} to {MAX}")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<u32, E> {
        u32::try_from(number)
            .ok()
            .filter(|count| (MIN..=MAX).contains(count))
            .ok_or_else(|| E::custom(format!("{number} is out of range; it must be {MIN} to {MAX}")))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u32, E> {
        self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl<'de, const MIN: u32, const MAX: u32> Deserialize<'de> for Count<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_i64(CountVisitor::<MIN, MAX>).map(Self)
    }
}

struct MultiplierVisitor;

impl Visitor<'_> for MultiplierVisitor {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, for example 2 or 1.5")
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<f64, E> {
        Ok(number)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<f64, E> {
        i32::try_from(number).map(f64::from).map_err(|_| E::custom("the number is too large"))
    }
}

impl<'de> Deserialize<'de> for Multiplier {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MultiplierVisitor).map(Self)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ident::new(&String::deserialize(deserializer)?).map(Self).map_err(D::Error::custom)
    }
}
