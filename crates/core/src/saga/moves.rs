//! What a decision asks a store to do, all in one transaction.

use crate::audit::AuditKind;
use crate::event::{Event, EventId};
use crate::name::RouteName;
use crate::outcome::Failure;

use super::id::SagaId;
use super::record::SagaRecord;
use super::reference::Reference;

/// What is to be done with one entry of a saga.
#[derive(Clone, Debug, PartialEq)]
pub enum EntryMove {
    /// It was delivered.
    Deliver,
    /// It is dead, and an operator may requeue it.
    Bury(Failure),
    /// It is given up for good: the saga goes back, and nobody may run it again.
    Discard(Failure),
    /// A dead one is tried again with a fresh budget.
    Requeue,
}

impl EntryMove {
    /// What becomes of it, as SQL names it, and the failure that is kept with it.
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
    /// The saga.
    pub saga_id: SagaId,
    /// What the saga is about.
    pub subject: Reference,
    /// The step, if it concerns one.
    pub step: Option<String>,
    /// The route of its entries.
    pub route: RouteName,
    /// The entry, if it concerns one.
    pub event_id: Option<EventId>,
    /// The reason, redacted.
    pub detail: String,
}

/// What a decision asks for: audit records first, then the entries' states, then new entries, then the saga's row.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct Moves {
    /// To be written before anything else.
    pub audit: Vec<NewAudit>,
    /// What becomes of entries that are there.
    pub entries: Vec<(EventId, EntryMove)>,
    /// Entries to be staged on the saga's route.
    pub stage: Vec<Event>,
    /// The saga has just ended: its callback runs in the same transaction.
    pub ended: bool,
}

impl Moves {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds what another decision on the same saga asks for.
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
