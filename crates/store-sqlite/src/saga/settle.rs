//! Settling steps: read, decided and written in one transaction that has the write lock.

use std::collections::BTreeMap;

use async_trait::async_trait;
use pillarbox_core::port::shared::{Columns, StepDecisions};
use pillarbox_core::port::{self, Keep, StepSettleRequest, StepsSettled, SweepRequest, Swept};
use pillarbox_core::{Held, Result, SagaId, SagaWork, StepSeen, Timestamp};

use crate::bind::Bind;
use crate::commit::{Tx, end};
use crate::error::classify;
use crate::row::Cells;

use super::Sagas;
use super::read::{held_step, load};
use super::write::write;

#[async_trait]
impl port::Sagas for Sagas {
    async fn settle_steps(&self, request: StepSettleRequest) -> Result<StepsSettled> {
        if request.settlements.is_empty() {
            return Ok(StepsSettled::default());
        }
        let mut tx = self.begin().await?;
        let settled = self.settle_in(&mut tx, &request).await;
        end(tx, settled, |_| true).await
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
            let one = self.sweep_one(id, &request).await;
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

impl Sagas {
    pub(super) async fn begin(&self) -> Result<Tx<'static>> {
        self.store.writer.begin().await
    }

    async fn settle_in(&self, tx: &mut Tx<'static>, request: &StepSettleRequest) -> Result<StepsSettled> {
        let statements = &self.store.statements;
        let now = statements.now_or(request.now, tx).await?;
        let held: Vec<(i64, i64)> =
            request.settlements.iter().map(|one| (one.held.seq, one.held.fence.0)).collect();
        let look = statements.saga_held.with(Bind::new().json(&held).done()?);
        let mut found: BTreeMap<Held, _> = BTreeMap::new();
        for row in &look.fetch_all(&mut **tx).await.map_err(classify)? {
            let step = held_step(row)?;
            found.insert(step.seen.held, step);
        }
        let mut decided = StepDecisions::default();
        for settlement in &request.settlements {
            // The same claim twice: the first outcome counts.
            let step = found.remove(&settlement.held).map(|step| (step.seen, step.saga));
            decided.settle(settlement.clone(), step, now)?;
        }
        let work = decided.take_work();
        if !work.is_empty() {
            self.carry_out(tx, &work, &request.owner, request.keep, now).await?;
        }
        Ok(decided.written(|_| true).0)
    }

    /// Sinks, everything that is written, callbacks: in this order.
    async fn carry_out(
        &self,
        tx: &mut Tx<'static>,
        work: &[SagaWork],
        actor: &str,
        keep: Keep,
        now: Timestamp,
    ) -> Result<()> {
        for one in work {
            self.hooks.record(tx, &one.moves).await?;
        }
        write(&self.store.statements, work, actor, keep, now, tx).await?;
        for one in work {
            self.hooks.ended(tx, &one.moves, &one.saga).await?;
        }
        Ok(())
    }

    /// Whether it has ended; `None`: nothing was to be done.
    async fn sweep_one(&self, id: SagaId, request: &SweepRequest) -> Result<Option<bool>> {
        let mut tx = self.begin().await?;
        let swept = async {
            let now = self.store.statements.now_or(request.now, &mut tx).await?;
            let Some((saga, entries)) = load(&self.store.statements, id, &mut tx).await? else {
                return Ok(None);
            };
            let Some(work) = SagaWork::sweep(saga, entries.iter().map(StepSeen::from).collect(), now)? else {
                return Ok(None);
            };
            let one = std::slice::from_ref(&work);
            self.carry_out(&mut tx, one, &request.owner, Keep::UntilPurged, now).await?;
            Ok(Some(work.moves.ended))
        }
        .await;
        end(tx, swept, |_| true).await
    }

    /// An operator's change, without callbacks: what ends a saga is the relay's.
    pub(super) async fn intervene(&self, request: &port::InterventionRequest) -> Result<port::Intervened> {
        let mut tx = self.begin().await?;
        let intervened = async {
            let now = self.store.statements.now_or(request.now, &mut tx).await?;
            let Some((saga, entries)) = load(&self.store.statements, request.id, &mut tx).await? else {
                return Err(request.unknown());
            };
            let work =
                SagaWork::intervene(saga, entries.iter().map(StepSeen::from).collect(), &request.what, now)?;
            let one = std::slice::from_ref(&work);
            self.carry_out(&mut tx, one, &request.actor, Keep::UntilPurged, now).await?;
            Ok(work.intervened())
        }
        .await;
        end(tx, intervened, |_| true).await
    }
}
