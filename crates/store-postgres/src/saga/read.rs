//! Reading sagas and their entries.

use pillarbox_core::port::shared::{Columns, saga_columns};
use pillarbox_core::{Failure, Fence, Held, Result, SagaRecord, Status, StepSeen, Timestamp};
use sqlx::postgres::PgRow;

use crate::row::Cells;

/// Where the saga begins in a row of `saga_of_held.sql`.
const SAGA_OF_HELD: usize = 6;

/// A claim with what still stands of it.
pub(super) struct HeldStep {
    pub(super) held: Held,
    pub(super) now: Timestamp,
    /// `None`: another relay owns it by now, or it is settled or gone.
    pub(super) seen: Option<StepSeen>,
    /// `None`: of no saga.
    pub(super) saga: Option<SagaRecord>,
}

/// Reads a row of `saga_of_held.sql`.
pub(super) fn held_step(row: &PgRow) -> Result<HeldStep> {
    let mut cells = Cells::of(row);
    let held = Held { seq: cells.number()?, fence: Fence(cells.number()?) };
    let (id, attempts, last_error) = (cells.event_id()?, cells.optional_number()?, cells.optional_text()?);
    let now = cells.time()?.unwrap_or(Timestamp::MIN);
    let seen = id.map(|event_id| StepSeen {
        held,
        event_id,
        status: Status::InFlight,
        attempts: attempts.and_then(|attempts| u32::try_from(attempts).ok()).unwrap_or(0),
        last_error: last_error.as_deref().map(Failure::parse),
    });
    let saga = if cells.optional_text()?.is_some() { Some(saga(row, SAGA_OF_HELD)?) } else { None };
    Ok(HeldStep { held, now, seen, saga })
}

/// Reads the columns of a saga from this one on.
pub(super) fn saga(row: &PgRow, from: usize) -> Result<SagaRecord> {
    SagaRecord::read(saga_columns(&mut Cells::from(row, from))?)
}
