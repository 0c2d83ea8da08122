//! Which relays are running, for people: information that nothing is decided by.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::circuit::CircuitState;
use crate::error::Result;
use crate::name::{RouteName, check_name};
use crate::on_dead::OnDead;
use crate::outcome::Failure;
use crate::time::Timestamp;

/// Where running relays say that they are there and how they are, so that an operator sees from any process which
/// circuit is open. Leases and fences know nothing of it: a lost announcement changes no delivery.
#[async_trait]
pub trait Presence: Send + Sync {
    /// Says how a relay is. The same run again replaces what it said before; when it started is kept. Whoever was
    /// not seen for [`RELAY_SWEPT_AFTER`](crate::limits::RELAY_SWEPT_AFTER) is forgotten.
    async fn announce(&self, request: AnnounceRequest) -> Result<()>;

    /// Takes the announcement of this run back. One that is not there is no error.
    async fn withdraw(&self, run: RunId) -> Result<()>;

    /// The relays that were seen within [`RELAY_SWEPT_AFTER`](crate::limits::RELAY_SWEPT_AFTER), by route, owner
    /// and start. `now` pins the time that ages are counted to.
    async fn relays(&self, now: Option<Timestamp>) -> Result<Vec<RelaySeen>>;
}

/// Whoever shares one passes it on as it is.
#[async_trait]
impl<T: Presence + ?Sized> Presence for Arc<T> {
    async fn announce(&self, request: AnnounceRequest) -> Result<()> {
        (**self).announce(request).await
    }

    async fn withdraw(&self, run: RunId) -> Result<()> {
        (**self).withdraw(run).await
    }

    async fn relays(&self, now: Option<Timestamp>) -> Result<Vec<RelaySeen>> {
        (**self).relays(now).await
    }
}

/// One run of one relay: a random number, because two relays may have one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub i64);

/// How a relay is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnounceRequest {
    /// Which run.
    pub run: RunId,
    /// Which route it delivers.
    pub route: RouteName,
    /// Its name, for people.
    pub owner: String,
    /// How long it works, `run` or `drain`, and behind a space `sagas` if it does their steps. 1 to 255 characters.
    pub mode: String,
    /// How it learns of new entries, such as `poll`. 1 to 255 characters.
    pub wake: String,
    /// Entries claimed and not yet settled.
    pub in_flight: u64,
    /// Whether its destination is taken to be up.
    pub circuit: CircuitState,
    /// What is known of the outage while the circuit is not closed.
    pub outage: Option<Outage>,
    /// How long this announcement holds: who is silent for longer has died or lost the database.
    pub lease: Duration,
    /// What a dead entry does to the entries of its key behind it; `None`: the relay takes rows, and it does nothing. The
    /// last word of a route is kept, so that an operator sees which entries are [blocked](crate::Standing::Blocked).
    pub on_dead: Option<OnDead>,
    /// The time to act at; `None`: the database's clock.
    pub now: Option<Timestamp>,
}

impl AnnounceRequest {
    /// Refuses names out of bounds.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) or [`TooLarge`](crate::ErrorKind::TooLarge).
    pub fn check(&self) -> Result<()> {
        check_name("owner", &self.owner)?;
        check_name("mode", &self.mode)?;
        check_name("wake", &self.wake)
    }
}

/// A destination that is down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// For how long, by the relay's own monotonic clock.
    pub lasted: Duration,
    /// How often in a row it was found down: the first time, and by each probe since.
    pub found: u32,
    /// What was said the last time.
    pub failure: Failure,
}

/// A relay as it was last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelaySeen {
    /// Which run.
    pub run: RunId,
    /// Which route it delivers.
    pub route: RouteName,
    /// Its name, for people.
    pub owner: String,
    /// How long it works, `run` or `drain`, and behind a space `sagas` if it does their steps.
    pub mode: String,
    /// How it learns of new entries.
    pub wake: String,
    /// Entries claimed and not yet settled.
    pub in_flight: u64,
    /// Whether its destination is taken to be up.
    pub circuit: CircuitState,
    /// Since when the destination is down; `None` while the circuit is closed.
    pub down_since: Option<Timestamp>,
    /// How often in a row the destination was found down.
    pub outages: u32,
    /// What was said the last time that it was found down.
    pub reason: Option<Failure>,
    /// When it was first seen.
    pub started_at: Timestamp,
    /// When it was last seen.
    pub seen_at: Timestamp,
    /// How long ago that was.
    pub unseen_for: Duration,
    /// Until when that held.
    pub lease_until: Timestamp,
}

impl RelaySeen {
    /// Whether it was silent for so long that it must have died or lost the database.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.seen_at.saturating_add(self.unseen_for) >= self.lease_until
    }

    /// Whether it does the steps of sagas.
    #[must_use]
    pub fn does_sagas(&self) -> bool {
        self.mode.split(' ').any(|word| word == "sagas")
    }

    /// Whether it is here and cannot deliver.
    #[must_use]
    pub fn is_down(&self) -> bool {
        !self.is_gone() && self.circuit != CircuitState::Closed
    }
}
