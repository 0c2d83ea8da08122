//! Sagas in memory: settled as the databases do it, in one step and under one lock.

mod admin;
mod settle;
mod stage;
mod sweep;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pillarbox_core::port::{SagaHooks, Sagas, StepSettleRequest, StepsSettled, SweepRequest, Swept};
use pillarbox_core::{AuditRecord, Result, SagaRecord, SagaWork, saga_hooks};

pub(super) use stage::subject_of;

use super::mutant::Mutant;
use super::store::{MemoryStore, Shared};
use super::tx::MemoryTx;

/// How long a planted defect leaves its window open.
const MUTANT_WAITS: Duration = Duration::from_millis(100);

/// The sagas of a [`MemoryStore`], for use by a relay.
#[derive(Clone)]
pub struct MemorySagas {
    shared: Arc<Shared>,
    hooks: SagaHooks<MemoryTx>,
}

impl MemoryStore {
    /// The sagas of this store. A relay needs them to settle the steps of sagas.
    #[must_use]
    pub fn sagas(&self) -> MemorySagas {
        MemorySagas { shared: Arc::clone(&self.shared), hooks: SagaHooks::default() }
    }

    /// Everything that is known of sagas at one moment.
    #[doc(hidden)]
    #[must_use]
    pub fn sagas_and_trail(&self) -> (Vec<SagaRecord>, Vec<AuditRecord>) {
        let state = self.shared.lock();
        let sagas = state.sagas.values().filter_map(|saga| SagaRecord::read(saga.clone()).ok());
        (sagas.collect(), state.audit.clone())
    }

    /// How often sagas and the trail have changed.
    #[doc(hidden)]
    #[must_use]
    pub fn saga_changes(&self) -> (i64, usize) {
        let state = self.shared.lock();
        (state.sagas.values().map(|saga| saga.version).sum(), state.audit.len())
    }

    /// How many sagas have not ended.
    #[doc(hidden)]
    #[must_use]
    pub fn sagas_unended(&self) -> usize {
        self.shared.lock().sagas.values().filter(|saga| saga.ended_at.is_none()).count()
    }

    /// All sagas of the store.
    #[doc(hidden)]
    #[must_use]
    pub fn saga_records(&self) -> Vec<SagaRecord> {
        self.sagas_and_trail().0
    }
}

saga_hooks!(MemorySagas, MemoryTx);

impl MemorySagas {
    /// Runs the hooks in a transaction of their own, which is committed with the moves.
    async fn hook(&self, planned: &[SagaWork]) -> Result<MemoryTx> {
        let mut tx = MemoryTx::begin(&self.shared);
        for one in planned {
            self.hooks.record(&mut tx, &one.moves).await?;
        }
        for one in planned {
            self.hooks.ended(&mut tx, &one.moves, &one.saga).await?;
        }
        Ok(tx)
    }
}

#[async_trait]
impl Sagas for MemorySagas {
    async fn settle_steps(&self, request: StepSettleRequest) -> Result<StepsSettled> {
        let mutant = self.shared.lock().mutant;
        let unlocked = mutant == Some(Mutant::CompletesWithoutLock);
        let _turn = if unlocked { None } else { Some(self.shared.sagas.lock().await) };
        let now = self.shared.now(request.now);
        loop {
            let (mut planned, settled) = self.shared.lock().plan_steps(&request, now)?;
            let mut late = vec![];
            if mutant == Some(Mutant::AuditAfterStatus) {
                late.extend(planned.iter_mut().flat_map(|one| std::mem::take(&mut one.moves.audit)));
            }
            if unlocked {
                tokio::time::sleep(MUTANT_WAITS).await;
            }
            let tx = self.hook(&planned).await?;
            let applied = tx.commit_with(|state| state.settle_steps(&request, planned, now))?;
            // Nobody else settles steps meanwhile, but a reap or a claim may have.
            if let Some(ended) = applied {
                if !late.is_empty() {
                    tokio::time::sleep(MUTANT_WAITS).await;
                    let mut state = self.shared.lock();
                    state.check_audit(true)?;
                    state.record_saga(&late, &request.owner, now);
                }
                return Ok(StepsSettled { ended, ..settled });
            }
        }
    }

    async fn sweep(&self, request: SweepRequest) -> Result<Swept> {
        let _turn = self.shared.sagas.lock().await;
        let now = self.shared.now(request.now);
        let ids = self.shared.lock().sagas_to_sweep(&request, now);
        let mut swept = Swept::of(ids.len(), &ids, request.limit);
        for id in ids {
            // One at a time: the callback of one saga must not keep the others from being swept.
            let one = self.sweep_one(id, &request, now).await;
            if let Some(error) = swept.note(id, one) {
                tracing::warn!(
                    saga = %id, %error,
                    "a saga could not be brought up to date; the next sweep tries again"
                );
            }
        }
        Ok(swept)
    }
}
