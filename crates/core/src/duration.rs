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
/// # Ok::<_, pillarbox_core::Error>(())
/// ```
///
/// # Errors
/// For anything else, with what is allowed.
pub fn parse_duration(text: &str) -> Result<Duration> {
    parse(text).ok_or_else(|| {
        let shown: String = text.chars().take(40).collect();
        Error::invalid(format!(
            "{shown:?} is not a duration: write whole numbers with units, larger units first, for example \
             500ms, 5s, 1m30s, 1d or 0s. The units are d, h, m, s, ms, us and ns"
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

/// Writes a duration so that [`parse_duration`] reads it back exactly. The largest units come first, zeros are left
/// out, and a duration of zero is `0s`.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_duration_reads_as_people_write_it() {
        for (text, millis) in [
            ("0s", 0),
            ("0ms", 0),
            ("500ms", 500),
            ("5s", 5_000),
            ("05s", 5_000),
            ("5m", 300_000),
            ("1m30s", 90_000),
            ("90s", 90_000),
            ("1h", 3_600_000),
            ("1d", 86_400_000),
            ("1d2h3m4s5ms", 93_784_005),
        ] {
            assert_eq!(parse_duration(text).unwrap(), Duration::from_millis(millis), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_what_is_allowed() {
        for text in [
            "",
            " ",
            "5",
            "s",
            "-5s",
            "+5s",
            "5 s",
            " 5s",
            "5s ",
            "5x",
            "5S",
            "1.5s",
            "1s1s",
            "30s1m",
            "1m-3s",
            "5s5",
            "0",
            "∞s",
            "5µs",
            "٣s",
            "1e3s",
            "340282366920938463463374607431768211456s",
            "18446744073709551616s",
            "18446744073709551615s1000ms",
            "213503982334602d",
        ] {
            let error = parse_duration(text).unwrap_err().to_string();
            assert!(error.contains("is not a duration") && error.contains("for example 500ms"), "{error}");
        }
        assert!(parse_duration(&"9".repeat(10_000)).unwrap_err().to_string().len() < 300);
    }

    #[test]
    fn a_duration_is_written_in_its_largest_units() {
        for (millis, text) in [
            (0, "0s"),
            (1_500, "1s500ms"),
            (60_000, "1m"),
            (90_000, "1m30s"),
            (3_600_000, "1h"),
            (86_400_000, "1d"),
            (90_061_001, "1d1h1m1s1ms"),
        ] {
            assert_eq!(format_duration(Duration::from_millis(millis)), text);
        }
        assert_eq!(parse_duration(&format_duration(Duration::MAX)).unwrap(), Duration::MAX);
    }

    proptest! {
        #[test]
        fn text_round_trips(seconds: u64, nanos in 0..1_000_000_000_u32, small in any::<u16>()) {
            for duration in [Duration::new(seconds, nanos), Duration::new(small.into(), 0)] {
                prop_assert_eq!(parse_duration(&format_duration(duration)).unwrap(), duration);
            }
        }

        #[test]
        fn no_text_is_too_strange(text in "[0-9dhmsun.+ -]{0,24}|\\PC{0,12}") {
            if let Ok(duration) = parse_duration(&text) {
                prop_assert_eq!(parse_duration(&format_duration(duration)).unwrap(), duration);
            }
        }
    }
}
