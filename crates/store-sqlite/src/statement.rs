//! Staging by any other driver: SQL and its values.

use pillarbox_core::port::shared::stage_params;
pub use pillarbox_core::port::shared::{Param, Statement};
use pillarbox_core::{NewEntry, Result};

/// The values of `stage_one.sql`.
pub(crate) fn params(entry: NewEntry) -> Result<Vec<Param>> {
    let lane = i64::from(entry.lane());
    let mut params = stage_params(entry, |at| at.as_micros().into())?;
    params.push(lane.into());
    Ok(params)
}
