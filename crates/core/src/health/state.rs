//! How one route stands, in the order in which routes need somebody.

use std::time::Duration;

use crate::port::{RelaySeen, RouteCounts};
use crate::status::Status;

use super::routes::{down, running};

/// How a route stands. The first ones need somebody most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RouteState {
    /// No relay of the route reaches its destination.
    CircuitOpen,
    /// Entries are due, and no relay runs.
    Unrelayed,
    /// The oldest due entry has waited for too long.
    Late,
    /// Dead entries hold back others of their key.
    Blocked,
    /// The route has dead entries.
    HasDead,
    /// An operator paused the route.
    Paused,
    /// Entries are on their way.
    Moving,
    /// Nothing waits.
    Idle,
}

impl RouteState {
    /// How this route stands. No due entry may wait for longer than `max_age`.
    #[must_use]
    pub fn of(counts: &RouteCounts, relays: &[RelaySeen], max_age: Duration) -> Self {
        let is_late = counts.oldest_due_age.is_some_and(|age| age > max_age);
        let is_relayed = running(&counts.route, relays).next().is_some();
        if down(&counts.route, relays).is_some() {
            Self::CircuitOpen
        } else if counts.paused.is_some() {
            Self::Paused
        } else if counts.oldest_due_age.is_some() && !is_relayed {
            Self::Unrelayed
        } else if is_late {
            Self::Late
        } else if counts.blocked > 0 {
            Self::Blocked
        } else if counts.of(Status::Dead) > 0 {
            Self::HasDead
        } else if counts.undrained() > 0 {
            Self::Moving
        } else {
            Self::Idle
        }
    }

    /// The name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CircuitOpen => "circuit_open",
            Self::Unrelayed => "unrelayed",
            Self::Late => "late",
            Self::Blocked => "blocked",
            Self::HasDead => "has_dead",
            Self::Paused => "paused",
            Self::Moving => "moving",
            Self::Idle => "idle",
        }
    }

    /// The words for people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::CircuitOpen => "circuit open",
            Self::Unrelayed => "no relay",
            Self::Late => "late",
            Self::Blocked => "blocked",
            Self::HasDead => "has dead",
            Self::Paused => "paused",
            Self::Moving => "moving",
            Self::Idle => "idle",
        }
    }
}
