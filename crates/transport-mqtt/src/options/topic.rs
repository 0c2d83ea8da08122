//! Topics to publish to and filters to consume: what is allowed, and how values of an entry become part of one.

use std::borrow::Cow;

use pillarbox_core::{Error, Result};

use crate::binding::is_forbidden;

/// Longest topic, in bytes: MQTT writes a length of 16 bits before it.
const TOPIC_BYTES_MAX: usize = u16::MAX as usize;

/// A value of an entry as a part of one level of a topic. What would begin another level, be a wildcard or a topic of
/// the server is percent-encoded, and so is the percent sign: different values stay different.
pub(crate) fn escape(value: &str) -> Cow<'_, str> {
    let is_plain = |c: char| !matches!(c, '/' | '+' | '#' | '$' | '%') && !is_forbidden(c);
    if value.chars().all(is_plain) {
        return Cow::Borrowed(value);
    }
    let mut escaped = String::with_capacity(value.len() + 16);
    for c in value.chars() {
        if is_plain(c) {
            escaped.push(c);
        } else {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                escaped.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    Cow::Owned(escaped)
}

/// Checks a topic to publish to: not empty, not too long, no wildcard.
pub(crate) fn publishable(topic: &str) -> Result<()> {
    if topic.contains(['+', '#']) {
        return Err(Error::invalid(format!(
            "the topic {topic:?} has a wildcard, and a message needs one exact topic"
        )));
    }
    check(topic)
}

/// Checks a filter to consume: wildcards stand for whole levels, and `#` is the last one.
pub(super) fn consumable(filter: &str) -> Result<()> {
    let mut levels = filter.split('/').peekable();
    while let Some(level) = levels.next() {
        let many = level == "#" && levels.peek().is_none();
        if !many && level != "+" && level.contains(['+', '#']) {
            return Err(Error::invalid(format!(
                "{filter:?} is not a topic filter: + and # stand for whole levels, and # is the last one"
            )));
        }
    }
    if filter.starts_with("$share/") {
        return Err(Error::invalid("write the group of a shared subscription as group=, not into the topic"));
    }
    check(filter)
}

fn check(topic: &str) -> Result<()> {
    if topic.is_empty() {
        return Err(Error::invalid("a topic must not be empty"));
    }
    if topic.len() > TOPIC_BYTES_MAX {
        let length = topic.len();
        return Err(Error::invalid(format!(
            "the topic has {length} bytes; at most {TOPIC_BYTES_MAX} are allowed"
        )));
    }
    if topic.contains(is_forbidden) {
        return Err(Error::invalid("a topic must not contain control characters"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_entry_brings_is_one_level_and_stays_distinct() {
        for (value, escaped) in [
            ("o-1", "o-1"),
            ("Euro \u{20ac}", "Euro \u{20ac}"),
            ("a/b", "a%2Fb"),
            ("+", "%2B"),
            ("#", "%23"),
            ("a%2Fb", "a%252Fb"),
            ("$SYS", "%24SYS"),
            ("\u{0}\n\u{85}", "%00%0A%C2%85"),
            ("", ""),
        ] {
            assert_eq!(escape(value), escaped);
            assert!(publishable(&format!("orders/{escaped}")).is_ok());
        }
    }

    #[test]
    fn a_topic_has_no_wildcards_and_a_filter_has_them_at_their_place() {
        for (topic, publish, consume) in [
            ("orders/placed", true, true),
            ("/", true, true),
            ("orders/#", false, true),
            ("#", false, true),
            ("orders/+/x", false, true),
            ("orders/x+", false, false),
            ("orders/#/x", false, false),
            ("orders#", false, false),
            ("$share/g/orders", true, false),
            ("", false, false),
            ("a\u{7}", false, false),
        ] {
            assert_eq!(publishable(topic).is_ok(), publish, "{topic}");
            assert_eq!(consumable(topic).is_ok(), consume, "{topic}");
        }
        assert!(publishable(&"x".repeat(TOPIC_BYTES_MAX)).is_ok());
        assert!(publishable(&"x".repeat(TOPIC_BYTES_MAX + 1)).is_err());
    }
}
