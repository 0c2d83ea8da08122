//! The operator's side of the outbox: counts, lists, and audited changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::audit::AuditRecord;
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::event::EventId;
use crate::limits::{BATCH_MAX, SKIPS_TOLD_MAX};
use crate::name::{RouteName, check_name};
use crate::port::SagaAdmin;
use crate::saga::SagaId;
use crate::standing::Standing;
use crate::status::Status;
use crate::time::Timestamp;

use super::backlog::LaneBacklog;
use super::filter::Filter;
use super::operating::{BlockingHead, CountByRequest, CountGroup, Pause, PauseChange, PauseRequest, Skipped};
use super::recent::{Recent, RecentRequest};
use super::shared::Verb;
use super::trail::AuditFilter;
use super::waits::{Waits, WaitsRequest};

/// The connections of a process to the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// Connections that are open.
    pub open: u32,
    /// Open connections that are not in use at the moment.
    pub idle: u32,
    /// The most connections that may be open.
    pub max: u32,
}

impl Pool {
    /// The connections of two pools together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { open: self.open + other.open, idle: self.idle + other.idle, max: self.max + other.max }
    }
}

/// The outbox as an operator sees it. Reading changes nothing. Every change is audited before it happens, in the
/// same transaction. So if the audit record cannot be written, the change does not happen.
#[async_trait]
pub trait Admin: Send + Sync {
    /// How many entries there are per route and status, counted by an index. `now` pins the time that ages are
    /// counted to.
    async fn counts(&self, now: Option<Timestamp>) -> Result<Vec<RouteCounts>>;

    /// The entries that match, oldest first, with their payloads.
    async fn list(&self, filter: Filter) -> Result<Vec<Entry>>;

    /// One page of all entries of all routes, ordered by sequence number and without payloads. Page by page this
    /// covers the whole outbox. Entries that are committed while the pages are read may or may not be included.
    async fn inventory(&self, request: InventoryRequest) -> Result<Vec<InventoryRow>>;

    /// Everything known about one event, for each route that carries it. Empty if no route does.
    async fn show(&self, id: EventId) -> Result<Vec<Story>>;

    /// The records of the audit trail that match, newest first. They are read along their sequence numbers.
    async fn trail(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>>;

    /// The newest audit records, at most `limit`, oldest first.
    async fn audit(&self, limit: u32) -> Result<Vec<AuditRecord>> {
        let mut records = self.trail(AuditFilter::default().limit(limit)).await?;
        records.reverse();
        Ok(records)
    }

    /// How many entries match, grouped by one of their fields, the largest group first.
    async fn count_by(&self, request: CountByRequest) -> Result<Vec<CountGroup>>;

    /// What ended and what was accepted lately, each counted by an index on its time.
    async fn recent(&self, request: RecentRequest) -> Result<Recent>;

    /// How long the entries of a route that were delivered lately had waited, at most the newest
    /// [`WAITS_MAX`](crate::limits::WAITS_MAX), found by an index on their time. Entries that are deleted on
    /// delivery are not counted.
    ///
    /// If that index is not by route, a store looks at the newest deliveries of all routes, at most
    /// [`WAITS_LOOKED_MAX`](crate::limits::WAITS_LOOKED_MAX), and counts those of this one.
    async fn waits(&self, request: WaitsRequest) -> Result<Waits>;

    /// Every lane of a route, ordered by number, with what waits in it and the relay that holds it. Empty if
    /// no relay has ever read the route by lanes.
    async fn lanes_of(&self, route: &RouteName) -> Result<Vec<LaneBacklog>>;

    /// The connections of this process to the database, in all pools of the store. `None`: the store does not know.
    fn connections(&self) -> Option<Pool> {
        None
    }

    /// Changes entries by hand. Each verb does what its own method says, such as [`requeue`](Self::requeue).
    async fn change(&self, request: SelectionRequest, verb: Verb) -> Result<Changed>;

    /// Puts dead entries back under the same event id, with a fresh budget of attempts. Entries that are not dead
    /// are skipped.
    async fn requeue(&self, request: SelectionRequest) -> Result<Changed> {
        self.change(request, Verb::Requeue).await
    }

    /// Gives up dead entries for good. Entries that are not dead are skipped.
    ///
    /// Dead steps of sagas that have not ended are skipped too, because without them the saga could never end. An
    /// operator ends them with their saga, see [`Intervention`](super::Intervention).
    async fn discard(&self, request: SelectionRequest) -> Result<Changed> {
        self.change(request, Verb::Discard).await
    }

    /// Makes waiting entries due at once: entries between two attempts, or entries staged with a delay. Attempts
    /// that were spent stay spent. Entries that do not wait are skipped.
    async fn hasten(&self, request: SelectionRequest) -> Result<Changed> {
        self.change(request, Verb::Hasten).await
    }

    /// Gives up entries that wait, pending or retrying. They are discarded and never delivered.
    ///
    /// Entries that are in flight or in a terminal status are skipped. Entries in a lane that a relay holds are
    /// skipped too, because the relay may have read them. To cancel those, pause the route first.
    async fn cancel(&self, request: SelectionRequest) -> Result<Changed> {
        self.change(request, Verb::Cancel).await
    }

    /// Pauses or resumes a route. While a route is paused, no relay takes entries of it, by rows or by lanes.
    /// Entries in flight are finished, and staging goes on.
    async fn set_pause(&self, request: PauseRequest) -> Result<PauseChange>;

    /// Deletes delivered and discarded entries that were settled long enough ago. Dead entries are never deleted.
    async fn purge(&self, request: PurgeRequest) -> Result<Purged>;

    /// Deletes the inbox's marks of events that consumers accepted long enough ago. It also deletes the fences of
    /// lanes of which nothing new was seen for as long. If such an event comes again, it is applied again.
    async fn purge_inbox(&self, request: PurgeRequest) -> Result<Purged>;
}

/// What retention deletes by age. A store gives this to its relays.
#[derive(Clone)]
pub struct Purging {
    /// Deletes settled entries and marks of the inbox.
    pub admin: Arc<dyn Admin>,
    /// Deletes sagas that have ended. `None`: the store keeps no sagas.
    pub sagas: Option<Arc<dyn SagaAdmin>>,
}

impl Purging {
    /// The purging of a store that implements both traits.
    pub fn of<S: Admin + SagaAdmin + Clone + 'static>(store: &S) -> Self {
        Self { admin: Arc::new(store.clone()), sagas: Some(Arc::new(store.clone())) }
    }
}

/// Whether to act or only to count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    /// Act.
    #[default]
    Apply,
    /// Only count what would be done.
    DryRun,
}

/// How many entries a route has.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RouteCounts {
    /// The route.
    pub route: RouteName,
    /// Entries per status, without blocked entries. Every status is listed, zeros included.
    pub counts: BTreeMap<Status, u64>,
    /// The statuses of which there may be more than was counted, because all routes together have more than
    /// [`COUNTED_MAX`](crate::limits::COUNTED_MAX). Only `delivered` and `discarded` can be among them.
    pub at_least: BTreeSet<Status>,
    /// Entries that wait behind a dead entry of their key.
    pub blocked: u64,
    /// The dead entries that hold back the most others, at most
    /// [`HEADS_NAMED_MAX`](crate::limits::HEADS_NAMED_MAX).
    pub heads: Vec<BlockingHead>,
    /// Set while the route is paused.
    pub paused: Option<Pause>,
    /// How long the oldest due entry has been waiting. `None`: nothing is due.
    pub oldest_due_age: Option<Duration>,
}

impl RouteCounts {
    /// Counts of zero for every status.
    #[must_use]
    pub fn zero(route: RouteName) -> Self {
        Self {
            route,
            counts: Status::ALL.into_iter().map(|status| (status, 0)).collect(),
            at_least: BTreeSet::new(),
            blocked: 0,
            heads: Vec::new(),
            paused: None,
            oldest_due_age: None,
        }
    }

    /// How many entries have this status.
    #[must_use]
    pub fn of(&self, status: Status) -> u64 {
        self.counts.get(&status).copied().unwrap_or(0)
    }

    /// How many entries have not reached a terminal status.
    #[must_use]
    pub fn undrained(&self) -> u64 {
        let live: u64 =
            self.counts.iter().filter(|(status, _)| !status.is_terminal()).map(|(_, count)| count).sum();
        live.saturating_add(self.blocked)
    }

    /// Counts entries of a stored status under another standing. This is needed because lanes store nothing when
    /// they hand out entries.
    pub fn move_from(&mut self, stored: Status, to: Standing, entries: u64) {
        let count = self.counts.entry(stored).or_default();
        *count = count.saturating_sub(entries);
        match to {
            Standing::Is(status) => *self.counts.entry(status).or_default() += entries,
            Standing::Blocked => self.blocked += entries,
        }
    }
}

/// A request for the next page of an inventory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InventoryRequest {
    /// Only rows above this sequence number.
    pub after: i64,
    /// The most rows of the page, not more than [`LIST_MAX`](crate::limits::LIST_MAX). A page with fewer rows is
    /// the last one.
    pub limit: u32,
}

impl InventoryRequest {
    /// Refuses a limit over [`LIST_MAX`](crate::limits::LIST_MAX).
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) with the limit.
    pub fn check(&self) -> Result<()> {
        Filter::default().limit(self.limit).check()
    }
}

/// An entry in an inventory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InventoryRow {
    /// The sequence number: the order of staging inside the store.
    pub seq: i64,
    /// The idempotency key.
    pub event_id: EventId,
    /// The route that delivers the entry.
    pub route: RouteName,
    /// The ordering key.
    pub key: Option<String>,
    /// The stored status.
    pub status: Status,
    /// When the entry was staged. Where transactions overlap, this is when the entry's transaction began.
    pub created_at: Timestamp,
}

/// Everything known about one event on one route.
#[derive(Clone, Debug)]
pub struct Story {
    /// The entry as it is now.
    pub entry: Entry,
    /// The entry's audit records, oldest first.
    pub audit: Vec<AuditRecord>,
}

impl Story {
    /// The stories of these entries, each with the audit records of its route.
    #[must_use]
    pub fn tell(entries: Vec<Entry>, audit: &[AuditRecord]) -> Vec<Self> {
        let story = |entry: Entry| {
            let of_route = |record: &&AuditRecord| record.route.as_ref() == Some(&entry.route);
            Self { audit: audit.iter().filter(of_route).cloned().collect(), entry }
        };
        entries.into_iter().map(story).collect()
    }
}

/// Which entries an operator selects.
#[derive(Clone, Debug)]
pub enum Selection {
    /// These events, on every route that carries them.
    Ids(Vec<EventId>),
    /// All entries that match the filter and allow the change. For example, only dead entries are requeued. The
    /// filter's limit is ignored.
    Matching(Filter),
}

/// A request to requeue, discard, hasten or cancel entries.
#[derive(Clone, Debug)]
pub struct SelectionRequest {
    /// The entries.
    pub selection: Selection,
    /// The most entries to change, oldest first. `None`: all. It applies only to a selection by a filter.
    pub limit: Option<u32>,
    /// The name of the operator or relay that asks, for the audit trail.
    pub actor: String,
    /// Whether to act or only to count.
    pub effect: Effect,
    /// The time of the operation. `None`: the database's clock.
    pub now: Option<Timestamp>,
}

/// What a change did or, in a dry run, would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Changed {
    /// How many entries were changed.
    pub changed: u64,
    /// Ids that no route carries. Set only for a selection by ids.
    pub missing: Vec<EventId>,
    /// How many selected entries do not allow the change.
    pub skipped: u64,
    /// The first skipped entries with their reasons, at most [`SKIPS_TOLD_MAX`](crate::limits::SKIPS_TOLD_MAX).
    pub skips: Vec<Skipped>,
    /// How many of the skipped entries were changed by others between the look and the change. They have no reason
    /// in `skips`.
    pub fenced: u64,
    /// The audit records of this very change, as the same transaction read them back. The first ones, at most
    /// [`AUDIT_TOLD_MAX`](crate::limits::AUDIT_TOLD_MAX). Empty in a dry run.
    pub audit: Vec<AuditRecord>,
    /// Sagas that have not ended and have dead steps among the selected entries, at most
    /// [`LIST_MAX`](crate::limits::LIST_MAX). A requeue lets these sagas go on. A discard leaves those steps as
    /// they are.
    pub sagas: Vec<SagaId>,
    /// The sequence number of the last entry that was changed or skipped. If the next request passes it as
    /// [`Filter::after`], it continues after that entry.
    pub cursor: Option<i64>,
}

impl Changed {
    /// Records an entry that is skipped.
    pub fn skip(&mut self, skipped: Skipped) {
        self.skipped += 1;
        if self.skips.len() < SKIPS_TOLD_MAX {
            self.skips.push(skipped);
        }
    }
}

/// A request to delete old entries, old rows of the inbox, or sagas that ended long ago.
#[derive(Clone, Debug)]
pub struct PurgeRequest {
    /// Only entries settled, events accepted or sagas ended at least this long ago.
    pub older_than: Duration,
    /// The most rows to delete. The limit keeps a purge from blocking live traffic for long.
    pub limit: u32,
    /// The name of the operator or relay that asks, for the audit trail.
    pub actor: String,
    /// Whether to act or only to count.
    pub effect: Effect,
    /// The time of the operation. `None`: the database's clock.
    pub now: Option<Timestamp>,
}

impl PurgeRequest {
    /// Refuses a request with a value out of range.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a limit over [`BATCH_MAX`](crate::limits::BATCH_MAX) or a bad name.
    pub fn check(&self) -> Result<()> {
        check_name("actor", &self.actor)?;
        if self.limit > BATCH_MAX {
            return Err(Error::invalid(format!(
                "the limit is {}; at most {BATCH_MAX} rows can be purged at once",
                self.limit
            )));
        }
        Ok(())
    }
}

/// What a purge deleted or, in a dry run, would delete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Purged {
    /// How many entries, rows or sagas were deleted. If this is below the request's limit, nothing is left to
    /// purge.
    pub purged: u64,
}
