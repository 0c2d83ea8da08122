use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pillarbox_core::port::{
    Claim, ClaimRequest, ExtendRequest, Extended, ReapRequest, Reaped, SettleRequest, Settled, Store,
};
use pillarbox_core::{Error, ErrorKind, Event, Outcome, Result};
use pillarbox_engine::{CircuitState, Relay};
use pillarbox_testkit::{MemoryStore, Reply, Which};
use tokio::time::sleep;

use crate::world::{ROUTE, World, options};

#[tokio::test(start_paused = true)]
async fn an_entry_that_hangs_does_not_hold_up_the_others_however_small_the_window_is() {
    let world = World::new();
    let hangs = world.stage(Event::new("order.placed", "{}")).await;
    world.stage_many(40).await;
    world.sink.on(Which::Event(hangs), Reply::Hang);
    let mut options = options();
    options.publish_timeout = None;
    options.batch = 4;
    options.in_flight_max = 4;
    let tally = world.relay(options).run(sleep(Duration::from_secs(60))).await.unwrap();
    assert_eq!((tally.delivered, tally.released), (40, 1));
}

#[tokio::test(start_paused = true)]
async fn wake_ups_do_not_hurry_a_store_that_fails() {
    let world = World::new();
    let store = Arc::new(NoClaims(world.store.clone(), AtomicU32::new(0)));
    let relay = Relay::builder(Arc::clone(&store) as Arc<dyn Store>, Arc::new(world.sink.clone()))
        .route(ROUTE)
        .seed(1)
        .build()
        .unwrap();
    let handle = relay.handle();
    let commits = async {
        for _ in 0..10_000 {
            handle.wake();
            sleep(Duration::from_millis(1)).await;
        }
    };
    let (result, ()) = tokio::join!(relay.run(sleep(Duration::from_secs(10))), commits);
    result.unwrap();
    let claims = store.1.load(Ordering::Relaxed);
    assert!(claims < 20, "50 ms doubling to 5 s, not {claims} claims in 10 s");
}

#[tokio::test(start_paused = true)]
async fn a_probe_whose_answer_never_comes_does_not_close_the_circuit() {
    let world = World::new();
    world.stage_many(50).await;
    world.sink.on(Which::Any, Reply::Answer(Outcome::down("refused", "connection refused")));
    let mut options = options();
    options.publish_timeout = Some(Duration::from_secs(2));
    let relay = world.relay(options);
    let handle = relay.handle();
    let (result, ()) = tokio::join!(relay.run(sleep(Duration::from_secs(120))), async {
        sleep(Duration::from_secs(1)).await;
        // From refusing to a black hole.
        world.sink.heal();
        world.sink.on(Which::Any, Reply::Hang);
        let before = world.sink.attempts().len();
        sleep(Duration::from_secs(60)).await;
        assert_ne!(handle.state().circuit, CircuitState::Closed);
        let probes = world.sink.attempts().len() - before;
        assert!(probes < 20, "one probe at a time, not {probes}");
        world.sink.heal();
    });
    // Only what was tried may have spent its attempts: the oldest entry, again and again.
    assert!(result.unwrap().delivered >= 49);
    assert_eq!(handle.state().circuit, CircuitState::Closed);
}

/// Everything works but claiming.
struct NoClaims(MemoryStore, AtomicU32);

#[async_trait::async_trait]
impl Store for NoClaims {
    async fn claim(&self, _: ClaimRequest) -> Result<Claim> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Err(Error::new(ErrorKind::Unavailable, "the server is starting up"))
    }
    async fn extend(&self, request: ExtendRequest) -> Result<Extended> {
        self.0.extend(request).await
    }
    async fn settle(&self, request: SettleRequest) -> Result<Settled> {
        self.0.settle(request).await
    }
    async fn reap(&self, request: ReapRequest) -> Result<Reaped> {
        self.0.reap(request).await
    }
}
