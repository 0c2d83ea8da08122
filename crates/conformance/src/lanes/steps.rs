//! A relay as the cases see it: one session, and what it knows of its lanes.

use std::collections::{BTreeMap, BTreeSet};

use pillarbox_core::port::{
    AttendRequest, Attendance, FetchRequest, Fetched, HandOverRequest, IsolateRequest, Keep, LANES,
    LaneCursor, LaneRead, LaneSeen, LaneSettleRequest, LaneSettlement, LaneWish, Lanes, Passed,
    PassedRequest, ReadRequest, SessionId, Settled, Verdict,
};
use pillarbox_core::{CRASHES_IN_COMPANY, Entry, Event, Fence, Held, Timestamp};

use super::LanesHarness;
pub(super) use crate::store::steps::*;

/// Enough for every entry of a small case, and within the limit of a batch for all lanes at once.
pub(super) const PLENTY: u32 = 150;

/// Ids that grow with the number, so that the order of joining is the same by every means to tell it.
pub(super) fn session(n: u64) -> SessionId {
    SessionId(id(n).0)
}

pub(super) fn attend_request(n: u64, now: Timestamp) -> AttendRequest {
    AttendRequest {
        route: route(ROUTE),
        session: session(n),
        joins: false,
        owner: format!("worker-{n}"),
        lease: LEASE,
        shares: LANES,
        max_attempts: 5,
        skips_dead: false,
        now: Some(now),
    }
}

/// `event(n)` with a key.
pub(super) fn keyed(n: u64, key: &str) -> Event {
    event(n).key(key)
}

/// So much of a lane, in the first run through it.
pub(super) const fn wish(lane: u8, limit: u32) -> LaneWish {
    LaneWish { lane, run: 1, limit }
}

/// So much of every lane.
pub(super) fn everywhere(limit: u32) -> Vec<LaneWish> {
    (0..LANES).map(|lane| wish(lane, limit)).collect()
}

/// What a read says, but for the time.
#[derive(Debug, PartialEq)]
struct Answer {
    lost: bool,
    entries: Vec<Entry>,
    undecodable: Vec<(u8, Held)>,
    behind: BTreeSet<i64>,
    lanes: BTreeSet<LaneSeen>,
}

impl Answer {
    fn of(read: &LaneRead) -> Self {
        let mut entries = read.entries.clone();
        entries.sort_by_key(|entry| (entry.lane, entry.seq));
        Self {
            lost: read.lost,
            entries,
            undecodable: read.undecodable.iter().map(|row| (row.lane, row.row.held)).collect(),
            behind: read.behind.iter().copied().collect(),
            lanes: read.lanes.iter().copied().collect(),
        }
    }
}

/// Lets one session after the other read everything and die, until the next crash is one that an entry had alone. Returns
/// when the last one is over.
pub(super) async fn crash_in_company<H: LanesHarness>(harness: &H) -> Timestamp {
    let mut now = soon(harness).await;
    for number in 1..=CRASHES_IN_COMPANY {
        let reader = Reader::join(harness, 100 + u64::from(number), now).await;
        assert!(!reader.takes_all().await.is_empty());
        now = now.saturating_add(LEASE);
    }
    now
}

/// A running session.
pub(super) struct Reader<'a, H> {
    harness: &'a H,
    number: u64,
    route: &'static str,
    shares: u8,
    /// The lanes that it holds, by its last heartbeat.
    pub(super) lanes: BTreeMap<u8, Fence>,
    /// The lanes beyond its share, by its last heartbeat.
    pub(super) surplus: Vec<u8>,
}

impl<'a, H: LanesHarness> Reader<'a, H> {
    /// Joins [`ROUTE`].
    pub(super) async fn join(harness: &'a H, number: u64, now: Timestamp) -> Self {
        Self::join_on(harness, ROUTE, number, now).await
    }

    pub(super) async fn join_on(harness: &'a H, on: &'static str, number: u64, now: Timestamp) -> Self {
        Self::start(harness, on, number, LANES, now).await
    }

    /// Joins [`ROUTE`] with this many shares.
    pub(super) async fn join_with(harness: &'a H, number: u64, shares: u8, now: Timestamp) -> Self {
        Self::start(harness, ROUTE, number, shares, now).await
    }

    async fn start(harness: &'a H, route: &'static str, number: u64, shares: u8, now: Timestamp) -> Self {
        let mut reader = Self { harness, number, route, shares, lanes: BTreeMap::new(), surplus: vec![] };
        let request = AttendRequest { joins: true, ..reader.request(now) };
        let joined = reader.attend_as(request).await;
        assert!(!joined.lost, "who joins is there");
        reader
    }

    pub(super) fn request(&self, now: Timestamp) -> AttendRequest {
        let request = attend_request(self.number, now);
        AttendRequest { route: route(self.route), shares: self.shares, ..request }
    }

    pub(super) async fn attend_as(&mut self, request: AttendRequest) -> Attendance {
        let attendance = self.harness.store().attend(request).await.unwrap();
        let numbers: Vec<u8> = attendance.lanes.iter().map(|held| held.lane).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "each lane once, by number: {numbers:?}");
        assert!(numbers.iter().all(|lane| *lane < LANES), "{numbers:?}");
        assert!(
            attendance.surplus.iter().all(|lane| numbers.contains(lane)),
            "only what it holds is surplus"
        );
        self.lanes = attendance.lanes.iter().map(|held| (held.lane, held.fence)).collect();
        self.surplus.clone_from(&attendance.surplus);
        attendance
    }

    /// A heartbeat of a session that is still there.
    pub(super) async fn attend(&mut self, now: Timestamp) -> Attendance {
        let attendance = self.attend_as(self.request(now)).await;
        assert!(!attendance.lost, "session {} is still there", self.number);
        attendance
    }

    /// Reads all entries and says that they are in flight, as one must before suspects are handed out.
    pub(super) async fn takes_all(&self) -> Vec<Entry> {
        let entries = self.entries().await;
        let only = Some(entries.iter().map(|entry| entry.seq).collect());
        let request = IsolateRequest { route: route(self.route), session: session(self.number), only };
        assert!(self.harness.store().isolate(request).await.unwrap(), "session {} is there", self.number);
        entries
    }

    pub(super) async fn hand_over(&self, lanes: Vec<u8>) {
        let request =
            HandOverRequest { route: route(self.route), session: session(self.number), lanes: Some(lanes) };
        self.harness.store().hand_over(request).await.unwrap();
    }

    pub(super) async fn leave(&self) {
        let request =
            HandOverRequest { route: route(self.route), session: session(self.number), lanes: None };
        self.harness.store().hand_over(request).await.unwrap();
    }

    /// Reads on from a cursor, twice: the answer is the same.
    pub(super) async fn read(&self, cursor: &LaneCursor, lanes: Vec<LaneWish>) -> LaneRead {
        let (route, session, cursor) = (route(self.route), session(self.number), cursor.clone());
        let request = ReadRequest { route, session, lanes, cursor };
        let first = self.harness.store().read(request.clone()).await.unwrap();
        let again = self.harness.store().read(request).await.unwrap();
        assert_eq!(Answer::of(&first), Answer::of(&again));
        again
    }

    /// Reads every lane on from a cursor, whether it is held or not.
    pub(super) async fn read_on(&self, cursor: &LaneCursor) -> LaneRead {
        self.read(cursor, everywhere(PLENTY)).await
    }

    /// Reads every lane from its beginning, whether it is held or not.
    pub(super) async fn read_all(&self) -> LaneRead {
        self.read_on(&LaneCursor::default()).await
    }

    /// What a cursor has passed, in every lane; the seqs in order.
    pub(super) async fn passed(&self, cursor: &LaneCursor) -> Passed {
        self.passed_in(cursor, everywhere(0)).await
    }

    async fn passed_in(&self, cursor: &LaneCursor, lanes: Vec<LaneWish>) -> Passed {
        let (route, session, cursor) = (route(self.route), session(self.number), cursor.clone());
        let request = PassedRequest { route, session, lanes, cursor };
        let mut passed = self.harness.store().passed(request).await.unwrap();
        passed.seqs.sort_unstable();
        passed
    }

    /// Every entry that can be read, in the order of staging.
    pub(super) async fn entries(&self) -> Vec<Entry> {
        let read = self.read_all().await;
        assert!(!read.lost && read.undecodable.is_empty(), "{:?}", read.undecodable);
        let mut entries = read.entries;
        entries.sort_by_key(|entry| entry.seq);
        entries
    }

    pub(super) async fn fetch(&self, seqs: Vec<i64>) -> Fetched {
        let request = FetchRequest { route: route(self.route), session: session(self.number), seqs };
        self.harness.store().fetch(request).await.unwrap()
    }

    /// How often operators have changed a held lane.
    pub(super) async fn revision(&self, lane: u8) -> i64 {
        let passed = self.passed_in(&LaneCursor::default(), vec![wish(lane, 0)]).await;
        assert_eq!(passed.revisions.len(), 1, "one lane was asked for");
        assert_eq!(passed.revisions[0].0, lane);
        passed.revisions[0].1
    }

    /// The proof that this session may settle an entry.
    pub(super) fn held(&self, entry: &Entry) -> Held {
        let lane = entry.lane.expect("the lane that it was read from");
        Held { seq: entry.seq, fence: self.lanes.get(&lane).copied().unwrap_or(Fence::NONE) }
    }

    /// The verdict on an entry that was read, with the attempt that it cost.
    pub(super) fn verdict(&self, entry: &Entry, verdict: Verdict) -> LaneSettlement {
        let lane = entry.lane.expect("the lane that it was read from");
        LaneSettlement {
            held: self.held(entry),
            lane,
            hint: entry.hint,
            attempts: entry.attempts + 1,
            verdict,
        }
    }

    pub(super) fn settle_request(
        &self,
        settlements: Vec<LaneSettlement>,
        now: Timestamp,
    ) -> LaneSettleRequest {
        LaneSettleRequest {
            route: route(self.route),
            session: session(self.number),
            owner: format!("worker-{}", self.number),
            settlements,
            keep: Keep::UntilPurged,
            now: Some(now),
        }
    }

    pub(super) async fn settle_all(&self, settlements: Vec<LaneSettlement>, now: Timestamp) -> Settled {
        Lanes::settle(&*self.harness.store(), self.settle_request(settlements, now)).await.unwrap()
    }

    /// Settles one entry of a lane that it holds.
    pub(super) async fn settle(&self, entry: &Entry, verdict: Verdict, now: Timestamp) {
        let settled = self.settle_all(vec![self.verdict(entry, verdict)], now).await;
        assert_eq!(settled, Settled { accepted: 1, fenced: vec![] });
    }
}

/// Gives all sessions this setting, and lets them come to rest.
pub(super) async fn balance<H: LanesHarness>(readers: &mut [Reader<'_, H>], shares: u8, now: Timestamp) {
    readers.iter_mut().for_each(|reader| reader.shares = shares);
    balance_own(readers, now).await;
}

/// Lets sessions give signs of life and hand over what is beyond their share until they have nothing to hand over.
pub(super) async fn balance_own<H: LanesHarness>(readers: &mut [Reader<'_, H>], now: Timestamp) {
    for round in 0..10 {
        let mut moved = false;
        for reader in readers.iter_mut() {
            let before = reader.lanes.clone();
            let _ = reader.attend(now).await;
            reader.hand_over(reader.surplus.clone()).await;
            moved |= before != reader.lanes || !reader.surplus.is_empty();
        }
        // In the first round not everybody had said what its setting is.
        if !moved && round > 0 {
            return;
        }
    }
    panic!("the sessions do not come to rest");
}

/// How many lanes each session holds; no lane is held twice.
pub(super) fn shares_of<H: LanesHarness>(readers: &[Reader<'_, H>]) -> Vec<usize> {
    let held: usize = readers.iter().map(|reader| reader.lanes.len()).sum();
    let different: BTreeSet<u8> = readers.iter().flat_map(|reader| reader.lanes.keys().copied()).collect();
    assert_eq!(different.len(), held, "two sessions hold one lane");
    readers.iter().map(|reader| reader.lanes.len()).collect()
}

/// Just before and exactly at the end of a lease that began now.
pub(super) fn lease_end(now: Timestamp) -> (Timestamp, Timestamp) {
    let end = now.saturating_add(LEASE);
    (end.saturating_sub(std::time::Duration::from_micros(1)), end)
}
