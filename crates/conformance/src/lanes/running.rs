//! Running: a real relay by lanes on the store under test. Time is the store's own here, so nothing depends on how long
//! it takes: what is counted is how much is asked of the store.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join;
use pillarbox_core::port::{
    Admin, AttendRequest, Attendance, FetchRequest, Fetched, HandOverRequest, Head, HeadsRequest,
    IsolateRequest, LaneRead, LaneSettleRequest, Lanes, Passed, PassedRequest, PauseChange, PauseRequest,
    PauseTo, ReadRequest, ReapRequest, Reaped, Settled,
};
use pillarbox_core::{Backoff, Failure, FailureKind, Jitter, Outcome, Result, Status};
use pillarbox_engine::{Relay, RelayOptions};
use tokio::sync::oneshot;

use super::LanesHarness;
use super::steps::*;
use pillarbox_testkit::{MemorySink, Reply, Which, eventually};

/// Long enough that only a relay that hangs gets there.
const PATIENCE: Duration = Duration::from_secs(120);
/// Entries of the key whose head fails.
const WAITING: u64 = 10_000;
/// Other keys, of one entry each; some of them are in the same lane.
const OTHERS: u64 = 200;
/// Entries that the store reads at most for one try of a head: those that may follow it soon.
const ROWS_PER_TRY: u64 = 64;

/// Passes calls on, and counts the entries that they bring.
struct Counted<S> {
    inner: Arc<S>,
    /// Entries with their payloads.
    rows: AtomicU64,
}

impl<S> Counted<S> {
    fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl<S: Lanes> Lanes for Counted<S> {
    async fn attend(&self, request: AttendRequest) -> Result<Attendance> {
        self.inner.attend(request).await
    }

    async fn read(&self, request: ReadRequest) -> Result<LaneRead> {
        let read = self.inner.read(request).await?;
        self.rows.fetch_add(read.entries.len() as u64, Ordering::Relaxed);
        Ok(read)
    }

    async fn passed(&self, request: PassedRequest) -> Result<Passed> {
        self.inner.passed(request).await
    }

    async fn fetch(&self, request: FetchRequest) -> Result<Fetched> {
        let fetched = self.inner.fetch(request).await?;
        self.rows.fetch_add(fetched.entries.len() as u64, Ordering::Relaxed);
        Ok(fetched)
    }

    async fn heads(&self, request: HeadsRequest) -> Result<Vec<Head>> {
        self.inner.heads(request).await
    }

    async fn isolate(&self, request: IsolateRequest) -> Result<bool> {
        self.inner.isolate(request).await
    }

    async fn reap_rows(&self, request: ReapRequest) -> Result<Reaped> {
        self.inner.reap_rows(request).await
    }

    async fn settle(&self, request: LaneSettleRequest) -> Result<Settled> {
        self.inner.settle(request).await
    }

    async fn hand_over(&self, request: HandOverRequest) -> Result<()> {
        self.inner.hand_over(request).await
    }
}

fn options() -> RelayOptions {
    let mut options = RelayOptions::broker();
    let (soon, later) = (Duration::from_millis(1), Duration::from_millis(20));
    options.backoff = Backoff::new(soon, later, Jitter::None).unwrap();
    options.max_attempts = 1_000_000;
    options.poll_min = soon;
    options.poll_max = later;
    options
}

/// However many entries wait behind a head that fails again and again: they are read once, the other keys are
/// delivered meanwhile, and the key goes on in its order once its head goes through.
pub async fn a_long_line_behind_a_failing_head_is_read_once_and_slows_nobody<H: LanesHarness>(harness: &H) {
    for first in (1..=WAITING).step_by(1000) {
        let hot = (first..first + 1000).map(|n| keyed(n, "hot")).collect();
        assert_eq!(stage(harness, hot).await.len(), 1000);
    }
    let sink = MemorySink::new();
    sink.on(Which::Event(id(1)), Reply::Answer(Outcome::failed("busy", "")));
    let lanes = Arc::new(Counted { inner: harness.store(), rows: AtomicU64::new(0) });
    let relay = Relay::ordered(Arc::clone(&lanes) as Arc<dyn Lanes>, sink.clone()).route(ROUTE).seed(1);
    let relay = relay.options(options()).owner("relay-1").build().unwrap();
    let tries = || sink.attempts().iter().filter(|attempt| attempt.entry.event_id == id(1)).count() as u64;
    let received = || BTreeSet::from_iter(sink.received_ids());
    let (stop, stopped) = oneshot::channel::<()>();
    let application = async {
        let mut others = BTreeSet::new();
        let (mut rows, mut tried) = (0, 0);
        for round in 1..=4 {
            let more = || (1..=OTHERS).map(|n| (round * 100_000 + n, format!("other-{n}")));
            assert_eq!(stage(harness, more().map(|(n, key)| keyed(n, &key)).collect()).await.len(), 200);
            others.extend(more().map(|(n, _)| id(n)));
            let before = tries();
            relay.handle().wake();
            eventually(PATIENCE, async || received() == others && tries() > before + 2).await;
            if round == 1 {
                (rows, tried) = (lanes.rows(), tries());
                assert!(rows <= WAITING + OTHERS + ROWS_PER_TRY * tried, "{rows} rows for {tried} tries");
            }
        }
        let (rows, tried) = (lanes.rows() - rows, tries() - tried);
        assert!(rows <= 3 * OTHERS + ROWS_PER_TRY * (tried + 1), "{rows} rows for {tried} tries");
        sink.heal();
        relay.handle().wake();
        // Not all of it: one after the other it takes a while.
        eventually(PATIENCE, async || received().len() >= others.len() + 100).await;
        stop.send(()).unwrap();
    };
    let (tally, ()) = join(relay.run(async { drop(stopped.await) }), application).await;
    let hot = sink.received().into_iter().filter(|entry| entry.key.as_deref() == Some("hot"));
    let hot: Vec<_> = hot.map(|entry| entry.event_id).collect();
    let gone = tally.unwrap().delivered - 4 * OTHERS;
    assert_eq!(hot, ids_of(1..=gone), "in their order");
    assert_eq!(count(harness, Status::Delivered).await, 4 * OTHERS + gone);
}

/// A relay by lanes stops handing out, gives up its lanes, and goes on after that, without being started anew.
pub async fn a_running_relay_by_lanes_honours_a_pause<H: LanesHarness>(harness: &H) {
    let sink = MemorySink::new();
    let lanes = harness.store() as Arc<dyn Lanes>;
    let relay = |owner: &str| {
        let relay = Relay::ordered(Arc::clone(&lanes), sink.clone()).route(ROUTE);
        relay.options(options()).owner(owner).build().unwrap()
    };
    let running = relay("relay-1");
    let set = async |to| {
        let request =
            PauseRequest { route: route(ROUTE), to, actor: "ops".into(), reason: String::new(), now: None };
        assert_eq!(harness.store().set_pause(request).await.unwrap(), PauseChange::Changed);
    };
    // An entry of a lane that no session holds can be cancelled: so it shows that the lanes were given up.
    let next = AtomicU64::new(100);
    let given_up = async || {
        let n = next.fetch_add(1, Ordering::Relaxed);
        assert_eq!(stage(harness, vec![keyed(n, "z")]).await.len(), 1);
        harness.store().cancel(select_ids([n])).await.unwrap().changed == 1
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let operator = async {
        assert_eq!(stage(harness, vec![keyed(1, "a")]).await.len(), 1);
        eventually(PATIENCE, async || sink.received().len() == 1).await;
        set(PauseTo::Paused).await;
        eventually(PATIENCE, given_up).await;
        let before = count(harness, Status::Delivered).await;
        assert_eq!(stage(harness, vec![keyed(3, "a"), keyed(4, "b")]).await.len(), 2);
        assert_eq!(relay("relay-2").drain().await.unwrap().claimed, 0, "a drain honours it too");
        let waiting = harness.store().counts(None).await.unwrap().remove(0).undrained();
        assert_eq!(count(harness, Status::Delivered).await, before, "nobody takes anything");
        set(PauseTo::Running).await;
        eventually(PATIENCE, async || count(harness, Status::Delivered).await == before + waiting).await;
        stop.send(()).unwrap();
    };
    let (tally, ()) = join(running.run(async { drop(stopped.await) }), operator).await;
    tally.unwrap();
}

/// A reader that knows an entry to wait for an hour delivers it once an operator has made it due.
pub async fn a_hastened_entry_is_delivered_by_a_running_relay<H: LanesHarness>(harness: &H) {
    let sink = MemorySink::new();
    let failure = Failure::new(FailureKind::Failed, "busy", "");
    let later = Outcome::Failed { failure, retry_after: Some(HOUR) };
    sink.on(Which::Event(id(1)), Reply::Answer(later));
    let relay = Relay::ordered(harness.store() as Arc<dyn Lanes>, sink.clone()).route(ROUTE);
    let relay = relay.options(options()).owner("relay-1").build().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let operator = async {
        assert_eq!(stage(harness, vec![keyed(1, "a"), keyed(2, "a")]).await.len(), 2);
        eventually(PATIENCE, async || count(harness, Status::Retrying).await == 1).await;
        sink.heal();
        assert_eq!(harness.store().hasten(select_ids([1])).await.unwrap().changed, 1);
        eventually(PATIENCE, async || sink.received_ids() == ids_of([1, 2])).await;
        stop.send(()).unwrap();
    };
    let (tally, ()) = join(relay.run(async { drop(stopped.await) }), operator).await;
    tally.unwrap();
}
