//! Reading sagas and their entries.

use pillarbox_core::port::shared::{Columns, saga_columns};
use pillarbox_core::{Entry, EventId, Failure, Fence, Held, Result, SagaId, SagaRecord, Status, StepSeen};
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::bind::Bind;
use crate::error::classify;
use crate::row::{Cells, decode};
use crate::sql::Statements;

/// Where the saga begins in a row of `saga_held.sql`.
const SAGA_OF_HELD: usize = 5;

/// Reads a row of `saga_held.sql`: a claim that still stands, and its saga, if it is of one.
pub(super) fn held_step(row: &SqliteRow) -> Result<(Held, (StepSeen, Option<SagaRecord>))> {
    let mut cells = Cells::of(row);
    let held = Held { seq: cells.number()?, fence: Fence(cells.number()?) };
    let event_id: EventId = cells.text()?.parse()?;
    let attempts = u32::try_from(cells.number()?).unwrap_or(0);
    let last_error = cells.optional_text()?.as_deref().map(Failure::parse);
    let seen = StepSeen { held, event_id, status: Status::InFlight, attempts, last_error };
    let saga = if cells.optional_text()?.is_some() { Some(saga(row, SAGA_OF_HELD)?) } else { None };
    Ok((held, (seen, saga)))
}

/// Reads the columns of a saga from this one on.
pub(super) fn saga(row: &SqliteRow, from: usize) -> Result<SagaRecord> {
    SagaRecord::read(saga_columns(&mut Cells::from(row, from))?)
}

/// A saga with its entries, oldest first.
pub(super) async fn load(
    statements: &Statements,
    id: SagaId,
    connection: &mut SqliteConnection,
) -> Result<Option<(SagaRecord, Vec<Entry>)>> {
    let show = statements.saga_show.with(Bind::new().text(&id.to_string()).done()?);
    let Some(row) = show.fetch_optional(&mut *connection).await.map_err(classify)? else { return Ok(None) };
    let saga = saga(&row, 0)?;
    let entries = Bind::new().json(&saga.event_ids()).text(&id.to_string()).done()?;
    let rows = statements.saga_entries.with(entries).fetch_all(connection).await.map_err(classify)?;
    let entries = rows.iter().map(|row| decode(row).entry).collect();
    Ok(Some((saga, entries)))
}
