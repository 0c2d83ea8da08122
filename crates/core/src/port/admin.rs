//! The operator's side of the outbox: counts, lists, and audited changes.

use std::collections::BTreeMap;
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

use super::filter::Filter;
use super::operating::{BlockingHead, CountByRequest, CountGroup, Pause, PauseChange, PauseRequest, Skipped};
use super::shared::Verb;

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

    /// How many entries match, by one of their fields, the largest group first.
    async fn count_by(&self, request: CountByRequest) -> Result<Vec<CountGroup>>;

    /// Changes entries by hand: what the verb's own method says, [`requeue`](Self::requeue) and the like.
    async fn change(&self, request: SelectionRequest, verb: Verb) -> Result<Changed>;

    /// Puts dead entries back with a fresh budget under the same event id. Skips what is not dead.
    async fn requeue(&self, request: SelectionRequest) -> Result<Changed> {
        self.change(request, Verb::Requeue).await
    }

    /// Gives dead entries up for good. Skips what is not dead, and the dead steps of sagas that have not ended: without
    /// them these could never end. They go with their saga, see [`Intervention`](super::Intervention).
    async fn discard(&self, request: SelectionRequest) -> Result<Changed> {
        self.change(request, Verb::Discard).await
    }

    /// Makes entries due at once that wait for their time: between two attempts, or staged with a delay. What they have
    /// spent stays spent. Skips what does not wait.
    async fn hasten(&self, request: SelectionRequest) -> Result<Changed> {
        self.change(request, Verb::Hasten).await
    }

    /// Gives up entries that wait, pending or retrying: they are discarded, and nobody delivers them. Skips what is in
    /// flight or at its end, and what is in a lane that a relay holds, which may have read it: pause its route first.
    async fn cancel(&self, request: SelectionRequest) -> Result<Changed> {
        self.change(request, Verb::Cancel).await
    }

    /// Pauses a route or lets it go on. While it is paused no relay takes anything of it, by rows or by lanes; what is
    /// in flight is finished. Staging goes on.
    async fn set_pause(&self, request: PauseRequest) -> Result<PauseChange>;

    /// Deletes delivered and discarded entries that were settled long enough ago. Never dead ones.
    async fn purge(&self, request: PurgeRequest) -> Result<Purged>;

    /// Forgets events that consumers accepted long enough ago, and the fences of lanes of which nothing new was
    /// seen for as long. An event that comes again after that is applied again.
    async fn purge_inbox(&self, request: PurgeRequest) -> Result<Purged>;
}

/// What retention deletes by age, as a store gives it to the relays that work on it.
#[derive(Clone)]
pub struct Purging {
    /// Settled entries, and what the inbox remembers.
    pub admin: Arc<dyn Admin>,
    /// Sagas that have ended. `None`: the store has none.
    pub sagas: Option<Arc<dyn SagaAdmin>>,
}

impl Purging {
    /// Of a store that is all of it.
    pub fn of<S: Admin + SagaAdmin + Clone + 'static>(store: &S) -> Self {
        Self { admin: Arc::new(store.clone()), sagas: Some(Arc::new(store.clone())) }
    }
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
    /// Entries per status, those that are blocked left out; every status is named, zeros included.
    pub counts: BTreeMap<Status, u64>,
    /// Entries that wait behind a dead one of their key.
    pub blocked: u64,
    /// Whom these wait for: those that hold back the most, at most [`HEADS_NAMED_MAX`](crate::limits::HEADS_NAMED_MAX).
    pub heads: Vec<BlockingHead>,
    /// Set while the route is paused.
    pub paused: Option<Pause>,
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
            blocked: 0,
            heads: Vec::new(),
            paused: None,
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
        let live: u64 =
            self.counts.iter().filter(|(status, _)| !status.is_terminal()).map(|(_, count)| count).sum();
        live.saturating_add(self.blocked)
    }

    /// Takes entries of a stored status and counts them as something else; lanes store nothing of what they hand out.
    pub fn move_from(&mut self, stored: Status, to: Standing, entries: u64) {
        let count = self.counts.entry(stored).or_default();
        *count = count.saturating_sub(entries);
        match to {
            Standing::Is(status) => *self.counts.entry(status).or_default() += entries,
            Standing::Blocked => self.blocked += entries,
        }
    }
}

/// A wish for the next page of an inventory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InventoryRequest {
    /// Only rows above this seq.
    pub after: i64,
    /// At most this many, and not more than [`LIST_MAX`](crate::limits::LIST_MAX). Less were found: it was the last page.
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

impl Story {
    /// The stories of these entries, each with those of the audit records that are of its route.
    #[must_use]
    pub fn tell(entries: Vec<Entry>, audit: &[AuditRecord]) -> Vec<Self> {
        let story = |entry: Entry| {
            let of_route = |record: &&AuditRecord| record.route.as_ref() == Some(&entry.route);
            Self { audit: audit.iter().filter(of_route).cloned().collect(), entry }
        };
        entries.into_iter().map(story).collect()
    }
}

/// Which entries an operator means.
#[derive(Clone, Debug)]
pub enum Selection {
    /// These events, on every route that carries them.
    Ids(Vec<EventId>),
    /// All that match and can be changed so: only dead ones are requeued. The filter's limit is not looked at.
    Matching(Filter),
}

/// A wish to change entries: to requeue, discard, hasten or cancel them.
#[derive(Clone, Debug)]
pub struct SelectionRequest {
    /// Which ones.
    pub selection: Selection,
    /// At most this many, oldest first; `None`: all. Only for a selection by a filter.
    pub limit: Option<u32>,
    /// Who asks, for the audit trail.
    pub actor: String,
    /// Whether to act or only to count.
    pub effect: Effect,
    /// The time to act at; `None`: the database's clock.
    pub now: Option<Timestamp>,
}

/// What was changed, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Changed {
    /// Entries that were changed.
    pub changed: u64,
    /// Ids that no route carries. Only for a selection by id.
    pub missing: Vec<EventId>,
    /// Entries that were meant and cannot be changed so.
    pub skipped: u64,
    /// The first of these with their reasons, at most [`SKIPS_TOLD_MAX`](crate::limits::SKIPS_TOLD_MAX).
    pub skips: Vec<Skipped>,
    /// Sagas that have not ended and that have dead steps among what was selected, at most [`LIST_MAX`](crate::limits::LIST_MAX): a requeue lets
    /// them go on, and a discard leaves those steps as they are.
    pub sagas: Vec<SagaId>,
    /// The last entry that was changed or skipped. As [`Filter::after`] it lets the next request go on behind it.
    pub cursor: Option<i64>,
}

impl Changed {
    /// Notes an entry that is left as it is.
    pub fn skip(&mut self, skipped: Skipped) {
        self.skipped += 1;
        if self.skips.len() < SKIPS_TOLD_MAX {
            self.skips.push(skipped);
        }
    }
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

impl PurgeRequest {
    /// Refuses what is out of bounds.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a limit over [`BATCH_MAX`](crate::limits::BATCH_MAX) or a bad name.
    pub fn check(&self) -> Result<()> {
        check_name("actor", &self.actor)?;
        if self.limit > BATCH_MAX {
            return Err(Error::invalid(format!(
                "a purge of {}; at most {BATCH_MAX} rows are purged at once",
                self.limit
            )));
        }
        Ok(())
    }
}

/// What a purge deleted, or would delete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Purged {
    /// Entries, rows or sagas that were deleted. Below the request's limit: nothing is left to purge.
    pub purged: u64,
}
