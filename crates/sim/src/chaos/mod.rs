//! The weather of a world: decides from the seed when which fault strikes, and writes down what happens.

mod admin;
mod gate;
mod lanes;
mod sagas;
mod sink;
mod store;
mod weather;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pillarbox_core::Timestamp;
use pillarbox_core::port::Clock;
use pillarbox_testkit::JumpingClock;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

pub(crate) use admin::RecordingAdmin;
pub(crate) use gate::{Ended, Gate, Supervised};
pub(crate) use lanes::ChaosLanes;
pub(crate) use sagas::ChaosSagas;
pub(crate) use sink::ChaosSink;
pub(crate) use store::ChaosStore;

use super::fault::Fault;
use super::history::{Happened, History, Record};
use super::rng::Rng;

/// Work that goes on after its caller gave up: a statement that the server carries out all the same.
pub(crate) type Late = (Instant, Pin<Box<dyn Future<Output = ()> + Send>>);

/// Which faults strike, until they are over; and where everything is written down. Clones are the same weather.
#[derive(Clone)]
pub(crate) struct Chaos(Arc<Inner>);

struct Inner {
    faults: BTreeMap<Fault, u32>,
    clock: Arc<JumpingClock>,
    origin: Timestamp,
    history: History,
    healed: AtomicBool,
    healing: Notify,
    state: Mutex<State>,
    late: UnboundedSender<Late>,
}

#[derive(Default)]
struct State {
    reached: BTreeMap<Fault, u64>,
    store_down_until: Option<Instant>,
    sink_down_until: Option<Instant>,
    locked: Option<(i64, Instant)>,
    /// Rows in flight, as the history has them: what a reap may take.
    in_flight: BTreeSet<i64>,
    /// Attempts of each row, as the history has them: what a burial may raise.
    attempts: BTreeMap<i64, u32>,
    /// When the last lease of lanes ends, by the database's clock.
    lane_lease_until: Option<Timestamp>,
    calls: BTreeMap<(Arc<str>, u64), Calls>,
    /// Entries that a relay's sink was handed and has not reported yet.
    in_hands: BTreeMap<Arc<str>, usize>,
}

/// Calls of one relay to the store in one second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Calls {
    pub(crate) all: u64,
    /// Calls that moved an entry.
    pub(crate) useful: u64,
}

impl Chaos {
    pub(crate) fn new(
        faults: BTreeMap<Fault, u32>,
        clock: Arc<JumpingClock>,
        late: UnboundedSender<Late>,
    ) -> Self {
        let origin = clock.now();
        Self(Arc::new(Inner {
            faults,
            clock,
            origin,
            history: History::default(),
            healed: AtomicBool::new(false),
            healing: Notify::new(),
            state: Mutex::default(),
            late,
        }))
    }

    /// Draws whether this fault strikes now, and counts it if so.
    pub(crate) fn strikes(&self, rng: &mut Rng, fault: Fault) -> bool {
        let struck = self.draws(rng, fault);
        if struck {
            self.strike(fault);
        }
        struck
    }

    /// Draws whether this fault would strike now. Whoever then finds that it does calls [`strike`](Self::strike).
    pub(crate) fn draws(&self, rng: &mut Rng, fault: Fault) -> bool {
        let permille = self.0.faults.get(&fault).copied().unwrap_or(0);
        // The number is drawn in any case, so that switching one fault off moves the others as little as possible.
        rng.permille(permille) && !self.is_healed()
    }

    /// Counts a fault that struck.
    pub(crate) fn strike(&self, fault: Fault) {
        *self.lock().reached.entry(fault).or_default() += 1;
        self.record("chaos", Happened::Struck { fault });
    }

    /// Writes down what just happened.
    pub(crate) fn record(&self, who: &str, what: Happened) {
        self.record_as(&Arc::from(who), what);
    }

    pub(crate) fn record_as(&self, who: &Arc<str>, what: Happened) {
        let at = u64::try_from(self.0.clock.elapsed().as_millis()).unwrap_or(u64::MAX);
        let db = self.db_millis(self.0.clock.now());
        self.0.history.push(Record { at, db, who: Arc::clone(who), what });
    }

    /// A time of the database's clock, in milliseconds since the world began.
    pub(crate) fn db_millis(&self, at: Timestamp) -> i64 {
        at.as_millis() - self.0.origin.as_millis()
    }

    /// Ends all faults, for good.
    pub(crate) fn heal(&self) {
        self.0.healed.store(true, Ordering::Relaxed);
        let mut state = self.lock();
        state.store_down_until = None;
        state.sink_down_until = None;
        state.locked = None;
        drop(state);
        self.0.healing.notify_waiters();
        self.record("world", Happened::Healed);
    }

    pub(crate) fn is_healed(&self) -> bool {
        self.0.healed.load(Ordering::Relaxed)
    }

    /// Returns when faults are over.
    pub(crate) async fn healed(&self) {
        let healing = self.0.healing.notified();
        tokio::pin!(healing);
        healing.as_mut().enable();
        if !self.is_healed() {
            healing.await;
        }
    }

    /// Waits, but no longer than the faults go on.
    pub(crate) async fn sleep(&self, wait: Duration) {
        tokio::select! {
            biased;
            () = self.healed() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }

    /// Hands work over that goes on without its caller.
    pub(crate) fn later(&self, wait: Duration, work: impl Future<Output = ()> + Send + 'static) {
        // The receiver lives as long as the world does.
        let _ = self.0.late.send((Instant::now() + wait, Box::pin(work)));
    }

    pub(crate) fn clock(&self) -> &JumpingClock {
        &self.0.clock
    }

    /// What happened so far.
    pub(crate) fn history(&self) -> &History {
        &self.0.history
    }

    /// How often each fault struck so far.
    pub(crate) fn reached(&self) -> BTreeMap<Fault, u64> {
        self.lock().reached.clone()
    }

    /// Calls to the store, by relay and second.
    pub(crate) fn calls(&self) -> BTreeMap<(Arc<str>, u64), Calls> {
        self.lock().calls.clone()
    }

    /// Entries that this relay's sink was handed and has not reported yet.
    pub(crate) fn in_hands(&self, who: &str) -> usize {
        self.lock().in_hands.get(who).copied().unwrap_or(0)
    }

    /// How long a lease of lanes may still last, by the database's clock.
    pub(crate) fn lane_lease_left(&self) -> Duration {
        let until = self.lock().lane_lease_until;
        until.map_or(Duration::ZERO, |until| until.since(self.0.clock.now()))
    }

    fn count_call(&self, who: &Arc<str>, useful: bool) {
        let second = self.0.clock.elapsed().as_secs();
        let mut state = self.lock();
        let calls = state.calls.entry((Arc::clone(who), second)).or_default();
        calls.all += u64::from(!useful);
        calls.useful += u64::from(useful);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
