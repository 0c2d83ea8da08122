//! Settling steps: one read, and one statement that writes what was decided if nothing has changed since.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use pillarbox_core::port::{
    self, Keep, StepSettleRequest, StepSettlement, StepsSettled, SweepRequest, Swept,
};
use pillarbox_core::{Error, ErrorKind, Held, Result, SagaId, SagaWork, StepSeen, Timestamp};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::bind::Bind;
use crate::call::{Again, Line, Unit};
use crate::commit::commit_pooled;
use crate::error::{Phase, classify};
use crate::options::Mode;
use crate::row::decode_whole;

use super::read::{held_step, now, saga, unreadable};
use super::write::Batch;
use super::{Sagas, Tx};

/// Others that move the same sagas at the same time come first at most this often.
const TRIES: usize = 16;

/// What of a request is decided, and what is not of a saga.
#[derive(Default)]
struct Decided {
    work: BTreeMap<SagaId, SagaWork>,
    /// The claims of each saga.
    held: BTreeMap<SagaId, Vec<StepSettlement>>,
    now: Option<Timestamp>,
}

#[async_trait]
impl port::Sagas for Sagas {
    async fn settle_steps(&self, request: StepSettleRequest) -> Result<StepsSettled> {
        let mut settled = StepsSettled::default();
        let mut left = request.settlements.clone();
        for _ in 0..TRIES {
            if left.is_empty() {
                return Ok(settled);
            }
            // Where nothing stays prepared every statement has a transaction around it: one does for both.
            let mut unit = match self.store.mode() {
                Mode::Pooled => Some(self.store.begin(Line::Reserved).await?),
                Mode::Direct => None,
            };
            let asked = std::mem::take(&mut left);
            let decided = self.decide(unit.as_mut(), asked, request.now, &mut settled).await?;
            let Some(now) = decided.now else {
                end(unit).await?;
                return Ok(settled);
            };
            let work: Vec<SagaWork> = decided.work.into_values().collect();
            let written = self.write(unit, &work, &request.owner, request.keep, now).await?;
            for one in &work {
                let held = decided.held.get(&one.saga.id).cloned().unwrap_or_default();
                if written.contains(&one.saga.id) {
                    settled.accepted += held.len() as u64;
                    settled.ended.extend(one.moves.ended.then_some(one.saga.id));
                } else {
                    left.extend(held);
                }
            }
        }
        Err(Error::new(ErrorKind::Contention, "others move the same sagas all the time"))
    }

    async fn sweep(&self, request: SweepRequest) -> Result<Swept> {
        let after = request.after.map(|id| id.to_string());
        let bind = Bind::new().at(request.now).number(request.limit.into()).value(after).done()?;
        let store = &self.store;
        let rows = store.run(Line::Relay, Again::Always, &store.sql().saga_sweep, bind).await?;
        let mut swept = Swept { seen: rows.len() as u64, ..Swept::default() };
        let full = rows.len() >= usize::try_from(request.limit).unwrap_or(usize::MAX);
        for row in &rows {
            let id: &str = row.try_get(0).map_err(|_| unreadable())?;
            // A group whose name is not a saga's was joined away; one saga must not keep the others from being swept.
            let Ok(id) = id.parse() else { continue };
            swept.next = Some(id).filter(|_| full);
            match self.sweep_one(id, &request).await {
                Ok(Some(work)) => {
                    swept.changed += 1;
                    swept.ended.extend(work.moves.ended.then_some(id));
                }
                Ok(None) => {}
                Err(Unswept::Store(error)) => return Err(error),
                Err(Unswept::Saga(error)) => {
                    swept.failed += 1;
                    tracing::warn!(saga = %id, %error, "a saga could not be brought up to date");
                }
            }
        }
        Ok(swept)
    }
}

impl Sagas {
    /// Reads what is held and decides what follows from it.
    async fn decide(
        &self,
        unit: Option<&mut Unit>,
        settlements: Vec<StepSettlement>,
        pinned: Option<Timestamp>,
        settled: &mut StepsSettled,
    ) -> Result<Decided> {
        let held: Vec<Held> = settlements.iter().map(|settlement| settlement.held).collect();
        let bind = Bind::new().held(&held).at(pinned).done()?;
        let store = &self.store;
        let sql = &store.sql().saga_of_held;
        let rows = match unit {
            Some(unit) => unit.rows(sql, bind).await?,
            None => store.run(Line::Reserved, Again::Always, sql, bind).await?,
        };
        let mut found = BTreeMap::new();
        for row in &rows {
            let step = held_step(row)?;
            found.insert(step.held, step);
        }
        let mut decided = Decided::default();
        for settlement in settlements {
            // The same claim twice: the first outcome counts.
            let step = found.remove(&settlement.held);
            let Some((now, seen, saga)) = step.and_then(|step| Some((step.now, step.seen?, step.saga)))
            else {
                settled.fenced.push(settlement.held);
                continue;
            };
            let Some(saga) = saga else {
                settled.plain.push(settlement.held);
                continue;
            };
            decided.now = Some(now);
            let id = saga.id;
            let work = decided.work.entry(id).or_insert_with(|| SagaWork::new(saga));
            work.settle(seen, &settlement.outcome, now)?;
            decided.held.entry(id).or_default().push(settlement);
        }
        Ok(decided)
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
        let mut batch = Batch::default();
        for one in work {
            batch.push(one)?;
        }
        let arguments = batch.bind(now, actor, keep)?;
        let store = &self.store;
        if !work.iter().any(|one| self.hooks.wants(&one.moves)) {
            let sql = &store.sql().saga_write;
            let Some(mut unit) = unit else {
                return written(&store.run(Line::Reserved, Again::IfUndone, sql, arguments).await?);
            };
            let rows = unit.rows(sql, arguments).await?;
            unit.commit(Phase::Committing).await?;
            return written(&rows);
        }
        end(unit).await?;
        // The application writes in it too, so it is a transaction of the driver's; and it may take its time, so it is
        // not on the line that leases are renewed on.
        let begun = store.line(Line::Relay).begin_with(store.begin_script(Line::Operator).beginning()).await;
        let mut tx: Tx = begun.map_err(|error| classify(error, Phase::Before))?;
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
        let text = format!("other relays moved it {TRIES} times meanwhile; a later sweep looks at it again");
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
        let rows = store.run(Line::Relay, Again::Always, &store.sql().saga_show, bind).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let (now, saga) = (now(row, 0)?, saga(row, 1)?);
        let ids: Vec<uuid::Uuid> = saga.event_ids().into_iter().map(|id| id.0).collect();
        let bind = Bind::new().value(ids).text(&id.to_string()).done()?;
        let rows = store.run(Line::Relay, Again::Always, &store.sql().saga_entries, bind).await?;
        let mut seen = Vec::with_capacity(rows.len());
        for row in &rows {
            let entry = decode_whole(row).map_err(|error| classify(error, Phase::Before))?;
            seen.push(StepSeen {
                held: entry.held(),
                event_id: entry.event_id,
                status: entry.status,
                attempts: entry.attempts,
                last_error: entry.last_error,
            });
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
    rows.iter().map(|row| row.try_get::<&str, _>(0).map_err(|_| unreadable())?.parse()).collect()
}
