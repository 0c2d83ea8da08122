//! Staging by any other driver: SQL and its values.

use pillarbox_core::port::shared::stage_params;
pub use pillarbox_core::port::shared::{Param, Statement};
use pillarbox_core::{NewEntry, Result};

/// From this place on, what may be missing is a number; before it, a text.
pub(crate) const NUMBERS: usize = 15;

/// The values of `stage_one.sql`. The text casts each to its column's type.
pub(crate) fn params(entry: NewEntry) -> Result<Vec<Param>> {
    stage_params(entry, |at| Param::Text(at.to_string()))
}
