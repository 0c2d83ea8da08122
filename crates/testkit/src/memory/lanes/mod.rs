//! Leasing lanes in memory: the model that the databases are compared with.

mod attend;
mod backlog;
mod open;
mod read;
mod settle;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::late::{Ask, LateCursor, Reading};
use pillarbox_core::port::shared::{fetch_lanes, passed_lanes, read_lanes};
use pillarbox_core::port::{
    AttendRequest, Attendance, FetchRequest, Fetched, HandOverRequest, Head, HeadKind, HeadsRequest,
    IsolateRequest, LANES, LaneRead, LaneSettleRequest, Lanes, Passed, PassedRequest, Purging, ReadRequest,
    ReapRequest, Reaped, SessionId, Settled,
};
use pillarbox_core::{
    Entry, Failure, FailureKind, Fence, NO_LANE, Result, RouteName, Status, Timestamp, lane_of,
};

use super::mutant::Mutant;
use super::reap::begins_late;
use super::state::State;
use super::store::MemoryStore;

/// Which session reads which lane of one route.
#[derive(Debug)]
pub(crate) struct LaneTable {
    sessions: BTreeMap<SessionId, Session>,
    lanes: Vec<Lane>,
    joined: u64,
}

/// A relay that is taken for alive.
#[derive(Clone, Debug)]
struct Session {
    /// Its place in the order of joining.
    rank: u64,
    /// The relay's name, for people.
    owner: String,
    /// The time of its last heartbeat.
    leased_at: Timestamp,
    lease_until: Timestamp,
    /// How many sessions can share the route, as it says.
    shares: u8,
    /// The highest seq that it has read.
    handed: i64,
    /// If set, nothing else is in flight.
    only: Option<BTreeSet<i64>>,
}

impl Session {
    /// Whether it may have handed this entry out.
    fn may_have(&self, seq: i64) -> bool {
        self.only.as_ref().map_or(seq <= self.handed, |only| only.contains(&seq))
    }

    /// Its lease has ended, or begins later than it is long because the clock was set back since.
    fn is_over(&self, now: Timestamp) -> bool {
        self.lease_until <= now || begins_late(self.leased_at, self.lease_until, now)
    }
}

#[derive(Clone, Debug)]
struct Lane {
    session: Option<SessionId>,
    fence: Fence,
    revision: i64,
}

impl Default for LaneTable {
    fn default() -> Self {
        let free = Lane { session: None, fence: Fence::NONE, revision: 0 };
        Self { sessions: BTreeMap::new(), lanes: vec![free; usize::from(LANES)], joined: 0 }
    }
}

impl LaneTable {
    /// The lanes that a session holds, by number.
    fn of(&self, session: SessionId) -> BTreeSet<u8> {
        (0..LANES).filter(|lane| self.lane(*lane).is_some_and(|lane| lane.session == Some(session))).collect()
    }

    fn lane(&self, lane: u8) -> Option<&Lane> {
        self.lanes.get(usize::from(lane))
    }

    /// Frees these lanes if the session holds them. Their fence stays until the next owner.
    fn free(&mut self, session: SessionId, lanes: &BTreeSet<u8>) {
        for lane in lanes {
            let lane = self.lanes.get_mut(usize::from(*lane));
            if let Some(lane) = lane.filter(|lane| lane.session == Some(session)) {
                lane.session = None;
            }
        }
    }

    /// The session that holds this lane.
    fn holder(&self, lane: u8) -> Option<&Session> {
        self.sessions.get(&self.lane(lane)?.session?)
    }

    fn hand_over(&mut self, request: &HandOverRequest) {
        let session = request.session;
        match &request.lanes {
            Some(lanes) => self.free(session, &lanes.iter().copied().collect()),
            None => {
                self.free(session, &self.of(session));
                self.sessions.remove(&session);
            }
        }
    }
}

/// The lane of a stored entry.
fn lane_of_entry(entry: &Entry) -> u8 {
    if entry.is_step() {
        return NO_LANE;
    }
    lane_of(entry.key.as_deref(), entry.event_id)
}

/// What lanes read: a row that was claimed as a row is not theirs until it is reaped.
fn is_unsettled(entry: &Entry) -> bool {
    matches!(entry.status, Status::Pending | Status::Retrying)
}

fn lease_expired() -> Failure {
    Failure::new(
        FailureKind::LeaseExpired,
        "lease_expired",
        "its lease ended before a relay recorded an outcome",
    )
}

fn is_due(entry: &Entry, now: Timestamp) -> bool {
    entry.due_at.is_none_or(|due| due <= now)
}

impl State {
    /// Whether a lane has handed this entry out and it is not settled: nothing of that is stored in the entry. What
    /// waits for its time is in nobody's hands.
    pub(crate) fn is_handed_out(&self, entry: &Entry, now: Timestamp) -> bool {
        let holder = self.lanes.get(&entry.route).and_then(|table| table.holder(lane_of_entry(entry)));
        is_unsettled(entry) && is_due(entry, now) && holder.is_some_and(|holder| holder.may_have(entry.seq))
    }

    /// Whether a session reads the route by lanes.
    pub(crate) fn is_read_by_lanes(&self, route: &RouteName) -> bool {
        self.lanes.get(route).is_some_and(|table| !table.sessions.is_empty())
    }

    /// Whether a relay holds the lane of this entry: it may have read it.
    pub(crate) fn is_lane_held(&self, entry: &Entry) -> bool {
        let table = self.lanes.get(&entry.route);
        table.is_some_and(|table| table.holder(lane_of_entry(entry)).is_some())
    }

    /// Tells the readers of a lane that an operator has changed one of its entries.
    pub(crate) fn revise(&mut self, seq: i64) {
        let Some(row) = self.rows.get(&seq) else { return };
        let lane = usize::from(lane_of_entry(&row.entry));
        let table = self.lanes.entry(row.entry.route.clone()).or_default();
        if let Some(lane) = table.lanes.get_mut(lane) {
            lane.revision += 1;
        }
    }

    fn hand_over(&mut self, request: &HandOverRequest) {
        if self.is(Mutant::LeavingIsCounted) {
            let now = Timestamp::MAX;
            for entry in self.in_flight_of(&request.route, request.session, now, true) {
                self.spend_unknown(entry.seq, lease_expired(), now);
            }
        }
        if let Some(table) = self.lanes.get_mut(&request.route) {
            table.hand_over(request);
        }
    }

    fn heads(&self, request: &HeadsRequest) -> Vec<Head> {
        let kind = |entry: &Entry| match entry.status {
            Status::Dead => Some(HeadKind::Dead),
            Status::InFlight if !self.is(Mutant::LeasedHeadsAreNotTold) => Some(HeadKind::Leased),
            _ => None,
        };
        let entries = self.rows.values().map(|row| &row.entry);
        let asked = entries
            .filter(|entry| entry.route == request.route && request.lanes.contains(&lane_of_entry(entry)));
        asked
            .filter_map(|entry| {
                let (kind, key) = (kind(entry)?, entry.key.clone()?);
                Some(Head { seq: entry.seq, key, lane: lane_of_entry(entry), kind })
            })
            .collect()
    }

    fn isolate(&mut self, request: IsolateRequest) -> bool {
        let table = self.lanes.get_mut(&request.route);
        let session = table.and_then(|table| table.sessions.get_mut(&request.session));
        let known = session.is_some();
        if let Some(session) = session {
            session.only = request.only.map(|only| only.into_iter().collect());
        }
        known
    }
}

#[async_trait]
impl Lanes for MemoryStore {
    async fn attend(&self, request: AttendRequest) -> Result<Attendance> {
        request.check()?;
        let now = self.shared.now(request.now);
        self.shared.lock().attend(&request, now)
    }

    async fn read(&self, request: ReadRequest) -> Result<LaneRead> {
        request.check()?;
        if let Some(looks) = self.looks() {
            return read_lanes(&looks, request).await;
        }
        let mut reading = Reading::begin(&request.cursor, &request.lanes, self.shared.began.elapsed());
        let tell = |ask: &Ask| {
            let now = self.shared.now(None);
            self.shared.lock().tell(&request.route, request.session, ask, now)
        };
        let told = tell(reading.ask());
        // Others go on between two questions, as they do on a server.
        tokio::task::yield_now().await;
        let looked = reading.missed(&told).map(|ask| tell(&ask));
        Ok(reading.end(told, looked))
    }

    async fn passed(&self, request: PassedRequest) -> Result<Passed> {
        request.check()?;
        if let Some(looks) = self.looks() {
            return passed_lanes(&looks, request).await;
        }
        let ask = LateCursor::passed(&request.cursor, &request.lanes);
        let now = self.shared.now(None);
        Ok(self.shared.lock().tell(&request.route, request.session, &ask, now).into_passed())
    }

    async fn fetch(&self, request: FetchRequest) -> Result<Fetched> {
        if let Some(looks) = self.looks() {
            return fetch_lanes(&looks, request).await;
        }
        let now = self.shared.now(None);
        Ok(self.shared.lock().fetch(&request, now))
    }

    async fn heads(&self, request: HeadsRequest) -> Result<Vec<Head>> {
        Ok(self.shared.lock().heads(&request))
    }

    async fn isolate(&self, request: IsolateRequest) -> Result<bool> {
        Ok(self.shared.lock().isolate(request))
    }

    async fn reap_rows(&self, request: ReapRequest) -> Result<Reaped> {
        request.check()?;
        let now = self.shared.now(request.now);
        self.shared.lock().reap_rows(&request, now)
    }

    async fn settle(&self, request: LaneSettleRequest) -> Result<Settled> {
        let now = self.shared.now(request.now);
        self.shared.lock().settle_lanes(request, now)
    }

    async fn open_sagas(&self, route: &RouteName) -> Result<u64> {
        Ok(self.shared.lock().open_sagas(route))
    }

    async fn hand_over(&self, request: HandOverRequest) -> Result<()> {
        self.shared.lock().hand_over(&request);
        Ok(())
    }

    fn purging(&self) -> Option<Purging> {
        Some(Purging { admin: Arc::new(self.clone()), sagas: Some(Arc::new(self.clone())) })
    }
}
