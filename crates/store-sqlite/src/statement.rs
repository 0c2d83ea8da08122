//! Staging by any other driver: SQL and its values.

use pillarbox_core::port::shared::stage_params;
pub use pillarbox_core::port::shared::{Param, Statement};
use pillarbox_core::{Error, NewEntry, Result, Timestamp};

/// The values of `stage_one.sql`.
pub(crate) fn params(entry: NewEntry) -> Result<Vec<Param>> {
    let lane = i64::from(entry.lane());
    let mut params = stage_params(entry, |at| at.as_micros().into())?;
    params.push(lane.into());
    Ok(params)
}

/// A value that a driver binds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// No value.
    Null,
    /// A text.
    Text(String),
    /// A whole number of 64 bits.
    Integer(i64),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl Value {
    /// A text.
    pub(crate) fn text(text: impl ToString) -> Self {
        Self::Text(text.to_string())
    }

    /// A time in microseconds, or none.
    pub(crate) fn at(at: Option<Timestamp>) -> Self {
        at.map(Timestamp::as_micros).into()
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Option<i64>> for Value {
    fn from(number: Option<i64>) -> Self {
        number.map_or(Self::Null, Self::Integer)
    }
}

/// The values of `stage_one.sql`, in its order.
pub(crate) fn values(entry: NewEntry) -> Result<Vec<Value>> {
    let params = params(entry)?.into_iter();
    params
        .map(|param| match param {
            Param::Null => Ok(Value::Null),
            Param::Text(text) => Ok(Value::Text(text)),
            Param::Integer(number) => Ok(Value::Integer(number)),
            Param::Bytes(bytes) => Ok(Value::Bytes(bytes)),
            _ => Err(Error::invalid("a value cannot be passed to SQLite")),
        })
        .collect()
}
