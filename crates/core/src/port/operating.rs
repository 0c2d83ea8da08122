//! What else an operator sees and says: groups of entries, whom a key waits for, what was skipped, paused routes.

use std::collections::BTreeMap;
use std::fmt;

use crate::audit::AuditKind;
use crate::error::Result;
use crate::event::EventId;
use crate::name::{RouteName, check_name};
use crate::outcome::Failure;
use crate::saga::SagaId;
use crate::standing::Standing;
use crate::time::Timestamp;

use super::filter::Filter;

/// Longest reason of a pause, in bytes.
const REASON_BYTES_MAX: usize = 1024;

/// A dead entry that blocks its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockingHead {
    /// Which entry.
    pub event_id: EventId,
    /// Which key.
    pub key: String,
    /// How many entries wait for it.
    pub blocked: u64,
}

/// The field that entries are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountBy {
    /// The event type.
    Type,
    /// Kind and code of the last error.
    Error,
    /// The ordering key.
    Key,
    /// Whose event it is.
    Tenant,
}

impl CountBy {
    /// The name on the command line and in SQL.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Error => "error",
            Self::Key => "key",
            Self::Tenant => "tenant",
        }
    }
}

impl fmt::Display for CountBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A wish to count entries in groups.
#[derive(Clone, Debug)]
pub struct CountByRequest {
    /// Which entries. Its limit is that of the groups; where the page begins counts as well.
    pub filter: Filter,
    /// By which field.
    pub by: CountBy,
}

/// Entries that have one value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountGroup {
    /// The value; `None`: those that have none.
    pub value: Option<String>,
    /// How many.
    pub entries: u64,
}

impl CountGroup {
    /// The groups that a store has found, the largest first. Of an error only kind and code are told, whatever plain SQL
    /// wrote there.
    #[must_use]
    pub fn gather(by: CountBy, found: impl IntoIterator<Item = (Option<String>, u64)>) -> Vec<Self> {
        let mut groups: BTreeMap<Option<String>, u64> = BTreeMap::new();
        for (value, entries) in found {
            let value = match by {
                CountBy::Error => value.map(|error| Failure::parse(&error)).map(|error| error.name()),
                CountBy::Type | CountBy::Key | CountBy::Tenant => value,
            };
            *groups.entry(value).or_default() += entries;
        }
        let mut groups: Vec<_> = groups.into_iter().map(|(value, entries)| Self { value, entries }).collect();
        groups.sort_by(|a, b| b.entries.cmp(&a.entries).then_with(|| a.value.cmp(&b.value)));
        groups
    }
}

/// An entry that was meant and is left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Which event.
    pub event_id: EventId,
    /// On which route.
    pub route: RouteName,
    /// Why.
    pub why: Skip,
}

/// Why an entry is left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Skip {
    /// Where it stands allows no such change.
    Standing(Standing),
    /// A relay holds its lane and may have read it.
    LaneHeld,
    /// It is due already.
    Due,
    /// It is a step of this saga, which has not ended and never could without it.
    OpenSaga(SagaId),
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Standing(standing) => write!(f, "it is {standing}"),
            Self::LaneHeld => {
                f.write_str("a relay holds its lane and may have read it: pause the route first")
            }
            Self::Due => f.write_str("it is due already"),
            Self::OpenSaga(id) => {
                write!(
                    f,
                    "it is a step of saga {id}, which has not ended: `pillarbox saga show` says what can be done"
                )
            }
        }
    }
}

/// A route that an operator has paused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Since when.
    pub at: Timestamp,
    /// By whom.
    pub actor: String,
    /// Why; may be empty.
    pub reason: String,
}

/// Whether a route is to be paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseTo {
    /// No relay takes anything of it.
    Paused,
    /// Relays deliver it.
    Running,
}

impl PauseTo {
    /// What the audit trail says of it.
    #[must_use]
    pub const fn audited_as(self) -> AuditKind {
        match self {
            Self::Paused => AuditKind::RoutePaused,
            Self::Running => AuditKind::RouteResumed,
        }
    }
}

/// A wish to pause a route, or to let it go on.
#[derive(Clone, Debug)]
pub struct PauseRequest {
    /// Which route. It need not have entries yet.
    pub route: RouteName,
    /// What is wanted.
    pub to: PauseTo,
    /// Who asks, for the audit trail.
    pub actor: String,
    /// Why, for people and the audit trail; may be empty.
    pub reason: String,
    /// The time to act at; `None`: the database's clock.
    pub now: Option<Timestamp>,
}

impl PauseRequest {
    /// What is to be done with a route that is paused already, or is not.
    pub fn change(&self, paused: bool) -> PauseChange {
        if paused == (self.to == PauseTo::Paused) { PauseChange::Already } else { PauseChange::Changed }
    }

    /// Refuses what is out of bounds.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) or [`TooLarge`](crate::ErrorKind::TooLarge).
    pub fn check(&self) -> Result<()> {
        check_name("actor", &self.actor)?;
        if self.reason.len() > REASON_BYTES_MAX {
            return Err(crate::Error::too_large(format!(
                "a reason of {} bytes; at most {REASON_BYTES_MAX} are kept",
                self.reason.len()
            )));
        }
        Ok(())
    }
}

/// What came of a [`PauseRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum PauseChange {
    /// The route is now as wanted, and that is in the audit trail.
    Changed,
    /// It was so already; nothing was written.
    Already,
}
