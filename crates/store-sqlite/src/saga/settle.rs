//! Settling steps: read, decided and written in one transaction that has the write lock.

use std::collections::BTreeMap;

use async_trait::async_trait;
use pillarbox_core::port::{self, Keep, StepSettleRequest, StepsSettled, SweepRequest, Swept};
use pillarbox_core::{Error, ErrorKind, Held, Result, SagaId, SagaWork, Timestamp};
use sqlx::Row;

use crate::error::classify;
use crate::sql::query;
use crate::writer::{Tx, end};

use super::Sagas;
use super::read::{held_step, load, seen};
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
        let now = request.now.map(Timestamp::as_micros);
        let after = request.after.map(|id| id.to_string());
        let rows = query(&self.store.statements.saga_sweep).bind(now).bind(request.limit).bind(after);
        let rows = rows.fetch_all(&mut *self.store.reader().await?).await.map_err(classify)?;
        let mut swept = Swept { seen: rows.len() as u64, ..Swept::default() };
        let full = rows.len() >= usize::try_from(request.limit).unwrap_or(usize::MAX);
        for row in &rows {
            let id: &str = row.try_get_unchecked(0).map_err(classify)?;
            let Ok(id) = id.parse() else { continue };
            swept.next = Some(id).filter(|_| full);
            // One at a time: the callback of one saga must not keep the others from being swept.
            match self.sweep_one(id, &request).await {
                Ok(Some(ended)) => {
                    swept.changed += 1;
                    swept.ended.extend(ended.then_some(id));
                }
                Ok(None) => {}
                Err(error) => {
                    swept.failed += 1;
                    tracing::warn!(saga = %id, %error, "a saga could not be brought up to date");
                }
            }
        }
        Ok(swept)
    }
}

impl Sagas {
    pub(super) async fn begin(&self) -> Result<Tx> {
        self.store.writer.begin().await
    }

    async fn settle_in(&self, tx: &mut Tx, request: &StepSettleRequest) -> Result<StepsSettled> {
        let statements = &self.store.statements;
        let now = self.now(request.now, tx).await?;
        let held: Vec<(i64, i64)> =
            request.settlements.iter().map(|one| (one.held.seq, one.held.fence.0)).collect();
        let held =
            serde_json::to_string(&held).map_err(|_| Error::invalid("claims cannot be written as JSON"))?;
        let rows = query(&statements.saga_held).bind(held).fetch_all(&mut **tx).await.map_err(classify)?;
        let mut found: BTreeMap<Held, _> = BTreeMap::new();
        for row in &rows {
            let step = held_step(row)?;
            found.insert(step.seen.held, step);
        }
        let mut settled = StepsSettled::default();
        let mut work: BTreeMap<SagaId, SagaWork> = BTreeMap::new();
        for settlement in &request.settlements {
            // The same claim twice: the first outcome counts.
            let Some(step) = found.remove(&settlement.held) else {
                settled.fenced.push(settlement.held);
                continue;
            };
            let Some(saga) = step.saga else {
                settled.plain.push(settlement.held);
                continue;
            };
            let one = work.entry(saga.id).or_insert_with(|| SagaWork::new(saga));
            one.settle(step.seen, &settlement.outcome, now)?;
            settled.accepted += 1;
        }
        let work: Vec<SagaWork> = work.into_values().collect();
        if !work.is_empty() {
            self.carry_out(tx, &work, &request.owner, request.keep, now).await?;
        }
        settled.ended = work.iter().filter(|one| one.moves.ended).map(|one| one.saga.id).collect();
        Ok(settled)
    }

    /// Sinks, everything that is written, callbacks: in this order.
    async fn carry_out(
        &self,
        tx: &mut Tx,
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
            let now = self.now(request.now, &mut tx).await?;
            let Some((saga, entries)) = load(&self.store.statements, id, &mut tx).await? else {
                return Ok(None);
            };
            let Some(work) = SagaWork::sweep(saga, seen(&entries), now)? else { return Ok(None) };
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
            let now = self.now(request.now, &mut tx).await?;
            let Some((saga, entries)) = load(&self.store.statements, request.id, &mut tx).await? else {
                return Err(Error::new(ErrorKind::NotFound, format!("there is no saga {}", request.id)));
            };
            let work = SagaWork::intervene(saga, seen(&entries), &request.what, now)?;
            let one = std::slice::from_ref(&work);
            self.carry_out(&mut tx, one, &request.actor, Keep::UntilPurged, now).await?;
            Ok(work.intervened())
        }
        .await;
        end(tx, intervened, |_| true).await
    }

    async fn now(&self, pinned: Option<Timestamp>, tx: &mut Tx) -> Result<Timestamp> {
        match pinned {
            Some(now) => Ok(now),
            None => self.store.statements.now(tx).await,
        }
    }
}
