//! Staging by any other driver: SQL and its values.

use pillarbox_core::NewEntry;

/// One statement that stages one event, for a driver that this crate does not know.
///
/// Run it inside the transaction of the business write. It affects one row, or none when the route already
/// carries the event id.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statement {
    /// The text, with `$1` and so on for the values.
    pub sql: String,
    /// The values in their order.
    pub params: Vec<Param>,
}

/// A value of a [`Statement`]. The text casts each to its column's type.
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

/// From this place on, what may be missing is a number; before it, a text.
pub(crate) const NUMBERS: usize = 15;

/// The values of an entry in the order of `stage_one.sql`.
pub(crate) fn params(entry: NewEntry, headers: String) -> Vec<Param> {
    let delay = entry.delay_micros();
    let event = entry.event;
    vec![
        entry.event_id.to_string().into(),
        entry.route.as_str().to_owned().into(),
        event.event_type.into(),
        event.key.into(),
        Param::Bytes(event.payload),
        event.content_type.into(),
        headers.into(),
        event.tenant.into(),
        event.correlation_id.into(),
        event.causation_id.into(),
        event.execution_id.into(),
        event.occurred_at.map(|at| at.to_string()).into(),
        i64::from(event.priority).into(),
        event.group_id.into(),
        entry.hlc.raw().into(),
        event.max_attempts.map(i64::from).into(),
        delay.into(),
    ]
}
