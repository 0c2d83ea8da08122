//! Reading a payload as the type that its reader expects.

use std::fmt;

use serde::Deserializer;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::error::Category;
use serde_path_to_error::{Path, Segment};

use crate::error::{Error, ErrorKind};
use crate::limits::PAYLOAD_PATH_BYTES_MAX;

/// The error for a payload that does not have the shape that its reader expects. Trying again cannot help, so a
/// handler rejects the message.
///
/// The text says where the payload differs, and never quotes its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadError {
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    /// The text is not JSON from here on.
    Syntax { line: usize, column: usize },
    /// A value of another type, or out of range.
    Shape { path: String },
    /// A required field is missing.
    Missing { path: String },
    /// The payload of another event type.
    Type { found: String, expected: &'static str },
}

impl PayloadError {
    /// Where the payload differs from the expected shape, such as `items[2].price`. Empty: the payload as a whole.
    /// `None`: it is not JSON.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        match &self.what {
            What::Syntax { .. } => None,
            What::Shape { path } | What::Missing { path } => Some(path),
            What::Type { .. } => Some(""),
        }
    }

    pub(crate) fn of_another_type(found: String, expected: &'static str) -> Self {
        Self { what: What::Type { found, expected } }
    }

    /// Converts this into an [`Error`] and keeps it as the source.
    pub(crate) fn into_error(self) -> Error {
        Error::new(ErrorKind::Corrupt, self.to_string()).with_code("payload").with_source(self)
    }

    fn new(path: &Path, error: &serde_json::Error) -> Self {
        if matches!(error.classify(), Category::Syntax | Category::Eof) {
            return Self { what: What::Syntax { line: error.line(), column: error.column() } };
        }
        let mut shown = String::new();
        for segment in path {
            match segment {
                Segment::Seq { index } => shown.push_str(&format!("[{index}]")),
                Segment::Map { key } => push(&mut shown, key),
                Segment::Enum { variant } => push(&mut shown, variant),
                Segment::Unknown => push(&mut shown, "?"),
            }
        }
        // The name of a missing field is the type's own; every other part of serde's text may quote the payload.
        let text = error.to_string();
        let missing = text.strip_prefix("missing field `").and_then(|rest| rest.split_once('`'));
        if let Some((field, _)) = missing {
            push(&mut shown, field);
            return Self { what: What::Missing { path: cut(shown) } };
        }
        Self { what: What::Shape { path: cut(shown) } }
    }
}

/// Adds a part to a path. The key of a map is data, such as an address, and cannot be told from the name of a
/// field. So a part is shown only if it looks like a name.
fn push(path: &mut String, part: &str) {
    let is_name = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.len() <= 64
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
    };
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(if is_name(part) { part } else { "?" });
}

/// Cuts a path to its limit. The shown part is ASCII, so it can be cut at any byte.
fn cut(mut path: String) -> String {
    if path.len() > PAYLOAD_PATH_BYTES_MAX {
        path.truncate(PAYLOAD_PATH_BYTES_MAX);
        path.push('…');
    }
    path
}

impl fmt::Display for PayloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Syntax { line, column } => {
                write!(f, "the payload is not JSON (line {line}, column {column})")
            }
            What::Shape { path } if path.is_empty() => {
                f.write_str("the payload does not have the expected shape")
            }
            What::Shape { path } => write!(f, "the payload does not have the expected shape at `{path}`"),
            What::Missing { path } => write!(f, "the payload has no `{path}`"),
            What::Type { found, expected } => {
                write!(f, "the event has the type {found:?}, but {expected:?} was expected")
            }
        }
    }
}

impl std::error::Error for PayloadError {}

/// Decodes a JSON payload.
///
/// # Errors
/// When it is no JSON, or of another shape.
pub fn read_json<T: DeserializeOwned>(payload: &[u8]) -> Result<T, PayloadError> {
    let mut reader = serde_json::Deserializer::from_slice(payload);
    let read = read(&mut reader)?;
    // What follows a whole value is wrong as text, whatever the type.
    let syntax = |error: serde_json::Error| What::Syntax { line: error.line(), column: error.column() };
    reader.end().map_err(|error| PayloadError { what: syntax(error) })?;
    Ok(read)
}

/// Decodes a value that is part of a larger payload.
///
/// # Errors
/// When it is of another shape.
pub fn read_value<T: DeserializeOwned>(value: Value) -> Result<T, PayloadError> {
    read(value)
}

fn read<'de, T, D>(reader: D) -> Result<T, PayloadError>
where
    T: DeserializeOwned,
    D: Deserializer<'de, Error = serde_json::Error>,
{
    serde_path_to_error::deserialize(reader).map_err(|error| PayloadError::new(error.path(), error.inner()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "what matters is whether it can be read")]
    struct Order {
        id: u64,
        items: Vec<Item>,
        #[serde(default)]
        notes: BTreeMap<String, u32>,
        #[serde(default)]
        paid: Option<Paid>,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "what matters is whether it can be read")]
    struct Item {
        price: u32,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "what matters is whether it can be read")]
    enum Paid {
        Card { number: u64 },
    }

    #[track_caller]
    fn check(payload: &str, path: Option<&str>, text: &str) {
        let error = read_json::<Order>(payload.as_bytes()).unwrap_err();
        assert_eq!((error.path(), error.to_string().as_str()), (path, text));
        assert!(!format!("{error:?}").contains("canary"), "{error:?}");
    }

    #[test]
    fn the_path_of_the_field_is_told_without_its_value() {
        let shape = |path: &str| format!("the payload does not have the expected shape at `{path}`");
        check(r#"{"id": "canary"}"#, Some("id"), &shape("id"));
        let price = r#"{"id": 1, "items": [{"price": 1}, {"price": "canary"}]}"#;
        check(price, Some("items[1].price"), &shape("items[1].price"));
        let card = r#"{"id": 1, "items": [], "paid": {"Card": {"number": "canary"}}}"#;
        check(card, Some("paid.Card.number"), &shape("paid.Card.number"));
        check(r#""canary""#, Some(""), "the payload does not have the expected shape");
    }

    #[test]
    fn a_missing_field_is_named() {
        check("{}", Some("id"), "the payload has no `id`");
        check(r#"{"id": 1, "items": [{}]}"#, Some("items[0].price"), "the payload has no `items[0].price`");
    }

    #[test]
    fn the_key_of_a_map_is_not_told() {
        let notes = r#"{"id": 1, "items": [], "notes": {"canary@example.org": "x"}}"#;
        check(notes, Some("notes.?"), "the payload does not have the expected shape at `notes.?`");
    }

    #[test]
    fn what_is_no_json_is_told_by_its_place() {
        check("{canary", None, "the payload is not JSON (line 1, column 2)");
        check("", None, "the payload is not JSON (line 1, column 0)");
        check(r#"{"id": 1, "items": []} canary"#, None, "the payload is not JSON (line 1, column 24)");
    }

    #[test]
    fn a_long_path_is_cut() {
        let deep = format!("{}1", "[".repeat(100));
        let mut path = "a".repeat(PAYLOAD_PATH_BYTES_MAX);
        path.push_str("bc");
        assert_eq!(cut(path).len(), PAYLOAD_PATH_BYTES_MAX + '…'.len_utf8());
        assert!(read_json::<Value>(deep.as_bytes()).unwrap_err().path().is_none());
    }

    #[test]
    fn as_an_error_of_any_call_it_keeps_its_text_and_stays_what_it_is() {
        let error = read_value::<u32>(Value::Bool(true)).unwrap_err().into_error();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Corrupt, Some("payload")));
        assert!(std::error::Error::source(&error).is_some_and(|source| source.is::<PayloadError>()));
    }
}
