//! Numbers and times for people.

use std::time::Duration;

use pillarbox_core::port::RouteCounts;
use pillarbox_core::{Status, Timestamp};
use time::OffsetDateTime;

/// A count with separators: `1,204`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// How many entries have a status: `1,204`, or `≥ 100,000` where not all were counted.
pub(crate) fn counted(counts: &RouteCounts, status: Status) -> String {
    let more = if counts.at_least.contains(&status) { "≥ " } else { "" };
    format!("{more}{}", count(counts.of(status)))
}

/// `1 event`, `2 events`.
pub(crate) fn events(number: u64) -> String {
    format!("{} {}", count(number), if number == 1 { "event" } else { "events" })
}

/// A rate: tenths below a hundred.
pub(crate) fn rate(per_second: f64) -> String {
    if per_second < 0.05 {
        "0".to_owned()
    } else if per_second < 100.0 {
        format!("{per_second:.1}")
    } else {
        // A rate is never negative, and far below what a number of 64 bits holds.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "see above")]
        count(per_second.round() as u64)
    }
}

/// An age: two units at most, `0.3 s`, `41 s`, `4m 02s`, `3h 10m`, `2d 4h`.
pub(crate) fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", age.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h {:02}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// A size in bytes.
pub(crate) fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MB", bytes as f64 / 1_048_576.0),
    }
}

/// The time of day, and the day too if it is another one: `02:08:11.204` or `Jan 31, 02:08:11`.
pub(crate) fn moment(at: Timestamp, now: Timestamp) -> String {
    let (at, now) = (OffsetDateTime::from(at), OffsetDateTime::from(now));
    let (hour, minute, second) = at.to_hms();
    if at.date() == now.date() {
        return format!("{hour:02}:{minute:02}:{second:02}.{:03}", at.millisecond());
    }
    let month = at.month().to_string();
    let month = month.get(..3).unwrap_or(&month);
    let year = if at.year() == now.year() { String::new() } else { format!(" {}", at.year()) };
    format!("{month} {}{year}, {hour:02}:{minute:02}:{second:02}", at.day())
}

/// The first and the last characters of an id.
pub(crate) fn short_id(id: &str) -> String {
    match (id.get(..8), id.get(id.len().saturating_sub(4)..)) {
        (Some(first), Some(last)) if id.len() > 14 => format!("{first}…{last}"),
        _ => id.to_owned(),
    }
}

/// What is not plain text becomes a visible mark: control characters, and characters that turn the direction of text.
pub(crate) fn visible(text: &str) -> String {
    let is_deceptive =
        |c: char| pillarbox_core::is_deceptive(c) || (c.is_control() && !matches!(c, '\n' | '\t'));
    text.chars().map(|c| if is_deceptive(c) { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!(
            (count(7), count(1204), count(1_000_000)),
            ("7".into(), "1,204".into(), "1,000,000".into())
        );
        assert_eq!((events(1), events(0)), ("1 event".into(), "0 events".into()));
        assert_eq!((rate(0.0), rate(4.12), rate(1204.4)), ("0".into(), "4.1".into(), "1,204".into()));
        assert_eq!((size(12), size(1228), size(3 << 20)), ("12 B".into(), "1.2 KB".into(), "3.0 MB".into()));
    }

    #[test]
    fn ages_have_two_units() {
        for (millis, text) in [
            (300, "0.3 s"),
            (41_000, "41 s"),
            (242_000, "4m 02s"),
            (11_400_000, "3h 10m"),
            (187_200_000, "2d 4h"),
        ] {
            assert_eq!(age(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn a_moment_of_another_day_has_its_day() {
        let at: Timestamp = "2026-01-31T02:08:11.204Z".parse().unwrap();
        assert_eq!(moment(at, at), "02:08:11.204");
        assert_eq!(moment(at, at.saturating_add(Duration::from_secs(86_400))), "Jan 31, 02:08:11");
    }

    #[test]
    fn what_turns_text_around_is_made_visible() {
        assert_eq!(visible("a\u{202e}b\u{7}c\nd"), "a\u{fffd}b\u{fffd}c\nd");
    }
}
