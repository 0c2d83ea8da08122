//! One world from its first event to its last: who is in it, and what they share.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use pillarbox_core::port::{Clock, Lanes, Sink, Store, Wake};
use pillarbox_core::{Entry, EventId, Hlc, Status};
use pillarbox_engine::{CircuitState, Handle, OnDead};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::actor;
use super::chaos::{Chaos, Gate, Late};
use super::history::Happened;
use super::invariant::sagas::missing;
use super::mutant::SimMutant;
use super::plan::Plan;
use super::rng::Rng;
use pillarbox_testkit::{JumpingClock, MemorySink, MemoryStore};

/// The route that all relays deliver.
pub(crate) const ROUTE: &str = "orders";
/// The consumer under whose name the ledger rows are written.
pub(crate) const LEDGER: &str = "ledger";

/// The consumer under whose name the callback of a saga leaves its mark.
pub(crate) const ENDED: &str = "ended";

/// What everybody in a world shares.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) chaos: Chaos,
    pub(crate) store: MemoryStore,
    pub(crate) sink: MemorySink,
    pub(crate) rng: Rng,
    pub(crate) wakers: Arc<Wakers>,
    state: Mutex<State>,
    producing: AtomicU32,
    closing: AtomicBool,
    /// Rung when a producer is done and when the world closes.
    bell: Notify,
}

#[derive(Default)]
struct State {
    ids_seen: Vec<EventId>,
    latest_stamp: Option<Hlc>,
    /// How often sagas and their trail had changed when they were last looked at.
    saga_changes: (i64, usize),
    gates: BTreeMap<u32, (Arc<str>, Gate)>,
}

/// The relays that a commit wakes: those that run now.
#[derive(Default)]
pub(crate) struct Wakers(Mutex<BTreeMap<u32, Handle>>);

impl Wakers {
    fn handles(&self) -> MutexGuard<'_, BTreeMap<u32, Handle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Wakers {
    fn wake(&self) {
        for handle in self.handles().values() {
            handle.wake();
        }
    }
}

impl World {
    fn new(plan: &Plan) -> (Self, UnboundedReceiver<Late>) {
        let (late, later) = unbounded_channel();
        let clock = Arc::new(JumpingClock::new(0));
        let mut store = MemoryStore::with_clock(Arc::clone(&clock) as Arc<dyn Clock>).with_seed(plan.seed);
        if let Some(SimMutant::Store(mutant)) = plan.mutant {
            store = store.with_mutant(mutant);
        }
        if plan.lanes.is_some_and(|lanes| lanes.open_cursor) {
            store = store.with_open_cursor();
        }
        let sink = MemorySink::new();
        if let Some(lanes) = plan.lanes {
            let mut capabilities = sink.capabilities();
            capabilities.ordered_prefix = lanes.ordered_prefix;
            sink.set_capabilities(capabilities);
        }
        let world = Self {
            plan: plan.clone(),
            chaos: Chaos::new(plan.faults.clone(), clock, late),
            store,
            sink,
            rng: Rng::new(plan.seed),
            wakers: Arc::default(),
            state: Mutex::default(),
            producing: AtomicU32::new(plan.producers),
            closing: AtomicBool::new(false),
            bell: Notify::new(),
        };
        (world, later)
    }

    /// The store as the weather sees it: with a planted defect, if there is one.
    pub(crate) fn store_below(&self) -> Arc<dyn Store> {
        let store: Arc<dyn Store> = Arc::new(self.store.clone());
        self.plan.mutant.map_or(Arc::clone(&store), |mutant| mutant.store(store))
    }

    /// The lanes as the weather sees them: with a planted defect, if there is one.
    pub(crate) fn lanes_below(&self) -> Arc<dyn Lanes> {
        let lanes: Arc<dyn Lanes> = Arc::new(self.store.clone());
        self.plan.mutant.map_or(Arc::clone(&lanes), |mutant| mutant.lanes(lanes))
    }

    /// Entries that are not at their end, and do not wait for an operator.
    pub(crate) fn undrained(&self) -> Vec<Entry> {
        let blocks = self.plan.lanes.is_some() && self.plan.options.on_dead == OnDead::Block;
        let mut dead_keys = BTreeSet::new();
        let mut undrained = self.store.entries();
        undrained.retain(|entry| {
            if blocks && entry.status == Status::Dead {
                dead_keys.extend(entry.key.clone());
            }
            let blocked = entry.key.as_ref().is_some_and(|key| dead_keys.contains(key));
            !entry.status.is_terminal() && !blocked
        });
        undrained
    }

    /// Sagas that have not ended.
    pub(crate) fn unended(&self) -> usize {
        self.store.sagas_unended()
    }

    /// No saga is anywhere that its trail does not tell.
    pub(crate) fn look_at_sagas(&self) {
        // Reading all of them takes long: only when something has changed.
        let changes = self.store.saga_changes();
        if self.plan.sagas.is_none() || std::mem::replace(&mut self.state().saga_changes, changes) == changes
        {
            return;
        }
        let (sagas, audit) = self.store.sagas_and_trail();
        for saga in &sagas {
            if let Some(detail) = missing(saga, &audit) {
                self.broken("I-10", detail);
            }
        }
    }

    /// Writes down that something was seen that must not happen.
    pub(crate) fn broken(&self, invariant: &'static str, detail: String) {
        self.chaos.record("world", Happened::Broken { invariant, detail });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn saw_id(&self, id: EventId) {
        self.state().ids_seen.push(id);
    }

    /// An id that somebody staged before, often the last one: its transaction may still be open.
    pub(crate) fn id_seen(&self, rng: &mut Rng) -> Option<EventId> {
        let (last, any) = (rng.permille(500), rng.next_u64());
        let state = self.state();
        let any = usize::try_from(any).unwrap_or(0).checked_rem(state.ids_seen.len())?;
        if last { state.ids_seen.last().copied() } else { state.ids_seen.get(any).copied() }
    }

    pub(crate) fn stamped(&self, stamp: Hlc) {
        let mut state = self.state();
        state.latest_stamp = state.latest_stamp.max(Some(stamp));
    }

    pub(crate) fn latest_stamp(&self) -> Option<Hlc> {
        self.state().latest_stamp
    }

    pub(crate) fn started(&self, slot: u32, who: &Arc<str>, handle: Handle, gate: Gate) {
        self.wakers.handles().insert(slot, handle);
        self.state().gates.insert(slot, (Arc::clone(who), gate));
    }

    pub(crate) fn thaw_all(&self) {
        for (_, gate) in self.state().gates.values() {
            gate.thaw();
        }
    }

    /// What a relay says is in flight covers all that its sink has in hands, and stays within its limit.
    pub(crate) fn look_at_relays(&self) {
        let running: Vec<_> =
            self.state().gates.iter().map(|(slot, (who, _))| (*slot, Arc::clone(who))).collect();
        for (slot, who) in running {
            let Some(state) = self.wakers.handles().get(&slot).map(Handle::state) else { continue };
            let (in_hands, most) = (self.chaos.in_hands(&who), self.plan.options.in_flight_max);
            if state.in_flight < in_hands || state.in_flight > usize::try_from(most).unwrap_or(usize::MAX) {
                let says = state.in_flight;
                let detail =
                    format!("{who} says {says} in flight, its sink has {in_hands}, {most} are allowed");
                self.broken("I-15", detail);
            }
        }
    }

    /// Relays of an idle world hold nothing, reach their store, and do not wait for a destination that is up. One whose
    /// circuit was open may still be about to probe: others delivered everything before it got an entry to try.
    pub(crate) fn look_at_idle_relays(&self) {
        for (slot, handle) in self.wakers.handles().iter() {
            let state = handle.state();
            if state.in_flight > 0 || state.stalled.is_some() || state.circuit == CircuitState::Open {
                self.broken("I-14", format!("relay-{slot} has nothing to do and says {state:?}"));
            }
        }
    }

    /// Returns when the last producer is done.
    pub(crate) async fn produced(&self) {
        self.wait_for(|| self.producing.load(Ordering::Relaxed) == 0).await;
    }

    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        self.bell.notify_waiters();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Returns when the world closes.
    pub(crate) async fn closing(&self) {
        self.wait_for(|| self.is_closing()).await;
    }

    async fn wait_for(&self, done: impl Fn() -> bool) {
        loop {
            let bell = self.bell.notified();
            tokio::pin!(bell);
            bell.as_mut().enable();
            if done() {
                return;
            }
            bell.await;
        }
    }
}

type Actors<'a> = FuturesUnordered<Pin<Box<dyn Future<Output = ()> + 'a>>>;

/// Lives one world to its end.
pub(crate) async fn live(plan: &Plan) -> World {
    let (world, later) = World::new(plan);
    {
        let mut main: Actors<'_> = FuturesUnordered::new();
        main.push(Box::pin(actor::conduct(&world)));
        for slot in 0..plan.relays {
            main.push(Box::pin(actor::keep_relaying(&world, slot)));
        }
        let mut others: Actors<'_> = FuturesUnordered::new();
        for number in 0..plan.producers {
            let world = &world;
            others.push(Box::pin(async move {
                match world.plan.sagas {
                    None => actor::produce(world, number).await,
                    Some(_) => actor::stage_sagas(world, number).await,
                }
                world.producing.fetch_sub(1, Ordering::Relaxed);
                world.bell.notify_waiters();
            }));
        }
        match plan.sagas {
            None => others.push(Box::pin(actor::operate(&world))),
            Some(_) => others.push(Box::pin(actor::operate_sagas(&world))),
        }
        others.push(Box::pin(actor::meddle_with_the_clock(&world)));
        others.push(Box::pin(actor::sample(&world)));
        others.push(Box::pin(actor::watch_relays(&world)));
        others.push(Box::pin(carry_out_late(later)));
        loop {
            tokio::select! {
                biased;
                ended = main.next() => if ended.is_none() { break },
                Some(()) = others.next() => {}
            }
        }
    }
    actor::sample_now(&world);
    world
}

/// Carries out what its caller has given up.
async fn carry_out_late(mut later: UnboundedReceiver<Late>) {
    let mut works: Actors<'_> = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            late = later.recv() => match late {
                Some((at, work)) => works.push(Box::pin(async move {
                    tokio::time::sleep_until(at).await;
                    work.await;
                })),
                None => return,
            },
            Some(()) = works.next() => {}
        }
    }
}
