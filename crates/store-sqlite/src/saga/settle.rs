//! Settling steps: read, decided and written in one transaction that has the write lock.

use async_trait::async_trait;
use pillarbox_core::port::shared::{self, Columns, HeldSteps, LockedSagas};
use pillarbox_core::port::{self, Keep, SagaHooks, StepSettleRequest, StepsSettled, SweepRequest, Swept};
use pillarbox_core::{Entry, Error, Held, Result, SagaId, SagaRecord, SagaWork, Timestamp};

use crate::bind::Bind;
use crate::commit::{Tx, commit, rollback};
use crate::error::classify;
use crate::row::Cells;

use super::Sagas;
use super::read::{held_step, load};
use super::write::write;

#[async_trait]
impl port::Sagas for Sagas {
    async fn settle_steps(&self, request: StepSettleRequest) -> Result<StepsSettled> {
        shared::settle_steps(&Locked(self), &request).await
    }

    async fn sweep(&self, request: SweepRequest) -> Result<Swept> {
        let after = request.after.map(|id| id.to_string());
        let bind = Bind::new().at(request.now).number(request.limit.into()).value(after);
        let sweep = self.store.statements.saga_sweep.with(bind.done()?);
        let rows = sweep.fetch_all(&mut *self.store.reader().await?).await.map_err(classify)?;
        let ids: Vec<SagaId> =
            rows.iter().filter_map(|row| Cells::of(row).text().ok()?.parse().ok()).collect();
        let mut swept = Swept::of(rows.len(), &ids, request.limit);
        for id in ids {
            let one = shared::sweep_one(&Locked(self), id, &request).await;
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

/// Sagas whose transactions lock what they read.
pub(super) struct Locked<'a>(pub(super) &'a Sagas);

#[async_trait]
impl LockedSagas for Locked<'_> {
    type Tries = ();
    type Tx = Tx<'static>;

    fn hooks(&self) -> &SagaHooks<Tx<'static>> {
        &self.0.hooks
    }

    async fn begin(&self) -> Result<Tx<'static>> {
        self.0.store.writer.begin().await
    }

    async fn end(&self, tx: Tx<'static>, is_whole: bool) -> Result<()> {
        if is_whole {
            return commit(tx).await;
        }
        rollback(tx).await;
        Ok(())
    }

    /// Nobody else writes beside this transaction.
    async fn again(&self, (): &mut (), _: &Error) -> bool {
        false
    }

    async fn now(&self, tx: &mut Tx<'static>, pinned: Option<Timestamp>) -> Result<Timestamp> {
        self.0.store.statements.now_or(pinned, tx).await
    }

    async fn held(&self, tx: &mut Tx<'static>, claims: &[Held]) -> Result<HeldSteps> {
        let claims: Vec<(i64, i64)> = claims.iter().map(|held| (held.seq, held.fence.0)).collect();
        let look = self.0.store.statements.saga_held.with(Bind::new().json(&claims).done()?);
        let rows = look.fetch_all(&mut **tx).await.map_err(classify)?;
        rows.iter().map(held_step).collect()
    }

    async fn load(&self, tx: &mut Tx<'static>, id: SagaId) -> Result<Option<(SagaRecord, Vec<Entry>)>> {
        load(&self.0.store.statements, id, tx).await
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
