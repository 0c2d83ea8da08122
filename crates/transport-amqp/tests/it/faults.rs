//! Faults under a running relay: confirms that never come, cuts in a batch, an outage.

use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::{Backoff, Event, Jitter, Status};
use pillarbox_engine::{CircuitState, Relay, RelayOptions};
use pillarbox_testkit::{Direction, Fault, FaultProxy, MemoryOutbox, MemoryStore, eventually};
use pillarbox_transport_amqp::AmqpSink;
use tokio::sync::oneshot;

use crate::harness::{Broker, entries, ids, server};

const SOON: Duration = Duration::from_secs(60);

struct World {
    broker: Broker,
    queue: String,
    proxy: FaultProxy,
    store: MemoryStore,
    relay: Relay,
}

impl World {
    /// A relay from memory through a proxy to a queue, with waits short enough for a test.
    async fn start(change: impl FnOnce(&mut RelayOptions)) -> Self {
        let broker = Broker::start().await;
        let queue = broker.queue("classic", &[]).await;
        let (proxy, through) = FaultProxy::before(&server());
        let sink = AmqpSink::new(&format!("{through}?routing_key={queue}&connect_timeout=1s")).unwrap();
        let store = MemoryStore::new();
        let short = |max| Backoff::new(Duration::from_millis(20), max, Jitter::None).unwrap();
        let mut options = RelayOptions::broker();
        options.circuit = short(Duration::from_millis(100));
        options.backoff = short(Duration::from_millis(50));
        change(&mut options);
        let relay = Relay::builder(Arc::new(store.clone()), Arc::new(sink));
        let relay = relay.route("orders").options(options).build().unwrap();
        Self { broker, queue, proxy, store, relay }
    }

    async fn stage(&self, count: usize) {
        let outbox = MemoryOutbox::new(&self.store, "orders");
        let mut tx = self.store.begin();
        for entry in entries("order.placed", count) {
            outbox.stage(&mut tx, Event::new(entry.event_type, entry.payload)).await.unwrap();
        }
        tx.commit();
        self.relay.handle().wake();
    }

    async fn until_delivered(&self) {
        let delivered = |entry: &pillarbox_core::Entry| entry.status == Status::Delivered;
        eventually(SOON, async || self.store.entries().iter().all(delivered)).await;
    }

    /// Every staged event is in the queue, at least once, and nothing else is.
    async fn check_arrived(&self) {
        let mut arrived = ids(&self.broker.take(&self.queue).await);
        arrived.sort_unstable();
        arrived.dedup();
        let mut staged: Vec<_> = self.store.entries().iter().map(|entry| entry.event_id).collect();
        staged.sort_unstable();
        assert_eq!(arrived, staged);
    }

    /// Runs the relay while `story` is told, and stops it at its end.
    async fn run(&self, story: impl AsyncFnOnce()) {
        let (stop, stopped) = oneshot::channel::<()>();
        let told = async {
            story().await;
            drop(stop);
        };
        let (result, ()) = tokio::join!(self.relay.run(async { drop(stopped.await) }), told);
        result.unwrap();
    }
}

#[tokio::test]
async fn a_confirm_that_never_comes_is_bounded_by_the_deadline_and_the_entry_comes_again() {
    let world = World::start(|options| options.publish_timeout = Some(Duration::from_millis(300))).await;
    world
        .run(async || {
            world.stage(1).await;
            world.until_delivered().await;
            world.proxy.set(Fault::BlackHole(Direction::ToClient));
            world.stage(20).await;
            eventually(SOON, async || world.relay.handle().state().tally.retried >= 20).await;
            world.proxy.heal();
            world.until_delivered().await;
        })
        .await;
    world.check_arrived().await;
    let attempts: Vec<u32> = world.store.entries().iter().map(|entry| entry.attempts).collect();
    assert!(
        attempts[1..].iter().all(|attempts| *attempts > 1),
        "an unknown outcome is an attempt: {attempts:?}"
    );
}

#[tokio::test]
async fn connections_cut_in_the_middle_of_batches_lose_nothing() {
    let world = World::start(|options| options.max_attempts = 1000).await;
    world
        .run(async || {
            for round in 1..=10 {
                world
                    .proxy
                    .set(Fault::CutAfter { direction: Direction::ToServer, bytes: 2_000 + 7_777 * round });
                world.stage(100).await;
                eventually(SOON, async || world.proxy.broken() >= round).await;
            }
            world.proxy.heal();
            world.until_delivered().await;
        })
        .await;
    world.check_arrived().await;
}

#[tokio::test]
async fn an_outage_spends_no_attempt_and_everything_is_delivered_after_it() {
    let world = World::start(|_| {}).await;
    world
        .run(async || {
            world.stage(500).await;
            eventually(SOON, async || world.relay.handle().state().tally.delivered > 0).await;
            for _ in 0..3 {
                world.proxy.set(Fault::Down);
                world.stage(500).await;
                let state = || world.relay.handle().state();
                let is_open = || state().circuit == CircuitState::Open;
                eventually(SOON, async || is_open() && state().in_flight == 0).await;
                // Long enough for three probes.
                let released = state().tally.released;
                eventually(SOON, async || state().tally.released >= released + 3).await;
                world.proxy.heal();
                eventually(SOON, async || world.relay.handle().state().circuit == CircuitState::Closed).await;
            }
            world.until_delivered().await;
        })
        .await;
    world.check_arrived().await;
    for entry in world.store.entries() {
        assert_eq!((entry.attempts, entry.status), (1, Status::Delivered), "{:?}", entry.last_error);
    }
}

#[tokio::test]
async fn a_broker_that_accepts_and_says_nothing_is_not_stormed() {
    let world = World::start(|_| {}).await;
    world
        .run(async || {
            world.stage(50).await;
            world.until_delivered().await;
            let before = world.proxy.accepted();
            world.proxy.set(Fault::BlackHole(Direction::Both));
            world.proxy.set(Fault::Cut);
            world.stage(50).await;
            eventually(SOON, async || world.relay.handle().state().circuit != CircuitState::Closed).await;
            assert!(world.proxy.accepted() - before <= 2, "one attempt at a time");
            world.proxy.heal();
            world.until_delivered().await;
        })
        .await;
    world.check_arrived().await;
}
