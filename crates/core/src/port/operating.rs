//! More of the operator's side: groups of entries, dead entries that block a key, skipped entries, paused routes.

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

/// Stands between a type and an error in the value of a group. No type has it: control characters are refused.
pub(crate) const PAIRED: char = '\u{1f}';

/// A dead entry that blocks its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockingHead {
    /// The id of the dead entry.
    pub event_id: EventId,
    /// The blocked key.
    pub key: String,
    /// How many entries wait behind it.
    pub blocked: u64,
}

/// The field that entries are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountBy {
    /// The event type.
    Type,
    /// The kind and code of the last error.
    Error,
    /// The ordering key.
    Key,
    /// The tenant.
    Tenant,
    /// The event type together with the kind and code of the last error, see [`CountGroup::pair`].
    TypeAndError,
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
            Self::TypeAndError => "type_error",
        }
    }
}

impl fmt::Display for CountBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A request to count entries in groups.
#[derive(Clone, Debug)]
pub struct CountByRequest {
    /// Which entries to count. The filter's limit is the most groups to return. Its `after` applies as well.
    pub filter: Filter,
    /// The field to group by.
    pub by: CountBy,
}

/// The entries with one value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountGroup {
    /// The value. `None`: the entries without one.
    pub value: Option<String>,
    /// How many entries.
    pub entries: u64,
}

impl CountGroup {
    /// The type and the error of a group by [`CountBy::TypeAndError`].
    #[must_use]
    pub fn pair(&self) -> Option<(&str, Option<&str>)> {
        let (event_type, error) = self.value.as_deref()?.split_once(PAIRED)?;
        Some((event_type, Some(error).filter(|error| !error.is_empty())))
    }

    /// Sorts the groups that a store has found, the largest first. Of an error only kind and code are shown, even
    /// if plain SQL wrote more into the column.
    #[must_use]
    pub fn gather(by: CountBy, found: impl IntoIterator<Item = (Option<String>, u64)>) -> Vec<Self> {
        let mut groups: BTreeMap<Option<String>, u64> = BTreeMap::new();
        for (value, entries) in found {
            let value = match by {
                CountBy::Error => value.map(|error| Failure::parse(&error)).map(|error| error.name()),
                CountBy::TypeAndError => value.map(|pair| match pair.split_once(PAIRED) {
                    Some((event_type, error)) if !error.is_empty() => {
                        format!("{event_type}{PAIRED}{}", Failure::parse(error).name())
                    }
                    _ => pair,
                }),
                CountBy::Type | CountBy::Key | CountBy::Tenant => value,
            };
            *groups.entry(value).or_default() += entries;
        }
        let mut groups: Vec<_> = groups.into_iter().map(|(value, entries)| Self { value, entries }).collect();
        groups.sort_by(|a, b| b.entries.cmp(&a.entries).then_with(|| a.value.cmp(&b.value)));
        groups
    }
}

/// A selected entry that was not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The event's id.
    pub event_id: EventId,
    /// The route.
    pub route: RouteName,
    /// Why the entry was skipped.
    pub why: Skip,
}

/// Why a selected entry was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Skip {
    /// The entry's standing does not allow the change.
    Standing(Standing),
    /// A relay holds the entry's lane and may have read the entry.
    LaneHeld,
    /// The entry is due already.
    Due,
    /// The entry is a step of this saga. The saga has not ended, and without the step it never could.
    OpenSaga(SagaId),
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Standing(standing) => write!(f, "it is {standing}"),
            Self::LaneHeld => {
                f.write_str("a running relay may already have read it. Pause the route first, then try again")
            }
            Self::Due => f.write_str("it is due already"),
            Self::OpenSaga(id) => {
                write!(
                    f,
                    "it is a step of saga {id}, which has not ended. `pillarbox saga show {id}` lists what \
                     you can do"
                )
            }
        }
    }
}

/// A route that an operator has paused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// When the route was paused.
    pub at: Timestamp,
    /// The name of the operator who paused it.
    pub actor: String,
    /// The reason. It may be empty.
    pub reason: String,
}

/// Whether to pause or to resume a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseTo {
    /// No relay takes entries of the route.
    Paused,
    /// Relays deliver the route.
    Running,
}

impl PauseTo {
    /// The kind of the audit record.
    #[must_use]
    pub const fn audited_as(self) -> AuditKind {
        match self {
            Self::Paused => AuditKind::RoutePaused,
            Self::Running => AuditKind::RouteResumed,
        }
    }
}

/// A request to pause or resume a route.
#[derive(Clone, Debug)]
pub struct PauseRequest {
    /// The route. It need not have entries yet.
    pub route: RouteName,
    /// The wanted state.
    pub to: PauseTo,
    /// The operator's name, for the audit trail.
    pub actor: String,
    /// The reason, for people and the audit trail. It may be empty.
    pub reason: String,
    /// The time of the operation. `None`: the database's clock.
    pub now: Option<Timestamp>,
}

impl PauseRequest {
    /// Whether the request changes a route that is paused now (`true`) or not (`false`).
    pub fn change(&self, paused: bool) -> PauseChange {
        if paused == (self.to == PauseTo::Paused) { PauseChange::Already } else { PauseChange::Changed }
    }

    /// Refuses a request with a value out of range.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) or [`TooLarge`](crate::ErrorKind::TooLarge).
    pub fn check(&self) -> Result<()> {
        check_name("actor", &self.actor)?;
        if self.reason.len() > REASON_BYTES_MAX {
            return Err(crate::Error::too_large(format!(
                "the reason has {} bytes; at most {REASON_BYTES_MAX} are allowed",
                self.reason.len()
            )));
        }
        Ok(())
    }
}

/// The answer to a [`PauseRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum PauseChange {
    /// The route was changed, and the change was audited.
    Changed,
    /// The route was in the wanted state already. Nothing was written.
    Already,
}
