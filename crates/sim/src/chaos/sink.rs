//! A destination that can fail in every way that a destination can.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox_core::port::{Report, Sink, SinkCapabilities};
use pillarbox_core::{Entry, Failure, FailureKind, Outcome};
use tokio::time::Instant;

use super::super::actor::payload_of;
use super::super::fault::Fault;
use super::super::history::Happened;
use super::super::rng::Rng;
use super::{Chaos, Gate};

/// Wraps a sink: faults by the weather, and every delivery written down when it takes place.
pub(crate) struct ChaosSink {
    inner: Arc<dyn Sink>,
    chaos: Chaos,
    gate: Gate,
    who: Arc<str>,
    rng: Mutex<Rng>,
    /// From the world's seed alone: an entry is poisoned for every relay, or for none.
    poison: Rng,
}

/// What the destination does with one entry.
enum Fate {
    Take,
    Answer(Outcome),
    TakeAndLose,
    TakeSilently,
    Silence,
    TakeLate(Duration),
}

impl ChaosSink {
    pub(crate) fn new(
        inner: Arc<dyn Sink>,
        chaos: Chaos,
        gate: Gate,
        who: &str,
        rng: Rng,
        poison: Rng,
    ) -> Self {
        Self { inner, chaos, gate, who: who.into(), rng: Mutex::new(rng), poison }
    }

    fn rng(&self) -> MutexGuard<'_, Rng> {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn strikes(&self, fault: Fault) -> bool {
        self.chaos.strikes(&mut self.rng(), fault)
    }

    fn is_down(&self) -> bool {
        let now = Instant::now();
        if self.strikes(Fault::SinkIsDown) {
            let wait = self.rng().millis(200..=15_000);
            self.chaos.lock().sink_down_until = Some(now + wait);
        }
        self.chaos.lock().sink_down_until.is_some_and(|until| now < until)
    }

    /// Where in the batch something happens that ends the whole delivery, if it does.
    fn place_of(&self, fault: Fault, len: usize) -> Option<usize> {
        if self.strikes(fault) { self.rng().index(len) } else { None }
    }

    fn is_poisoned(&self, entry: &Entry) -> bool {
        let mut poison = self.poison.fork(&entry.event_id.to_string());
        self.chaos.strikes(&mut poison, Fault::PoisonedEntry)
    }

    fn fate(&self) -> Fate {
        if self.is_down() {
            return Fate::Answer(Outcome::down("refused", "nobody listens"));
        }
        if self.strikes(Fault::SinkFails) {
            return Fate::Answer(Outcome::failed("later", "not this one, not now"));
        }
        if self.strikes(Fault::SinkFailsWithWait) {
            let failure = Failure::new(FailureKind::Failed, "throttled", "too many requests");
            let retry_after = Some(self.rng().millis(0..=5_000));
            return Fate::Answer(Outcome::Failed { failure, retry_after });
        }
        if self.strikes(Fault::SinkIsFull) {
            let failure = Failure::new(FailureKind::Down, "full", "the queue is full");
            let says_when = self.rng().permille(500);
            let retry_after = says_when.then(|| self.rng().millis(0..=5_000));
            return Fate::Answer(Outcome::Busy { failure, retry_after });
        }
        if self.strikes(Fault::SinkRejects) {
            return Fate::Answer(Outcome::rejected("unroutable", "nobody is bound"));
        }
        if self.strikes(Fault::ConfirmationLost) {
            return Fate::TakeAndLose;
        }
        if self.strikes(Fault::ReportMissing) {
            return if self.rng().permille(500) { Fate::TakeSilently } else { Fate::Silence };
        }
        if self.strikes(Fault::LateDelivery) {
            return Fate::TakeLate(self.rng().millis(1..=20_000));
        }
        Fate::Take
    }

    /// Lets one entry meet its fate and says what to report of it.
    async fn meet(&self, entry: &Entry) -> Option<Outcome> {
        match self.fate() {
            Fate::Take => Some(take(&self.inner, &self.chaos, &self.who, entry).await),
            Fate::Answer(outcome) => Some(outcome),
            Fate::TakeAndLose => {
                take(&self.inner, &self.chaos, &self.who, entry).await;
                Some(Outcome::unknown("confirm_lost", "the connection was reset"))
            }
            Fate::TakeSilently => {
                take(&self.inner, &self.chaos, &self.who, entry).await;
                None
            }
            Fate::Silence => None,
            Fate::TakeLate(wait) => {
                let (inner, chaos, who) =
                    (Arc::clone(&self.inner), self.chaos.clone(), Arc::clone(&self.who));
                let entry = entry.clone();
                self.chaos.later(wait, async move {
                    take(&inner, &chaos, &who, &entry).await;
                });
                Some(Outcome::unknown("timeout", "no confirmation in time"))
            }
        }
    }

    fn tell(&self, report: &dyn Report, index: usize, entry: &Entry, outcome: Outcome) {
        let what = Happened::Reported { seq: entry.seq, fence: entry.fence.0, outcome: (&outcome).into() };
        self.chaos.record_as(&self.who, what);
        report.outcome(index, outcome);
    }
}

/// Hands one entry to the destination itself.
async fn take(inner: &Arc<dyn Sink>, chaos: &Chaos, who: &Arc<str>, entry: &Entry) -> Outcome {
    let answer = Answer::default();
    inner.deliver(std::slice::from_ref(entry), &answer).await;
    let outcome = answer.take();
    if outcome == Outcome::Confirmed {
        let intact = entry.payload == payload_of(entry.event_id);
        let (seq, id, fence) = (entry.seq, entry.event_id, entry.fence.0);
        chaos.record_as(who, Happened::Delivered { seq, id, lane: entry.lane, fence, intact });
    }
    outcome
}

#[async_trait]
impl Sink for ChaosSink {
    fn capabilities(&self) -> SinkCapabilities {
        self.inner.capabilities()
    }

    async fn deliver(&self, batch: &[Entry], report: &dyn Report) {
        let mut hands = Hands::take(self, batch.len());
        tokio::task::yield_now().await;
        let panic_at = self.place_of(Fault::SinkPanics, batch.len());
        let hang_at = self.place_of(Fault::SinkHangs, batch.len());
        let die_at = self.place_of(Fault::CrashAtCall, batch.len());
        let prefix = self.capabilities().ordered_prefix;
        let mut stopped: BTreeSet<String> = BTreeSet::new();
        for (index, entry) in batch.iter().enumerate() {
            if self.strikes(Fault::SinkIsSlow) {
                let most = if self.rng().permille(100) { 5_000 } else { 500 };
                let wait = self.rng().millis(1..=most);
                tokio::time::sleep(wait).await;
            }
            if prefix && entry.key.as_ref().is_some_and(|key| stopped.contains(key)) {
                // Nobody tries what stands behind a failure; some destinations say so, others say nothing.
                let said = [
                    Some(Outcome::Untried),
                    Some(Outcome::Untried),
                    Some(Outcome::failed("behind", "stands behind a failure")),
                    None,
                ];
                let which = self.rng().index(said.len());
                if let Some(said) = which.and_then(|which| said.into_iter().nth(which).flatten()) {
                    hands.put_down(1);
                    self.tell(report, index, entry, said);
                }
                continue;
            }
            let (seq, id, fence, attempts) = (entry.seq, entry.event_id, entry.fence.0, entry.attempts);
            self.chaos.record_as(&self.who, Happened::Handed { seq, id, fence, attempts });
            if die_at == Some(index) || self.is_poisoned(entry) {
                self.gate.kill();
                pending().await
            }
            if hang_at == Some(index) {
                // Faults end, and with them the longest hang: then the sink gives up without a word.
                return self.chaos.healed().await;
            }
            if panic_at == Some(index) {
                // Like `panic!`, without the report of the panic hook: this one is expected.
                std::panic::resume_unwind(Box::new("the sink panicked"));
            }
            let outcome = self.meet(entry).await;
            if prefix && outcome != Some(Outcome::Confirmed) {
                stopped.extend(entry.key.clone());
            }
            let Some(outcome) = outcome else { continue };
            hands.put_down(1);
            self.tell(report, index, entry, outcome);
            if self.strikes(Fault::ReportTwice) {
                report.outcome(index, Outcome::failed("second", "a second report of one entry"));
                report.outcome(batch.len() + index, Outcome::Confirmed);
            }
        }
    }
}

/// Counts what is in a sink's hands, also when the delivery is dropped.
struct Hands<'a> {
    sink: &'a ChaosSink,
    holds: usize,
}

impl<'a> Hands<'a> {
    fn take(sink: &'a ChaosSink, holds: usize) -> Self {
        *sink.chaos.lock().in_hands.entry(Arc::clone(&sink.who)).or_default() += holds;
        Self { sink, holds }
    }

    fn put_down(&mut self, some: usize) {
        self.holds -= some;
        if let Some(holds) = self.sink.chaos.lock().in_hands.get_mut(&self.sink.who) {
            *holds = holds.saturating_sub(some);
        }
    }
}

impl Drop for Hands<'_> {
    fn drop(&mut self) {
        self.put_down(self.holds);
    }
}

/// Keeps the outcome of one entry.
#[derive(Default)]
struct Answer(Mutex<Option<Outcome>>);

impl Answer {
    fn take(&self) -> Outcome {
        let mut answer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answer.take().unwrap_or_else(|| Outcome::unknown("no_report", "the destination said nothing"))
    }
}

impl Report for Answer {
    fn outcome(&self, _index: usize, outcome: Outcome) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    }
}
