//! Rows whose steps move their sagas.
//!
//! Entries without a saga take the path that they always take; the end of a step goes to [`Sagas`], which decides what
//! follows from it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox_core::port::{
    Claim, ClaimRequest, Effect, ExtendRequest, Extended, ReapRequest, Reaped, Sagas, SettleRequest,
    Settlement, StepOutcome, StepSettleRequest, StepSettlement, Steps, StepsSettled, Store, SweepRequest,
    Verdict,
};
use pillarbox_core::{Error, ErrorKind, Failure, FailureKind, Held, Result, RouteName, SagaId, Timestamp};
use tokio::time::Instant;

use crate::handle::Shared;

use super::{Conclusion, Feed, Nature, Recorded, Recording, StepEnd};

/// Most sagas of one sweep. One that came to no end is followed by one of half as many.
const SWEEP_LIMIT: u32 = 100;
/// How long sweeps follow each other while there are more sagas to look at.
const SWEEPS_FOR: Duration = Duration::from_secs(1);

/// The store of one relay, with its sagas.
pub(crate) struct SagaFeed {
    store: Arc<dyn Store>,
    sagas: Arc<dyn Sagas>,
    /// Rung when a step was staged.
    shared: Arc<Shared>,
    next_sweep: Mutex<NextSweep>,
}

/// Behind which saga the next sweep goes on, and how many it looks at.
struct NextSweep {
    after: Option<SagaId>,
    limit: u32,
}

/// What came of settling steps.
#[derive(Default)]
struct Tried {
    done: StepsSettled,
    failed: Vec<Held>,
    error: Option<Error>,
}

impl SagaFeed {
    pub(crate) fn new(store: Arc<dyn Store>, sagas: Arc<dyn Sagas>, shared: Arc<Shared>) -> Self {
        let next_sweep = Mutex::new(NextSweep { after: None, limit: SWEEP_LIMIT });
        Self { store, sagas, shared, next_sweep }
    }

    fn next_sweep(&self) -> MutexGuard<'_, NextSweep> {
        self.next_sweep.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All together; and when one of them keeps the others from being settled, one by one.
    async fn settle_steps(&self, request: StepSettleRequest) -> Tried {
        let mut tried = Tried::default();
        if request.settlements.is_empty() {
            return tried;
        }
        let error = match self.sagas.settle_steps(request.clone()).await {
            Ok(done) => return Tried { done, ..tried },
            Err(error) => error,
        };
        let alone = request.settlements.len() == 1;
        if alone || matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Schema) {
            let failed = request.settlements.iter().map(|settlement| settlement.held).collect();
            return Tried { failed, error: Some(error), ..tried };
        }
        tracing::debug!(
            %error, steps = request.settlements.len(),
            "settling the steps together failed; they are settled one by one"
        );
        for settlement in &request.settlements {
            let one = StepSettleRequest { settlements: vec![settlement.clone()], ..request.clone() };
            match self.sagas.settle_steps(one).await {
                Ok(done) => {
                    tried.done.accepted += done.accepted;
                    tried.done.fenced.extend(done.fenced);
                    tried.done.plain.extend(done.plain);
                    tried.done.ended.extend(done.ended);
                }
                Err(error) => {
                    tried.failed.push(settlement.held);
                    tried.error.get_or_insert(error);
                }
            }
        }
        tried
    }

    /// Looks at the next sagas that are not up to date, and at those behind them while there is time. Where it ended is
    /// where the next one goes on: sagas that fail every time are passed over and hold up none.
    async fn sweep(&self, owner: &str, now: Option<Timestamp>) -> Result<()> {
        let begun = Instant::now();
        loop {
            let request = {
                let mut next = self.next_sweep();
                let limit = next.limit;
                // It may be cut off, by callbacks that take their time for one.
                next.limit = (limit / 2).max(1);
                SweepRequest { limit, after: next.after, owner: owner.to_owned(), now }
            };
            let swept = self.sagas.sweep(request).await?;
            *self.next_sweep() = NextSweep { after: swept.next, limit: SWEEP_LIMIT };
            tell_ended(&swept.ended);
            if swept.changed > 0 {
                self.shared.wake.notify_one();
            }
            if swept.next.is_none() || begun.elapsed() >= SWEEPS_FOR {
                return Ok(());
            }
        }
    }
}

/// Where a conclusion is recorded.
enum Recorder {
    Saga(StepSettlement),
    Store(Settlement),
}

impl From<Conclusion> for Recorder {
    fn from(conclusion: Conclusion) -> Self {
        let Conclusion { held, verdict, step } = conclusion;
        match (verdict, step) {
            (Verdict::Delivered, Some(StepEnd { data })) => {
                Self::Saga(StepSettlement { held, outcome: StepOutcome::Done { data } })
            }
            (Verdict::Dead { failure, .. }, Some(_)) => {
                Self::Saga(StepSettlement { held, outcome: StepOutcome::Dead { failure } })
            }
            // The saga stays where it is. But a handler that was cut off may have begun: that is kept.
            (Verdict::Release { failure: None, .. }, Some(_)) => {
                let cut_off = Failure::new(
                    FailureKind::Unknown,
                    "released",
                    "the relay stopped before the handler had finished",
                );
                Self::Store(Settlement { held, verdict: Verdict::release(cut_off) })
            }
            (verdict, _) => Self::Store(Settlement { held, verdict }),
        }
    }
}

fn tell_ended(ended: &[SagaId]) {
    for saga in ended {
        tracing::info!(%saga, "the saga has ended");
    }
}

#[async_trait]
impl Feed for SagaFeed {
    fn nature(&self) -> Nature {
        // Steps of one saga in two calls would wait for each other.
        Nature { steps: Steps::Take, settles_max: 1, ..Nature::ROWS }
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
        self.store.claim(request).await
    }

    async fn settle(&self, recording: Recording) -> Result<Recorded> {
        let Recording { owner, conclusions, keep } = recording;
        let verdicts: BTreeMap<Held, Verdict> = conclusions
            .iter()
            .filter(|conclusion| conclusion.step.is_some())
            .map(|conclusion| (conclusion.held, conclusion.verdict.clone()))
            .collect();
        let (mut steps, mut others) = (Vec::new(), Vec::new());
        for conclusion in conclusions {
            match conclusion.into() {
                Recorder::Saga(step) => steps.push(step),
                Recorder::Store(other) => others.push(other),
            }
        }
        let request = StepSettleRequest { owner: owner.clone(), settlements: steps, keep, now: None };
        let Tried { done, failed: mut left, mut error } = self.settle_steps(request).await;
        tell_ended(&done.ended);
        if done.accepted > 0 {
            self.shared.wake.notify_one();
        }
        // Entries of a group that is no saga.
        let plain = done.plain.iter().filter_map(|held| Some((*held, verdicts.get(held)?.clone())));
        others.extend(plain.map(|(held, verdict)| Settlement { held, verdict }));
        let mut fenced = done.fenced;
        if !others.is_empty() {
            let held: Vec<Held> = others.iter().map(|settlement| settlement.held).collect();
            let request = SettleRequest { owner, settlements: others, keep, now: None };
            match self.store.settle(request).await {
                Ok(settled) => fenced.extend(settled.fenced),
                Err(failed) => {
                    left.extend(held);
                    error.get_or_insert(failed);
                }
            }
        }
        Ok(Recorded { fenced, left: error.map(|error| (left, error)) })
    }

    async fn extend(&self, request: ExtendRequest) -> Result<Extended> {
        self.store.extend(request).await
    }

    async fn reap(&self, request: ReapRequest, _at_work: Vec<Held>) -> Result<Reaped> {
        let (effect, owner, now) = (request.effect, request.owner.clone(), request.now);
        let reaped = self.store.reap(request).await?;
        if effect == Effect::Apply {
            self.sweep(&owner, now).await?;
        }
        Ok(reaped)
    }

    async fn sagas_left_alone(&self, _route: &RouteName) -> Result<u64> {
        Ok(0)
    }
}
