//! Staging by any other driver: SQL and its values.

use pillarbox_core::port::shared::stage_params;
pub use pillarbox_core::port::shared::{Param, Statement};
use pillarbox_core::{NewEntry, Result};

/// The values of `stage_one.sql`. The id is bytes, as its column is.
pub(crate) fn params(entry: NewEntry) -> Result<Vec<Param>> {
    let id = entry.event_id.0.as_bytes().to_vec();
    let mut params = stage_params(entry, |at| at.as_micros().into())?;
    if let Some(first) = params.first_mut() {
        *first = Param::Bytes(id);
    }
    Ok(params)
}

/// A value that a driver binds. One that is missing has a type too: the servers decide by it what they compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(Option<String>),
    /// A whole number of 64 bits.
    Integer(Option<i64>),
    /// Bytes.
    Bytes(Vec<u8>),
}
