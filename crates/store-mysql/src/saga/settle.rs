//! Settling steps: read under locks, decided, and written in one transaction.

use async_trait::async_trait;
use pillarbox_core::port::shared::{self, Columns, HeldSteps, LockedSagas, given_up};
use pillarbox_core::port::{self, Keep, SagaHooks, StepSettleRequest, StepsSettled, SweepRequest, Swept};
use pillarbox_core::{Entry, Error, ErrorKind, Held, Result, SagaId, SagaRecord, SagaWork, Timestamp};

use crate::bind::Bind;
use crate::call::{TRIES, Traffic, Tries, begin};
use crate::commit::{Tx, commit_pooled, rollback};
use crate::row::Cells;

use super::Sagas;
use super::read::{Kept, held_step, load};
use super::write::write;

#[async_trait]
impl port::Sagas for Sagas {
    async fn settle_steps(&self, request: StepSettleRequest) -> Result<StepsSettled> {
        shared::settle_steps(&Locked(self), &request).await.map_err(|error| match error.kind() {
            ErrorKind::Contention => given_up(TRIES),
            _ => error,
        })
    }

    async fn sweep(&self, request: SweepRequest) -> Result<Swept> {
        let bind = Bind::new().at(request.now).number(request.limit.into());
        let bind = bind.optional_text(request.after.map(|id| id.to_string()));
        let look = self.store.statements.saga_sweep.with(bind)?;
        let rows = self.store.rows(Traffic::Reading, &look).await?;
        let ids: Vec<SagaId> =
            rows.iter().filter_map(|row| Cells::of(row).text().ok()?.parse().ok()).collect();
        let mut swept = Swept::of(rows.len(), &ids, request.limit);
        for id in ids {
            if let Some(error) = swept.note(id, shared::sweep_one(&Locked(self), id, &request).await) {
                tracing::warn!(saga = %id, %error, "a saga could not be brought up to date; the next sweep tries again");
            }
        }
        Ok(swept)
    }
}

/// Sagas whose transactions lock what they read.
pub(super) struct Locked<'a>(pub(super) &'a Sagas);

#[async_trait]
impl LockedSagas for Locked<'_> {
    type Tries = Tries;
    type Tx = Tx<'static>;

    fn hooks(&self) -> &SagaHooks<Tx<'static>> {
        &self.0.hooks
    }

    /// A transaction of the driver's, because the application's callbacks write in it too.
    async fn begin(&self) -> Result<Tx<'static>> {
        let how = self.0.store.beginning(Traffic::Sagas).unwrap_or(crate::commit::BEGIN);
        begin(self.0.store.line(Traffic::Sagas), how).await
    }

    async fn end(&self, tx: Tx<'static>, is_whole: bool) -> Result<()> {
        if is_whole {
            return commit_pooled(tx).await;
        }
        rollback(tx).await;
        Ok(())
    }

    async fn again(&self, tries: &mut Tries, error: &Error) -> bool {
        let again = tries.again(error);
        if again {
            tries.pause().await;
        }
        again
    }

    async fn now(&self, tx: &mut Tx<'static>, pinned: Option<Timestamp>) -> Result<Timestamp> {
        self.0.store.statements.now_or(pinned, tx).await
    }

    async fn held(&self, tx: &mut Tx<'static>, claims: &[Held]) -> Result<HeldSteps> {
        let bind = Bind::new().held(claims.iter().copied());
        let rows = self.0.store.statements.saga_held.with(bind)?.rows(tx).await?;
        rows.iter().map(held_step).collect()
    }

    async fn load(&self, tx: &mut Tx<'static>, id: SagaId) -> Result<Option<(SagaRecord, Vec<Entry>)>> {
        load(&self.0.store.statements, id, Kept::Locked, tx).await
    }

    async fn write(
        &self,
        tx: &mut Tx<'static>,
        work: &[SagaWork],
        actor: &str,
        keep: Keep,
        now: Timestamp,
    ) -> Result<()> {
        write(&self.0.store.statements, work, actor, keep, now, tx).await
    }
}
