//! Verdicts, expired leases and the moves of sagas, as rows that a statement reads as JSON.

use crate::audit::AuditKind;
use crate::entry::{Fence, Held};
use crate::error::Result;
use crate::event::EventId;
use crate::name::RouteName;
use crate::outcome::Failure;
use crate::port::{Death, Keep, Reaped, Settlement, Verdict};
use crate::saga::{EntryMove, SagaId, SagaWork};
use crate::time::Timestamp;

use super::columns::Columns;
use super::micros;

/// `[seq, fence, verdict, wait in microseconds, failure]`.
pub type VerdictRow<'a> = (i64, Fence, &'static str, Option<i64>, Option<&'a Failure>);

impl Settlement {
    /// The verdict as a row.
    #[must_use]
    pub fn row(&self) -> VerdictRow<'_> {
        let (name, wait, failure) = match &self.verdict {
            Verdict::Delivered => ("delivered", None, None),
            Verdict::Retry { after, failure, .. } => ("retrying", Some(micros(*after)), Some(failure)),
            Verdict::Dead { failure, .. } => ("dead", None, Some(failure)),
            Verdict::Release { failure, .. } => ("released", None, failure.as_ref()),
            Verdict::Park { after, failure, .. } => ("parked", Some(micros(*after)), Some(failure)),
        };
        (self.held.seq, self.held.fence, name, wait, failure)
    }
}

/// A row that a reap is about.
#[derive(Clone, Debug)]
pub struct Stale {
    /// The row's sequence number.
    pub seq: i64,
    /// Whether it is in flight. If not, it is here because its attempts are spent.
    pub leased: bool,
    /// Whether its attempts are spent.
    pub spent: bool,
    /// The error to record.
    pub error: String,
    /// What is told of its death.
    pub death: Death,
}

impl Stale {
    /// Reads a row of `seq, event_id, route, type, attempts, leased, spent, error`.
    ///
    /// # Errors
    /// When the row cannot be read.
    pub fn read(row: &mut impl Columns) -> Result<Self> {
        let seq = row.number()?;
        let event_id = row.event_id()?.unwrap_or(EventId(uuid::Uuid::nil()));
        let (route, event_type) = (row.route()?, row.text()?);
        let attempts = u32::try_from(row.number()?).unwrap_or(u32::MAX);
        let (leased, spent, error) = (row.flag()?, row.flag()?, row.text()?);
        let failure = Failure::parse(&error);
        let death = Death { event_id, route, event_type, attempts, failure };
        Ok(Self { seq, leased, spent, error, death })
    }

    /// The row as the statements of a reap read it.
    #[must_use]
    pub fn row(&self) -> (i64, bool, &str) {
        (self.seq, self.spent, &self.error)
    }
}

impl Reaped {
    /// A reap that returned or buried these rows.
    pub fn of_rows(found: impl IntoIterator<Item = Stale>) -> Self {
        let mut reaped = Self::default();
        for stale in found {
            reaped.stale += u64::from(stale.leased);
            if stale.spent {
                reaped.dead.push(stale.death);
            } else {
                reaped.released += 1;
            }
        }
        reaped
    }
}

/// A claim, as a row of `seq, fence`.
///
/// # Errors
/// When the row cannot be read.
pub fn held(row: &mut impl Columns) -> Result<Held> {
    Ok(Held { seq: row.number()?, fence: Fence(row.number()?) })
}

/// `[seq, fence, status before, change, failure]` of a saga's entry.
pub type EntryMoveRow = (i64, i64, &'static str, &'static str, Option<String>);
/// `[id, version before, status, dead, due, body, ended]` of a saga.
pub type SagaMoveRow = (String, i64, String, i64, Option<i64>, String, bool);
/// `[saga, kind, event id, step, detail, route, kind and value of the subject]` of an audit record.
pub type SagaAuditRow<'a> = (
    SagaId,
    &'static str,
    Option<EventId>,
    &'a Option<String>,
    &'a String,
    &'a RouteName,
    &'a String,
    &'a String,
);

/// What is written of any number of sagas, as rows.
#[derive(Debug)]
pub struct SagaRows<'a> {
    /// The audit records, which come first.
    pub audit: Vec<SagaAuditRow<'a>>,
    /// The entries that change.
    pub entries: Vec<EntryMoveRow>,
    /// The entries that were delivered and are not kept.
    pub deleted: Vec<i64>,
    /// The sagas, which come last.
    pub sagas: Vec<SagaMoveRow>,
}

impl<'a> SagaRows<'a> {
    /// The rows of these decisions.
    ///
    /// # Errors
    /// When a saga cannot be written as JSON.
    pub fn of(work: &'a [SagaWork], keep: Keep) -> Result<Self> {
        let (mut entries, mut deleted) = (Vec::new(), Vec::new());
        for entry in work.iter().flat_map(SagaWork::entries) {
            if entry.change == EntryMove::Deliver && keep == Keep::No {
                deleted.push(entry.held.seq);
                continue;
            }
            let (change, failure) = entry.change.parts();
            let failure = failure.map(ToString::to_string);
            entries.push((entry.held.seq, entry.held.fence.0, entry.seen.as_str(), change, failure));
        }
        let mut sagas = Vec::with_capacity(work.len());
        for one in work {
            let saga = one.saga.columns()?;
            let due = saga.due_at.map(Timestamp::as_micros);
            sagas.push((saga.id, one.version, saga.status, saga.dead, due, saga.body, one.moves.ended));
        }
        let records = work.iter().flat_map(|one| &one.moves.audit);
        let audit = records.map(|record| {
            (
                record.saga_id,
                AuditKind::as_str(record.kind),
                record.event_id,
                &record.step,
                &record.detail,
                &record.route,
                &record.subject.kind,
                &record.subject.value,
            )
        });
        Ok(Self { audit: audit.collect(), entries, deleted, sagas })
    }
}
