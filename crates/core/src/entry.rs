//! The stored row of an event, with its delivery state.

use std::collections::HashSet;
use std::num::NonZeroU64;
use std::time::Duration;

use crate::error::Result;
use crate::event::{Event, EventId, EventLimits, Headers};
use crate::hlc::Hlc;
use crate::lane::{NO_LANE, lane_of};
use crate::name::RouteName;
use crate::outcome::Failure;
use crate::saga::is_step;
use crate::standing::Standing;
use crate::status::Status;
use crate::suspect::attempts_counted;
use crate::time::Timestamp;

/// The growing number that proves a claim. Whoever settles shows the fence that the claim returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(transparent)]
pub struct Fence(pub i64);

impl Fence {
    /// What the first claim exceeds.
    pub const NONE: Self = Self(0);

    /// The fence of the next claim.
    ///
    /// At least the database's time in microseconds, so that it grows even when the database lost the
    /// write of the last claim in a crash or a failover; always above the last one, so that it grows even
    /// when that clock steps back.
    #[must_use]
    pub fn next(self, now: Timestamp) -> Self {
        Self(self.0.saturating_add(1).max(now.as_micros()))
    }
}

/// Proof of one claimed entry: which row, under which fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Held {
    /// The row.
    pub seq: i64,
    /// The claim.
    pub fence: Fence,
}

/// What a store noted about a row when it read it, by which it may find it sooner when it is settled. It means nothing to
/// anybody else, and a store that needs none leaves it empty. The row may have changed since: whoever looks checks.
///
/// It says nothing about the entry, so any two are equal.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowHint(pub Option<NonZeroU64>);

impl PartialEq for RowHint {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// One row of the outbox. The fields are the columns of the SQL contract.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Stage order inside the store; internal.
    pub seq: i64,
    /// The idempotency key; unique per route.
    pub event_id: EventId,
    /// Which route delivers it.
    pub route: RouteName,
    /// The event type.
    pub event_type: String,
    /// The ordering key.
    pub key: Option<String>,
    /// Opaque bytes.
    pub payload: Vec<u8>,
    /// What the payload is.
    pub content_type: String,
    /// A small map of strings.
    pub headers: Headers,
    /// Whose event it is.
    pub tenant: Option<String>,
    /// What it belongs to across services.
    pub correlation_id: Option<String>,
    /// What caused it.
    pub causation_id: Option<String>,
    /// The run that staged it.
    pub execution_id: Option<String>,
    /// When it happened in the business.
    pub occurred_at: Option<Timestamp>,
    /// The lane that it was read from; `None` when it was claimed as a row.
    pub lane: Option<u8>,
    /// The store's own note; not a column.
    pub hint: RowHint,
    /// Lower goes first.
    pub priority: i16,
    /// The saga or completion group.
    pub group_id: Option<String>,
    /// The hybrid logical clock stamp; plain SQL staging leaves it out.
    pub hlc: Option<Hlc>,
    /// Where it is in its life. In a listing, what a lane has handed out is in flight.
    pub status: Status,
    /// The dead entry of its key that it waits for, on a route that such an entry blocks. Only in a listing; not a
    /// column.
    pub blocked_by: Option<EventId>,
    /// Claims that were not given back.
    pub attempts: u32,
    /// How many of them ended because the lease expired.
    pub crashes: u32,
    /// Attempts allowed for this entry, if it does not follow its route.
    pub max_attempts: Option<u32>,
    /// The earliest time anyone may claim it; in flight: the lease's end; terminal: none.
    pub due_at: Option<Timestamp>,
    /// The last claim's number.
    pub fence: Fence,
    /// Who claimed it, for people.
    pub owner: Option<String>,
    /// What the last failed attempt left.
    pub last_error: Option<Failure>,
    /// When the last attempt began.
    pub last_attempt_at: Option<Timestamp>,
    /// When it was staged.
    pub created_at: Timestamp,
    /// When it reached its end.
    pub settled_at: Option<Timestamp>,
}

impl Entry {
    /// Where it stands as an operator sees it.
    #[must_use]
    pub fn standing(&self) -> Standing {
        if self.blocked_by.is_some() { Standing::Blocked } else { self.status.into() }
    }

    /// The proof of this claim.
    #[must_use]
    pub fn held(&self) -> Held {
        Held { seq: self.seq, fence: self.fence }
    }

    /// Whether it is a step of a saga, or undoes one: only a relay that knows sagas may have it.
    #[must_use]
    pub fn is_step(&self) -> bool {
        is_step(self.group_id.as_deref(), &self.content_type)
    }

    /// Whether the attempt that this claim began is the last one allowed.
    #[must_use]
    pub fn is_last_attempt(&self, route_max_attempts: u32) -> bool {
        attempts_counted(self.attempts, self.crashes) >= self.max_attempts.unwrap_or(route_max_attempts)
    }

    /// Whether it came back from an expired lease and was not tried since: it goes in small company only.
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        self.status == Status::Retrying && self.due_at.is_none() && self.crashes > 0
    }
}

/// An event that was checked and given its identity: what a store writes.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEntry {
    /// The idempotency key.
    pub event_id: EventId,
    /// Which route delivers it.
    pub route: RouteName,
    /// Everything the application said. Its `id` is not looked at any more.
    pub event: Event,
    /// The stamp of this process's clock.
    pub hlc: Hlc,
}

impl NewEntry {
    /// The lane that it belongs to, by [`lane_of`]; a step of a saga to none.
    #[must_use]
    pub fn lane(&self) -> u8 {
        let event = &self.event;
        if is_step(event.group_id.as_deref(), &event.content_type) {
            return NO_LANE;
        }
        lane_of(event.key.as_deref(), self.event_id)
    }

    /// Checks an event and gives it its identity and stamp.
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

    /// How long nobody may claim it, in whole microseconds; `None` when it is due at once.
    #[must_use]
    pub fn delay_micros(&self) -> Option<i64> {
        let delay = self.event.delay.filter(|delay| *delay > Duration::ZERO)?;
        i64::try_from(delay.as_micros()).ok()
    }
}

/// What staging did with one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staged {
    /// A new entry was written.
    Fresh(EventId),
    /// The route already carries this event id; nothing was written.
    Duplicate(EventId),
}

impl Staged {
    /// The outcomes of a call, in the order of its events: of an id that came twice only the first can be fresh.
    #[must_use]
    pub fn tell(ids: Vec<EventId>, mut fresh: HashSet<EventId>) -> Vec<Self> {
        let outcome = |id| if fresh.remove(&id) { Self::Fresh(id) } else { Self::Duplicate(id) };
        ids.into_iter().map(outcome).collect()
    }

    /// The event's id, whichever it was.
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
