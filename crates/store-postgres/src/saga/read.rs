//! Reading sagas and their entries.

use pillarbox_core::{
    Error, ErrorKind, EventId, Failure, Fence, Held, Result, SagaColumns, SagaRecord, Status, StepSeen,
    Timestamp,
};
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::row::At;

/// A claim with what still stands of it.
pub(super) struct HeldStep {
    pub(super) held: Held,
    pub(super) now: Timestamp,
    /// `None`: somebody else's by now, or settled or gone.
    pub(super) seen: Option<StepSeen>,
    /// `None`: of no saga.
    pub(super) saga: Option<SagaRecord>,
}

/// Reads a row of `saga_of_held.sql`.
pub(super) fn held_step(row: &PgRow) -> Result<HeldStep> {
    let read = || -> sqlx::Result<_> {
        let held = Held { seq: row.try_get(0)?, fence: Fence(row.try_get(1)?) };
        let id: Option<Uuid> = row.try_get(2)?;
        let attempts: Option<i32> = row.try_get(3)?;
        let last_error: Option<&str> = row.try_get(4)?;
        let now = row.try_get::<At, _>(5)?.timestamp().unwrap_or(Timestamp::MIN);
        let seen = id.map(|id| StepSeen {
            held,
            event_id: EventId(id),
            status: Status::InFlight,
            attempts: attempts.and_then(|attempts| u32::try_from(attempts).ok()).unwrap_or(0),
            last_error: last_error.map(Failure::parse),
        });
        let of_saga: Option<String> = row.try_get(6)?;
        Ok((held, now, seen, of_saga.is_some()))
    };
    let (held, now, seen, of_saga) = read().map_err(|_| unreadable())?;
    let saga = if of_saga { Some(saga(row, 6)?) } else { None };
    Ok(HeldStep { held, now, seen, saga })
}

/// Reads the columns of a saga from this one on.
pub(super) fn saga(row: &PgRow, from: usize) -> Result<SagaRecord> {
    let time = |at: Option<At>| at.and_then(At::timestamp);
    let read = || -> sqlx::Result<SagaColumns> {
        Ok(SagaColumns {
            id: row.try_get(from)?,
            name: row.try_get(from + 1)?,
            route: row.try_get(from + 2)?,
            subject_kind: row.try_get(from + 3)?,
            subject_value: row.try_get(from + 4)?,
            generation: row.try_get(from + 5)?,
            status: row.try_get(from + 6)?,
            version: row.try_get(from + 7)?,
            dead: row.try_get(from + 8)?,
            due_at: time(row.try_get(from + 9)?),
            deadline_at: time(row.try_get(from + 10)?),
            body: row.try_get(from + 11)?,
            created_at: time(row.try_get(from + 12)?).unwrap_or(Timestamp::MIN),
            updated_at: time(row.try_get(from + 13)?).unwrap_or(Timestamp::MIN),
            ended_at: time(row.try_get(from + 14)?),
        })
    };
    SagaRecord::read(read().map_err(|_| unreadable())?)
}

pub(super) fn now(row: &PgRow, column: usize) -> Result<Timestamp> {
    let at: At = row.try_get(column).map_err(|_| unreadable())?;
    Ok(at.timestamp().unwrap_or(Timestamp::MIN))
}

pub(super) fn unreadable() -> Error {
    Error::new(ErrorKind::Corrupt, "a saga cannot be read")
}
