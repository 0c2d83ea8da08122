//! Text for people: foreign text on a terminal, whose characters that rearrange it are written as escapes, and numbers with words.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a character changes the direction of the text after it or ends the line. With such a character, a key
/// can look like another key, or like two lines. JSON allows all of them inside of texts.
#[must_use]
pub fn is_deceptive(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{85}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// JSON in which deceptive characters are escaped. It means the same, because JSON has none of them outside of
/// texts.
#[must_use]
pub fn escape_json(json: &str) -> Cow<'_, str> {
    if !json.contains(is_deceptive) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_deceptive(c) {
            // Writing to a string cannot fail; all of them are within the first plane.
            let _ = write!(escaped, "\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// A number with the words that fit it, such as "1 entry waits" and "2 entries wait".
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_rearrange_a_line_are_escaped_and_mean_the_same() {
        let text = "safe\u{202e}txt.exe\u{2028}next\u{2066}x\u{2069}\u{200f}";
        let json = serde_json::to_string(text).unwrap();
        let escaped = escape_json(&json);
        assert!(!escaped.contains(is_deceptive) && escaped.contains("\\u202e"), "{escaped}");
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), text);
        assert!(matches!(escape_json("{\"a\":\"é\"}"), Cow::Borrowed(_)));
    }
}
