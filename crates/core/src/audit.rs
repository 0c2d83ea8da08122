//! The append-only audit trail: how entries and sagas ended, and what operators changed.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::event::EventId;
use crate::name::RouteName;
use crate::saga::{Reference, SagaId};
use crate::time::Timestamp;

/// What an audit record explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditKind {
    /// An entry was given up.
    Dead,
    /// An operator put a dead entry back.
    Requeued,
    /// An operator gave a dead entry up for good.
    Discarded,
    /// An operator made a waiting entry due at once.
    Hastened,
    /// An operator gave up a waiting entry.
    Cancelled,
    /// An operator paused a route. `detail` is the reason.
    RoutePaused,
    /// An operator resumed a paused route. `detail` is the reason.
    RouteResumed,
    /// Delivered or discarded entries were deleted by age. `detail` says how many.
    Purged,
    /// Rows of the inbox were deleted by age. `detail` says how many.
    InboxPurged,
    /// Sagas that had ended were deleted by age. `detail` says how many.
    SagasPurged,
    /// A step of a saga was done.
    StepSucceeded,
    /// A step of a saga was given up. `detail` begins with `abandoned`.
    StepFailed,
    /// A saga began to undo the steps that may have run.
    Compensating,
    /// A step of a saga was undone.
    StepCompensated,
    /// A compensation was given up. `detail` begins with `abandoned`.
    CompensationFailed,
    /// Every step of a saga was done.
    Completed,
    /// Every step of a saga that may have run was undone.
    Compensated,
    /// An operator let a saga go on.
    Resumed,
    /// An operator let a saga go on without a step that was given up. `detail` says why.
    StepSkipped,
    /// An operator ended a saga as it was. `detail` says why.
    Abandoned,
}

impl AuditKind {
    /// Every kind.
    pub const ALL: [Self; 20] = [
        Self::Dead,
        Self::Requeued,
        Self::Discarded,
        Self::Hastened,
        Self::Cancelled,
        Self::RoutePaused,
        Self::RouteResumed,
        Self::Purged,
        Self::InboxPurged,
        Self::SagasPurged,
        Self::StepSucceeded,
        Self::StepFailed,
        Self::Compensating,
        Self::StepCompensated,
        Self::CompensationFailed,
        Self::Completed,
        Self::Compensated,
        Self::Resumed,
        Self::StepSkipped,
        Self::Abandoned,
    ];

    /// The name in SQL and JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Requeued => "requeued",
            Self::Discarded => "discarded",
            Self::Hastened => "hastened",
            Self::Cancelled => "cancelled",
            Self::RoutePaused => "route_paused",
            Self::RouteResumed => "route_resumed",
            Self::Purged => "purged",
            Self::InboxPurged => "inbox_purged",
            Self::SagasPurged => "sagas_purged",
            Self::StepSucceeded => "step_succeeded",
            Self::StepFailed => "step_failed",
            Self::Compensating => "compensating",
            Self::StepCompensated => "step_compensated",
            Self::CompensationFailed => "compensation_failed",
            Self::Completed => "completed",
            Self::Compensated => "compensated",
            Self::Resumed => "resumed",
            Self::StepSkipped => "step_skipped",
            Self::Abandoned => "abandoned",
        }
    }
}

impl fmt::Display for AuditKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for AuditKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, format!("the audit trail holds the unknown kind {text:?}"))
        })
    }
}

/// One record of the audit trail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditRecord {
    /// The record's sequence number in the trail.
    pub seq: i64,
    /// When it happened, by the database's clock.
    pub at: Timestamp,
    /// What it explains.
    pub kind: AuditKind,
    /// The actor: the owner name of a relay, or an operator.
    pub actor: String,
    /// The route, if the record concerns one.
    pub route: Option<RouteName>,
    /// The entry, if the record concerns one.
    pub event_id: Option<EventId>,
    /// The saga, if the record concerns one.
    pub saga_id: Option<SagaId>,
    /// The kind and value of the saga's subject, if the record concerns a saga.
    pub subject: Option<Reference>,
    /// The step, if the record concerns one.
    pub step: Option<String>,
    /// The reason or the count, redacted.
    pub detail: String,
}

impl AuditRecord {
    /// A record that names its actor, and concerns nothing yet.
    pub fn new(seq: i64, at: Timestamp, kind: AuditKind, actor: impl Into<String>) -> Self {
        Self {
            seq,
            at,
            kind,
            actor: actor.into(),
            route: None,
            event_id: None,
            saga_id: None,
            subject: None,
            step: None,
            detail: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_kind_is_an_explicit_error() {
        for kind in AuditKind::ALL {
            assert_eq!(kind.as_str().parse::<AuditKind>().unwrap(), kind);
        }
        assert_eq!("vanished".parse::<AuditKind>().unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
