//! The stored row of an event, with its delivery state.

use std::collections::HashSet;
use std::num::NonZeroU64;
use std::time::Duration;

use crate::error::Result;
use crate::event::{CONTENT_TYPE_DEFAULT, Event, EventId, EventLimits, Headers, PRIORITY_DEFAULT};
use crate::hlc::Hlc;
use crate::lane::{NO_LANE, lane_of};
use crate::name::RouteName;
use crate::outcome::Failure;
use crate::saga::is_step;
use crate::standing::Standing;
use crate::status::Status;
use crate::suspect::attempts_counted;
use crate::time::Timestamp;

/// The growing number that proves a claim. To settle, a relay shows the fence that the claim returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(transparent)]
pub struct Fence(pub i64);

impl Fence {
    /// The fence before the first claim. Every claim has a higher one.
    pub const NONE: Self = Self(0);

    /// The fence of the next claim.
    ///
    /// It is at least the database's time in microseconds. So it grows even if a crash or a failover lost the write
    /// of the last claim. It is always above the last fence, so it grows even if that clock steps back.
    #[must_use]
    pub fn next(self, now: Timestamp) -> Self {
        Self(self.0.saturating_add(1).max(now.as_micros()))
    }
}

/// The proof of one claimed entry: its row and its fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Held {
    /// The row's sequence number.
    pub seq: i64,
    /// The fence of the claim.
    pub fence: Fence,
}

/// A store's own note about a row that it read, by which it may find the row sooner when the entry is settled. It
/// means nothing to other code, and a store that needs none leaves it empty. The row may have changed since, so the
/// store checks it.
///
/// A hint says nothing about the entry, so any two hints are equal.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowHint(pub Option<NonZeroU64>);

impl PartialEq for RowHint {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// One row of the outbox. The fields are the columns of the SQL contract.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Entry {
    /// The sequence number: the order of staging inside the store. Internal.
    pub seq: i64,
    /// The idempotency key, unique per route.
    pub event_id: EventId,
    /// The route that delivers the entry.
    pub route: RouteName,
    /// The event type.
    pub event_type: String,
    /// The ordering key.
    pub key: Option<String>,
    /// Opaque bytes.
    pub payload: Vec<u8>,
    /// The content type of the payload.
    pub content_type: String,
    /// A small map of strings.
    pub headers: Headers,
    /// The tenant.
    pub tenant: Option<String>,
    /// The correlation id: what the event belongs to across services.
    pub correlation_id: Option<String>,
    /// The causation id: what caused the event.
    pub causation_id: Option<String>,
    /// The execution id: the run that staged the event.
    pub execution_id: Option<String>,
    /// When the event happened in the business.
    pub occurred_at: Option<Timestamp>,
    /// The lane that the entry was read from. `None`: it was claimed by rows.
    pub lane: Option<u8>,
    /// The store's own note. It is not a column.
    pub hint: RowHint,
    /// The priority. Lower goes first.
    pub priority: i16,
    /// The saga or completion group.
    pub group_id: Option<String>,
    /// The hybrid logical clock stamp. Staging by plain SQL leaves it out.
    pub hlc: Option<Hlc>,
    /// The status. In a listing, an entry that a lane has handed out is in flight.
    pub status: Status,
    /// The dead entry of its key that the entry waits for, on a route that a dead entry blocks. Set only in a
    /// listing. It is not a column.
    pub blocked_by: Option<EventId>,
    /// The attempts: claims that were not given back.
    pub attempts: u32,
    /// How many of the attempts ended because the lease expired.
    pub crashes: u32,
    /// Attempts allowed for this entry. `None`: the route's limit applies.
    pub max_attempts: Option<u32>,
    /// The earliest time at which a relay may claim the entry. In flight, it is the end of the lease. In a terminal
    /// status, it is `None`.
    pub due_at: Option<Timestamp>,
    /// The fence of the last claim.
    pub fence: Fence,
    /// The name of the relay that claimed the entry, for people.
    pub owner: Option<String>,
    /// The failure of the last failed attempt.
    pub last_error: Option<Failure>,
    /// When the last attempt began.
    pub last_attempt_at: Option<Timestamp>,
    /// When the entry was staged.
    pub created_at: Timestamp,
    /// When the entry reached a terminal status.
    pub settled_at: Option<Timestamp>,
}

impl Entry {
    /// An entry as it is staged: pending, due at once, with an empty payload of JSON and no option set. A store
    /// sets the columns that differ.
    ///
    /// ```
    /// use pillarbox_core::{Entry, EventId, RouteName, Status, Timestamp};
    ///
    /// let route = RouteName::new("orders")?;
    /// let id: EventId = "01932c07-a9f0-7000-8000-000000000001".parse()?;
    /// let mut entry = Entry::new(1, id, route, "order.placed", Timestamp::MIN);
    /// entry.key = Some("order-7".into());
    /// assert_eq!(entry.status, Status::Pending);
    /// # Ok::<_, pillarbox_core::Error>(())
    /// ```
    #[must_use]
    pub fn new(
        seq: i64,
        event_id: EventId,
        route: RouteName,
        event_type: impl Into<String>,
        created_at: Timestamp,
    ) -> Self {
        Self {
            seq,
            event_id,
            route,
            event_type: event_type.into(),
            key: None,
            payload: Vec::new(),
            content_type: CONTENT_TYPE_DEFAULT.into(),
            headers: Headers::new(),
            tenant: None,
            correlation_id: None,
            causation_id: None,
            execution_id: None,
            occurred_at: None,
            lane: None,
            hint: RowHint::default(),
            priority: PRIORITY_DEFAULT,
            group_id: None,
            hlc: None,
            status: Status::Pending,
            blocked_by: None,
            attempts: 0,
            crashes: 0,
            max_attempts: None,
            due_at: None,
            fence: Fence::NONE,
            owner: None,
            last_error: None,
            last_attempt_at: None,
            created_at,
            settled_at: None,
        }
    }

    /// The standing as an operator sees it.
    #[must_use]
    pub fn standing(&self) -> Standing {
        if self.blocked_by.is_some() { Standing::Blocked } else { self.status.into() }
    }

    /// The proof of this claim.
    #[must_use]
    pub fn held(&self) -> Held {
        Held { seq: self.seq, fence: self.fence }
    }

    /// Whether the entry is a step of a saga or the compensation of one. Only a relay that runs sagas may take it.
    #[must_use]
    pub fn is_step(&self) -> bool {
        is_step(self.group_id.as_deref(), &self.content_type)
    }

    /// Whether the attempt that this claim began is the last one allowed.
    #[must_use]
    pub fn is_last_attempt(&self, route_max_attempts: u32) -> bool {
        attempts_counted(self.attempts, self.crashes) >= self.max_attempts.unwrap_or(route_max_attempts)
    }

    /// Whether the entry is a suspect: it came back from an expired lease and was not tried since. Only few entries
    /// may be in flight beside it.
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        self.status == Status::Retrying && self.due_at.is_none() && self.crashes > 0
    }
}

/// An event that was checked and has its id. This is what a store writes.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEntry {
    /// The idempotency key.
    pub event_id: EventId,
    /// The route that delivers the entry.
    pub route: RouteName,
    /// The event as the application gave it. Its `id` is ignored from here on.
    pub event: Event,
    /// The clock stamp of this process.
    pub hlc: Hlc,
}

impl NewEntry {
    /// The lane of the entry, by [`lane_of`]. A step of a saga has [`NO_LANE`].
    #[must_use]
    pub fn lane(&self) -> u8 {
        let event = &self.event;
        if is_step(event.group_id.as_deref(), &event.content_type) {
            return NO_LANE;
        }
        lane_of(event.key.as_deref(), self.event_id)
    }

    /// Checks an event and gives it an id and a stamp.
    ///
    /// # Errors
    /// When a field of the event is out of bounds; nothing was written then.
    pub fn new(
        route: &RouteName,
        event: Event,
        fresh_id: EventId,
        hlc: Hlc,
        limits: &EventLimits,
    ) -> Result<Self> {
        event.check(limits)?;
        Ok(Self { event_id: event.id.unwrap_or(fresh_id), route: route.clone(), event, hlc })
    }

    /// How long no relay may claim the entry, in whole microseconds. `None`: it is due at once.
    #[must_use]
    pub fn delay_micros(&self) -> Option<i64> {
        let delay = self.event.delay.filter(|delay| *delay > Duration::ZERO)?;
        i64::try_from(delay.as_micros()).ok()
    }
}

/// The result of staging one event.
///
/// ```
/// use pillarbox_core::{EventId, Staged};
///
/// let id: EventId = "01932c07-a9f0-7000-8000-000000000001".parse()?;
/// let staged = Staged::Duplicate(id);
/// assert!(staged.is_duplicate());
/// assert_eq!(staged.event_id(), id);
/// # Ok::<_, pillarbox_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staged {
    /// A new entry was written.
    Fresh(EventId),
    /// The route already carries this event id. Nothing was written.
    Duplicate(EventId),
}

impl Staged {
    /// The results of a call, in the order of its events. If an id came twice, only the first can be fresh.
    #[must_use]
    pub fn tell(ids: Vec<EventId>, mut fresh: HashSet<EventId>) -> Vec<Self> {
        let outcome = |id| if fresh.remove(&id) { Self::Fresh(id) } else { Self::Duplicate(id) };
        ids.into_iter().map(outcome).collect()
    }

    /// The event's id, in either case.
    #[must_use]
    pub const fn event_id(self) -> EventId {
        match self {
            Self::Fresh(id) | Self::Duplicate(id) => id,
        }
    }

    /// Whether the route already carried this event id.
    #[must_use]
    pub const fn is_duplicate(self) -> bool {
        matches!(self, Self::Duplicate(_))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::limits::DELAY_MAX;

    fn entry_of(event: Event) -> Result<NewEntry> {
        let route = RouteName::new("orders")?;
        NewEntry::new(&route, event, EventId(Uuid::from_u128(1)), Hlc::from_raw(1)?, &EventLimits::default())
    }

    #[test]
    fn an_id_of_the_caller_is_kept_and_a_missing_one_is_fresh() {
        let own = EventId(Uuid::from_u128(7));
        assert_eq!(entry_of(Event::new("t", "").id(own)).unwrap().event_id, own);
        assert_eq!(entry_of(Event::new("t", "")).unwrap().event_id, EventId(Uuid::from_u128(1)));
    }

    #[test]
    fn an_event_out_of_bounds_becomes_no_entry() {
        assert!(entry_of(Event::new("", "")).is_err());
    }

    #[test]
    fn a_delay_of_nothing_is_due_at_once() {
        let delay = |delay| entry_of(Event::new("t", "").delay(delay)).unwrap().delay_micros();
        assert_eq!(delay(Duration::ZERO), None);
        assert_eq!(delay(Duration::from_micros(1)), Some(1));
        assert_eq!(delay(DELAY_MAX), Some(316_224_000_000_000));
    }

    proptest! {
        #[test]
        fn a_fence_grows_whatever_the_clock_does(
            steps in prop::collection::vec(0..=Timestamp::MAX.as_micros(), 1..20),
        ) {
            let mut fence = Fence::NONE;
            for now in steps {
                let now = Timestamp::from_micros(now).unwrap();
                let next = fence.next(now);
                prop_assert!(next > fence && next.0 >= now.as_micros());
                fence = next;
            }
        }
    }
}
