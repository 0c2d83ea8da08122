//! Leasing lanes in memory: the model that the databases are compared with.

mod attend;
mod read;
mod settle;

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use pillarbox_core::port::{
    AttendRequest, Attendance, DeadHead, DeadRequest, FetchRequest, Fetched, HandOverRequest, LANES,
    LaneRead, LaneSettleRequest, Lanes, ReadRequest, SessionId, Settled,
};
use pillarbox_core::{
    Entry, Failure, FailureKind, Fence, NO_LANE, Result, RouteName, Status, Timestamp, lane_of,
};

use super::mutant::Mutant;
use super::state::State;
use super::store::MemoryStore;

/// Who reads which lane of one route.
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
    lease_until: Timestamp,
    /// How many sessions can share the route, as it says.
    shares: u8,
    /// The highest seq that it has read.
    handed: i64,
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

    /// How far whoever holds this lane has read.
    fn handed(&self, lane: u8) -> Option<i64> {
        let session = self.lane(lane)?.session?;
        self.sessions.get(&session).map(|session| session.handed)
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
    Failure::new(FailureKind::LeaseExpired, "lease_expired", "nobody settled it before its lease ended")
}

fn is_due(entry: &Entry, now: Timestamp) -> bool {
    entry.due_at.is_none_or(|due| due <= now)
}

impl State {
    /// Whether a lane has handed this entry out and it is not settled: nothing of that is stored in the entry. What
    /// waits for its time is in nobody's hands.
    pub(crate) fn is_handed_out(&self, entry: &Entry, now: Timestamp) -> bool {
        let handed = self.lanes.get(&entry.route).and_then(|table| table.handed(lane_of_entry(entry)));
        is_unsettled(entry) && is_due(entry, now) && handed.is_some_and(|handed| entry.seq <= handed)
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

    fn dead_heads(&self, request: &DeadRequest) -> Vec<DeadHead> {
        let dead = self.rows.values().map(|row| &row.entry).filter(|entry| {
            entry.status == Status::Dead
                && entry.route == request.route
                && request.lanes.contains(&lane_of_entry(entry))
        });
        dead.filter_map(|entry| {
            let key = entry.key.clone()?;
            Some(DeadHead { seq: entry.seq, key, lane: lane_of_entry(entry) })
        })
        .collect()
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
        let now = self.shared.now(None);
        Ok(self.shared.lock().read_lanes(&request, now))
    }

    async fn fetch(&self, request: FetchRequest) -> Result<Fetched> {
        let now = self.shared.now(None);
        Ok(self.shared.lock().fetch(&request, now))
    }

    async fn dead(&self, request: DeadRequest) -> Result<Vec<DeadHead>> {
        Ok(self.shared.lock().dead_heads(&request))
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
}
