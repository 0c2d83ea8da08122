//! A store on which every call can fail before its effect, after it, late, or never.

use std::collections::BTreeSet;
use std::future::{Future, pending};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox_core::limits::LIST_MAX;
use pillarbox_core::port::{
    Admin, Claim, ClaimRequest, Clock, ExtendRequest, Extended, Filter, ReapRequest, Reaped, SettleRequest,
    Settled, Store, Undecodable,
};
use pillarbox_core::{Error, ErrorKind, Failure, FailureKind, Held, Result, Retry};
use tokio::time::Instant;

use super::super::fault::Fault;
use super::super::history::Happened;
use super::super::rng::Rng;
use super::{Chaos, Gate};

/// Wraps a store: faults by the weather, and every effect written down when it takes place.
///
/// One layer belongs to one relay: the relay that a fault kills or freezes is its own.
pub(crate) struct ChaosStore {
    log: Log,
    admin: Arc<dyn Admin>,
    inner: Arc<dyn Store>,
    gate: Gate,
    rng: Mutex<Rng>,
}

/// How long a call waits for a locked row; below half of the shortest lease.
const LOCK_TIMEOUT: Duration = Duration::from_millis(100);

/// What becomes of one call.
enum Fate {
    Pass,
    FailBefore(Error),
    FailAfter(Error),
    HangBefore,
    HangAfter,
    DieBefore,
    DieAfter,
    Late(Duration),
}

impl ChaosStore {
    /// Puts the weather between a relay and its store. `admin` is the same store, to look at rows.
    pub(crate) fn new(
        inner: Arc<dyn Store>,
        admin: Arc<dyn Admin>,
        chaos: Chaos,
        gate: Gate,
        who: &str,
        rng: Rng,
    ) -> Self {
        Self { log: Log { chaos, who: who.into() }, admin, inner, gate, rng: Mutex::new(rng) }
    }

    fn draw(&self) -> (Fate, Duration, Duration) {
        let chaos = &self.log.chaos;
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = |rng: &mut Rng| {
            // Together below half of the shortest lease: slow is not the same as hanging.
            if chaos.strikes(rng, Fault::StoreIsSlow) { rng.millis(1..=200) } else { Duration::ZERO }
        };
        let waits = (wait(&mut rng), wait(&mut rng));
        (self.fate(&mut rng), waits.0, waits.1)
    }

    /// The fate of a call that changes these rows: one of them may be locked.
    fn draw_on(&self, held: &[Held]) -> (Fate, Duration, Duration) {
        let (fate, before, after) = self.draw();
        let chaos = &self.log.chaos;
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if chaos.draws(&mut rng, Fault::LockedRow)
            && let Some(held) = rng.index(held.len()).and_then(|index| held.get(index))
        {
            chaos.strike(Fault::LockedRow);
            chaos.lock().locked = Some((held.seq, now + rng.millis(100..=30_000)));
        }
        let locked = chaos.lock().locked.filter(|(_, until)| now < *until);
        match locked {
            Some((seq, _)) if held.iter().any(|held| held.seq == seq) => {
                let error = Error::new(ErrorKind::Contention, "a row is locked");
                (Fate::FailBefore(error), before + LOCK_TIMEOUT, after)
            }
            _ => (fate, before, after),
        }
    }

    fn fate(&self, rng: &mut Rng) -> Fate {
        let chaos = &self.log.chaos;
        let coin = rng.permille(500);
        let strikes = |rng: &mut Rng, fault| chaos.strikes(rng, fault);
        if chaos.store_is_down(rng) {
            return Fate::FailBefore(unavailable("the database is down"));
        }
        if strikes(rng, Fault::CrashAtCall) {
            return if coin { Fate::DieBefore } else { Fate::DieAfter };
        }
        if strikes(rng, Fault::Freeze) {
            self.freeze(rng);
        }
        if strikes(rng, Fault::StoreFailsBefore) {
            let kind = if coin { ErrorKind::Contention } else { ErrorKind::Unavailable };
            return Fate::FailBefore(Error::new(kind, "nothing was done"));
        }
        if strikes(rng, Fault::StoreFailsAfter) {
            return Fate::FailAfter(unavailable("the answer was lost").with_retry(Retry::Unknown));
        }
        if strikes(rng, Fault::StoreHangs) {
            return if coin { Fate::HangBefore } else { Fate::HangAfter };
        }
        if strikes(rng, Fault::StoreRefuses) {
            let kind = rng.pick(&[ErrorKind::Denied, ErrorKind::Internal, ErrorKind::Schema]);
            return Fate::FailBefore(Error::new(kind.unwrap_or(ErrorKind::Denied), "not this way"));
        }
        if strikes(rng, Fault::LateEffect) {
            return Fate::Late(rng.millis(1..=20_000));
        }
        Fate::Pass
    }

    fn freeze(&self, rng: &mut Rng) {
        let wait = rng.millis(100..=40_000);
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        self.log.record(Happened::Frozen { millis });
        self.gate.freeze(wait);
    }

    /// Lets a call meet its fate. The effect runs to its end in one go, as a statement of a database does.
    async fn meet<T: Send>(
        &self,
        (fate, before, after): (Fate, Duration, Duration),
        effect: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        // A call to a database always lets others run, and a relay that froze itself stands still from here on.
        tokio::task::yield_now().await;
        self.log.chaos.wait(before).await;
        if !matches!(fate, Fate::Pass) {
            self.log.chaos.count_call(&self.log.who, false);
        }
        match fate {
            Fate::Pass => {
                let answer = effect.await;
                self.log.chaos.wait(after).await;
                answer
            }
            Fate::FailBefore(error) => Err(error),
            Fate::FailAfter(error) => effect.await.and(Err(error)),
            Fate::HangBefore => pending().await,
            Fate::HangAfter => {
                let _ = effect.await;
                pending().await
            }
            Fate::DieBefore => {
                self.gate.kill();
                pending().await
            }
            Fate::DieAfter => {
                let _ = effect.await;
                self.gate.kill();
                pending().await
            }
            Fate::Late(wait) => {
                self.log.chaos.later(wait, async move {
                    let _ = effect.await;
                });
                pending().await
            }
        }
    }

    fn count(&self, useful: bool) {
        self.log.chaos.count_call(&self.log.who, useful);
    }
}

fn unavailable(message: &str) -> Error {
    Error::new(ErrorKind::Unavailable, message)
}

#[async_trait]
impl Store for ChaosStore {
    async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
        let fate = self.draw();
        let (inner, log) = (Arc::clone(&self.inner), self.log.clone());
        let effect = async move {
            let max_attempts = request.max_attempts;
            let claim = inner.claim(request).await?;
            log.claimed(&claim, max_attempts);
            Ok(claim)
        };
        let mut claim = self.meet(fate, effect).await?;
        for Held { seq, fence } in claim.entries.iter().map(pillarbox_core::Entry::held) {
            self.log.record(Happened::Told { seq, fence: fence.0 });
        }
        self.count(!claim.entries.is_empty());
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        if self.log.chaos.strikes(&mut rng, Fault::UndecodableRow)
            && let Some(index) = rng.index(claim.entries.len())
        {
            let entry = claim.entries.remove(index);
            let failure = Failure::new(FailureKind::Undecodable, "headers", "the headers cannot be read");
            let event_id = Some(entry.event_id);
            claim.undecodable.push(Undecodable { held: entry.held(), event_id, failure });
        }
        Ok(claim)
    }

    async fn extend(&self, request: ExtendRequest) -> Result<Extended> {
        let fate = self.draw_on(&request.held);
        let (inner, log) = (Arc::clone(&self.inner), self.log.clone());
        let effect = async move {
            let extended = inner.extend(request.clone()).await?;
            log.extended(&request, &extended);
            Ok(extended)
        };
        let extended = self.meet(fate, effect).await?;
        self.count(false);
        Ok(extended)
    }

    async fn settle(&self, request: SettleRequest) -> Result<Settled> {
        let held: Vec<Held> = request.settlements.iter().map(|settlement| settlement.held).collect();
        let fate = self.draw_on(&held);
        for Held { seq, fence } in held {
            self.log.record(Happened::SettleSent { seq, fence: fence.0 });
        }
        let (inner, log) = (Arc::clone(&self.inner), self.log.clone());
        let effect = async move {
            let settled = inner.settle(request.clone()).await?;
            log.settled(&request, &settled);
            Ok(settled)
        };
        let settled = self.meet(fate, effect).await?;
        self.count(true);
        Ok(settled)
    }

    async fn reap(&self, request: ReapRequest) -> Result<Reaped> {
        let fate = self.draw();
        let (inner, admin, log) = (Arc::clone(&self.inner), Arc::clone(&self.admin), self.log.clone());
        let effect = async move {
            let reaped = inner.reap(request).await?;
            if reaped.stale > 0 || !reaped.dead.is_empty() {
                log.reaped(&*admin).await?;
            }
            Ok(reaped)
        };
        let reaped = self.meet(fate, effect).await?;
        self.count(false);
        Ok(reaped)
    }
}

/// Writes effects down.
#[derive(Clone)]
struct Log {
    chaos: Chaos,
    who: Arc<str>,
}

impl Log {
    fn record(&self, what: Happened) {
        self.chaos.record_as(&self.who, what);
    }

    fn claimed(&self, claim: &Claim, route_max_attempts: u32) {
        for entry in &claim.entries {
            self.chaos.lock().in_flight.insert(entry.seq);
            self.record(Happened::Granted {
                seq: entry.seq,
                id: entry.event_id,
                fence: entry.fence.0,
                until: entry.due_at.map_or(i64::MIN, |until| self.chaos.db_millis(until)),
                attempts: entry.attempts,
                max_attempts: entry.max_attempts.unwrap_or(route_max_attempts),
            });
        }
    }

    fn extended(&self, request: &ExtendRequest, extended: &Extended) {
        let fenced: BTreeSet<Held> = extended.fenced.iter().copied().collect();
        let until = self.chaos.db_millis(self.chaos.clock().now().saturating_add(request.lease));
        for held in &request.held {
            let accepted = !fenced.contains(held);
            self.record(Happened::Extended { seq: held.seq, fence: held.fence.0, until, accepted });
        }
    }

    fn settled(&self, request: &SettleRequest, settled: &Settled) {
        let fenced: BTreeSet<Held> = settled.fenced.iter().copied().collect();
        for settlement in &request.settlements {
            let Held { seq, fence } = settlement.held;
            let accepted = !fenced.contains(&settlement.held);
            if accepted {
                self.chaos.lock().in_flight.remove(&seq);
            }
            let verdict = (&settlement.verdict).into();
            self.record(Happened::Settled { seq, fence: fence.0, verdict, accepted });
        }
    }

    /// A reap tells how many, not which: what was in flight and is not any more is what it took.
    async fn reaped(&self, admin: &dyn Admin) -> Result<()> {
        let rows = admin.list(Filter::default().limit(LIST_MAX)).await?;
        let in_flight = self.chaos.lock().in_flight.clone();
        for seq in in_flight {
            let status = rows.iter().find(|entry| entry.seq == seq).map(|entry| entry.status);
            if status != Some(pillarbox_core::Status::InFlight) {
                self.chaos.lock().in_flight.remove(&seq);
                self.record(Happened::Reaped { seq, to: status });
            }
        }
        Ok(())
    }
}

impl Chaos {
    fn store_is_down(&self, rng: &mut Rng) -> bool {
        let now = Instant::now();
        if self.strikes(rng, Fault::StoreIsDown) {
            self.lock().store_down_until = Some(now + rng.millis(500..=10_000));
        }
        self.lock().store_down_until.is_some_and(|until| now < until)
    }

    async fn wait(&self, wait: Duration) {
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}
