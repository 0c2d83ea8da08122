//! What a decision asks a store to do, all in one transaction.

use crate::audit::AuditKind;
use crate::event::{Event, EventId};
use crate::name::RouteName;
use crate::outcome::Failure;

use super::id::SagaId;
use super::record::SagaRecord;
use super::reference::Reference;

/// What a store must do with one entry of a saga.
#[derive(Clone, Debug, PartialEq)]
pub enum EntryMove {
    /// The entry was delivered.
    Deliver,
    /// The entry is dead. An operator may requeue it.
    Bury(Failure),
    /// The entry is given up for good, and no relay may run it again.
    Discard(Failure),
    /// A dead entry is tried again with a fresh budget of attempts.
    Requeue,
}

impl EntryMove {
    /// The change by its name in SQL, and the failure that is stored with it.
    #[must_use]
    pub const fn parts(&self) -> (&'static str, Option<&Failure>) {
        match self {
            Self::Deliver => ("delivered", None),
            Self::Bury(failure) => ("dead", Some(failure)),
            Self::Discard(failure) => ("discarded", Some(failure)),
            Self::Requeue => ("requeued", None),
        }
    }
}

/// An audit record that is about to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct NewAudit {
    /// What it explains.
    pub kind: AuditKind,
    /// The saga's id.
    pub saga_id: SagaId,
    /// The saga's subject: what it is about.
    pub subject: Reference,
    /// The step, if the record concerns one.
    pub step: Option<String>,
    /// The route of the saga's entries.
    pub route: RouteName,
    /// The entry, if the record concerns one.
    pub event_id: Option<EventId>,
    /// The reason, redacted.
    pub detail: String,
}

/// What a decision asks a store to write: audit records first, then the entries' states, then new entries, then the
/// saga's row.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct Moves {
    /// Audit records, to be written before anything else.
    pub audit: Vec<NewAudit>,
    /// Changes of existing entries.
    pub entries: Vec<(EventId, EntryMove)>,
    /// Entries to be staged on the saga's route.
    pub stage: Vec<Event>,
    /// Whether the saga has just ended. If so, its callback runs in the same transaction.
    pub ended: bool,
}

impl Moves {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the moves of another decision on the same saga.
    pub fn append(&mut self, other: Self) {
        self.audit.extend(other.audit);
        self.entries.extend(other.entries);
        self.stage.extend(other.stage);
        self.ended |= other.ended;
    }

    pub(super) fn note(
        &mut self,
        saga: &SagaRecord,
        kind: AuditKind,
        step: Option<(&str, EventId)>,
        detail: impl Into<String>,
    ) {
        self.audit.push(NewAudit {
            kind,
            saga_id: saga.id,
            subject: saga.subject.clone(),
            step: step.map(|(name, _)| name.to_owned()),
            route: saga.route.clone(),
            event_id: step.map(|(_, id)| id),
            detail: detail.into(),
        });
    }
}
