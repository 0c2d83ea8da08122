//! Which relays are running. This is information for people; no decision depends on it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::circuit::CircuitState;
use crate::error::Result;
use crate::name::{RouteName, check_name};
use crate::on_dead::OnDead;
use crate::outcome::Failure;
use crate::time::Timestamp;

/// Where running relays announce their state, so that an operator sees from any process which circuit is open.
/// Leases and fences do not depend on it: a lost announcement changes no delivery.
#[async_trait]
pub trait Presence: Send + Sync {
    /// Announces the state of a relay. A later announcement of the same run replaces the earlier one but keeps the
    /// start time. A relay that was not seen for [`RELAY_SWEPT_AFTER`](crate::limits::RELAY_SWEPT_AFTER) is
    /// forgotten.
    async fn announce(&self, request: AnnounceRequest) -> Result<()>;

    /// Removes the announcement of this run. It is not an error if there is none.
    async fn withdraw(&self, run: RunId) -> Result<()>;

    /// The relays that were seen within [`RELAY_SWEPT_AFTER`](crate::limits::RELAY_SWEPT_AFTER), ordered by route,
    /// owner and start. `now` pins the time that ages are counted to.
    async fn relays(&self, now: Option<Timestamp>) -> Result<Vec<RelaySeen>>;
}

/// Forwards every call to the shared value.
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

/// The identity of one run of a relay. It is a random number, because two relays may have the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub i64);

/// The state of a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnounceRequest {
    /// The run.
    pub run: RunId,
    /// The route that the relay delivers.
    pub route: RouteName,
    /// The relay's name, for people.
    pub owner: String,
    /// How long the relay works, `run` or `drain`. If it runs the steps of sagas, a space and `sagas` follow. 1 to
    /// 255 characters.
    pub mode: String,
    /// How the relay learns of new entries, such as `poll`. 1 to 255 characters.
    pub wake: String,
    /// Entries claimed and not yet settled.
    pub in_flight: u64,
    /// The state of the circuit: whether the relay treats its destination as up.
    pub circuit: CircuitState,
    /// The outage, while the circuit is not closed.
    pub outage: Option<Outage>,
    /// How long this announcement is valid. A relay that is silent for longer has died or lost the database.
    pub lease: Duration,
    /// What a dead entry does to the entries of its key behind it. `None`: the relay works by rows, and a dead
    /// entry does nothing to them. The last announcement of a route is kept, so that an operator sees which entries
    /// are [blocked](crate::Standing::Blocked).
    pub on_dead: Option<OnDead>,
    /// The time of the operation. `None`: the database's clock.
    pub now: Option<Timestamp>,
}

impl AnnounceRequest {
    /// Refuses names that are not allowed.
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
    /// How long it has been down, by the relay's own monotonic clock.
    pub lasted: Duration,
    /// How often in a row it was found down: by the first delivery that failed and by each probe since.
    pub found: u32,
    /// The last failure.
    pub failure: Failure,
}

/// A relay as it was last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelaySeen {
    /// The run.
    pub run: RunId,
    /// The route that the relay delivers.
    pub route: RouteName,
    /// The relay's name, for people.
    pub owner: String,
    /// How long the relay works, `run` or `drain`. If it runs the steps of sagas, a space and `sagas` follow.
    pub mode: String,
    /// How the relay learns of new entries.
    pub wake: String,
    /// Entries claimed and not yet settled.
    pub in_flight: u64,
    /// The state of the circuit: whether the relay treats its destination as up.
    pub circuit: CircuitState,
    /// When the destination went down. `None`: the circuit is closed.
    pub down_since: Option<Timestamp>,
    /// How often in a row the destination was found down.
    pub outages: u32,
    /// The failure of the last time that the destination was found down.
    pub reason: Option<Failure>,
    /// When the relay was first seen.
    pub started_at: Timestamp,
    /// When the relay was last seen.
    pub seen_at: Timestamp,
    /// How long ago the relay was last seen.
    pub unseen_for: Duration,
    /// When the last announcement ceases to be valid.
    pub lease_until: Timestamp,
}

impl RelaySeen {
    /// A relay with nothing in flight and a closed circuit, seen for the first time at this moment.
    pub fn new(run: RunId, route: RouteName, owner: impl Into<String>, at: Timestamp) -> Self {
        Self {
            run,
            route,
            owner: owner.into(),
            mode: "run".to_owned(),
            wake: "poll".to_owned(),
            in_flight: 0,
            circuit: CircuitState::Closed,
            down_since: None,
            outages: 0,
            reason: None,
            started_at: at,
            seen_at: at,
            unseen_for: Duration::ZERO,
            lease_until: at,
        }
    }

    /// Whether the relay was silent for so long that it must have died or lost the database.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.seen_at.saturating_add(self.unseen_for) >= self.lease_until
    }

    /// Whether the relay runs the steps of sagas.
    #[must_use]
    pub fn does_sagas(&self) -> bool {
        self.mode.split(' ').any(|word| word == "sagas")
    }

    /// Whether the relay is running but cannot deliver.
    #[must_use]
    pub fn is_down(&self) -> bool {
        !self.is_gone() && self.circuit != CircuitState::Closed
    }
}
