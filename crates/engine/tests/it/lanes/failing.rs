//! Order per key when the store fails in the middle of finding out what stands before what.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use async_trait::async_trait;
use pillarbox_core::port::{
    AttendRequest, Attendance, FetchRequest, Fetched, HandOverRequest, Head, HeadsRequest, IsolateRequest,
    LaneRead, LaneRow, LaneSettleRequest, Passed, PassedRequest, ReadRequest, ReapRequest, Reaped, Settled,
    Undecodable,
};
use pillarbox_core::{Error, ErrorKind, Failure, FailureKind, Result};
use pillarbox_testkit::MemoryStore;

use super::*;

/// The lanes of a rig, each of whose failures happens once.
struct Failing {
    inner: MemoryStore,
    next: Mutex<Option<Fails>>,
    /// The most entries that were fetched by one call.
    fetched_most: AtomicUsize,
    /// How often it was read, and how far the lane that the last read left the furthest behind is behind the first.
    reads: AtomicUsize,
    behind: AtomicI64,
}

#[derive(Clone, Copy, PartialEq)]
enum Fails {
    /// The session is taken for dead.
    Session,
    /// A look at lanes from their beginning fails.
    Look,
    /// A settle takes effect and is said to be denied.
    SettleAnswer,
    /// A settle takes so long.
    SlowSettle(Duration),
    /// This event cannot be read.
    Row(EventId),
    /// An operator requeues this event just before it is asked what is dead.
    Requeued(EventId),
    /// The answer to what is dead takes so long.
    SlowDead(Duration),
    /// A read from here on takes so long.
    SlowRead { from: i64, wait: Duration },
}

impl Failing {
    fn new(rig: &Rig) -> Arc<Self> {
        let (next, fetched_most) = (Mutex::default(), AtomicUsize::default());
        let (reads, behind) = (AtomicUsize::default(), AtomicI64::default());
        Arc::new(Self { inner: rig.store.clone(), next, fetched_most, reads, behind })
    }

    fn next(&self, fails: Fails) {
        *self.next.lock().unwrap() = Some(fails);
    }

    fn takes(&self, fails: Fails) -> bool {
        self.next.lock().unwrap().take_if(|next| *next == fails).is_some()
    }
}

#[async_trait]
impl Lanes for Failing {
    async fn attend(&self, request: AttendRequest) -> Result<Attendance> {
        if !request.joins && self.takes(Fails::Session) {
            let (route, session) = (request.route.clone(), request.session);
            self.inner.hand_over(HandOverRequest { route, session, lanes: None }).await?;
        }
        self.inner.attend(request).await
    }

    async fn read(&self, request: ReadRequest) -> Result<LaneRead> {
        let mut read = self.inner.read(request).await?;
        let lowest = read.lanes.iter().map(|seen| seen.read_to).min();
        let highest = read.lanes.iter().map(|seen| seen.read_to).max();
        let is_slow =
            |next: &mut Fails| matches!(next, Fails::SlowRead { from, .. } if highest >= Some(*from));
        let slow = self.next.lock().unwrap().take_if(is_slow);
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.behind.store(highest.unwrap_or(0) - lowest.unwrap_or(0), Ordering::Relaxed);
        if let Some(Fails::SlowRead { wait, .. }) = slow {
            sleep(wait).await;
        }
        let unreadable = read.entries.iter().position(|entry| self.takes(Fails::Row(entry.event_id)));
        if let Some(place) = unreadable {
            let entry = read.entries.remove(place);
            let failure = Failure::new(FailureKind::Undecodable, "headers", "");
            let row = Undecodable { held: entry.held(), event_id: Some(entry.event_id), failure };
            read.undecodable.push(LaneRow { lane: entry.lane.unwrap(), row });
        }
        Ok(read)
    }

    async fn passed(&self, request: PassedRequest) -> Result<Passed> {
        if self.takes(Fails::Look) {
            return Err(Error::new(ErrorKind::Unavailable, "nothing was read"));
        }
        self.inner.passed(request).await
    }

    async fn fetch(&self, request: FetchRequest) -> Result<Fetched> {
        self.fetched_most.fetch_max(request.seqs.len(), Ordering::Relaxed);
        self.inner.fetch(request).await
    }

    async fn isolate(&self, request: IsolateRequest) -> Result<bool> {
        self.inner.isolate(request).await
    }

    async fn reap_rows(&self, request: ReapRequest) -> Result<Reaped> {
        self.inner.reap_rows(request).await
    }

    async fn heads(&self, request: HeadsRequest) -> Result<Vec<Head>> {
        let next = *self.next.lock().unwrap();
        match next.filter(|next| matches!(next, Fails::Requeued(_) | Fails::SlowDead(_))) {
            Some(fails @ Fails::Requeued(id)) if self.takes(fails) => {
                let _ = self.inner.requeue(of(id)).await?;
                self.inner.heads(request).await
            }
            Some(fails @ Fails::SlowDead(wait)) if self.takes(fails) => {
                let heads = self.inner.heads(request).await;
                sleep(wait).await;
                heads
            }
            _ => self.inner.heads(request).await,
        }
    }

    async fn settle(&self, request: LaneSettleRequest) -> Result<Settled> {
        let is_slow = |next: &mut Fails| matches!(next, Fails::SlowSettle(_));
        let slow = self.next.lock().unwrap().take_if(is_slow);
        if let Some(Fails::SlowSettle(wait)) = slow {
            sleep(wait).await;
        }
        let settled = Lanes::settle(&self.inner, request).await?;
        if self.takes(Fails::SettleAnswer) {
            return Err(Error::new(ErrorKind::Denied, "who are you?"));
        }
        Ok(settled)
    }

    async fn hand_over(&self, request: HandOverRequest) -> Result<()> {
        self.inner.hand_over(request).await
    }
}

fn relay(rig: &Rig, lanes: &Arc<Failing>, options: RelayOptions) -> Relay {
    let (lanes, sink) = (Arc::clone(lanes) as Arc<dyn Lanes>, Arc::new(rig.sink.clone()));
    Relay::ordered(lanes, sink).route(ROUTE).options(options).owner("relay").build().unwrap()
}

fn refuse(rig: &Rig, id: EventId) {
    rig.sink.on(Which::Event(id), Reply::Answer(Outcome::rejected("no", "")));
}

#[tokio::test(start_paused = true)]
async fn a_requeued_head_goes_first_also_when_the_look_for_it_fails() {
    let rig = Rig::new();
    let lanes = Failing::new(&rig);
    let ids = rig.stage_keyed("k", 3).await;
    refuse(&rig, ids[0]);
    let mut options = options();
    // With room for one entry nothing is read as soon as one is known that could go.
    (options.batch, options.in_flight_max) = (1, 1);
    let requeue = async {
        sleep(Duration::from_secs(30)).await;
        assert_eq!(rig.first_received(), BTreeMap::new());
        rig.sink.heal();
        lanes.next(Fails::Look);
        rig.requeue(ids[0]).await;
        sleep(Duration::from_secs(30)).await;
    };
    relay(&rig, &lanes, options).run(requeue).await.unwrap();
    assert!(lanes.next.lock().unwrap().is_none(), "the look did not fail");
    assert_eq!(rig.first_received()["k"], ids);
}

#[tokio::test(start_paused = true)]
async fn a_head_whose_death_was_recorded_without_an_answer_holds_back_its_key() {
    let rig = Rig::new();
    let lanes = Failing::new(&rig);
    let ids = rig.stage_keyed("k", 3).await;
    refuse(&rig, ids[0]);
    lanes.next(Fails::SettleAnswer);
    let options = options();
    relay(&rig, &lanes, options.clone()).run(sleep(options.lease * 5)).await.unwrap();
    assert_eq!(rig.entry(ids[0]).status, Status::Dead);
    assert_eq!(rig.first_received().get("k"), None);
}

#[tokio::test(start_paused = true)]
async fn a_key_goes_on_when_the_destination_has_what_was_before_and_need_not_wait_for_the_record_of_it() {
    let rig = Rig::new();
    let lanes = Failing::new(&rig);
    let ids = rig.stage_keyed("k", 3).await;
    lanes.next(Fails::SlowSettle(Duration::from_secs(5)));
    let relay = relay(&rig, &lanes, options());
    let watch = async {
        sleep(Duration::from_secs(4)).await;
        assert_eq!(rig.sink.received_ids(), ids);
        assert_eq!(rig.with_status(Status::Delivered), 0);
        sleep(Duration::from_secs(4)).await;
        assert_eq!(rig.with_status(Status::Delivered), 3);
    };
    relay.run(watch).await.unwrap();
    assert_eq!(rig.sink.received_ids(), ids, "nothing came twice");
}

#[tokio::test(start_paused = true)]
async fn a_confirmed_entry_that_was_never_recorded_comes_again_and_was_still_the_first() {
    let rig = Rig::new();
    let lanes = Failing::new(&rig);
    let ids = rig.stage_keyed("k", 3).await;
    // Longer than a call may take: it is given up, and tried again until the session is taken for dead.
    lanes.next(Fails::SlowSettle(Duration::from_secs(600)));
    let options = options();
    let lose = async {
        sleep(Duration::from_secs(10)).await;
        assert_eq!(rig.sink.received_ids(), ids);
        lanes.next(Fails::Session);
        sleep(options.lease * 4).await;
    };
    relay(&rig, &lanes, options.clone()).run(lose).await.unwrap();
    assert_eq!(rig.first_received()["k"], ids);
    assert_eq!(rig.with_status(Status::Delivered), 3);
}

#[tokio::test(start_paused = true)]
async fn a_row_that_cannot_be_read_holds_back_its_key_and_no_other() {
    let rig = Rig::new();
    let lanes = Failing::new(&rig);
    let ids = rig.stage_keyed("k", 3).await;
    let other = rig.stage_keyed("other", 1).await;
    lanes.next(Fails::Row(ids[0]));
    let relay = relay(&rig, &lanes, options());
    relay.run(sleep(Duration::from_secs(30))).await.unwrap();
    assert_eq!(rig.entry(ids[0]).status, Status::Dead);
    assert_eq!(rig.first_received(), BTreeMap::from([("other".to_owned(), other)]));
    rig.discard(ids[0]).await;
    relay.run(sleep(Duration::from_secs(30))).await.unwrap();
    assert_eq!(rig.first_received()["k"], ids[1..]);
}

#[tokio::test(start_paused = true)]
async fn behind_a_row_that_cannot_be_read_the_key_goes_on_where_dead_heads_are_skipped() {
    let rig = Rig::new();
    let lanes = Failing::new(&rig);
    let ids = rig.stage_keyed("k", 3).await;
    lanes.next(Fails::Row(ids[0]));
    let mut options = options();
    options.on_dead = OnDead::Skip;
    relay(&rig, &lanes, options).run(sleep(Duration::from_secs(30))).await.unwrap();
    assert_eq!(rig.entry(ids[0]).status, Status::Dead);
    assert_eq!(rig.first_received()["k"], ids[1..]);
}

#[tokio::test(start_paused = true)]
async fn a_verdict_under_a_lost_session_does_not_touch_what_the_next_one_has_in_flight() {
    let rig = Rig::new();
    let lanes = Failing::new(&rig);
    let ids = rig.stage_keyed("k", 2).await;
    let options = options();
    // The first delivery ends after a claim has noticed, and before a renewal has: while the second one of the same
    // entry is under way.
    rig.sink.set_latency(options.lease * 3 / 10);
    let lose = async {
        sleep(Duration::from_secs(1)).await;
        lanes.next(Fails::Session);
        sleep(options.lease * 4).await;
    };
    relay(&rig, &lanes, options.clone()).run(lose).await.unwrap();
    assert!(lanes.next.lock().unwrap().is_none(), "the session was not lost");
    assert_eq!(rig.sink.received_ids(), [ids[0], ids[0], ids[1]]);
    assert_eq!(rig.with_status(Status::Delivered), 2);
}

#[tokio::test(start_paused = true)]
async fn rows_that_cannot_be_read_take_places_in_flight_as_others_do() {
    let rig = Rig::new();
    let ids = rig.stage_many(6).await;
    for id in &ids[..3] {
        rig.store.spoil_headers(*id);
    }
    let mut options = options();
    (options.batch, options.in_flight_max) = (2, 2);
    let tally = rig.ordered(options.clone()).build().unwrap().run_once().await.unwrap();
    assert_eq!((tally.claimed, tally.dead), (2, 2));
    // The third is nobody's now, so the next relay need not wait for it.
    let tally = rig.ordered(options).owner("next").build().unwrap().drain().await.unwrap();
    assert_eq!((tally.delivered, tally.dead), (3, 1));
    assert_eq!(rig.sink.received_ids(), ids[3..]);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_is_requeued_between_two_looks_goes_first() {
    let rig = Rig::new();
    let lanes = Failing::new(&rig);
    let ids = rig.stage_keyed("k", 3).await;
    refuse(&rig, ids[0]);
    relay(&rig, &lanes, options()).run(sleep(Duration::from_secs(10))).await.unwrap();
    assert_eq!(rig.entry(ids[0]).status, Status::Dead);
    rig.sink.heal();
    // The next owner has read the lane when the operator comes, and asks what is dead after that.
    lanes.next(Fails::Requeued(ids[0]));
    relay(&rig, &lanes, options()).run(sleep(Duration::from_secs(30))).await.unwrap();
    assert!(lanes.next.lock().unwrap().is_none(), "nobody asked what is dead");
    assert_eq!(rig.first_received()["k"], ids);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_dies_while_the_store_says_what_is_dead_holds_back_its_key() {
    let rig = Rig::new();
    let lanes = Failing::new(&rig);
    // Another key of the same lane, so that an operator can change the lane while the first key is under way.
    let unkeyed = rig.stage_many(1).await[0];
    let lane = |key: &str| pillarbox_core::lane_of(Some(key), unkeyed);
    let other = (0..).map(|n| format!("o-{n}")).find(|key| lane(key) == lane("k")).unwrap();
    let gone = rig.stage_keyed(&other, 1).await;
    refuse(&rig, gone[0]);
    let relay = relay(&rig, &lanes, options());
    relay.run(sleep(Duration::from_secs(10))).await.unwrap();
    let ids = rig.stage_keyed("k", 2).await;
    refuse(&rig, ids[0]);
    rig.sink.set_latency(Duration::from_secs(5));
    let discard = async {
        sleep(Duration::from_secs(2)).await;
        lanes.next(Fails::SlowDead(Duration::from_secs(8)));
        rig.discard(gone[0]).await;
        sleep(Duration::from_secs(60)).await;
    };
    relay.run(discard).await.unwrap();
    assert!(lanes.next.lock().unwrap().is_none(), "nobody asked what is dead");
    assert_eq!(rig.entry(ids[0]).status, Status::Dead);
    assert_eq!(rig.first_received().get("k"), None);
}

#[tokio::test(start_paused = true)]
async fn payloads_that_were_let_go_come_back_a_few_keys_at_a_time() {
    let rig = Rig::new();
    let lanes = Failing::new(&rig);
    for key in 0..10 {
        let ids = rig.stage_keyed(&format!("key-{key}"), 30).await;
        // What is known behind it is let go while it waits, and by the third time that is all.
        (1..=3).for_each(|nth| rig.sink.on_nth(Which::Event(ids[0]), nth, fails()));
    }
    let mut options = options();
    (options.batch, options.in_flight_max) = (10, 10);
    relay(&rig, &lanes, options).run(sleep(Duration::from_secs(600))).await.unwrap();
    assert_eq!(rig.with_status(Status::Delivered), 300);
    let most = lanes.fetched_most.load(Ordering::Relaxed);
    assert!((10..10 + 30).contains(&most), "{most}");
}

#[tokio::test(start_paused = true)]
async fn what_was_read_is_delivered_while_the_next_is_read() {
    let rig = Rig::new();
    let lanes = Failing::new(&rig);
    rig.sink.set_capabilities(in_order());
    let mut staged = BTreeMap::new();
    for n in 0..200 {
        let key = format!("key-{}", n % 20);
        staged.entry(key.clone()).or_insert_with(Vec::new).extend(rig.stage_keyed(&key, 1).await);
    }
    rig.sink.set_latency(Duration::from_millis(10));
    let mut options = options();
    (options.batch, options.in_flight_max) = (4, 4);
    let far = rig.entry(staged["key-0"][5]).seq;
    lanes.next(Fails::SlowRead { from: far, wait: options.lease / 4 });
    let look = async {
        while lanes.next.lock().unwrap().is_some() {
            sleep(Duration::from_millis(1)).await;
        }
        let before = rig.sink.received_ids().len();
        sleep(options.lease / 8).await;
        let after = rig.sink.received_ids().len();
        assert!(after > before + 4, "{before} to {after}: no more than was in flight");
        sleep(options.lease).await;
    };
    relay(&rig, &lanes, options.clone()).run(look).await.unwrap();
    assert_eq!(rig.first_received(), staged);
}

#[tokio::test(start_paused = true)]
async fn a_lane_that_has_given_all_is_not_asked_again() {
    let rig = Rig::new();
    let lanes = Failing::new(&rig);
    let relay = relay(&rig, &lanes, options());
    let mut reads = Vec::new();
    for events in [0, 3] {
        for n in 0..events {
            rig.stage_keyed(&format!("key-{n}"), 1).await;
        }
        let before = lanes.reads.load(Ordering::Relaxed);
        assert_eq!(relay.run_once().await.unwrap().delivered, events);
        reads.push(lanes.reads.load(Ordering::Relaxed) - before);
    }
    assert_eq!(reads[0], reads[1]);
}

/// So that a store can see from the numbers alone that there is next to nothing.
#[tokio::test(start_paused = true)]
async fn a_lane_without_entries_does_not_stay_behind() {
    let rig = Rig::new();
    let lanes = Failing::new(&rig);
    let busy = async {
        for _ in 0..300 {
            rig.stage_keyed("key", 1).await;
            sleep(Duration::from_millis(20)).await;
        }
    };
    let _ = relay(&rig, &lanes, options()).run(busy).await.unwrap();
    assert_eq!(rig.sink.received_ids().len(), 300);
    let behind = lanes.behind.load(Ordering::Relaxed);
    assert!(behind < 100, "63 lanes are read from {behind} before the last one");
}
