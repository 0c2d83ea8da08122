//! Faults under a running relay: confirmations that never come, cuts in a batch, outages.

use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::port::Sink;
use pillarbox_core::{Backoff, Event, EventId, Jitter, Status};
use pillarbox_engine::{CircuitState, Relay, RelayOptions, RelayState};
use tokio::sync::oneshot;

use super::harness::{FaultHarness, FaultInput, Timeouts};
use crate::case::skip;
use crate::delivery::SOON;
use crate::outage::{OutageHarness, by_lanes, by_rows};
use pillarbox_testkit::eventually;
use pillarbox_testkit::{Direction, Fault};
use pillarbox_testkit::{MemoryOutbox, MemoryStore};

/// An outage of the wire.
struct Down<'a, H>(&'a FaultInput<H>);

impl<H: FaultHarness> OutageHarness for Down<'_, H> {
    fn sink(&self) -> Arc<dyn Sink> {
        self.0.sink(Timeouts::connect(1000))
    }

    async fn begin(&self) {
        self.0.proxy.set(Fault::Down);
    }

    async fn end(&self) {
        self.0.proxy.heal();
    }

    async fn received(&self) -> Vec<EventId> {
        self.0.harness.received().await
    }

    /// What a sink that does not ask had on the wire has an unknown outcome.
    fn attempts_max(&self) -> u32 {
        if self.0.harness.told().asks { 1 } else { 2 }
    }
}

/// By rows.
pub async fn an_outage_of_the_wire_spends_no_attempt_and_all_is_delivered_after_it<H: FaultHarness>(
    world: &FaultInput<H>,
) {
    by_rows(&Down(world)).await;
}

/// By lanes as well.
pub async fn an_outage_of_the_wire_under_an_ordered_route_spends_no_attempt<H: FaultHarness>(
    world: &FaultInput<H>,
) {
    by_lanes(&Down(world)).await;
}

/// A relay from memory through the proxy, with waits short enough for a test.
struct Route<'a, H> {
    world: &'a FaultInput<H>,
    store: MemoryStore,
    sink: Arc<dyn Sink>,
    relay: Relay,
}

impl<'a, H: FaultHarness> Route<'a, H> {
    fn new(world: &'a FaultInput<H>, change: impl FnOnce(&mut RelayOptions)) -> Self {
        let short = |max| Backoff::new(Duration::from_millis(20), max, Jitter::None).unwrap();
        let mut options = RelayOptions::broker();
        options.circuit = short(Duration::from_millis(100));
        options.backoff = short(Duration::from_millis(50));
        change(&mut options);
        let (store, sink) = (MemoryStore::new(), world.sink(Timeouts::connect(1000)));
        let relay = Relay::builder(Arc::new(store.clone()), Arc::clone(&sink));
        let relay = relay.route("orders").options(options).build().unwrap();
        Self { world, store, sink, relay }
    }

    async fn stage(&self, count: usize) {
        let outbox = MemoryOutbox::new(&self.store, "orders");
        let mut tx = self.store.begin();
        for n in 0..count {
            outbox.stage(&mut tx, Event::new("order.placed", format!("{{\"n\":{n}}}"))).await.unwrap();
        }
        tx.commit();
        self.relay.handle().wake();
    }

    fn state(&self) -> RelayState {
        self.relay.handle().state()
    }

    async fn until_delivered(&self) {
        let all = || self.store.entries().iter().all(|entry| entry.status == Status::Delivered);
        eventually(SOON, async || all()).await;
    }

    fn attempts(&self) -> Vec<u32> {
        self.store.entries().iter().map(|entry| entry.attempts).collect()
    }

    /// Runs the relay while the story is told, stops it, and looks whether everything arrived.
    async fn run(&self, story: impl AsyncFnOnce()) {
        let (stop, stopped) = oneshot::channel::<()>();
        let told = async {
            story().await;
            drop(stop);
        };
        let (result, ()) = tokio::join!(self.relay.run(async { drop(stopped.await) }), told);
        result.unwrap();
        self.world.check_arrived(&self.store.entries(), &*self.sink).await;
    }
}

/// One outage after the other, each with probes in vain, and the circuit closes in between.
pub async fn outages_that_follow_each_other_spend_no_attempt<H: FaultHarness>(world: &FaultInput<H>) {
    if !world.harness.told().asks {
        return skip("the sink does not ask whether the server is still there");
    }
    let route = Route::new(world, |_| {});
    route
        .run(async || {
            route.stage(500).await;
            eventually(SOON, async || route.state().tally.delivered > 0).await;
            for _ in 0..3 {
                world.proxy.set(Fault::Down);
                route.stage(500).await;
                let is_open = || route.state().circuit == CircuitState::Open;
                eventually(SOON, async || is_open() && route.state().in_flight == 0).await;
                // Long enough for three probes.
                let released = route.state().tally.released;
                eventually(SOON, async || route.state().tally.released >= released + 3).await;
                world.proxy.heal();
                eventually(SOON, async || route.state().circuit == CircuitState::Closed).await;
            }
            route.until_delivered().await;
        })
        .await;
    for entry in route.store.entries() {
        assert_eq!((entry.attempts, entry.status), (1, Status::Delivered), "{:?}", entry.last_error);
    }
}

/// An unknown outcome is an attempt.
pub async fn a_confirm_that_never_comes_is_bounded_by_the_deadline_and_the_entry_comes_again<
    H: FaultHarness,
>(
    world: &FaultInput<H>,
) {
    let route = Route::new(world, |options| options.publish_timeout = Some(Duration::from_millis(300)));
    route
        .run(async || {
            route.stage(1).await;
            route.until_delivered().await;
            world.proxy.set(Fault::BlackHole(Direction::ToClient));
            route.stage(20).await;
            eventually(SOON, async || route.state().tally.retried >= 20).await;
            world.proxy.heal();
            route.until_delivered().await;
        })
        .await;
    let attempts = route.attempts();
    assert!(attempts[1..].iter().all(|attempts| *attempts > 1), "{attempts:?}");
}

/// Ten times, at another place of the batch each time.
pub async fn connections_cut_in_the_middle_of_batches_lose_nothing<H: FaultHarness>(world: &FaultInput<H>) {
    let route = Route::new(world, |options| options.max_attempts = 1000);
    route
        .run(async || {
            for round in 1..=10 {
                let bytes = 2_000 + 7_777 * round;
                world.proxy.set(Fault::CutAfter { direction: Direction::ToServer, bytes });
                route.stage(100).await;
                eventually(SOON, async || world.proxy.broken() >= round).await;
            }
            world.proxy.heal();
            route.until_delivered().await;
        })
        .await;
}

/// One attempt to connect at a time.
pub async fn a_server_that_accepts_and_says_nothing_is_not_stormed<H: FaultHarness>(world: &FaultInput<H>) {
    if !world.harness.told().asks {
        return skip("the sink has more than one connection");
    }
    let route = Route::new(world, |_| {});
    route
        .run(async || {
            route.stage(50).await;
            route.until_delivered().await;
            let before = world.proxy.accepted();
            world.proxy.set(Fault::BlackHole(Direction::Both));
            world.proxy.set(Fault::Cut);
            route.stage(50).await;
            eventually(SOON, async || route.state().circuit != CircuitState::Closed).await;
            let (accepted, most) = (world.proxy.accepted() - before, world.harness.told().connections_max);
            assert!(
                accepted <= most,
                "{accepted} connections, and {most} are enough for one attempt at a time"
            );
            world.proxy.heal();
            route.until_delivered().await;
        })
        .await;
}
