//! Many events as the parameters of one statement.

use pillarbox_core::port::shared::StageBatch;
use pillarbox_core::{NewEntry, Result};

/// Most bytes of one call: SQLite takes no parameter of a billion bytes or more.
const BATCH_BYTES_MAX: usize = 900_000_000;

/// What `stage_many.sql` binds besides the route.
pub(crate) fn batch(entries: &[NewEntry]) -> Result<StageBatch> {
    StageBatch::new(entries, BATCH_BYTES_MAX)
}
