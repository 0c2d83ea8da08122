//! The operator's side of the outbox: counts, lists, and audited changes.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;

use crate::audit::AuditRecord;
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::event::EventId;
use crate::limits::{LIST_DEFAULT, LIST_MAX};
use crate::name::RouteName;
use crate::saga::SagaId;
use crate::status::Status;
use crate::time::Timestamp;

/// The outbox as an operator sees it. Reading changes nothing; every change is audited before it happens,
/// in the same transaction, so a change whose audit record cannot be written does not happen.
#[async_trait]
pub trait Admin: Send + Sync {
    /// Entries per route and status, by an index. `now` pins the time that ages are counted to.
    async fn counts(&self, now: Option<Timestamp>) -> Result<Vec<RouteCounts>>;

    /// Entries that match, oldest first. Payloads included.
    async fn list(&self, filter: Filter) -> Result<Vec<Entry>>;

    /// What is in the outbox, of all routes, by seq and without payloads: page by page the whole of it, with what was
    /// committed while it was read or without.
    async fn inventory(&self, request: InventoryRequest) -> Result<Vec<InventoryRow>>;

    /// Everything known of one event, for each route that carries it. Empty when none does.
    async fn show(&self, id: EventId) -> Result<Vec<Story>>;

    /// The newest audit records, oldest first, at most `limit`.
    async fn audit(&self, limit: u32) -> Result<Vec<AuditRecord>>;

    /// Puts dead entries back with a fresh budget under the same event id. Skips what is not dead.
    async fn requeue(&self, request: SelectionRequest) -> Result<Changed>;

    /// Gives dead entries up for good. Skips what is not dead, and the dead steps of sagas that have not ended: without
    /// them these could never end. They go with their saga, see [`Intervention`](super::Intervention).
    async fn discard(&self, request: SelectionRequest) -> Result<Changed>;

    /// Deletes delivered and discarded entries that were settled long enough ago. Never dead ones.
    async fn purge(&self, request: PurgeRequest) -> Result<Purged>;

    /// Forgets events that consumers accepted long enough ago, and the fences of lanes of which nothing new was
    /// seen for as long. An event that comes again after that is applied again.
    async fn purge_inbox(&self, request: PurgeRequest) -> Result<Purged>;
}

/// Whether to act or only to count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    /// Do it.
    #[default]
    Apply,
    /// Only say what would be done.
    DryRun,
}

/// What is in one route.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteCounts {
    /// Which route.
    pub route: RouteName,
    /// Entries per status; every status is named, zeros included.
    pub counts: BTreeMap<Status, u64>,
    /// How long the oldest due entry has been waiting; `None` when nothing is due.
    pub oldest_due_age: Option<Duration>,
}

impl RouteCounts {
    /// A route with nothing in it: every status is named.
    #[must_use]
    pub fn zero(route: RouteName) -> Self {
        Self {
            route,
            counts: Status::ALL.into_iter().map(|status| (status, 0)).collect(),
            oldest_due_age: None,
        }
    }

    /// Entries of this status.
    #[must_use]
    pub fn of(&self, status: Status) -> u64 {
        self.counts.get(&status).copied().unwrap_or(0)
    }

    /// Entries that are not at their end yet.
    #[must_use]
    pub fn undrained(&self) -> u64 {
        self.counts.iter().filter(|(status, _)| !status.is_terminal()).map(|(_, count)| count).sum()
    }
}

/// Which entries to list. Every field that is set narrows the list.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Filter {
    /// Default: any.
    pub status: Option<Status>,
    /// Default: any.
    pub route: Option<RouteName>,
    /// Default: any.
    pub event_type: Option<String>,
    /// Default: any.
    pub key: Option<String>,
    /// At most this many. Default: [`LIST_DEFAULT`].
    pub limit: u32,
}

impl Default for Filter {
    fn default() -> Self {
        Self { status: None, route: None, event_type: None, key: None, limit: LIST_DEFAULT }
    }
}

impl Filter {
    /// Dead entries, oldest first.
    #[must_use]
    pub fn dead() -> Self {
        Self { status: Some(Status::Dead), ..Self::default() }
    }

    /// Only this route.
    #[must_use]
    pub fn route(mut self, route: RouteName) -> Self {
        self.route = Some(route);
        self
    }

    /// Only this status.
    #[must_use]
    pub fn status(mut self, status: Status) -> Self {
        self.status = Some(status);
        self
    }

    /// Only this type.
    #[must_use]
    pub fn event_type(mut self, event_type: impl Into<String>) -> Self {
        self.event_type = Some(event_type.into());
        self
    }

    /// Only this key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// At most this many.
    #[must_use]
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    /// Refuses a limit over [`LIST_MAX`].
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) with the limit.
    pub fn check(&self) -> Result<()> {
        if self.limit > LIST_MAX {
            return Err(Error::invalid(format!(
                "a limit of {}; at most {LIST_MAX} entries are listed",
                self.limit
            )));
        }
        Ok(())
    }
}

/// A wish for the next page of an inventory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InventoryRequest {
    /// Only rows above this seq.
    pub after: i64,
    /// At most this many, and not more than [`LIST_MAX`]. Less were found: it was the last page.
    pub limit: u32,
}

impl InventoryRequest {
    /// Refuses a limit over [`LIST_MAX`].
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) with the limit.
    pub fn check(&self) -> Result<()> {
        Filter::default().limit(self.limit).check()
    }
}

/// An entry as an inventory has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InventoryRow {
    /// Stage order inside the store.
    pub seq: i64,
    /// The idempotency key.
    pub event_id: EventId,
    /// Which route delivers it.
    pub route: RouteName,
    /// The ordering key.
    pub key: Option<String>,
    /// Where it is in its life, as stored.
    pub status: Status,
    /// When it was staged. Where transactions overlap, it is when the entry's transaction began.
    pub created_at: Timestamp,
}

/// Everything known of one event on one route.
#[derive(Clone, Debug)]
pub struct Story {
    /// The entry as it is now.
    pub entry: Entry,
    /// Its audit records, oldest first.
    pub audit: Vec<AuditRecord>,
}

/// Which dead entries an operator means.
#[derive(Clone, Debug)]
pub enum Selection {
    /// These events, on every route that carries them.
    Ids(Vec<EventId>),
    /// All dead entries that match; the filter's status and limit are not looked at.
    Matching(Filter),
}

/// A wish to requeue or discard dead entries.
#[derive(Clone, Debug)]
pub struct SelectionRequest {
    /// Which ones.
    pub selection: Selection,
    /// Who asks, for the audit trail.
    pub actor: String,
    /// Whether to act or only to count.
    pub effect: Effect,
    /// The time to act at; `None`: the database's clock.
    pub now: Option<Timestamp>,
}

/// What a requeue or discard changed, or would change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Changed {
    /// Entries that were changed.
    pub changed: u64,
    /// Ids that no route carries. Only for a selection by id.
    pub missing: Vec<EventId>,
    /// Entries that were named by id and are not dead.
    pub skipped: u64,
    /// Sagas that have not ended and that have dead steps among what was selected, at most [`LIST_MAX`]: a requeue lets
    /// them go on, and a discard leaves those steps as they are.
    pub sagas: Vec<SagaId>,
}

/// A wish to delete old entries, old rows of the inbox, or sagas that ended long ago.
#[derive(Clone, Debug)]
pub struct PurgeRequest {
    /// Only what was settled, accepted, or ended at least this long ago.
    pub older_than: Duration,
    /// At most this many, so that live traffic is never blocked for long.
    pub limit: u32,
    /// Who asks, for the audit trail.
    pub actor: String,
    /// Whether to act or only to count.
    pub effect: Effect,
    /// The time to act at; `None`: the database's clock.
    pub now: Option<Timestamp>,
}

/// What a purge deleted, or would delete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Purged {
    /// Entries, rows or sagas that were deleted. Below the request's limit: nothing is left to purge.
    pub purged: u64,
}
