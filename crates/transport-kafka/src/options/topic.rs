//! Topics: what is allowed, and how values of an entry become part of one.

use std::borrow::Cow;
use std::fmt::Write as _;

use pillarbox_core::{Error, Result};

/// Longest topic, in characters: Kafka's own limit.
const TOPIC_CHARS_MAX: usize = 249;

/// A value of an entry as a part of a topic. Kafka allows letters, digits, `.`, `_` and `-`. Every other byte becomes an
/// underscore with two hexadecimal digits, and so does the underscore: different values stay different.
pub(crate) fn escape(value: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    if value.bytes().all(is_plain) {
        return Cow::Borrowed(value);
    }
    let mut escaped = String::with_capacity(value.len() + 16);
    for byte in value.bytes() {
        if is_plain(byte) {
            escaped.push(char::from(byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(escaped, "_{byte:02X}");
        }
    }
    Cow::Owned(escaped)
}

/// Checks a topic by Kafka's rules.
pub(crate) fn check(topic: &str) -> Result<()> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if topic.is_empty() || topic == "." || topic == ".." {
        return Err(Error::invalid(format!("{topic:?} cannot be a topic")));
    }
    if let Some(c) = topic.chars().find(|c| !is_allowed(*c)) {
        return Err(Error::invalid(format!(
            "a topic must not contain {c:?}; letters, digits, '.', '_' and '-' are allowed"
        )));
    }
    if topic.len() > TOPIC_CHARS_MAX {
        let length = topic.len();
        return Err(Error::invalid(format!(
            "the topic has {length} characters; at most {TOPIC_CHARS_MAX} are allowed"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_entry_brings_is_a_part_of_a_topic_and_stays_distinct() {
        for (value, escaped) in [
            ("order.placed", "order.placed"),
            ("o-1", "o-1"),
            ("a_b", "a_5Fb"),
            ("a_5Fb", "a_5F5Fb"),
            ("a/b", "a_2Fb"),
            ("\u{20ac}", "_E2_82_AC"),
            ("..\n", ".._0A"),
            ("", ""),
        ] {
            assert_eq!(escape(value), escaped);
            assert!(check(&format!("orders.{escaped}")).is_ok());
        }
    }

    #[test]
    fn a_topic_has_the_characters_that_kafka_allows() {
        for (topic, is_topic) in [
            ("orders", true),
            ("orders.placed_V2-x", true),
            ("", false),
            (".", false),
            ("..", false),
            ("orders/placed", false),
            ("b\u{fc}cher", false),
            (&"x".repeat(249), true),
            (&"x".repeat(250), false),
        ] {
            assert_eq!(check(topic).is_ok(), is_topic, "{topic:?}");
        }
    }
}
