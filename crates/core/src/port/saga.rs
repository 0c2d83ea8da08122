//! Sagas: staging them, settling their steps, and the operator's side.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use crate::audit::AuditRecord;
use crate::entry::{Entry, Held};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{LIST_DEFAULT, LIST_MAX};
use crate::name::RouteName;
use crate::outcome::Failure;
use crate::saga::{Reference, Saga, SagaId, SagaRecord, SagaStatus, TimelineItem, timeline};
use crate::time::Timestamp;

use super::{Keep, PurgeRequest, Purged, SagaCursor};

/// Stages a saga inside the application's own transaction, together with the entries of the steps that may run now.
#[async_trait]
pub trait StageSaga<Tx: Send + ?Sized>: Send + Sync {
    /// Stages the saga. This commits nothing.
    async fn stage_saga(&self, tx: &mut Tx, saga: Saga) -> Result<StagedSaga>;
}

/// The result of staging a saga.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StagedSaga {
    /// The saga was written.
    Fresh {
        /// The saga's id.
        id: SagaId,
        /// The saga's number among those of the same name and subject, counted from 1.
        generation: u32,
    },
    /// A saga with this id exists already. Nothing was written.
    Duplicate(SagaId),
}

impl StagedSaga {
    /// The saga's id, in either case.
    #[must_use]
    pub const fn id(self) -> SagaId {
        match self {
            Self::Fresh { id, .. } | Self::Duplicate(id) => id,
        }
    }
}

/// Sagas as a relay sees them.
///
/// Settling is atomic per saga. One transaction, under a lock on the saga, writes the audit records, the entries'
/// states, the next entries and the saga's own row, and runs its callback.
#[async_trait]
pub trait Sagas: Send + Sync {
    /// Records the outcomes of claimed steps, guarded by their fences.
    async fn settle_steps(&self, request: StepSettleRequest) -> Result<StepsSettled>;

    /// Brings sagas up to date with what happened to their entries elsewhere: deaths by a reap, requeues,
    /// deadlines. It goes through sagas in the order of their ids. If one fails, the sweep reports it and goes on
    /// with the next.
    async fn sweep(&self, request: SweepRequest) -> Result<Swept>;
}

/// Forwards every call to the shared value.
#[async_trait]
impl<T: Sagas + ?Sized> Sagas for Arc<T> {
    async fn settle_steps(&self, request: StepSettleRequest) -> Result<StepsSettled> {
        (**self).settle_steps(request).await
    }

    async fn sweep(&self, request: SweepRequest) -> Result<Swept> {
        (**self).sweep(request).await
    }
}

/// The outcome of a claimed step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepOutcome {
    /// The handler has done the step.
    Done {
        /// What the step passes on to later steps.
        data: Option<Value>,
    },
    /// The step is given up.
    Dead {
        /// What went wrong.
        failure: Failure,
    },
}

/// One claimed step with its outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct StepSettlement {
    /// The proof of the claim.
    pub held: Held,
    /// The outcome.
    pub outcome: StepOutcome,
}

/// A batch of outcomes of claimed steps.
#[derive(Clone, Debug)]
pub struct StepSettleRequest {
    /// The name of the relay that settles, for the audit trail.
    pub owner: String,
    /// What to record.
    pub settlements: Vec<StepSettlement>,
    /// Whether delivered entries are kept.
    pub keep: Keep,
    /// The time of the operation. `None`: the database's clock.
    pub now: Option<Timestamp>,
}

/// The answer to a [`StepSettleRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct StepsSettled {
    /// Entries that were changed.
    pub accepted: u64,
    /// Claims whose entries are now owned by another relay, settled or gone. Nothing was changed for them.
    pub fenced: Vec<Held>,
    /// Claims of entries whose group has no saga. The caller settles them like any other entry. Nothing was changed
    /// for them.
    pub plain: Vec<Held>,
    /// Sagas that ended with this call.
    pub ended: Vec<SagaId>,
}

/// A request to bring sagas up to date.
#[derive(Clone, Debug)]
pub struct SweepRequest {
    /// The most sagas to look at.
    pub limit: u32,
    /// Only sagas after this one, in the order of their ids. `None`: from the first. With it, sagas that fail every
    /// time do not hold up the sagas after them.
    pub after: Option<SagaId>,
    /// The name of the relay that sweeps, for the audit trail.
    pub owner: String,
    /// The time of the operation. `None`: the database's clock.
    pub now: Option<Timestamp>,
}

/// The answer to a [`SweepRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Swept {
    /// How many sagas were looked at.
    pub seen: u64,
    /// How many of these were changed.
    pub changed: u64,
    /// How many of these failed and were not changed. A later sweep looks at them again.
    pub failed: u64,
    /// The saga after which the next sweep continues. `None`: there are no more sagas.
    pub next: Option<SagaId>,
    /// Sagas that ended with this call.
    pub ended: Vec<SagaId>,
}

/// Sagas as an operator sees them. Reading changes nothing. An intervention or a purge is audited before it
/// happens.
#[async_trait]
pub trait SagaAdmin: Send + Sync {
    /// The sagas that match, oldest first. Sagas that were staged at the same time are in the order of their
    /// ids.
    async fn list_sagas(&self, filter: SagaFilter) -> Result<Vec<SagaRecord>>;

    /// Everything known of one saga.
    async fn show_saga(&self, id: SagaId) -> Result<Option<SagaStory>>;

    /// Carries out an operator's intervention. It calls no callbacks and no audit sinks. If the saga completes or
    /// is undone by it, the saga ends with the next sweep of a relay.
    async fn intervene(&self, request: InterventionRequest) -> Result<Intervened>;

    /// How many sagas there are per status. `now` pins the time that deadlines are compared with.
    async fn saga_counts(&self, now: Option<Timestamp>) -> Result<SagaCounts>;

    /// The audit records of all sagas with this subject, oldest first. The subject is found by its kind and value.
    async fn audit_of(&self, subject: &Reference) -> Result<Vec<AuditRecord>>;

    /// Deletes sagas that ended long enough ago, but keeps their audit trail. A saga that has not ended is never
    /// deleted.
    async fn purge_sagas(&self, request: PurgeRequest) -> Result<Purged>;
}

/// Which sagas to list. Every field that is set narrows the list.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SagaFilter {
    /// Default: any.
    pub status: Option<SagaStatus>,
    /// Default: any.
    pub name: Option<String>,
    /// The subject's kind and value. Default: any.
    pub subject: Option<Reference>,
    /// Only sagas behind this place, that of the last saga of the previous page. That saga need not exist any
    /// more. Default: from the beginning.
    pub after: Option<SagaCursor>,
    /// The most sagas to list. Default: [`LIST_DEFAULT`].
    pub limit: u32,
}

impl Default for SagaFilter {
    fn default() -> Self {
        Self { status: None, name: None, subject: None, after: None, limit: LIST_DEFAULT }
    }
}

impl SagaFilter {
    /// Lists only sagas of this status.
    #[must_use]
    pub fn status(mut self, status: SagaStatus) -> Self {
        self.status = Some(status);
        self
    }

    /// Lists only sagas of this name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Lists only sagas with this subject.
    #[must_use]
    pub fn subject(mut self, subject: Reference) -> Self {
        self.subject = Some(subject);
        self
    }

    /// Lists only sagas behind this place.
    #[must_use]
    pub fn after(mut self, cursor: SagaCursor) -> Self {
        self.after = Some(cursor);
        self
    }

    /// Sets the most sagas to list.
    #[must_use]
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    /// Refuses a limit over [`LIST_MAX`].
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) with the limit.
    pub fn check(&self) -> Result<()> {
        if self.limit > LIST_MAX {
            return Err(Error::invalid(format!(
                "the limit is {}; at most {LIST_MAX} sagas can be listed at once",
                self.limit
            )));
        }
        Ok(())
    }
}

/// Everything known of one saga.
#[derive(Clone, Debug)]
pub struct SagaStory {
    /// The saga as it is now.
    pub saga: SagaRecord,
    /// The saga's entries that still exist, oldest first.
    pub entries: Vec<Entry>,
    /// The saga's audit records, oldest first.
    pub audit: Vec<AuditRecord>,
}

impl SagaStory {
    /// Steps, attempts and audit records in one timeline, oldest first.
    #[must_use]
    pub fn timeline(&self) -> Vec<TimelineItem> {
        timeline(&self.saga, &self.entries, &self.audit)
    }
}

/// What an operator can do with a saga that does not go on by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Intervention {
    /// Tries the saga's dead entries again under the same keys, with a fresh budget of attempts.
    #[default]
    Retry,
    /// Gives up the step whose outcome is unknown, and undoes every step that may have run, that one included.
    Compensate,
    /// Lets the saga go on without a step that was given up. This is only for steps that cannot be undone. The
    /// others are compensated.
    Skip {
        /// The step's name.
        step: String,
        /// Why, for the audit trail.
        reason: String,
    },
    /// Ends the saga in any state. Its open entries are discarded. Nothing is undone, and the
    /// application's callback is not called. A handler that is running at that moment may still take effect.
    Abandon {
        /// Why, for the audit trail.
        reason: String,
    },
}

/// A request for an intervention.
#[derive(Clone, Debug)]
pub struct InterventionRequest {
    /// The saga's id.
    pub id: SagaId,
    /// The intervention.
    pub what: Intervention,
    /// The operator's name, for the audit trail.
    pub actor: String,
    /// The time of the operation. `None`: the database's clock.
    pub now: Option<Timestamp>,
}

impl InterventionRequest {
    /// The error for a saga that does not exist.
    #[must_use]
    pub fn unknown(&self) -> Error {
        Error::new(ErrorKind::NotFound, format!("there is no saga {}", self.id))
    }
}

/// The answer to an [`InterventionRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Intervened {
    /// The saga's status now.
    pub status: SagaStatus,
    /// How many entries are tried again.
    pub requeued: u64,
    /// How many entries are given up for good.
    pub discarded: u64,
}

/// How many sagas there are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SagaCounts {
    /// Sagas per status. Every status is listed, zeros included.
    pub counts: BTreeMap<SagaStatus, u64>,
    /// Sagas that are past their deadline and have not ended.
    pub overdue: u64,
    /// How long ago the oldest saga that waits for an operator last changed. `None`: no saga waits for an operator.
    pub oldest_stuck_age: Option<Duration>,
    /// Sagas that have not ended, per route. Routes without any are left out.
    pub open: BTreeMap<RouteName, u64>,
}

impl SagaCounts {
    /// Counts of zero for every status.
    #[must_use]
    pub fn zero() -> Self {
        let counts = SagaStatus::ALL.into_iter().map(|status| (status, 0)).collect();
        Self { counts, overdue: 0, oldest_stuck_age: None, open: BTreeMap::new() }
    }

    /// How many sagas have this status.
    #[must_use]
    pub fn of(&self, status: SagaStatus) -> u64 {
        self.counts.get(&status).copied().unwrap_or(0)
    }

    /// How many sagas wait for an operator or are past their deadline.
    #[must_use]
    pub fn stuck(&self) -> u64 {
        self.of(SagaStatus::Blocked) + self.of(SagaStatus::CompensationFailed) + self.overdue
    }
}
