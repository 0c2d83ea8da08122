//! Settling steps: read under locks, decided, and written in one transaction.

use std::collections::BTreeMap;

use async_trait::async_trait;
use pillarbox_core::port::shared::{Columns, StepDecisions};
use pillarbox_core::port::{self, Keep, StepSettleRequest, StepsSettled, SweepRequest, Swept};
use pillarbox_core::{Error, ErrorKind, Result, SagaId, SagaWork, StepSeen, Timestamp};

use crate::bind::Bind;
use crate::call::{TRIES, Traffic, Tries};
use crate::commit::{Tx, commit_pooled, rollback};
use crate::error::{Phase, classify};
use crate::row::Cells;

use super::Sagas;
use super::read::{Kept, held_step, load};
use super::write::write;

#[async_trait]
impl port::Sagas for Sagas {
    async fn settle_steps(&self, request: StepSettleRequest) -> Result<StepsSettled> {
        if request.settlements.is_empty() {
            return Ok(StepsSettled::default());
        }
        let mut tries = Tries::default();
        loop {
            let mut tx = self.begin().await?;
            let settled = self.settle_in(&mut tx, &request).await;
            match end(tx, settled).await {
                Err(error) if tries.again(&error) => tries.pause().await,
                answer => return answer.map_err(given_up),
            }
        }
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
            if let Some(error) = swept.note(id, self.sweep_one(id, &request).await) {
                tracing::warn!(saga = %id, %error, "a saga could not be brought up to date; the next sweep tries again");
            }
        }
        Ok(swept)
    }
}

impl Sagas {
    /// A transaction of the driver's, because the application's callbacks write in it too.
    async fn begin(&self) -> Result<Tx<'static>> {
        let begin = self.store.beginning(Traffic::Sagas).unwrap_or(crate::commit::BEGIN);
        let begun = self.store.line(Traffic::Sagas).begin_with(begin).await;
        begun.map_err(|error| classify(error, Phase::Before))
    }

    async fn settle_in(&self, tx: &mut Tx<'static>, request: &StepSettleRequest) -> Result<StepsSettled> {
        let statements = &self.store.statements;
        let now = statements.now_or(request.now, tx).await?;
        let held = Bind::new().held(request.settlements.iter().map(|one| one.held));
        let mut found = BTreeMap::new();
        for row in &statements.saga_held.with(held)?.rows(tx).await? {
            let (held, seen, saga) = held_step(row)?;
            found.insert(held, (seen, saga));
        }
        let mut decided = StepDecisions::default();
        for settlement in &request.settlements {
            // The same claim twice: the first outcome counts.
            decided.settle(settlement.clone(), found.remove(&settlement.held), now)?;
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
        let mut tries = Tries::default();
        loop {
            let mut tx = self.begin().await?;
            let swept = self.sweep_in(&mut tx, id, request).await;
            match end(tx, swept).await {
                Err(error) if tries.again(&error) => tries.pause().await,
                answer => return answer,
            }
        }
    }

    async fn sweep_in(
        &self,
        tx: &mut Tx<'static>,
        id: SagaId,
        request: &SweepRequest,
    ) -> Result<Option<bool>> {
        let statements = &self.store.statements;
        let now = statements.now_or(request.now, tx).await?;
        let Some((saga, entries)) = load(statements, id, Kept::Locked, tx).await? else { return Ok(None) };
        let seen = entries.iter().map(StepSeen::from).collect();
        let Some(work) = SagaWork::sweep(saga, seen, now)? else { return Ok(None) };
        let one = std::slice::from_ref(&work);
        self.carry_out(tx, one, &request.owner, Keep::UntilPurged, now).await?;
        Ok(Some(work.moves.ended))
    }

    /// An operator's change, without callbacks: what ends a saga is the relay's.
    pub(super) async fn intervene(&self, request: &port::InterventionRequest) -> Result<port::Intervened> {
        let mut tries = Tries::default();
        loop {
            let mut tx = self.begin().await?;
            let intervened = self.intervene_in(&mut tx, request).await;
            match end(tx, intervened).await {
                Err(error) if tries.again(&error) => tries.pause().await,
                answer => return answer,
            }
        }
    }

    async fn intervene_in(
        &self,
        tx: &mut Tx<'static>,
        request: &port::InterventionRequest,
    ) -> Result<port::Intervened> {
        let statements = &self.store.statements;
        let now = statements.now_or(request.now, tx).await?;
        let loaded = load(statements, request.id, Kept::Locked, tx).await?;
        let (saga, entries) = loaded.ok_or_else(|| request.unknown())?;
        let seen = entries.iter().map(StepSeen::from).collect();
        let work = SagaWork::intervene(saga, seen, &request.what, now)?;
        let one = std::slice::from_ref(&work);
        self.carry_out(tx, one, &request.actor, Keep::UntilPurged, now).await?;
        Ok(work.intervened())
    }
}

/// Commits what was done, or rolls back.
async fn end<T>(tx: Tx<'static>, outcome: Result<T>) -> Result<T> {
    match outcome {
        Ok(outcome) => commit_pooled(tx).await.map(|()| outcome),
        Err(error) => {
            rollback(tx).await;
            Err(error)
        }
    }
}

fn given_up(error: Error) -> Error {
    if error.kind() != ErrorKind::Contention {
        return error;
    }
    Error::new(
        ErrorKind::Contention,
        format!(
            "saga update conflicted {TRIES} times and was given up for now; it is retried when its lease ends. If this \
             persists, run fewer relays on this route"
        ),
    )
}
