//! What becomes of a call to the store: it fails before its effect, after it, late, or never.

use std::future::{Future, pending};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pillarbox_core::{Error, ErrorKind, Held, Result, Retry};
use tokio::time::Instant;

use super::super::fault::Fault;
use super::super::history::Happened;
use super::super::rng::Rng;
use super::{Chaos, Gate};

/// The weather between one relay and its store.
pub(super) struct Weather {
    pub(super) log: Log,
    gate: Gate,
    rng: Mutex<Rng>,
}

/// Writes effects down.
#[derive(Clone)]
pub(super) struct Log {
    pub(super) chaos: Chaos,
    pub(super) who: Arc<str>,
}

impl Log {
    pub(super) fn record(&self, what: Happened) {
        self.chaos.record_as(&self.who, what);
    }
}

/// How long a call waits for a locked row; below half of the shortest lease.
const LOCK_TIMEOUT: Duration = Duration::from_millis(100);

/// What becomes of one call.
pub(super) enum Fate {
    Pass,
    FailBefore(Error),
    FailAfter(Error),
    HangBefore,
    HangAfter,
    DieBefore,
    DieAfter,
    Late(Duration),
}

impl Weather {
    pub(super) fn new(chaos: Chaos, gate: Gate, who: &str, rng: Rng) -> Self {
        Self { log: Log { chaos, who: who.into() }, gate, rng: Mutex::new(rng) }
    }

    pub(super) fn rng(&self) -> MutexGuard<'_, Rng> {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn draw(&self) -> (Fate, Duration, Duration) {
        let chaos = &self.log.chaos;
        let mut rng = self.rng();
        let wait = |rng: &mut Rng| {
            // Together below half of the shortest lease: slow is not the same as hanging.
            if chaos.strikes(rng, Fault::StoreIsSlow) { rng.millis(1..=200) } else { Duration::ZERO }
        };
        let waits = (wait(&mut rng), wait(&mut rng));
        (self.fate(&mut rng), waits.0, waits.1)
    }

    /// The fate of a call that changes these rows: one of them may be locked.
    pub(super) fn draw_on(&self, held: &[Held]) -> (Fate, Duration, Duration) {
        let (fate, before, after) = self.draw();
        let chaos = &self.log.chaos;
        let mut rng = self.rng();
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
    pub(super) async fn meet<T: Send>(
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

    pub(super) fn count(&self, useful: bool) {
        self.log.chaos.count_call(&self.log.who, useful);
    }
}

fn unavailable(message: &str) -> Error {
    Error::new(ErrorKind::Unavailable, message)
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
