use std::time::Duration;

use pillarbox_core::{Event, Outcome, Status};
use pillarbox_testkit::{MemoryOutbox, Reply, Which};
use tokio::time::{Instant, sleep};

use crate::rig::{Rig, options};

#[tokio::test(start_paused = true)]
async fn run_once_delivers_one_batch_and_says_what_it_did() {
    let rig = Rig::new();
    rig.stage_many(7).await;
    let mut options = options();
    options.batch = 5;
    let relay = rig.relay(options);
    let tally = relay.run_once().await.unwrap();
    assert_eq!((tally.claimed, tally.delivered, tally.fenced), (5, 5, 0));
    assert_eq!(relay.run_once().await.unwrap().delivered, 2);
    assert_eq!(relay.run_once().await.unwrap().claimed, 0);
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_when_nothing_is_due() {
    let rig = Rig::new();
    let ids = rig.stage_many(1_000).await;
    rig.stage(Event::new("order.placed", "{}").delay(Duration::from_secs(60))).await;
    let tally = rig.relay(options()).drain().await.unwrap();
    assert_eq!((tally.claimed, tally.delivered), (1_000, 1_000));
    assert_eq!(rig.sink.received_ids(), ids, "oldest first");
    assert_eq!(rig.with_status(Status::Pending), 1, "the delayed one waits");
}

#[tokio::test(start_paused = true)]
async fn a_drain_takes_at_most_what_it_may() {
    let rig = Rig::new();
    rig.stage_many(1_000).await;
    let relay = rig.relay(options());
    for (most, delivered) in [(0, 0), (1, 1), (600, 601), (1_000, 1_000)] {
        relay.drain_at_most(most).await.unwrap();
        assert_eq!(rig.sink.received_ids().len(), delivered, "at most {most}");
    }
    // What is tried again in the same run counts again: the run has an end although nothing is ever delivered.
    rig.stage_many(5).await;
    rig.sink.on(Which::Any, Reply::Answer(Outcome::failed("busy", "")));
    assert_eq!(relay.drain_at_most(3).await.unwrap().claimed, 3);
}

#[tokio::test(start_paused = true)]
async fn a_drain_without_work_ends_at_once() {
    let rig = Rig::new();
    let tally = rig.relay(options()).drain().await.unwrap();
    assert_eq!((tally.claimed, tally.elapsed), (0, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn the_next_batch_is_claimed_while_this_one_is_delivered() {
    let rig = Rig::new();
    rig.stage_many(30).await;
    rig.sink.set_latency(Duration::from_secs(1));
    let mut options = options();
    options.batch = 10;
    options.in_flight_max = 30;
    let started = Instant::now();
    let tally = rig.relay(options).drain().await.unwrap();
    assert_eq!(tally.delivered, 30);
    assert_eq!(started.elapsed(), Duration::from_secs(1), "three batches at once, not one after the other");
}

#[tokio::test(start_paused = true)]
async fn what_is_in_flight_stays_in_its_bound() {
    let rig = Rig::new();
    rig.stage_many(100).await;
    rig.sink.set_latency(Duration::from_secs(1));
    let mut options = options();
    options.batch = 10;
    options.in_flight_max = 20;
    let relay = rig.relay(options);
    let handle = relay.handle();
    let watch = async {
        let mut most = 0;
        for _ in 0..20 {
            sleep(Duration::from_millis(250)).await;
            most = most.max(rig.with_status(Status::InFlight));
        }
        (most, handle.state().tally.delivered)
    };
    let (tally, (most, delivered)) = tokio::join!(relay.drain(), watch);
    assert_eq!((most, delivered, tally.unwrap().delivered), (20, 100, 100));
}

#[tokio::test(start_paused = true)]
async fn large_payloads_bound_a_batch_by_bytes() {
    let rig = Rig::new();
    for _ in 0..200 {
        rig.stage(Event::new("blob", vec![0; 10_000])).await;
    }
    rig.sink.set_latency(Duration::from_secs(1));
    let mut options = options();
    options.in_flight_bytes_max = 100_000;
    let relay = rig.relay(options);
    let watch = async {
        // The first claim knows nothing of sizes yet, and is small for that reason.
        sleep(Duration::from_millis(1_500)).await;
        rig.with_status(Status::InFlight)
    };
    let (tally, in_flight) = tokio::join!(relay.drain(), watch);
    assert_eq!(tally.unwrap().delivered, 200);
    assert_eq!(in_flight, 10);
}

#[tokio::test(start_paused = true)]
async fn one_slow_delivery_does_not_delay_settling_the_others() {
    let rig = Rig::new();
    let slow = rig.stage(Event::new("slow", "{}")).await;
    let ids = rig.stage_many(20).await;
    rig.sink.on(Which::Event(slow), Reply::Hang);
    let relay = rig.relay(options());
    let (_, ()) = tokio::join!(
        async { tokio::time::timeout(Duration::from_secs(1), relay.run(std::future::pending())).await },
        async {
            sleep(Duration::from_millis(500)).await;
            assert_eq!(rig.with_status(Status::Delivered), ids.len());
            assert_eq!(rig.entry(slow).status, Status::InFlight);
        }
    );
}

#[tokio::test(start_paused = true)]
async fn a_running_relay_is_woken_and_does_not_wait_for_its_poll() {
    let rig = Rig::new();
    let relay = rig.relay(options());
    let outbox = MemoryOutbox::new(&rig.store, crate::rig::ROUTE).wake(std::sync::Arc::new(relay.handle()));
    let stop = tokio::sync::Notify::new();
    let (tally, waited) = tokio::join!(relay.run(stop.notified()), async {
        // Long idle: the poll interval has grown to its maximum.
        sleep(Duration::from_secs(600)).await;
        let staged_at = Instant::now();
        let mut tx = rig.store.begin();
        outbox.stage(&mut tx, Event::new("order.placed", "{}")).await.unwrap();
        outbox.commit(tx);
        while rig.with_status(Status::Delivered) == 0 {
            sleep(Duration::from_millis(1)).await;
        }
        stop.notify_one();
        staged_at.elapsed()
    });
    assert_eq!(tally.unwrap().delivered, 1);
    assert!(waited <= Duration::from_millis(1), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn beside_a_steady_writer_a_relay_does_not_ask_again_at_once() {
    let rig = Rig::new();
    let counting = std::sync::Arc::new(Counting::new(rig.store.clone()));
    let relay = pillarbox_engine::Relay::builder(counting.clone(), std::sync::Arc::new(rig.sink.clone()))
        .route("orders")
        .seed(1)
        .build()
        .unwrap();
    let stop = tokio::sync::Notify::new();
    let (tally, ()) = tokio::join!(relay.run(stop.notified()), async {
        for _ in 0..1_000 {
            rig.stage(Event::new("order.placed", "{}")).await;
            sleep(Duration::from_millis(5)).await;
        }
        sleep(Duration::from_secs(2)).await;
        stop.notify_one();
    });
    assert_eq!(tally.unwrap().delivered, 1_000);
    let claims = counting.claims();
    assert!(claims < 1_200, "{claims} claims for an event every 5 ms, as often as it polls");
}

#[tokio::test(start_paused = true)]
async fn what_is_staged_during_a_claim_wakes_the_relay_after_it() {
    let rig = Rig::new();
    let taking = Duration::from_millis(100);
    let counting = std::sync::Arc::new(Counting::new(rig.store.clone()).taking(taking));
    let relay = pillarbox_engine::Relay::builder(counting.clone(), std::sync::Arc::new(rig.sink.clone()))
        .route("orders")
        .seed(1)
        .build()
        .unwrap();
    let outbox = MemoryOutbox::new(&rig.store, crate::rig::ROUTE).wake(std::sync::Arc::new(relay.handle()));
    let stop = tokio::sync::Notify::new();
    let (tally, waited) = tokio::join!(relay.run(stop.notified()), async {
        let before = counting.claims();
        while counting.claims() == before {
            sleep(Duration::from_millis(1)).await;
        }
        let staged_at = Instant::now();
        let mut tx = rig.store.begin();
        outbox.stage(&mut tx, Event::new("order.placed", "{}")).await.unwrap();
        outbox.commit(tx);
        while rig.with_status(Status::Delivered) == 0 {
            sleep(Duration::from_millis(1)).await;
        }
        stop.notify_one();
        staged_at.elapsed()
    });
    assert_eq!(tally.unwrap().delivered, 1);
    assert!(waited <= 2 * taking + Duration::from_millis(1), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn an_idle_relay_polls_at_most_a_few_times_a_second() {
    let rig = Rig::new();
    let counting = std::sync::Arc::new(Counting::new(rig.store.clone()));
    let relay = pillarbox_engine::Relay::builder(counting.clone(), std::sync::Arc::new(rig.sink.clone()))
        .route("orders")
        .seed(1)
        .build()
        .unwrap();
    relay.run(sleep(Duration::from_secs(100))).await.unwrap();
    let claims = counting.claims();
    assert!((100..=160).contains(&claims), "{claims} claims in 100 idle seconds");
}

#[tokio::test(start_paused = true)]
async fn a_lost_database_does_not_end_the_loop_and_is_told() {
    let rig = Rig::new();
    let counting = std::sync::Arc::new(Counting::new(rig.store.clone()));
    counting.fail(true);
    let relay = pillarbox_engine::Relay::builder(counting.clone(), std::sync::Arc::new(rig.sink.clone()))
        .route("orders")
        .seed(1)
        .build()
        .unwrap();
    let handle = relay.handle();
    rig.stage_many(3).await;
    let (tally, ()) = tokio::join!(relay.run(sleep(Duration::from_secs(60))), async {
        sleep(Duration::from_secs(20)).await;
        assert!(!handle.state().is_healthy());
        assert!(handle.state().stalled.unwrap().contains("gone"));
        counting.fail(false);
        sleep(Duration::from_secs(20)).await;
        assert!(handle.state().is_healthy());
    });
    assert_eq!(tally.unwrap().delivered, 3);
    assert!(counting.claims() < 200, "backs off");
}

#[tokio::test(start_paused = true)]
async fn a_one_shot_run_says_at_once_that_the_database_is_not_there() {
    let rig = Rig::new();
    let counting = std::sync::Arc::new(Counting::new(rig.store.clone()));
    counting.fail(true);
    let relay = pillarbox_engine::Relay::builder(counting, std::sync::Arc::new(rig.sink.clone()))
        .route("orders")
        .build()
        .unwrap();
    assert!(relay.drain().await.unwrap_err().to_string().contains("gone"));
    assert!(relay.run_once().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn overlapping_drains_share_the_work_without_a_duplicate() {
    let rig = Rig::new();
    let mut ids = rig.stage_many(500).await;
    rig.sink.set_latency(Duration::from_millis(10));
    let mut options = options();
    options.batch = 20;
    let relays: Vec<_> = (0..4).map(|_| rig.relay(options.clone())).collect();
    let tallies = futures_util::future::join_all(relays.iter().map(|relay| relay.drain())).await;
    assert_eq!(tallies.iter().map(|tally| tally.as_ref().unwrap().delivered).sum::<u64>(), 500);
    let mut received = rig.sink.received_ids();
    received.sort();
    ids.sort();
    assert_eq!(received, ids);
}

#[tokio::test(start_paused = true)]
async fn a_failing_batch_of_the_oldest_does_not_hold_up_the_newer_ones() {
    let rig = Rig::new();
    for _ in 0..50 {
        rig.stage(Event::new("bad", "{}")).await;
    }
    let good = rig.stage_many(50).await;
    rig.sink.on(Which::Type("bad".into()), Reply::Answer(Outcome::failed("busy", "")));
    let mut options = options();
    options.batch = 10;
    let tally = rig.relay(options).drain().await.unwrap();
    assert_eq!((tally.delivered, tally.retried), (50, 50));
    assert_eq!(rig.sink.received_ids(), good);
}

#[test]
fn a_relay_without_a_route_or_with_a_wrong_option_is_refused_when_built() {
    let rig = Rig::new();
    let sink = std::sync::Arc::new(rig.sink.clone());
    let store = std::sync::Arc::new(rig.store.clone());
    let error = pillarbox_engine::Relay::builder(store, sink).build().err().unwrap();
    assert!(error.to_string().contains("route"), "{error}");
    let mut options = options();
    options.batch = 0;
    assert!(rig.builder(options).build().is_err());
    assert!(rig.builder(crate::rig::options()).owner("").build().is_err());
    assert!(rig.builder(crate::rig::options()).route("x".repeat(256)).build().is_err());
}

use counting::Counting;

mod counting {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::Duration;

    use async_trait::async_trait;
    use pillarbox_core::port::{
        Claim, ClaimRequest, ExtendRequest, Extended, ReapRequest, Reaped, SettleRequest, Settled, Store,
    };
    use pillarbox_core::{Error, ErrorKind, Result};
    use pillarbox_testkit::MemoryStore;

    /// A store that counts claims and can be lost.
    pub struct Counting {
        store: MemoryStore,
        claims: AtomicUsize,
        lost: AtomicBool,
        taking: Duration,
    }

    impl Counting {
        pub fn new(store: MemoryStore) -> Self {
            let (claims, lost) = (AtomicUsize::new(0), AtomicBool::new(false));
            Self { store, claims, lost, taking: Duration::ZERO }
        }

        /// Says how long a claim takes to answer, after it has looked.
        pub fn taking(self, taking: Duration) -> Self {
            Self { taking, ..self }
        }

        pub fn claims(&self) -> usize {
            self.claims.load(Ordering::SeqCst)
        }

        pub fn fail(&self, lost: bool) {
            self.lost.store(lost, Ordering::SeqCst);
        }

        fn check(&self) -> Result<()> {
            if self.lost.load(Ordering::SeqCst) {
                return Err(Error::new(ErrorKind::Unavailable, "the database is gone"));
            }
            Ok(())
        }
    }

    #[async_trait]
    impl Store for Counting {
        async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
            self.claims.fetch_add(1, Ordering::SeqCst);
            self.check()?;
            let claim = self.store.claim(request).await;
            tokio::time::sleep(self.taking).await;
            claim
        }

        async fn extend(&self, request: ExtendRequest) -> Result<Extended> {
            self.check()?;
            self.store.extend(request).await
        }

        async fn settle(&self, request: SettleRequest) -> Result<Settled> {
            self.check()?;
            self.store.settle(request).await
        }

        async fn reap(&self, request: ReapRequest) -> Result<Reaped> {
            self.check()?;
            self.store.reap(request).await
        }
    }
}
