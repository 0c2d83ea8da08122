//! Settling by sagas: the outbox of a relay whose handlers do the steps of sagas.
//!
//! [`SagaStore`] implements [`Store`], so the pipeline does not know the difference. Entries without a saga take the
//! path that they always take; the end of a step goes to [`Sagas`], which decides what follows from it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox_core::port::{
    Claim, ClaimRequest, Effect, ExtendRequest, Extended, ReapRequest, Reaped, Sagas, SettleRequest, Settled,
    Settlement, StepOutcome, StepSettleRequest, StepSettlement, StepsSettled, Store, SweepRequest, Verdict,
};
use pillarbox_core::{Error, ErrorKind, Failure, FailureKind, Held, Result, SagaId, Timestamp};
use tokio::time::Instant;

use crate::handle::Shared;
use crate::sink::Passed;

/// Most sagas of one sweep. One that came to no end is followed by one of half as many.
const SWEEP_LIMIT: u32 = 100;
/// How long sweeps follow each other while there are more sagas to look at.
const SWEEPS_FOR: Duration = Duration::from_secs(1);

/// The outbox of one relay, with sagas.
pub(crate) struct SagaStore {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) sagas: Arc<dyn Sagas>,
    pub(crate) passed: Passed,
    /// Most claims of steps that are remembered: several times of what may be in flight.
    pub(crate) steps_max: usize,
    /// Rung when a step was staged.
    pub(crate) shared: Arc<Shared>,
    pub(crate) state: Mutex<State>,
}

pub(crate) struct State {
    /// Claimed entries of sagas, and when the pipeline last showed that it has them.
    steps: BTreeMap<Held, Instant>,
    /// Settled by a call of which another part failed, and whether the claim still stood: that call comes again.
    settled: BTreeMap<Held, bool>,
    /// Behind which saga the next sweep goes on, and how many it looks at.
    swept: Option<SagaId>,
    sweep_limit: u32,
}

impl Default for State {
    fn default() -> Self {
        let (steps, settled) = (BTreeMap::new(), BTreeMap::new());
        Self { steps, settled, swept: None, sweep_limit: SWEEP_LIMIT }
    }
}

/// What came of settling steps.
#[derive(Default)]
struct Tried {
    done: StepsSettled,
    failed: Vec<Held>,
    error: Option<Error>,
}

impl SagaStore {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_passed(&self, held: Held) -> Option<serde_json::Value> {
        self.passed.lock().unwrap_or_else(PoisonError::into_inner).get(&held).cloned()
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
        tracing::debug!(%error, steps = request.settlements.len(), "steps are settled one by one");
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

    /// Which are ends of steps, which are not, and which were settled by an earlier try.
    fn split(&self, settlements: Vec<Settlement>) -> (Vec<StepSettlement>, Vec<Settlement>, Settled) {
        let (mut steps, mut others, mut settled) = (Vec::new(), Vec::new(), Settled::default());
        let state = self.state();
        for settlement in settlements {
            let held = settlement.held;
            match state.settled.get(&held) {
                Some(true) => settled.accepted += 1,
                Some(false) => settled.fenced.push(held),
                None if !state.steps.contains_key(&held) => others.push(settlement),
                None => match settlement.verdict {
                    Verdict::Delivered => {
                        let data = self.take_passed(held);
                        steps.push(StepSettlement { held, outcome: StepOutcome::Done { data } });
                    }
                    Verdict::Dead { failure } => {
                        steps.push(StepSettlement { held, outcome: StepOutcome::Dead { failure } });
                    }
                    // The saga stays where it is. But a handler that was cut off may have begun: that is kept.
                    Verdict::Release { failure } => {
                        let cut_off =
                            || Failure::new(FailureKind::Unknown, "released", "given back unfinished");
                        let failure = Some(failure.unwrap_or_else(cut_off));
                        others.push(Settlement { held, verdict: Verdict::Release { failure } });
                    }
                    verdict @ (Verdict::Retry { .. } | Verdict::Park { .. }) => {
                        others.push(Settlement { held, verdict });
                    }
                },
            }
        }
        (steps, others, settled)
    }

    /// Entries that the pipeline left to their lease are never settled here. They are those that it has not shown for
    /// longest, and only so many are kept that none of its own is ever among those that go: an entry that is not known
    /// as a step would be settled without its saga.
    fn forget_abandoned(&self) {
        let mut abandoned: Vec<(Instant, Held)> = {
            let state = self.state();
            if state.steps.len() <= self.steps_max {
                return;
            }
            state.steps.iter().map(|(held, seen)| (*seen, *held)).collect()
        };
        abandoned.sort_unstable();
        abandoned.truncate(abandoned.len() - self.steps_max);
        self.forget(abandoned.into_iter().map(|(_, held)| held));
    }

    fn forget(&self, held: impl Iterator<Item = Held>) {
        let mut state = self.state();
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        for held in held {
            state.steps.remove(&held);
            state.settled.remove(&held);
            passed.remove(&held);
        }
    }

    /// Looks at the next sagas that are not up to date, and at those behind them while there is time. Where it ended is
    /// where the next one goes on: sagas that fail every time are passed over and hold up none.
    async fn sweep(&self, owner: &str, now: Option<Timestamp>) -> Result<()> {
        let begun = Instant::now();
        loop {
            let request = {
                let mut state = self.state();
                let limit = state.sweep_limit;
                // It may be cut off, by callbacks that take their time for one.
                state.sweep_limit = (limit / 2).max(1);
                SweepRequest { limit, after: state.swept, owner: owner.to_owned(), now }
            };
            let swept = self.sagas.sweep(request).await?;
            let next = swept.next;
            {
                let mut state = self.state();
                (state.swept, state.sweep_limit) = (next, SWEEP_LIMIT);
            }
            self.tell_ended(&swept.ended);
            if swept.changed > 0 {
                self.shared.wake.notify_one();
            }
            if next.is_none() || begun.elapsed() >= SWEEPS_FOR {
                return Ok(());
            }
        }
    }

    fn tell_ended(&self, ended: &[SagaId]) {
        for saga in ended {
            tracing::info!(%saga, "a saga has ended");
        }
    }
}

#[async_trait]
impl Store for SagaStore {
    async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
        let claim = self.store.claim(request).await?;
        let now = Instant::now();
        let steps = claim.entries.iter().filter(|entry| entry.group_id.is_some());
        self.state().steps.extend(steps.map(|entry| (entry.held(), now)));
        self.forget_abandoned();
        Ok(claim)
    }

    async fn extend(&self, request: ExtendRequest) -> Result<Extended> {
        {
            let now = Instant::now();
            let mut state = self.state();
            for held in &request.held {
                if let Some(seen) = state.steps.get_mut(held) {
                    *seen = now;
                }
            }
        }
        self.store.extend(request).await
    }

    async fn settle(&self, request: SettleRequest) -> Result<Settled> {
        let all: Vec<Held> = request.settlements.iter().map(|settlement| settlement.held).collect();
        let verdicts: BTreeMap<Held, Verdict> = request
            .settlements
            .iter()
            .map(|settlement| (settlement.held, settlement.verdict.clone()))
            .collect();
        let (steps, mut others, mut settled) = self.split(request.settlements);
        if steps.is_empty() && settled == Settled::default() {
            let settled = self.store.settle(SettleRequest { settlements: others, ..request }).await?;
            self.forget(all.into_iter());
            return Ok(settled);
        }
        let asked: Vec<Held> = steps.iter().map(|step| step.held).collect();
        let request_steps = StepSettleRequest {
            owner: request.owner.clone(),
            settlements: steps,
            keep: request.keep,
            now: request.now,
        };
        let Tried { done, failed, error } = self.settle_steps(request_steps).await;
        self.tell_ended(&done.ended);
        if done.accepted > 0 {
            self.shared.wake.notify_one();
        }
        for held in &done.plain {
            if let Some(verdict) = verdicts.get(held) {
                others.push(Settlement { held: *held, verdict: verdict.clone() });
            }
        }
        let others_held: Vec<Held> = others.iter().map(|settlement| settlement.held).collect();
        let rest = if others.is_empty() {
            Ok(Settled::default())
        } else {
            self.store.settle(SettleRequest { settlements: others, ..request }).await
        };
        if error.is_some() || rest.is_err() {
            // The whole call comes again: what was recorded by this one must not look fenced then.
            let mut state = self.state();
            let open = |held: &&Held| !failed.contains(held) && !done.plain.contains(held);
            for held in asked.iter().filter(open) {
                state.settled.insert(*held, !done.fenced.contains(held));
            }
            if let Ok(rest) = &rest {
                state.settled.extend(others_held.iter().map(|held| (*held, !rest.fenced.contains(held))));
            }
        }
        let rest = rest?;
        if let Some(error) = error {
            return Err(error);
        }
        settled.accepted += done.accepted + rest.accepted;
        settled.fenced.extend(done.fenced);
        settled.fenced.extend(rest.fenced);
        self.forget(all.into_iter());
        Ok(settled)
    }

    async fn reap(&self, request: ReapRequest) -> Result<Reaped> {
        let (effect, owner, now) = (request.effect, request.owner.clone(), request.now);
        let reaped = self.store.reap(request).await?;
        if effect == Effect::Apply {
            self.sweep(&owner, now).await?;
        }
        Ok(reaped)
    }
}
