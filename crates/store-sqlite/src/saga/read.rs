//! Reading sagas and their entries.

use pillarbox_core::{
    Entry, Error, ErrorKind, EventId, Failure, Fence, Held, Result, SagaColumns, SagaId, SagaRecord, Status,
    StepSeen, Timestamp,
};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use crate::error::classify;
use crate::row::decode;
use crate::sql::{Statements, query};

/// A claim that still stands.
pub(super) struct HeldStep {
    pub(super) seen: StepSeen,
    /// `None`: of no saga.
    pub(super) saga: Option<SagaRecord>,
}

/// Reads a row of `saga_held.sql`.
pub(super) fn held_step(row: &SqliteRow) -> Result<HeldStep> {
    let held = Held {
        seq: row.try_get_unchecked(0).map_err(classify)?,
        fence: Fence(row.try_get_unchecked(1).map_err(classify)?),
    };
    let event_id: EventId = row.try_get_unchecked::<&str, _>(2).map_err(classify)?.parse()?;
    let attempts: i64 = row.try_get_unchecked(3).map_err(classify)?;
    let attempts = u32::try_from(attempts).unwrap_or(0);
    let last_error: Option<&str> = row.try_get_unchecked(4).map_err(classify)?;
    let last_error = last_error.map(Failure::parse);
    let seen = StepSeen { held, event_id, status: Status::InFlight, attempts, last_error };
    let of_saga: Option<&str> = row.try_get_unchecked(5).map_err(classify)?;
    let saga = if of_saga.is_some() { Some(saga(row, 5)?) } else { None };
    Ok(HeldStep { seen, saga })
}

/// Reads the columns of a saga from this one on.
pub(super) fn saga(row: &SqliteRow, from: usize) -> Result<SagaRecord> {
    let time = |at: Option<i64>| at.and_then(Timestamp::from_micros);
    let read = || -> sqlx::Result<SagaColumns> {
        Ok(SagaColumns {
            id: row.try_get_unchecked(from)?,
            name: row.try_get_unchecked(from + 1)?,
            route: row.try_get_unchecked(from + 2)?,
            subject_kind: row.try_get_unchecked(from + 3)?,
            subject_value: row.try_get_unchecked(from + 4)?,
            generation: row.try_get_unchecked(from + 5)?,
            status: row.try_get_unchecked(from + 6)?,
            version: row.try_get_unchecked(from + 7)?,
            dead: row.try_get_unchecked(from + 8)?,
            due_at: time(row.try_get_unchecked(from + 9)?),
            deadline_at: time(row.try_get_unchecked(from + 10)?),
            body: row.try_get_unchecked(from + 11)?,
            created_at: time(row.try_get_unchecked(from + 12)?).unwrap_or(Timestamp::MIN),
            updated_at: time(row.try_get_unchecked(from + 13)?).unwrap_or(Timestamp::MIN),
            ended_at: time(row.try_get_unchecked(from + 14)?),
        })
    };
    SagaRecord::read(read().map_err(|_| Error::new(ErrorKind::Corrupt, "a saga cannot be read"))?)
}

/// A saga with its entries, oldest first.
pub(super) async fn load(
    statements: &Statements,
    id: SagaId,
    connection: &mut SqliteConnection,
) -> Result<Option<(SagaRecord, Vec<Entry>)>> {
    let row = query(&statements.saga_show).bind(id.to_string());
    let Some(row) = row.fetch_optional(&mut *connection).await.map_err(classify)? else { return Ok(None) };
    let saga = saga(&row, 0)?;
    let ids = serde_json::to_string(&saga.event_ids())
        .map_err(|_| Error::invalid("an event id cannot be written as JSON"))?;
    let rows = query(&statements.saga_entries).bind(ids).bind(id.to_string());
    let rows = rows.fetch_all(connection).await.map_err(classify)?;
    let entries = rows.iter().map(|row| Ok(decode(row)?.entry)).collect::<Result<Vec<_>>>()?;
    Ok(Some((saga, entries)))
}

/// Entries as a decision sees them.
pub(super) fn seen(entries: &[Entry]) -> Vec<StepSeen> {
    let of = |entry: &Entry| StepSeen {
        held: entry.held(),
        event_id: entry.event_id,
        status: entry.status,
        attempts: entry.attempts,
        last_error: entry.last_error.clone(),
    };
    entries.iter().map(of).collect()
}
