//! Durations as people write them: `500ms`, `5s`, `1m30s`, `1d`.

use std::time::Duration;

use crate::error::{Error, Result};

/// Units with their length in nanoseconds, largest first.
const UNITS: [(&str, u128); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Reads a duration: whole numbers, each with its unit, larger units first and none twice.
///
/// ```
/// # use std::time::Duration;
/// # use pillarbox_core::parse_duration;
/// assert_eq!(parse_duration("1m30s")?, Duration::from_secs(90));
/// assert!(parse_duration("90").is_err());
/// # pillarbox_core::Result::Ok(())
/// ```
///
/// # Errors
/// For anything else, with what is allowed.
pub fn parse_duration(text: &str) -> Result<Duration> {
    parse(text).ok_or_else(|| {
        let shown: String = text.chars().take(40).collect();
        Error::invalid(format!(
            "{shown:?} is not a duration: whole numbers with the units d, h, m, s, ms, us or ns are expected, \
             larger units first, such as 500ms, 5s, 1m30s, 1d or 0s"
        ))
    })
}

fn parse(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut nanos = 0u128;
    let mut units = UNITS.as_slice();
    loop {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let at = units.iter().position(|(name, _)| *name == unit)?;
        nanos = number.parse::<u128>().ok()?.checked_mul(units[at].1)?.checked_add(nanos)?;
        // What is left are the smaller units: no unit can come twice or out of order.
        units = &units[at + 1..];
        rest = tail;
        if rest.is_empty() {
            break;
        }
    }
    let seconds = u64::try_from(nanos / NANOS_PER_SECOND).ok()?;
    Some(Duration::new(seconds, u32::try_from(nanos % NANOS_PER_SECOND).ok()?))
}

/// Writes a duration so that [`parse_duration`] reads it back exactly: the largest units first, zeros left
/// out, and `0s` for nothing.
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    let mut rest = duration.as_nanos();
    let mut text = String::new();
    for (unit, length) in UNITS {
        if rest >= length {
            text.push_str(&(rest / length).to_string());
            text.push_str(unit);
            rest %= length;
        }
    }
    if text.is_empty() { "0s".into() } else { text }
}
