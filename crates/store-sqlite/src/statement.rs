//! Staging with any other driver: the SQL and what to bind to it.

use std::sync::Arc;

use pillarbox_core::{Error, Headers, NewEntry, Result};

/// One statement for any SQLite driver. Run it in the application's own transaction.
///
/// A duplicate changes no row: the number of changed rows is 1 for a fresh event and 0 for a duplicate.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The text, with parameters `?1`, `?2` and so on.
    pub sql: String,
    /// What to bind, in the order of the parameters.
    pub params: Vec<Param>,
}

/// A value to bind.
#[derive(Clone, Debug, PartialEq)]
pub enum Param {
    /// SQL `null`.
    Null,
    /// A whole number.
    Integer(i64),
    /// A text.
    Text(String),
    /// A blob.
    Bytes(Vec<u8>),
}

impl<T: Into<Param>> From<Option<T>> for Param {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl From<i64> for Param {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<String> for Param {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

/// The statement that stages one event.
pub(crate) fn stage_one(sql: &Arc<str>, entry: NewEntry) -> Result<Statement> {
    Ok(Statement { sql: sql.to_string(), params: params_of(entry)? })
}

/// The parameters of `stage_one.sql`.
pub(crate) fn params_of(entry: NewEntry) -> Result<Vec<Param>> {
    let delay = entry.delay_micros();
    let lane = entry.lane();
    let event = entry.event;
    Ok(vec![
        entry.event_id.to_string().into(),
        entry.route.to_string().into(),
        event.event_type.into(),
        event.key.into(),
        Param::Bytes(event.payload),
        event.content_type.into(),
        headers_json(&event.headers)?.into(),
        event.tenant.into(),
        event.correlation_id.into(),
        event.causation_id.into(),
        event.execution_id.into(),
        event.occurred_at.map(|at| at.as_micros()).into(),
        i64::from(event.priority).into(),
        event.group_id.into(),
        entry.hlc.raw().into(),
        event.max_attempts.map(i64::from).into(),
        delay.into(),
        i64::from(lane).into(),
    ])
}

/// Headers as their column keeps them.
pub(crate) fn headers_json(headers: &Headers) -> Result<String> {
    if headers.is_empty() {
        return Ok("{}".to_owned());
    }
    serde_json::to_string(headers).map_err(|_| Error::invalid("the headers cannot be written as JSON"))
}
