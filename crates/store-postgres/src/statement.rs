//! Staging by any other driver: SQL and its values.

use pillarbox_core::port::shared::stage_params;
pub use pillarbox_core::port::shared::{Param, Statement};
use pillarbox_core::{Error, NewEntry, Result, Timestamp};

/// From this place on, what may be missing is a number; before it, a text.
const NUMBERS: usize = 15;

/// The values of `stage_one.sql`. The text casts each to its column's type.
pub(crate) fn params(entry: NewEntry) -> Result<Vec<Param>> {
    stage_params(entry, |at| Param::Text(at.to_string()))
}

/// A value that a driver binds. There are so few kinds because the statements cast them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(Option<String>),
    /// A whole number of 64 bits.
    Integer(Option<i64>),
    /// Bytes.
    Bytes(Vec<u8>),
    /// An array of texts.
    Texts(Vec<Option<String>>),
    /// An array of whole numbers of 64 bits.
    Integers(Vec<Option<i64>>),
    /// An array of bytes.
    Blobs(Vec<Vec<u8>>),
}

impl Value {
    /// A text that is there.
    pub(crate) fn text(text: impl ToString) -> Self {
        Self::Text(Some(text.to_string()))
    }

    /// A time as a text, or none.
    pub(crate) fn at(at: Option<Timestamp>) -> Self {
        Self::Text(at.map(|at| at.to_string()))
    }
}

/// The values of `stage_one.sql` and `stage_fresh.sql`, in their order.
pub(crate) fn values(entry: NewEntry) -> Result<Vec<Value>> {
    let params = params(entry)?.into_iter().enumerate();
    params
        .map(|(place, param)| match param {
            // What is not there has a type as well: the prepared statement is kept for what will be there.
            Param::Null if place >= NUMBERS => Ok(Value::Integer(None)),
            Param::Null => Ok(Value::Text(None)),
            Param::Text(text) => Ok(Value::Text(Some(text))),
            Param::Integer(number) => Ok(Value::Integer(Some(number))),
            Param::Bytes(bytes) => Ok(Value::Bytes(bytes)),
            _ => Err(Error::invalid("a value cannot be sent to the database")),
        })
        .collect()
}
