//! Reading the rows of an answer, column by column. Every store has the same columns in the same order.

use crate::audit::AuditRecord;
use crate::error::{Error, ErrorKind, Result};
use crate::event::EventId;
use crate::name::RouteName;
use crate::outcome::Failure;
use crate::port::{BlockingHead, InventoryRow, Pause, RelaySeen, RunId};
use crate::saga::{Reference, SagaColumns};
use crate::time::Timestamp;

use super::change::Candidate;

/// The id that is shown for an entry whose own id cannot be read.
const UNREADABLE: EventId = EventId(uuid::Uuid::nil());

/// The columns of one row, from left to right. Every call moves on to the next column, even if it fails.
pub trait Columns {
    /// A text, or null.
    ///
    /// # Errors
    /// When the column is something else.
    fn optional_text(&mut self) -> Result<Option<String>>;

    /// A whole number, or null.
    ///
    /// # Errors
    /// When the column is something else.
    fn optional_number(&mut self) -> Result<Option<i64>>;

    /// A boolean.
    ///
    /// # Errors
    /// When the column is something else.
    fn flag(&mut self) -> Result<bool>;

    /// A time. `None`: null, or a time that is out of range.
    ///
    /// # Errors
    /// When the column is something else.
    fn time(&mut self) -> Result<Option<Timestamp>>;

    /// An event id. `None`: null, or an id that cannot be read.
    ///
    /// # Errors
    /// When the column is something else.
    fn event_id(&mut self) -> Result<Option<EventId>>;

    /// A text.
    ///
    /// # Errors
    /// When the column is something else.
    fn text(&mut self) -> Result<String> {
        self.optional_text()?.ok_or_else(missing)
    }

    /// A whole number.
    ///
    /// # Errors
    /// When the column is something else.
    fn number(&mut self) -> Result<i64> {
        self.optional_number()?.ok_or_else(missing)
    }

    /// A count. A number below zero reads as zero.
    ///
    /// # Errors
    /// When the column is no number.
    fn count(&mut self) -> Result<u64> {
        Ok(u64::try_from(self.number()?).unwrap_or(0))
    }

    /// A route's name, as far as it can be shown. `None`: null.
    ///
    /// # Errors
    /// When the column is no text.
    fn optional_route(&mut self) -> Result<Option<RouteName>> {
        Ok(self.optional_text()?.map(|text| RouteName::shown(&text)))
    }

    /// A route's name, as far as it can be shown.
    ///
    /// # Errors
    /// When the column is no text.
    fn route(&mut self) -> Result<RouteName> {
        Ok(RouteName::shown(&self.text()?))
    }
}

fn missing() -> Error {
    Error::new(ErrorKind::Corrupt, "a stored row has a null where a value is required")
}

/// `seq, at, kind, actor, route, event_id, saga_id, subject_kind, subject_value, step, detail`.
///
/// # Errors
/// When the row cannot be read.
pub fn audit_record(row: &mut impl Columns) -> Result<AuditRecord> {
    Ok(AuditRecord {
        seq: row.number()?,
        at: row.time()?.unwrap_or(Timestamp::MIN),
        kind: row.text()?.parse()?,
        actor: row.text()?,
        route: row.optional_route()?,
        event_id: row.event_id()?,
        saga_id: row.optional_text()?.map(|id| id.parse()).transpose()?,
        subject: match (row.optional_text()?, row.optional_text()?) {
            (Some(kind), Some(value)) => Some(Reference::new(kind, value)),
            _ => None,
        },
        step: row.optional_text()?,
        detail: row.text()?,
    })
}

/// `seq, event_id, route, key, status, created_at`. If plain SQL wrote an invalid id, key or time, a neutral value
/// takes its place.
///
/// # Errors
/// When there is no such row.
pub fn inventory_row(row: &mut impl Columns) -> Result<InventoryRow> {
    Ok(InventoryRow {
        seq: row.number()?,
        event_id: row.event_id().ok().flatten().unwrap_or(UNREADABLE),
        route: row.route()?,
        key: row.optional_text().ok().flatten(),
        status: row.text()?.parse()?,
        created_at: row.time().ok().flatten().unwrap_or(Timestamp::MIN),
    })
}

/// `run, route, owner, mode, wake, in_flight, circuit, down_since, outages, reason, started_at, seen_at, now,
/// lease_until`.
///
/// # Errors
/// When the row cannot be read.
pub fn relay_seen(row: &mut impl Columns) -> Result<RelaySeen> {
    let run = RunId(row.number()?);
    let (route, owner, mode, wake) = (row.route()?, row.text()?, row.text()?, row.text()?);
    let (in_flight, circuit) = (row.count()?, row.text()?.parse()?);
    let (down_since, outages) = (row.time()?, u32::try_from(row.number()?).unwrap_or(0));
    let reason = row.optional_text()?.map(|text| Failure::parse(&text));
    let mut time = || Ok::<_, Error>(row.time()?.unwrap_or(Timestamp::MIN));
    let (started_at, seen_at, now, lease_until) = (time()?, time()?, time()?, time()?);
    Ok(RelaySeen {
        run,
        route,
        owner,
        mode,
        wake,
        in_flight,
        circuit,
        down_since,
        outages,
        reason,
        started_at,
        seen_at,
        unseen_for: now.since(seen_at),
        lease_until,
    })
}

/// `id, name, route, subject_kind, subject_value, generation, status, version, dead, due_at, deadline_at,
/// body, created_at, updated_at, ended_at`.
///
/// # Errors
/// When the row cannot be read.
pub fn saga_columns(row: &mut impl Columns) -> Result<SagaColumns> {
    Ok(SagaColumns {
        id: row.text()?,
        name: row.text()?,
        route: row.text()?,
        subject_kind: row.text()?,
        subject_value: row.text()?,
        generation: row.number()?,
        status: row.text()?,
        version: row.number()?,
        dead: row.number()?,
        due_at: row.time()?,
        deadline_at: row.time()?,
        body: row.text()?,
        created_at: row.time()?.unwrap_or(Timestamp::MIN),
        updated_at: row.time()?.unwrap_or(Timestamp::MIN),
        ended_at: row.time()?,
    })
}

/// `seq, event_id, route, status, standing, lane is held, due, open saga`.
///
/// # Errors
/// When the row cannot be read.
pub fn candidate(row: &mut impl Columns) -> Result<Candidate> {
    let unknown = || Error::new(ErrorKind::Corrupt, "the id of an entry cannot be read");
    Ok(Candidate {
        seq: row.number()?,
        event_id: row.event_id()?.ok_or_else(unknown)?,
        route: row.route()?,
        status: row.text()?.parse()?,
        standing: row.text()?.parse()?,
        lane_held: row.flag()?,
        due: row.flag()?,
        open_saga: row.optional_text()?.map(|id| id.parse()).transpose()?,
    })
}

/// `route, paused_at, paused_by, reason`.
///
/// # Errors
/// When the row cannot be read.
pub fn route_pause(row: &mut impl Columns) -> Result<(RouteName, Pause)> {
    let route = row.route()?;
    let at = row.time()?.unwrap_or(Timestamp::MIN);
    let actor = row.optional_text()?.unwrap_or_default();
    Ok((route, Pause { at, actor, reason: row.optional_text()?.unwrap_or_default() }))
}

/// `entries, event_id, key`: how many entries wait behind which dead entry.
///
/// # Errors
/// When the row cannot be read.
pub fn blocking_head(row: &mut impl Columns) -> Result<BlockingHead> {
    let blocked = row.count()?;
    Ok(BlockingHead { blocked, event_id: row.event_id()?.unwrap_or(UNREADABLE), key: row.text()? })
}
