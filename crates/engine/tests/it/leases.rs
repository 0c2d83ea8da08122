use std::time::Duration;

use pillarbox_core::port::{ClaimOrder, ClaimRequest, Company, Effect, Leases, ReapRequest, Steps, Store};
use pillarbox_core::{CRASHES_IN_COMPANY, Event, RouteName, Status};
use pillarbox_engine::sink::Handlers;
use pillarbox_testkit::JumpingClock;
use pillarbox_testkit::{MemoryStore, Reply, Which};
use tokio::time::sleep;

use crate::rig::{ROUTE, Rig, options};

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_while_a_long_handler_runs() {
    let rig = Rig::new();
    let id = rig.stage(Event::new("report", "{}")).await;
    let handlers = Handlers::new()
        .on("report", async |_| {
            sleep(Duration::from_secs(100)).await;
            Ok(())
        })
        .unwrap();
    let mut options = options();
    options.lease = Duration::from_secs(9);
    options.publish_timeout = None;
    let first = rig.to(std::sync::Arc::new(handlers), options.clone()).build().unwrap();
    let second = rig.relay(options);
    let (tally, other) = tokio::join!(first.run_once(), second.run(sleep(Duration::from_secs(90))));
    let tally = tally.unwrap();
    assert_eq!((tally.delivered, tally.fenced), (1, 0));
    assert_eq!(other.unwrap().claimed, 0, "nobody else could claim it");
    assert_eq!(rig.entry(id).attempts, 1);
}

#[tokio::test(start_paused = true)]
async fn a_killed_relays_entries_move_again_when_its_lease_ends() {
    let rig = Rig::new();
    let ids = rig.stage_many(5).await;
    rig.sink.set_latency(Duration::from_secs(3600));
    let mut options = options();
    options.publish_timeout = None;
    {
        let killed = rig.relay(options.clone());
        // Dropping the future is what a SIGKILL is: nothing is settled, nothing is released.
        assert!(tokio::time::timeout(Duration::from_secs(5), killed.run_once()).await.is_err());
    }
    assert_eq!(rig.with_status(Status::InFlight), 5);
    rig.sink.set_latency(Duration::ZERO);
    let lease_and_reap = options.lease + options.reap_interval;
    let tally = rig.relay(options).run(sleep(lease_and_reap)).await.unwrap();
    assert_eq!(tally.delivered, 5);
    for id in ids {
        assert_eq!(rig.entry(id).attempts, 2, "the spent attempt counts");
    }
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_kills_its_relay_every_time_ends_as_dead() {
    let rig = Rig::new();
    let id = rig.stage(Event::new("killer", "{}")).await;
    rig.sink.on(Which::Event(id), Reply::Hang);
    let mut options = options();
    options.max_attempts = 3;
    options.publish_timeout = None;
    options.lease = Duration::from_secs(10);
    let mut crashes = 0;
    while rig.entry(id).status != Status::Dead {
        let relay = rig.relay(options.clone());
        let run = relay.run(std::future::pending());
        let killed_at = Duration::from_secs(1);
        let _ = tokio::time::timeout(killed_at, run).await;
        sleep(options.lease).await;
        crashes += 1;
        assert!(crashes < 10, "it loops for ever");
    }
    // Those that it may have had in company, and its own.
    assert_eq!(rig.sink.attempts().len(), CRASHES_IN_COMPANY as usize + 3);
    assert_eq!(rig.entry(id).last_error.unwrap().kind, pillarbox_core::FailureKind::LeaseExpired);
}

#[tokio::test(start_paused = true)]
async fn a_relay_whose_lease_was_taken_over_is_fenced_and_changes_nothing() {
    let rig = Rig::new();
    let id = rig.stage(Event::new("order.placed", "{}")).await;
    rig.sink.set_latency(Duration::from_secs(5));
    let mut options = options();
    options.publish_timeout = None;
    let relay = rig.relay(options);
    let (tally, other) = tokio::join!(relay.run_once(), async {
        sleep(Duration::from_secs(2)).await;
        // An owner with a clock far ahead: by its time the lease has ended long ago.
        let now = rig.store.clock().now().saturating_add(Duration::from_secs(3600));
        let request = ClaimRequest {
            route: RouteName::new(ROUTE).unwrap(),
            limit: 1,
            lease: Duration::from_secs(3600),
            owner: "other".into(),
            max_attempts: 5,
            order: ClaimOrder::Staged,
            company: Company::Suspects { beside: 0 },
            steps: Steps::Leave,
            now: Some(now),
        };
        let reap = ReapRequest {
            route: None,
            limit: 1,
            max_attempts: None,
            leases: Leases::Ended,
            steps: Steps::Leave,
            owner: "other".into(),
            effect: Effect::Apply,
            now: Some(now),
        };
        assert_eq!(rig.store.reap(reap).await.unwrap().released, 1);
        rig.store.claim(request).await.unwrap().entries.remove(0)
    });
    let tally = tally.unwrap();
    assert_eq!((tally.delivered, tally.fenced), (0, 1));
    let entry = rig.entry(id);
    assert_eq!((entry.status, entry.fence), (Status::InFlight, other.fence));
}

#[tokio::test(start_paused = true)]
async fn a_relays_own_lost_claim_and_its_new_one_on_the_same_entry_are_told_apart() {
    let clock = std::sync::Arc::new(JumpingClock::new(0));
    let rig = Rig { store: MemoryStore::with_clock(clock.clone()), ..Rig::new() };
    let id = rig.stage(Event::new("order.placed", "{}")).await;
    rig.sink.on_nth(Which::Event(id), 1, Reply::Hang);
    let mut options = options();
    options.reap_interval = Duration::from_millis(500);
    let relay = rig.relay(options);
    let handle = relay.handle();
    let (tally, ()) = tokio::join!(relay.run(sleep(Duration::from_secs(5))), async {
        sleep(Duration::from_secs(1)).await;
        // The database's clock jumps past the lease: the relay claims the entry again and delivers it at once.
        clock.jump(3_600_000);
        sleep(Duration::from_secs(2)).await;
        assert_eq!(rig.entry(id).status, Status::Delivered);
        assert_eq!(handle.state().in_flight, 1, "the sink still has the first claim in hands");
    });
    let tally = tally.unwrap();
    assert_eq!((tally.claimed, tally.delivered, tally.fenced), (2, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn publishing_stops_before_the_lease_ends_when_it_cannot_be_renewed() {
    let rig = Rig::new();
    let id = rig.stage(Event::new("order.placed", "{}")).await;
    rig.sink.on(Which::Event(id), Reply::Hang);
    let mut options = options();
    options.publish_timeout = None;
    options.lease = Duration::from_secs(30);
    let store = std::sync::Arc::new(NoRenewal(rig.store.clone()));
    let relay = pillarbox_engine::Relay::builder(store, std::sync::Arc::new(rig.sink.clone()))
        .route(ROUTE)
        .options(options)
        .seed(1)
        .build()
        .unwrap();
    let tally = relay.run(sleep(Duration::from_millis(24_500))).await.unwrap();
    assert_eq!((tally.claimed, tally.retried), (1, 1), "given up at 24 s of 30");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_gets_no_answer_is_tried_again_before_the_lease_is_given_up() {
    let rig = Rig::new();
    let id = rig.stage(Event::new("report", "{}")).await;
    rig.sink.set_latency(Duration::from_secs(60));
    let mut options = options();
    options.publish_timeout = None;
    options.lease = Duration::from_secs(30);
    let store = std::sync::Arc::new(LostRenewal(rig.store.clone(), true.into()));
    let relay = pillarbox_engine::Relay::builder(store, std::sync::Arc::new(rig.sink.clone()))
        .route(ROUTE)
        .options(options)
        .seed(1)
        .build()
        .unwrap();
    let tally = relay.run(sleep(Duration::from_secs(90))).await.unwrap();
    assert_eq!((tally.delivered, tally.retried, rig.entry(id).attempts), (1, 0, 1));
}

/// The first renewal meets a connection that is dead without anybody having noticed.
struct LostRenewal(MemoryStore, std::sync::atomic::AtomicBool);

#[async_trait::async_trait]
impl Store for LostRenewal {
    async fn claim(&self, request: ClaimRequest) -> pillarbox_core::Result<pillarbox_core::port::Claim> {
        self.0.claim(request).await
    }
    async fn extend(
        &self,
        request: pillarbox_core::port::ExtendRequest,
    ) -> pillarbox_core::Result<pillarbox_core::port::Extended> {
        if self.1.swap(false, std::sync::atomic::Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        self.0.extend(request).await
    }
    async fn settle(
        &self,
        request: pillarbox_core::port::SettleRequest,
    ) -> pillarbox_core::Result<pillarbox_core::port::Settled> {
        self.0.settle(request).await
    }
    async fn reap(
        &self,
        request: pillarbox_core::port::ReapRequest,
    ) -> pillarbox_core::Result<pillarbox_core::port::Reaped> {
        self.0.reap(request).await
    }
}

struct NoRenewal(pillarbox_testkit::MemoryStore);

#[async_trait::async_trait]
impl Store for NoRenewal {
    async fn claim(&self, request: ClaimRequest) -> pillarbox_core::Result<pillarbox_core::port::Claim> {
        self.0.claim(request).await
    }
    async fn extend(
        &self,
        _: pillarbox_core::port::ExtendRequest,
    ) -> pillarbox_core::Result<pillarbox_core::port::Extended> {
        Err(pillarbox_core::Error::new(pillarbox_core::ErrorKind::Unavailable, "cut off"))
    }
    async fn settle(
        &self,
        request: pillarbox_core::port::SettleRequest,
    ) -> pillarbox_core::Result<pillarbox_core::port::Settled> {
        self.0.settle(request).await
    }
    async fn reap(
        &self,
        request: pillarbox_core::port::ReapRequest,
    ) -> pillarbox_core::Result<pillarbox_core::port::Reaped> {
        self.0.reap(request).await
    }
}
