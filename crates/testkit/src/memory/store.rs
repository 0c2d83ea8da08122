//! The store: a handle that is cheap to clone, and the relay's side of it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox_core::port::{
    Claim, ClaimRequest, Clock, ExtendRequest, Extended, Purging, ReapRequest, Reaped, SettleRequest,
    Settled, Store,
};
use pillarbox_core::{Entry, HybridClock, Result, RouteName, Timestamp};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::clock::TokioClock;
use super::mutant::Mutant;
use super::state::{Key, State};
use super::tx::MemoryTx;

/// How far ahead of this clock a stamp may be; the in-memory store meets no remote clocks.
const DRIFT_MAX: Duration = Duration::from_secs(60);

/// An outbox in memory. Clones share the same entries.
///
/// ```
/// # use pillarbox_core::{Event, port::Admin};
/// # use pillarbox_testkit::{MemoryOutbox, MemoryStore};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> pillarbox_core::Result<()> {
/// let store = MemoryStore::new();
/// let outbox = MemoryOutbox::new(&store, "orders");
///
/// let mut tx = store.begin();
/// outbox.stage(&mut tx, Event::new("order.placed", "{}").key("o-1")).await?;
/// assert!(store.entries().is_empty());
/// tx.commit();
/// assert_eq!(store.entries().len(), 1);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct MemoryStore {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) clock: Arc<dyn Clock>,
    /// How far a test has moved the database's clock on, and whether the store looks at the worker's nevertheless: see
    /// [`Mutant::WorkersClockDecides`].
    pub(crate) ahead_micros: AtomicU64,
    workers_clock: AtomicBool,
    pub(crate) stamps: HybridClock,
    /// One caller at a time settles or changes sagas, as with a lock on their rows.
    pub(crate) sagas: tokio::sync::Mutex<()>,
    /// Rung at the end of each transaction, for those that wait for its keys.
    pub(crate) ended: Notify,
    /// When it was made, by a clock that is never set.
    pub(crate) began: Instant,
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock is a failed debug assertion; the state is still there to look at.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self, pinned: Option<Timestamp>) -> Timestamp {
        pinned.unwrap_or_else(|| match self.workers_clock.load(Ordering::Relaxed) {
            true => self.clock.now(),
            false => self.database_now(),
        })
    }

    /// The time by the clock that should decide.
    pub(crate) fn database_now(&self) -> Timestamp {
        self.clock.now().saturating_add(Duration::from_micros(self.ahead_micros.load(Ordering::Relaxed)))
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty store whose clock follows tokio's time and starts at 2026-01-01T00:00:00Z.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Arc::new(TokioClock::default()))
    }

    /// An empty store that uses this clock.
    #[must_use]
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        let stamps = HybridClock::new(Arc::clone(&clock), DRIFT_MAX);
        let sagas = tokio::sync::Mutex::default();
        let shared = Shared {
            state: Mutex::default(),
            clock,
            ahead_micros: AtomicU64::new(0),
            workers_clock: AtomicBool::new(false),
            stamps,
            sagas,
            ended: Notify::new(),
            began: Instant::now(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Sets the seed of event ids. Stores with different seeds give fresh events different ids.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        self.shared.lock().seed = seed;
        self
    }

    /// Reads lanes as the stores for MySQL and MongoDB do. They cannot tell which transactions are open, so they look at
    /// all open entries of a lane with every read. Without this, lanes are read as on PostgreSQL.
    #[must_use]
    pub fn with_open_cursor(self) -> Self {
        self.shared.lock().open_cursor = true;
        self
    }

    /// Plants a defect.
    #[doc(hidden)]
    #[must_use]
    pub fn with_mutant(self, mutant: Mutant) -> Self {
        self.shared.lock().mutant = Some(mutant);
        self.shared.workers_clock.store(mutant == Mutant::WorkersClockDecides, Ordering::Relaxed);
        self
    }

    /// The clock that this store uses.
    #[must_use]
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.shared.clock)
    }

    /// Begins a transaction. If it is dropped without a commit, it is rolled back.
    #[must_use]
    pub fn begin(&self) -> MemoryTx {
        MemoryTx::begin(&self.shared)
    }

    /// All committed entries, oldest first.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        self.shared.lock().rows.values().map(|row| row.entry.clone()).collect()
    }

    /// The events that each consumer has accepted: pairs of consumer and event id, sorted.
    #[must_use]
    pub fn accepted(&self) -> Vec<(String, pillarbox_core::EventId)> {
        let state = self.shared.lock();
        let accepted = state.taken.iter().filter_map(|key| match key {
            Key::Accepted(consumer, event_id) => Some((consumer.clone(), *event_id)),
            Key::Staged(..) | Key::Saga(_) | Key::Subject(..) => None,
        });
        accepted.collect()
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
        request.check()?;
        let now = self.shared.now(request.now);
        Ok(self.shared.lock().claim(&request, now))
    }

    async fn extend(&self, request: ExtendRequest) -> Result<Extended> {
        request.check()?;
        let now = self.shared.now(request.now);
        Ok(self.shared.lock().extend(&request, now))
    }

    async fn settle(&self, request: SettleRequest) -> Result<Settled> {
        let now = self.shared.now(request.now);
        self.shared.lock().settle(request, now)
    }

    async fn reap(&self, request: ReapRequest) -> Result<Reaped> {
        request.check()?;
        let now = self.shared.now(request.now);
        self.shared.lock().reap(&request, now)
    }

    async fn open_sagas(&self, route: &RouteName) -> Result<u64> {
        Ok(self.shared.lock().open_sagas(route))
    }

    fn purging(&self) -> Option<Purging> {
        Some(Purging::of(self))
    }
}
