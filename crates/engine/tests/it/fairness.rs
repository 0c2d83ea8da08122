use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use pillarbox_core::port::{
    Claim, ClaimRequest, ExtendRequest, Extended, ReapRequest, Reaped, SettleRequest, Settled, Settlement,
    Store, Verdict,
};
use pillarbox_core::{Error, ErrorKind, Event, Outcome, Result, Status};
use pillarbox_engine::{CircuitState, Relay};
use pillarbox_testkit::{MemoryStore, Reply, Which};
use tokio::time::sleep;

use crate::rig::{ROUTE, Rig, options};

#[tokio::test(start_paused = true)]
async fn an_entry_that_hangs_does_not_hold_up_the_others_however_small_the_window_is() {
    let rig = Rig::new();
    let hangs = rig.stage(Event::new("order.placed", "{}")).await;
    rig.stage_many(40).await;
    rig.sink.on(Which::Event(hangs), Reply::Hang);
    let mut options = options();
    options.publish_timeout = None;
    options.batch = 4;
    options.in_flight_max = 4;
    let tally = rig.relay(options).run(sleep(Duration::from_secs(60))).await.unwrap();
    assert_eq!((tally.delivered, tally.released), (40, 1));
}

#[tokio::test(start_paused = true)]
async fn wake_ups_do_not_hurry_a_store_that_fails() {
    let rig = Rig::new();
    let store = Arc::new(NoClaims(rig.store.clone(), AtomicU32::new(0)));
    let relay = Relay::builder(Arc::clone(&store) as Arc<dyn Store>, Arc::new(rig.sink.clone()))
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
    let rig = Rig::new();
    rig.stage_many(50).await;
    rig.sink.on(Which::Any, Reply::Answer(Outcome::down("refused", "connection refused")));
    let mut options = options();
    options.publish_timeout = Some(Duration::from_secs(2));
    let relay = rig.relay(options);
    let handle = relay.handle();
    let (result, ()) = tokio::join!(relay.run(sleep(Duration::from_secs(120))), async {
        sleep(Duration::from_secs(1)).await;
        // From refusing to a black hole.
        rig.sink.heal();
        rig.sink.on(Which::Any, Reply::Hang);
        let before = rig.sink.attempts().len();
        sleep(Duration::from_secs(60)).await;
        assert_ne!(handle.state().circuit, CircuitState::Closed);
        let probes = rig.sink.attempts().len() - before;
        assert!(probes < 20, "one probe at a time, not {probes}");
        rig.sink.heal();
    });
    // Only what was tried may have spent its attempts: the oldest entry, again and again.
    assert!(result.unwrap().delivered >= 49);
    assert_eq!(handle.state().circuit, CircuitState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_verdict_that_waits_for_a_lock_does_not_hold_up_the_others() {
    let rig = Rig::new();
    let dies = rig.stage(Event::new("order.placed", "{}")).await;
    rig.sink.on(Which::Event(dies), Reply::Answer(Outcome::rejected("no", "")));
    let store = Arc::new(LockedAudit(rig.store.clone(), AtomicBool::new(true)));
    let mut options = options();
    options.batch = 10;
    options.in_flight_max = 20;
    let relay = Relay::builder(Arc::clone(&store) as Arc<dyn Store>, Arc::new(rig.sink.clone()))
        .route(ROUTE)
        .options(options)
        .seed(1)
        .build()
        .unwrap();
    rig.stage_many(100).await;
    let (tally, ()) = tokio::join!(relay.run(sleep(Duration::from_secs(100))), async {
        sleep(Duration::from_secs(60)).await;
        assert_eq!(rig.with_status(Status::Delivered), 100);
        assert_eq!(rig.sink.received().len(), 100, "nothing is doubled either");
        store.1.store(false, Ordering::Relaxed);
    });
    assert_eq!((tally.unwrap().dead, rig.entry(dies).status), (1, Status::Dead));
}

/// Somebody holds the audit table: a settle with a death in it gives up after a while.
struct LockedAudit(MemoryStore, AtomicBool);

#[async_trait::async_trait]
impl Store for LockedAudit {
    async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
        self.0.claim(request).await
    }
    async fn extend(&self, request: ExtendRequest) -> Result<Extended> {
        self.0.extend(request).await
    }
    async fn settle(&self, request: SettleRequest) -> Result<Settled> {
        let death = |settlement: &Settlement| matches!(settlement.verdict, Verdict::Dead { .. });
        if self.1.load(Ordering::Relaxed) && request.settlements.iter().any(death) {
            sleep(Duration::from_millis(200)).await;
            return Err(Error::new(ErrorKind::Contention, "lock timeout"));
        }
        self.0.settle(request).await
    }
    async fn reap(&self, request: ReapRequest) -> Result<Reaped> {
        self.0.reap(request).await
    }
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
