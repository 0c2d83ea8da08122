use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox_core::port::{AnnounceRequest, Presence, RelaySeen, RunId};
use pillarbox_core::{CircuitState, Error, ErrorKind, Outcome, Result, Timestamp};
use pillarbox_testkit::{Reply, Which};
use tokio::time::{Instant, sleep};

use crate::rig::{Rig, options};

/// How a place for announcements can fail.
#[derive(Clone, Copy, Debug)]
enum Fails {
    Error,
    Hang,
    Panic,
}

struct Broken {
    fails: Fails,
    calls: AtomicU32,
}

impl Broken {
    async fn fail(&self) -> Result<()> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        match self.fails {
            Fails::Error => Err(Error::new(ErrorKind::Denied, "not for you")),
            Fails::Hang => std::future::pending().await,
            Fails::Panic => panic!("planned"),
        }
    }
}

#[async_trait]
impl Presence for Broken {
    async fn announce(&self, _: AnnounceRequest) -> Result<()> {
        self.fail().await
    }

    async fn withdraw(&self, _: RunId) -> Result<()> {
        self.fail().await
    }

    async fn relays(&self, _: Option<Timestamp>) -> Result<Vec<RelaySeen>> {
        Ok(vec![])
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_announcement_never_hurts_delivery() {
    for fails in [Fails::Error, Fails::Hang, Fails::Panic] {
        let rig = Rig::new();
        rig.stage_many(100).await;
        let broken = Arc::new(Broken { fails, calls: AtomicU32::new(0) });
        let presence: Arc<dyn Presence> = broken.clone();
        let relay = rig.builder(options()).presence(presence).build().unwrap();
        assert_eq!(relay.drain().await.unwrap().delivered, 100, "{fails:?}");
        rig.stage_many(100).await;
        let began = Instant::now();
        let tally = relay.run(sleep(Duration::from_secs(60))).await.unwrap();
        assert_eq!((tally.delivered, tally.dead, tally.released), (100, 0, 0), "{fails:?}");
        assert!(broken.calls.load(Ordering::Relaxed) > 5, "it is tried again");
        // Paused time: this is what was waited for, not how fast the machine is.
        assert!(began.elapsed() < Duration::from_secs(66), "{fails:?} held up the end");
    }
}

#[tokio::test(start_paused = true)]
async fn a_relay_is_seen_while_it_runs_and_a_dropped_one_shows_as_gone() {
    let rig = Rig::new();
    let presence: Arc<dyn Presence> = Arc::new(rig.store.clone());
    let relay = rig.builder(options()).presence(Arc::clone(&presence)).build().unwrap();
    let seen = async || presence.relays(None).await.unwrap();
    let run = relay.run(std::future::pending());
    tokio::select! {
        _ = run => unreachable!("nobody stops it"),
        () = async {
            sleep(Duration::from_secs(600)).await;
            let seen = seen().await;
            assert_eq!(seen.len(), 1);
            assert!(!seen[0].is_gone(), "it says every few seconds that it is there");
            assert!(seen[0].seen_at.since(seen[0].started_at) > Duration::from_secs(590));
        } => {}
    }
    // Dropping the run is a crash: nobody withdraws, and after a while the silence is noticed.
    assert!(!seen().await[0].is_gone());
    sleep(Duration::from_secs(40)).await;
    assert!(seen().await[0].is_gone());
    sleep(Duration::from_secs(3600)).await;
    assert!(seen().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_open_circuit_is_told_at_once_and_with_its_last_reason() {
    let rig = Rig::new();
    let presence: Arc<dyn Presence> = Arc::new(rig.store.clone());
    rig.stage_many(10).await;
    rig.sink.on(Which::Any, Reply::Answer(Outcome::down("refused", "connection refused")));
    let relay = rig.builder(options()).presence(Arc::clone(&presence)).build().unwrap();
    let one = async || presence.relays(None).await.unwrap().remove(0);
    let (tally, ()) = tokio::join!(relay.run(sleep(Duration::from_secs(120))), async {
        sleep(Duration::from_millis(100)).await;
        let seen = one().await;
        assert_eq!(
            (seen.circuit, seen.outages),
            (CircuitState::Open, 1),
            "not at the next turn of the clock"
        );
        assert_eq!(seen.reason.unwrap().code(), "refused");
        rig.sink.heal();
        rig.sink.on(Which::Any, Reply::Answer(Outcome::down("alarm", "memory")));
        sleep(Duration::from_secs(20)).await;
        let seen = one().await;
        assert!(seen.outages > 2 && seen.is_down(), "{seen:?}");
        assert_eq!(seen.reason.unwrap().code(), "alarm");
        let lasted = seen.seen_at.since(seen.down_since.unwrap());
        assert!(lasted > Duration::from_secs(10), "since it was first found down: {lasted:?}");
        rig.sink.heal();
        sleep(Duration::from_secs(60)).await;
        assert_eq!((one().await.circuit, one().await.reason), (CircuitState::Closed, None));
    });
    assert_eq!(tally.unwrap().delivered, 10);
    assert!(presence.relays(None).await.unwrap().is_empty());
}
