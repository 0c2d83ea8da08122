//! Staging with any other driver: a statement and its values.

use crate::entry::NewEntry;
use crate::error::{Error, Result};
use crate::event::Headers;
use crate::time::Timestamp;

/// One statement that stages one event, for a driver that Pillarbox does not support.
///
/// Run it inside the transaction of the business write. It inserts one row. If the route already carries the event
/// id, it inserts none.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statement {
    /// The SQL text, with the database's own placeholders: `$1` and so on, or `?1` and so on.
    pub sql: String,
    /// The values, in order.
    pub params: Vec<Param>,
}

impl Statement {
    /// A statement of this text and these values.
    #[must_use]
    pub fn new(sql: impl Into<String>, params: Vec<Param>) -> Self {
        Self { sql: sql.into(), params }
    }
}

/// A value of a [`Statement`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Param {
    /// No value.
    Null,
    /// Text.
    Text(String),
    /// A whole number of 64 bits.
    Integer(i64),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl From<String> for Param {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Param {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl<T: Into<Param>> From<Option<T>> for Param {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// The values of an entry in the order of the columns: `event_id, route, type, key, payload, content_type, headers,
/// tenant, correlation_id, causation_id, execution_id, occurred_at, priority, group_id, hlc, max_attempts`, and the
/// delay in microseconds. `time` converts a time into the database's form.
///
/// # Errors
/// When the headers cannot be written as JSON.
pub fn stage_params(entry: NewEntry, time: impl Fn(Timestamp) -> Param) -> Result<Vec<Param>> {
    let delay = entry.delay_micros();
    let event = entry.event;
    Ok(vec![
        entry.event_id.to_string().into(),
        entry.route.as_str().to_owned().into(),
        event.event_type.into(),
        event.key.into(),
        Param::Bytes(event.payload),
        event.content_type.into(),
        headers_json(&event.headers)?.into(),
        event.tenant.into(),
        event.correlation_id.into(),
        event.causation_id.into(),
        event.execution_id.into(),
        event.occurred_at.map_or(Param::Null, time),
        i64::from(event.priority).into(),
        event.group_id.into(),
        entry.hlc.raw().into(),
        event.max_attempts.map(i64::from).into(),
        delay.into(),
    ])
}

/// Writes headers as their column stores them.
///
/// # Errors
/// When they cannot be written as JSON, which a map of strings always can.
pub fn headers_json(headers: &Headers) -> Result<String> {
    if headers.is_empty() {
        return Ok("{}".to_owned());
    }
    serde_json::to_string(headers).map_err(|_| Error::invalid("the headers cannot be written as JSON"))
}

/// Reads headers from their column. `None`: the text is not a map of strings.
#[must_use]
pub fn parse_headers(text: &str) -> Option<Headers> {
    if text == "{}" { Some(Headers::new()) } else { serde_json::from_str(text).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_a_map_of_strings_or_a_fault() {
        assert_eq!(parse_headers("{}"), Some(Headers::new()));
        assert_eq!(parse_headers(r#"{"a": "b"}"#), Some(Headers::from([("a".into(), "b".into())])));
        assert_eq!(parse_headers(r#"{"a": 1}"#), None);
        assert_eq!(parse_headers("[]"), None);
    }
}
