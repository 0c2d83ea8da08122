//! Sagas: staging them, settling their steps, and what operators see and do.

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

use super::{Keep, PurgeRequest, Purged};

/// Stages a saga inside the application's own transaction, with the entries of the steps that may run now.
#[async_trait]
pub trait StageSaga<Tx: Send + ?Sized>: Send + Sync {
    /// Stages it. Nothing is committed here.
    async fn stage_saga(&self, tx: &mut Tx, saga: Saga) -> Result<StagedSaga>;
}

/// What staging did with a saga.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StagedSaga {
    /// It was written.
    Fresh {
        /// Its identity.
        id: SagaId,
        /// The how many-th saga of this name on this subject it is, from 1.
        generation: u32,
    },
    /// A saga of this id is there already; nothing was written.
    Duplicate(SagaId),
}

impl StagedSaga {
    /// Its identity, whichever it was.
    #[must_use]
    pub const fn id(self) -> SagaId {
        match self {
            Self::Fresh { id, .. } | Self::Duplicate(id) => id,
        }
    }
}

/// Sagas as a relay sees them.
///
/// Settling is atomic per saga: audit records, the entries' states, the next entries, the saga's own row and its
/// callback are one transaction, under a lock on the saga.
#[async_trait]
pub trait Sagas: Send + Sync {
    /// Records the ends of claimed steps, guarded by their fences.
    async fn settle_steps(&self, request: StepSettleRequest) -> Result<StepsSettled>;

    /// Brings sagas up to date with what happened to their entries elsewhere: deaths by a reap, requeues, deadlines.
    /// In the order of their ids. One that fails is told of and passed over.
    async fn sweep(&self, request: SweepRequest) -> Result<Swept>;
}

/// Whoever shares one passes it on as it is.
#[async_trait]
impl<T: Sagas + ?Sized> Sagas for Arc<T> {
    async fn settle_steps(&self, request: StepSettleRequest) -> Result<StepsSettled> {
        (**self).settle_steps(request).await
    }

    async fn sweep(&self, request: SweepRequest) -> Result<Swept> {
        (**self).sweep(request).await
    }
}

/// The end of a claimed step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepOutcome {
    /// Its handler has done it, and passes this on to later steps.
    Done {
        /// What it passes on.
        data: Option<Value>,
    },
    /// It is given up.
    Dead {
        /// What went wrong.
        failure: Failure,
    },
}

/// The outcome of one claimed step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepSettlement {
    /// The proof of the claim.
    pub held: Held,
    /// What came of it.
    pub outcome: StepOutcome,
}

/// Ends of claimed steps.
#[derive(Clone, Debug)]
pub struct StepSettleRequest {
    /// Who settles, for the audit trail.
    pub owner: String,
    /// What to record.
    pub settlements: Vec<StepSettlement>,
    /// What happens to delivered entries.
    pub keep: Keep,
    /// The time to act at; `None`: the database's clock.
    pub now: Option<Timestamp>,
}

/// What settling steps changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct StepsSettled {
    /// Entries that were changed.
    pub accepted: u64,
    /// Claims that somebody else owns by now, or that are settled or gone; nothing of them was changed.
    pub fenced: Vec<Held>,
    /// Claims of a group without a saga: to be settled as any other entry. Nothing of them was changed.
    pub plain: Vec<Held>,
    /// Sagas that have just ended.
    pub ended: Vec<SagaId>,
}

/// A wish to bring sagas up to date.
#[derive(Clone, Debug)]
pub struct SweepRequest {
    /// At most this many sagas.
    pub limit: u32,
    /// Only sagas behind this one, in the order of their ids; `None`: from the first. So that sagas that fail every
    /// time hold up none behind them.
    pub after: Option<SagaId>,
    /// Who sweeps, for the audit trail.
    pub owner: String,
    /// The time to act at; `None`: the database's clock.
    pub now: Option<Timestamp>,
}

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Swept {
    /// Sagas that were looked at.
    pub seen: u64,
    /// Of these, changed.
    pub changed: u64,
    /// Of these, not changed because something failed; a later sweep looks at them again.
    pub failed: u64,
    /// Behind which saga the next sweep goes on; `None`: there is none behind.
    pub next: Option<SagaId>,
    /// Sagas that have just ended.
    pub ended: Vec<SagaId>,
}

/// Sagas as an operator sees them. Reading changes nothing; an intervention and a purge are audited before they happen.
#[async_trait]
pub trait SagaAdmin: Send + Sync {
    /// Sagas that match, oldest first.
    async fn list_sagas(&self, filter: SagaFilter) -> Result<Vec<SagaRecord>>;

    /// Everything known of one saga.
    async fn show_saga(&self, id: SagaId) -> Result<Option<SagaStory>>;

    /// Does what an operator asks for, without callbacks and sinks: a saga that completes or is undone by it ends with
    /// the next sweep of a relay.
    async fn intervene(&self, request: InterventionRequest) -> Result<Intervened>;

    /// Sagas per status. `now` pins the time that deadlines are compared with.
    async fn saga_counts(&self, now: Option<Timestamp>) -> Result<SagaCounts>;

    /// The audit records of all sagas on a subject, by its kind and value, oldest first.
    async fn audit_of(&self, subject: &Reference) -> Result<Vec<AuditRecord>>;

    /// Deletes sagas that ended long enough ago, and nothing of their audit trail. Never one that has not ended.
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
    /// At most this many. Default: [`LIST_DEFAULT`].
    pub limit: u32,
}

impl Default for SagaFilter {
    fn default() -> Self {
        Self { status: None, name: None, subject: None, limit: LIST_DEFAULT }
    }
}

impl SagaFilter {
    /// Only this status.
    #[must_use]
    pub fn status(mut self, status: SagaStatus) -> Self {
        self.status = Some(status);
        self
    }

    /// Only this name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Only this subject.
    #[must_use]
    pub fn subject(mut self, subject: Reference) -> Self {
        self.subject = Some(subject);
        self
    }

    /// At most this many.
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
                "a limit of {}; at most {LIST_MAX} sagas are listed",
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
    /// Its entries that are still there, oldest first.
    pub entries: Vec<Entry>,
    /// Its audit records, oldest first.
    pub audit: Vec<AuditRecord>,
}

impl SagaStory {
    /// Steps, attempts and audit records in one line of time, oldest first.
    #[must_use]
    pub fn timeline(&self) -> Vec<TimelineItem> {
        timeline(&self.saga, &self.entries, &self.audit)
    }
}

/// What an operator does to a saga that does not go on by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Intervention {
    /// Its dead entries are tried again under the same keys, with a fresh budget.
    #[default]
    Retry,
    /// The step whose outcome is unknown is given up, and what may have run is undone, that step included.
    Compensate,
    /// The saga goes on without a step that was given up. Only for steps that cannot be undone: the others are
    /// compensated.
    Skip {
        /// The step's name.
        step: String,
        /// Why, for the audit trail.
        reason: String,
    },
    /// The saga ends as it is, wherever it is. Its open entries are discarded; nothing is undone, and the callback of
    /// the application is not called. What a handler is just doing may still take effect.
    Abandon {
        /// Why, for the audit trail.
        reason: String,
    },
}

/// An operator's wish.
#[derive(Clone, Debug)]
pub struct InterventionRequest {
    /// Which saga.
    pub id: SagaId,
    /// What to do.
    pub what: Intervention,
    /// Who asks, for the audit trail.
    pub actor: String,
    /// The time to act at; `None`: the database's clock.
    pub now: Option<Timestamp>,
}

impl InterventionRequest {
    /// There is no such saga.
    #[must_use]
    pub fn unknown(&self) -> Error {
        Error::new(ErrorKind::NotFound, format!("there is no saga {}", self.id))
    }
}

/// What an intervention did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Intervened {
    /// Where the saga is now.
    pub status: SagaStatus,
    /// Entries that are tried again.
    pub requeued: u64,
    /// Entries that are given up for good.
    pub discarded: u64,
}

/// How many sagas there are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SagaCounts {
    /// Per status; every status is named, zeros included.
    pub counts: BTreeMap<SagaStatus, u64>,
    /// Sagas that have taken longer than they may and have not ended.
    pub overdue: u64,
    /// How long the oldest saga that waits for an operator has not changed; `None` when none does.
    pub oldest_stuck_age: Option<Duration>,
    /// Sagas that have not ended, per route that has some.
    pub open: BTreeMap<RouteName, u64>,
}

impl SagaCounts {
    /// No saga at all: every status is named.
    #[must_use]
    pub fn zero() -> Self {
        let counts = SagaStatus::ALL.into_iter().map(|status| (status, 0)).collect();
        Self { counts, overdue: 0, oldest_stuck_age: None, open: BTreeMap::new() }
    }

    /// Sagas of this status.
    #[must_use]
    pub fn of(&self, status: SagaStatus) -> u64 {
        self.counts.get(&status).copied().unwrap_or(0)
    }

    /// Sagas that wait for an operator or have taken longer than they may.
    #[must_use]
    pub fn stuck(&self) -> u64 {
        self.of(SagaStatus::Blocked) + self.of(SagaStatus::CompensationFailed) + self.overdue
    }
}
