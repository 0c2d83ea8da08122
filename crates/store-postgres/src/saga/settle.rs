//! Settling steps: one read, and one statement that writes what was decided if nothing has changed since.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use pillarbox_core::port::shared::{Columns, StepDecisions, given_up};
use pillarbox_core::port::{
    self, Keep, StepSettleRequest, StepSettlement, StepsSettled, SweepRequest, Swept,
};
use pillarbox_core::{Error, ErrorKind, Held, Result, SagaId, SagaWork, StepSeen, Timestamp};
use sqlx::postgres::PgRow;

use crate::bind::Bind;
use crate::call::{Again, Traffic, Unit};
use crate::commit::{Tx, commit_pooled};
use crate::error::{Phase, classify};
use crate::options::Mode;
use crate::row::{Cells, decode_whole};

use super::Sagas;
use super::read::{held_step, saga};
use super::write::SagaWrites;

/// Others that move the same sagas at the same time come first at most this often.
const TRIES: u32 = 16;

#[async_trait]
impl port::Sagas for Sagas {
    async fn settle_steps(&self, request: StepSettleRequest) -> Result<StepsSettled> {
        let mut settled = StepsSettled::default();
        let mut left = request.settlements;
        if left.is_empty() {
            return Ok(settled);
        }
        for _ in 0..TRIES {
            // Where nothing stays prepared every statement has a transaction around it: one does for both.
            let mut unit = match self.store.mode() {
                Mode::Pooled => Some(self.store.unit(Traffic::Reserved).await?),
                Mode::Direct => None,
            };
            let (mut decided, now) = self.decide(unit.as_mut(), left, request.now).await?;
            let work = decided.take_work();
            let written = if work.is_empty() {
                end(unit).await?;
                BTreeSet::new()
            } else {
                self.write(unit, &work, &request.owner, request.keep, now).await?
            };
            let (done, rest) = decided.written(|id| written.contains(&id));
            settled.add(done);
            left = rest;
            if left.is_empty() {
                return Ok(settled);
            }
        }
        Err(given_up(TRIES))
    }

    async fn sweep(&self, request: SweepRequest) -> Result<Swept> {
        let after = request.after.map(|id| id.to_string());
        let bind = Bind::new().at(request.now).number(request.limit.into()).value(after).done()?;
        let store = &self.store;
        let rows = store.run(Traffic::Relay, Again::Always, &store.sql().saga_sweep, bind).await?;
        // A group whose name is not a saga's was joined away.
        let ids: Vec<SagaId> =
            rows.iter().filter_map(|row| Cells::of(row).text().ok()?.parse().ok()).collect();
        let mut swept = Swept::of(rows.len(), &ids, request.limit);
        for id in ids {
            let one = match self.sweep_one(id, &request).await {
                Ok(work) => Ok(work.map(|work| work.moves.ended)),
                Err(Unswept::Store(error)) => return Err(error),
                Err(Unswept::Saga(error)) => Err(error),
            };
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
    /// Reads what is held and decides what follows from it, at the time of the reading.
    async fn decide(
        &self,
        unit: Option<&mut Unit>,
        settlements: Vec<StepSettlement>,
        pinned: Option<Timestamp>,
    ) -> Result<(StepDecisions, Timestamp)> {
        let held: Vec<Held> = settlements.iter().map(|settlement| settlement.held).collect();
        let bind = Bind::new().held(&held).at(pinned).done()?;
        let store = &self.store;
        let sql = &store.sql().saga_of_held;
        let rows = match unit {
            Some(unit) => unit.rows(sql, bind).await?,
            None => store.run(Traffic::Reserved, Again::Always, sql, bind).await?,
        };
        let mut found = BTreeMap::new();
        let mut now = pinned.unwrap_or(Timestamp::MIN);
        for row in &rows {
            let step = held_step(row)?;
            now = step.now;
            found.insert(step.held, step);
        }
        let mut decided = StepDecisions::default();
        for settlement in settlements {
            // The same claim twice: the first outcome counts.
            let step = found.remove(&settlement.held).and_then(|step| Some((step.seen?, step.saga)));
            decided.settle(settlement, step, now)?;
        }
        Ok((decided, now))
    }

    /// Writes what was decided and says for which sagas: the others have changed since. In the transaction in which
    /// they were read, if there is one and nobody else writes.
    pub(super) async fn write(
        &self,
        unit: Option<Unit>,
        work: &[SagaWork],
        actor: &str,
        keep: Keep,
        now: Timestamp,
    ) -> Result<BTreeSet<SagaId>> {
        let mut batch = SagaWrites::default();
        for one in work {
            batch.push(one)?;
        }
        let arguments = batch.bind(now, actor, keep)?;
        let store = &self.store;
        if !work.iter().any(|one| self.hooks.wants(&one.moves)) {
            let sql = &store.sql().saga_write;
            let Some(mut unit) = unit else {
                return written(&store.run(Traffic::Reserved, Again::IfUndone, sql, arguments).await?);
            };
            let rows = unit.rows(sql, arguments).await?;
            unit.commit(Phase::Committing).await?;
            return written(&rows);
        }
        end(unit).await?;
        // The application writes in it too, so it is a transaction of the driver's; and it may take its time, so it is
        // not on the line that leases are renewed on.
        let begun =
            store.line(Traffic::Relay).begin_with(store.begin_script(Traffic::Operator).beginning()).await;
        let mut tx: Tx<'static> = begun.map_err(|error| classify(error, Phase::Before))?;
        for one in work {
            self.hooks.record(&mut tx, &one.moves).await?;
        }
        let query = store.sql().saga_write.with(arguments).persistent(store.mode() == Mode::Direct);
        let rows = query.fetch_all(&mut *tx).await.map_err(|error| classify(error, Phase::Before))?;
        let done = written(&rows)?;
        if done.len() < work.len() {
            // The sinks have been told of what did not happen: nothing of this does.
            tx.rollback().await.map_err(|error| classify(error, Phase::Before))?;
            return Ok(BTreeSet::new());
        }
        for one in work {
            self.hooks.ended(&mut tx, &one.moves, &one.saga).await?;
        }
        commit_pooled(tx).await?;
        Ok(done)
    }

    async fn sweep_one(&self, id: SagaId, request: &SweepRequest) -> Result<Option<SagaWork>, Unswept> {
        for _ in 0..TRIES {
            let Some((saga, seen, now)) = self.load(id, request.now).await.map_err(Unswept::loading)? else {
                return Ok(None);
            };
            let Some(work) = SagaWork::sweep(saga, seen, now).map_err(Unswept::Saga)? else {
                return Ok(None);
            };
            let one = std::slice::from_ref(&work);
            let written = self.write(None, one, &request.owner, Keep::UntilPurged, now).await;
            if written.map_err(Unswept::Saga)?.contains(&id) {
                return Ok(Some(work));
            }
        }
        let text =
            format!("other relays changed the saga {TRIES} times in the meantime; a later sweep tries again");
        Err(Unswept::Saga(Error::new(ErrorKind::Contention, text)))
    }

    /// A saga with its entries.
    pub(super) async fn load(
        &self,
        id: SagaId,
        pinned: Option<Timestamp>,
    ) -> Result<Option<(pillarbox_core::SagaRecord, Vec<StepSeen>, Timestamp)>> {
        let store = &self.store;
        let bind = Bind::new().text(&id.to_string()).at(pinned).done()?;
        let rows = store.run(Traffic::Relay, Again::Always, &store.sql().saga_show, bind).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let (now, saga) = (Cells::of(row).time()?.unwrap_or(Timestamp::MIN), saga(row, 1)?);
        let ids: Vec<uuid::Uuid> = saga.event_ids().into_iter().map(|id| id.0).collect();
        let bind = Bind::new().value(ids).text(&id.to_string()).done()?;
        let rows = store.run(Traffic::Relay, Again::Always, &store.sql().saga_entries, bind).await?;
        let mut seen = Vec::with_capacity(rows.len());
        for row in &rows {
            let entry = decode_whole(row).map_err(|error| classify(error, Phase::Before))?;
            seen.push(StepSeen::from(&entry));
        }
        Ok(Some((saga, seen, now)))
    }
}

/// Why a saga was not brought up to date.
enum Unswept {
    /// Nothing can be read from the store: no other saga will do better.
    Store(Error),
    /// Anything else, which may be this saga's alone: what cannot be read of it, or its callback. A callback's own error
    /// looks as one of the store may.
    Saga(Error),
}

impl Unswept {
    fn loading(error: Error) -> Self {
        if error.kind() == ErrorKind::Unavailable { Self::Store(error) } else { Self::Saga(error) }
    }
}

/// Gives a transaction back in which nothing was written.
async fn end(unit: Option<Unit>) -> Result<()> {
    match unit {
        Some(unit) => unit.commit(Phase::Before).await,
        None => Ok(()),
    }
}

fn written(rows: &[PgRow]) -> Result<BTreeSet<SagaId>> {
    rows.iter().map(|row| Cells::of(row).text()?.parse()).collect()
}
