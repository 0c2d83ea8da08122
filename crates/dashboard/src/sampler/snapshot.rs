//! What the sampler has read, as every page shows it.

use std::collections::BTreeMap;
use std::time::Duration;

use pillarbox_core::health::{Limits, Look, RouteState, Verdict};
use pillarbox_core::port::{RelaySeen, RouteCounts, SagaCounts, SchemaState};
use pillarbox_core::{Error, EventId, Failure, RouteName, Timestamp};

use super::history::History;
use super::outages::Outages;

/// A route at one time.
#[derive(Clone, Debug)]
pub(crate) struct RouteView {
    pub(crate) counts: RouteCounts,
    pub(crate) state: RouteState,
    pub(crate) history: History,
    pub(crate) outages: Outages,
    /// What the dead entries died of that hold others back, as far as it was read.
    pub(crate) died_of: BTreeMap<EventId, Failure>,
}

/// Since when the store cannot be read, and why.
#[derive(Clone, Debug)]
pub(crate) struct Lost {
    pub(crate) since: Timestamp,
    pub(crate) why: String,
}

/// Everything at one time.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// When it was read, by the wall clock of this process.
    pub(crate) at: Timestamp,
    /// Whether anything was read since the start.
    pub(crate) read: bool,
    /// How long reading took.
    pub(crate) cost: Duration,
    pub(crate) verdict: Verdict,
    /// Those that need somebody most come first.
    pub(crate) routes: Vec<RouteView>,
    pub(crate) sagas: SagaCounts,
    pub(crate) relays: Vec<RelaySeen>,
    pub(crate) consumers: BTreeMap<String, History>,
    pub(crate) lost: Option<Lost>,
}

impl Snapshot {
    /// Nothing was read yet.
    pub(crate) fn unread(at: Timestamp) -> Self {
        let error = Error::new(pillarbox_core::ErrorKind::Unavailable, "it was not read yet");
        Self {
            at,
            read: false,
            cost: Duration::ZERO,
            verdict: Verdict::unreadable(&error),
            routes: Vec::new(),
            sagas: SagaCounts::zero(),
            relays: Vec::new(),
            consumers: BTreeMap::new(),
            lost: None,
        }
    }

    /// The same numbers, with the news that the store cannot be read any more.
    pub(crate) fn lost(&self, error: &Error, tables: Option<&SchemaState>, now: Timestamp) -> Self {
        let verdict = match tables.filter(|state| state.check().is_err()) {
            Some(tables) => {
                let sagas = SagaCounts::zero();
                let look =
                    Look { routes: &[], configured: &[], sagas: &sagas, relays: &[], tables: Some(tables) };
                Verdict::of(&look, &Limits::default())
            }
            None => Verdict::unreadable(error),
        };
        let since = self.lost.as_ref().map_or(now, |lost| lost.since);
        let lost = Some(Lost { since, why: error.message().to_owned() });
        Self { verdict, lost, read: true, ..self.clone() }
    }

    /// Whether the store was read, or could not be.
    pub(crate) fn is_read(&self) -> bool {
        self.read
    }

    /// A route by its name.
    pub(crate) fn route(&self, name: &RouteName) -> Option<&RouteView> {
        self.routes.iter().find(|view| view.counts.route == *name)
    }
}
