//! Moving sagas in a store that locks what it reads: read, decide, and write in one transaction.

use std::collections::BTreeMap;

use async_trait::async_trait;

use crate::entry::{Entry, Held};
use crate::error::{Error, ErrorKind, Result};
use crate::port::{
    Intervened, InterventionRequest, Keep, SagaHooks, StepSettleRequest, StepsSettled, SweepRequest,
};
use crate::saga::{SagaId, SagaRecord, SagaWork, StepSeen};
use crate::time::Timestamp;

use super::steps::StepDecisions;

/// The claims that still stand, each with the saga of its entry, if it is of one.
pub type HeldSteps = BTreeMap<Held, (StepSeen, Option<SagaRecord>)>;

/// The sagas of a store in whose transactions nobody else moves a saga that was read.
#[async_trait]
pub trait LockedSagas: Sync {
    /// The transaction, in which the application's callbacks write too.
    type Tx: Send + 'static;

    /// Counts the tries of one transaction.
    type Tries: Default + Send;

    /// The callbacks.
    fn hooks(&self) -> &SagaHooks<Self::Tx>;

    /// Begins a transaction.
    async fn begin(&self) -> Result<Self::Tx>;

    /// Ends it: with a commit if everything in it went well, else with a rollback.
    async fn end(&self, tx: Self::Tx, is_whole: bool) -> Result<()>;

    /// Whether another try is worth it after this error. Waits before it says so.
    async fn again(&self, tries: &mut Self::Tries, error: &Error) -> bool;

    /// The pinned time, or the database's.
    async fn now(&self, tx: &mut Self::Tx, pinned: Option<Timestamp>) -> Result<Timestamp>;

    /// Which of these claims stand. Locks them and their sagas.
    async fn held(&self, tx: &mut Self::Tx, claims: &[Held]) -> Result<HeldSteps>;

    /// A saga with its entries, oldest first. Locks them.
    async fn load(&self, tx: &mut Self::Tx, id: SagaId) -> Result<Option<(SagaRecord, Vec<Entry>)>>;

    /// Writes what was decided.
    async fn write(
        &self,
        tx: &mut Self::Tx,
        work: &[SagaWork],
        actor: &str,
        keep: Keep,
        now: Timestamp,
    ) -> Result<()>;
}

/// Settles steps of sagas.
///
/// # Errors
/// When a callback refuses, and any error of the store. Nothing is changed then.
pub async fn settle_steps<S: LockedSagas>(sagas: &S, request: &StepSettleRequest) -> Result<StepsSettled> {
    if request.settlements.is_empty() {
        return Ok(StepsSettled::default());
    }
    in_transaction(sagas, request).await
}

/// Brings one saga up to date. Returns whether it has ended; `None`: there was nothing to do.
///
/// # Errors
/// As for [`settle_steps`].
pub async fn sweep_one<S: LockedSagas>(
    sagas: &S,
    id: SagaId,
    request: &SweepRequest,
) -> Result<Option<bool>> {
    in_transaction(sagas, &Sweep { id, request }).await
}

/// Does what an operator asks for.
///
/// # Errors
/// When the saga is not known or its state does not allow it; also as for [`settle_steps`].
pub async fn intervene<S: LockedSagas>(sagas: &S, request: &InterventionRequest) -> Result<Intervened> {
    in_transaction(sagas, request).await
}

/// What is done in one transaction. It may be done again after a rollback.
#[async_trait]
trait Move<S: LockedSagas> {
    type Done: Send;

    async fn run(&self, sagas: &S, tx: &mut S::Tx) -> Result<Self::Done>;
}

async fn in_transaction<S: LockedSagas, M: Move<S>>(sagas: &S, step: &M) -> Result<M::Done> {
    let mut tries = S::Tries::default();
    loop {
        let mut tx = sagas.begin().await?;
        let done = step.run(sagas, &mut tx).await;
        let ended = sagas.end(tx, done.is_ok()).await;
        match done.and_then(|done| ended.map(|()| done)) {
            Err(error) if sagas.again(&mut tries, &error).await => {}
            answer => return answer,
        }
    }
}

#[async_trait]
impl<S: LockedSagas> Move<S> for StepSettleRequest {
    type Done = StepsSettled;

    async fn run(&self, sagas: &S, tx: &mut S::Tx) -> Result<StepsSettled> {
        let now = sagas.now(tx, self.now).await?;
        let claims: Vec<Held> = self.settlements.iter().map(|one| one.held).collect();
        let mut found = sagas.held(tx, &claims).await?;
        let mut decided = StepDecisions::default();
        for settlement in &self.settlements {
            // The same claim twice: the first outcome counts.
            decided.settle(settlement.clone(), found.remove(&settlement.held), now)?;
        }
        let work = decided.take_work();
        if !work.is_empty() {
            carry_out(sagas, tx, &work, &self.owner, self.keep, now).await?;
        }
        Ok(decided.written(|_| true).0)
    }
}

struct Sweep<'a> {
    id: SagaId,
    request: &'a SweepRequest,
}

#[async_trait]
impl<S: LockedSagas> Move<S> for Sweep<'_> {
    type Done = Option<bool>;

    async fn run(&self, sagas: &S, tx: &mut S::Tx) -> Result<Option<bool>> {
        let now = sagas.now(tx, self.request.now).await?;
        let Some((saga, entries)) = sagas.load(tx, self.id).await? else { return Ok(None) };
        let seen = entries.iter().map(StepSeen::from).collect();
        let Some(work) = SagaWork::sweep(saga, seen, now)? else { return Ok(None) };
        let one = std::slice::from_ref(&work);
        carry_out(sagas, tx, one, &self.request.owner, Keep::UntilPurged, now).await?;
        Ok(Some(work.moves.ended))
    }
}

#[async_trait]
impl<S: LockedSagas> Move<S> for InterventionRequest {
    type Done = Intervened;

    async fn run(&self, sagas: &S, tx: &mut S::Tx) -> Result<Intervened> {
        let now = sagas.now(tx, self.now).await?;
        let (saga, entries) = sagas.load(tx, self.id).await?.ok_or_else(|| self.unknown())?;
        let seen = entries.iter().map(StepSeen::from).collect();
        let work = SagaWork::intervene(saga, seen, &self.what, now)?;
        carry_out(sagas, tx, std::slice::from_ref(&work), &self.actor, Keep::UntilPurged, now).await?;
        Ok(work.intervened())
    }
}

/// Sinks, everything that is written, callbacks: in this order.
async fn carry_out<S: LockedSagas>(
    sagas: &S,
    tx: &mut S::Tx,
    work: &[SagaWork],
    actor: &str,
    keep: Keep,
    now: Timestamp,
) -> Result<()> {
    for one in work {
        sagas.hooks().record(tx, &one.moves).await?;
    }
    sagas.write(tx, work, actor, keep, now).await?;
    for one in work {
        sagas.hooks().ended(tx, &one.moves, &one.saga).await?;
    }
    Ok(())
}

/// The error of a store that tried this often and was always later than others.
#[must_use]
pub fn given_up(tries: u32) -> Error {
    let text = format!(
        "saga update conflicted {tries} times and was given up for now; it is retried when its lease ends. If this \
         persists, run fewer relays on this route"
    );
    Error::new(ErrorKind::Contention, text)
}
