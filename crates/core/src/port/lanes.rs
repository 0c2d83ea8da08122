//! The relay's side of the outbox, by lanes. No row of an entry is written before the entry is settled.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use crate::entry::{Entry, Fence, Held, RowHint};
use crate::error::{Error, Result};
use crate::name::{RouteName, check_name};
use crate::time::Timestamp;

use super::Purging;
use super::store::{
    Death, Keep, ReapRequest, Reaped, Settled, Undecodable, Verdict, check_attempts, check_batch, check_lease,
};

/// The number of lanes that every route has. A key belongs to the same lane for ever.
pub const LANES: u8 = 64;

/// The outbox as a relay sees it, by lanes.
///
/// A session leases lanes and is their only reader while it holds them. Every operation is one atomic step of the
/// database. If a session has been declared dead, its operations change nothing and report that.
///
/// A route may have been read by rows before. Entries that those relays have in flight still go before the entries
/// behind them.
#[async_trait]
pub trait Lanes: Send + Sync {
    /// Joins or renews a session and takes its share of free lanes. It also buries sessions whose lease has ended.
    /// Every entry that a buried session may have had in flight has spent one attempt.
    async fn attend(&self, request: AttendRequest) -> Result<Attendance>;

    /// Reads the next entries of held lanes and records how far it has read. It reads only unsettled entries,
    /// including those that are not due yet.
    ///
    /// When the reader has processed the answer, it passes the answer's cursor with its next request. With the old
    /// cursor, the same entries are read again.
    async fn read(&self, request: ReadRequest) -> Result<LaneRead>;

    /// The unsettled entries of held lanes that a cursor has passed.
    async fn passed(&self, request: PassedRequest) -> Result<Passed>;

    /// Reads unsettled entries of held lanes by their sequence numbers, in that order, and records how far it has
    /// read. Entries that are settled or gone are left out.
    async fn fetch(&self, request: FetchRequest) -> Result<Fetched>;

    /// Entries with a key in these lanes that are not read by lanes, but that an ordered route may have to wait
    /// for. These are dead entries, and entries that a relay by rows has in flight.
    async fn heads(&self, request: HeadsRequest) -> Result<Vec<Head>>;

    /// Records the only entries that a session may have in flight. If the session dies, no other entry becomes a
    /// suspect. `false`: the session had been declared dead.
    async fn isolate(&self, request: IsolateRequest) -> Result<bool>;

    /// Records the outcomes of a batch of entries in one step. The attempt is spent here.
    ///
    /// The same request may be sent again. An entry that is settled or gone is reported as fenced and not changed.
    /// The same holds for an entry that waits for a retry, if this was not its next attempt.
    async fn settle(&self, request: LaneSettleRequest) -> Result<Settled>;

    /// Returns the entries of expired leases of relays by rows, and buries entries that have no attempts left.
    async fn reap_rows(&self, request: ReapRequest) -> Result<Reaped>;

    /// How many sagas of a route have not ended, up to [`OPEN_SAGAS_MAX`](crate::limits::OPEN_SAGAS_MAX). Their
    /// steps are in no lane, so a relay by lanes warns that it does not run them. Default: none, as in a store that
    /// keeps no sagas.
    async fn open_sagas(&self, _route: &RouteName) -> Result<u64> {
        Ok(0)
    }

    /// Gives up lanes of which nothing is in flight, so no attempt is spent. If the request names no lanes, the
    /// session gives up all of its lanes and ends.
    async fn hand_over(&self, request: HandOverRequest) -> Result<()>;

    /// What the retention of a relay on this store purges. Default: nothing, and the table grows until an operator
    /// purges it.
    fn purging(&self) -> Option<Purging> {
        None
    }
}

/// Forwards every call to the shared value.
#[async_trait]
impl<T: Lanes + ?Sized> Lanes for Arc<T> {
    async fn attend(&self, request: AttendRequest) -> Result<Attendance> {
        (**self).attend(request).await
    }

    async fn read(&self, request: ReadRequest) -> Result<LaneRead> {
        (**self).read(request).await
    }

    async fn passed(&self, request: PassedRequest) -> Result<Passed> {
        (**self).passed(request).await
    }

    async fn fetch(&self, request: FetchRequest) -> Result<Fetched> {
        (**self).fetch(request).await
    }

    async fn heads(&self, request: HeadsRequest) -> Result<Vec<Head>> {
        (**self).heads(request).await
    }

    async fn isolate(&self, request: IsolateRequest) -> Result<bool> {
        (**self).isolate(request).await
    }

    async fn settle(&self, request: LaneSettleRequest) -> Result<Settled> {
        (**self).settle(request).await
    }

    async fn reap_rows(&self, request: ReapRequest) -> Result<Reaped> {
        (**self).reap_rows(request).await
    }

    async fn open_sagas(&self, route: &RouteName) -> Result<u64> {
        (**self).open_sagas(route).await
    }

    async fn hand_over(&self, request: HandOverRequest) -> Result<()> {
        (**self).hand_over(request).await
    }

    fn purging(&self) -> Option<Purging> {
        (**self).purging()
    }
}

/// The identity of a session: one run of a relay on one route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub Uuid);

impl SessionId {
    /// An id made of 128 random bits.
    #[must_use]
    pub const fn of_random(high: u64, low: u64) -> Self {
        Self(Uuid::from_u64_pair(high, low))
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A request to join a route or to renew a session.
#[derive(Clone, Debug)]
pub struct AttendRequest {
    /// The route.
    pub route: RouteName,
    /// The session that joins or renews.
    pub session: SessionId,
    /// Whether the session joins. If so, its row is created. If not, its row must exist.
    pub joins: bool,
    /// The relay's name, for people.
    pub owner: String,
    /// How long the session counts as alive, from now on.
    pub lease: Duration,
    /// How many sessions can share the route at once, 1 to [`LANES`]. If sessions give different numbers, the
    /// lowest one applies to all. Otherwise one session would leave lanes to another session that does not take
    /// them.
    pub shares: u8,
    /// Attempts allowed for an entry that sets no limit itself. It applies to the entries that a dead session had
    /// in flight.
    pub max_attempts: u32,
    /// Whether the route skips dead entries. If it does, the entries behind a dead one of the same key may have
    /// been in flight as well.
    pub skips_dead: bool,
    /// The time of the operation. `None`: the database's clock.
    pub now: Option<Timestamp>,
}

impl AttendRequest {
    /// Refuses a request that no store can carry out.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a lease, share or number of attempts out of range.
    pub fn check(&self) -> Result<()> {
        check_name("owner", &self.owner)?;
        check_lease(self.lease)?;
        check_attempts(self.max_attempts)?;
        if self.shares == 0 || self.shares > LANES {
            return Err(Error::invalid(format!("shares is {}; it must be 1 to {LANES}", self.shares)));
        }
        Ok(())
    }
}

/// The answer to an [`AttendRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Attendance {
    /// Whether the session had been declared dead. If so, it holds nothing any more, and a new session must join.
    pub lost: bool,
    /// All lanes that the session holds, ordered by number.
    pub lanes: Vec<LaneHeld>,
    /// The lanes beyond the session's share. It hands each over once nothing of that lane is in flight.
    pub surplus: Vec<u8>,
    /// How many sessions this call has buried.
    pub buried: u32,
    /// Entries of buried sessions that have spent their last attempt. Their deaths are audited in the same step.
    pub deaths: Vec<Death>,
}

/// A lane that a session holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneHeld {
    /// The lane's number, below [`LANES`].
    pub lane: u8,
    /// The lane's fence. It grows with every new owner.
    pub fence: Fence,
}

/// A reader's position in its lanes, in a form that only the store understands. A new cursor stands at the
/// beginning.
///
/// Each store has its own way to find entries that were committed late, and keeps what it needs for that in here. A
/// reader only passes the cursor back.
#[derive(Clone, Default)]
pub struct LaneCursor(Option<Arc<dyn Any + Send + Sync>>);

impl LaneCursor {
    /// A cursor that holds what the store needs for the next read.
    pub fn new<T: Any + Send + Sync>(kept: T) -> Self {
        Self(Some(Arc::new(kept)))
    }

    /// What the store kept. `None`: the cursor is at the beginning, or belongs to another store.
    #[must_use]
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.as_deref()?.downcast_ref()
    }
}

impl fmt::Debug for LaneCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "LaneCursor(somewhere)" } else { "LaneCursor(beginning)" })
    }
}

/// A lane that a reader has, and how many entries it wants of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneWish {
    /// The lane's number.
    pub lane: u8,
    /// The reader's number of this run through the lane. If the cursor does not know the run, the run starts at the
    /// beginning of the lane.
    pub run: u64,
    /// The most new entries to read. Zero: the lane is not read this time.
    pub limit: u32,
}

/// A request for the next entries of lanes.
#[derive(Clone, Debug)]
pub struct ReadRequest {
    /// The route.
    pub route: RouteName,
    /// The session that holds the lanes.
    pub session: SessionId,
    /// All lanes that the reader has. A lane that the session does not hold yields nothing.
    pub lanes: Vec<LaneWish>,
    /// Where to read on.
    pub cursor: LaneCursor,
}

impl ReadRequest {
    /// Refuses a request that no store can carry out.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a lane or limit out of range.
    pub fn check(&self) -> Result<()> {
        check_lanes(&self.lanes)?;
        check_batch(self.lanes.iter().fold(0, |sum, wish| wish.limit.saturating_add(sum)))
    }
}

/// The answer to a [`ReadRequest`].
#[derive(Clone, Debug)]
#[must_use]
pub struct LaneRead {
    /// Whether the session had been declared dead. If so, nothing was read.
    pub lost: bool,
    /// The next entries, with [`Entry::lane`] set, ordered by sequence number within each lane. Their state is as
    /// stored, because a read claims nothing.
    pub entries: Vec<Entry>,
    /// The next rows that cannot be decoded as entries. The caller settles them as dead.
    pub undecodable: Vec<LaneRow>,
    /// The sequence numbers of unsettled entries that the cursor had passed before this read. They include every
    /// entry that became visible there since the reader's last look, unless a new revision of the lane announces
    /// it.
    ///
    /// The reader first fetches the entries that it does not know. Only then does it hand out entries of this read.
    pub behind: Vec<i64>,
    /// The state of the lanes that were read.
    pub lanes: Vec<LaneSeen>,
    /// Where to read on.
    pub cursor: LaneCursor,
    /// The store's time.
    pub now: Timestamp,
}

/// The state of a lane, as a read saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LaneSeen {
    /// The lane's number.
    pub lane: u8,
    /// The lane's revision: how often operators have changed it.
    pub revision: i64,
    /// The sequence number up to which the lane was read.
    pub read_to: i64,
}

impl LaneRead {
    /// An answer without entries.
    pub fn nothing(now: Timestamp) -> Self {
        Self {
            lost: false,
            entries: Vec::new(),
            undecodable: Vec::new(),
            behind: Vec::new(),
            lanes: Vec::new(),
            cursor: LaneCursor::default(),
            now,
        }
    }

    /// An answer without entries, because the session had been declared dead.
    pub fn lost(now: Timestamp) -> Self {
        Self { lost: true, ..Self::nothing(now) }
    }
}

/// A request for the entries that a cursor has passed.
#[derive(Clone, Debug)]
pub struct PassedRequest {
    /// The route.
    pub route: RouteName,
    /// The session that holds the lanes.
    pub session: SessionId,
    /// The lanes. Their limits are ignored.
    pub lanes: Vec<LaneWish>,
    /// The cursor.
    pub cursor: LaneCursor,
}

impl PassedRequest {
    /// Refuses a request that no store can carry out.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a lane out of range.
    pub fn check(&self) -> Result<()> {
        check_lanes(&self.lanes)
    }
}

/// The answer to a [`PassedRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Passed {
    /// Whether the session had been declared dead.
    pub lost: bool,
    /// The sequence numbers of all unsettled entries up to the cursor.
    pub seqs: Vec<i64>,
    /// Each lane with its revision, taken from the same snapshot as `seqs`.
    pub revisions: Vec<(u8, i64)>,
}

fn check_lanes(lanes: &[LaneWish]) -> Result<()> {
    match lanes.iter().find(|wish| wish.lane >= LANES) {
        Some(wish) => {
            Err(Error::invalid(format!("there is no lane {}; lanes are 0 to {}", wish.lane, LANES - 1)))
        }
        None => Ok(()),
    }
}

/// A row of a lane that cannot be decoded as an entry.
#[derive(Clone, Debug)]
pub struct LaneRow {
    /// The lane's number.
    pub lane: u8,
    /// The row. Its fence is the lane's fence.
    pub row: Undecodable,
}

/// A request for entries by their sequence numbers.
#[derive(Clone, Debug)]
pub struct FetchRequest {
    /// The route.
    pub route: RouteName,
    /// The session that holds the lanes.
    pub session: SessionId,
    /// The sequence numbers of the entries.
    pub seqs: Vec<i64>,
}

/// The answer to a [`FetchRequest`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Fetched {
    /// Whether the session had been declared dead. If so, nothing was fetched.
    pub lost: bool,
    /// Unsettled entries, with [`Entry::lane`] set, ordered by sequence number.
    pub entries: Vec<Entry>,
    /// Rows that cannot be decoded as entries.
    pub undecodable: Vec<LaneRow>,
    /// The store's time.
    pub now: Timestamp,
}

impl Fetched {
    /// An answer without entries.
    pub const fn nothing(now: Timestamp) -> Self {
        Self { lost: false, entries: Vec::new(), undecodable: Vec::new(), now }
    }
}

/// A request for the entries that may hold back others of their key.
#[derive(Clone, Debug)]
pub struct HeadsRequest {
    /// The route.
    pub route: RouteName,
    /// The lanes to look in.
    pub lanes: Vec<u8>,
}

/// An entry with a key that is not read by lanes and may hold back the entries of that key behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The entry's sequence number.
    pub seq: i64,
    /// The key that it may hold back.
    pub key: String,
    /// The entry's lane.
    pub lane: u8,
    /// Why it may hold back its key.
    pub kind: HeadKind,
}

/// Why an entry holds back the entries of its key behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadKind {
    /// It is dead, and no operator has requeued or discarded it.
    Dead,
    /// A relay by rows has it in flight, or had it in flight when that relay died.
    Leased,
}

/// A request to limit which entries a session may have in flight.
#[derive(Clone, Debug)]
pub struct IsolateRequest {
    /// The route.
    pub route: RouteName,
    /// The session.
    pub session: SessionId,
    /// The sequence numbers of the only entries that may be in flight. `None`: every entry that was read, but no
    /// suspect and nothing of its key behind one.
    pub only: Option<Vec<i64>>,
}

/// The verdict on one entry of a lane.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneSettlement {
    /// The row, and the fence of its lane.
    pub held: Held,
    /// The lane that handed the entry out. The store checks the fence of this lane.
    pub lane: u8,
    /// The entry's own [`hint`](Entry::hint).
    pub hint: RowHint,
    /// The entry's attempts, this one included. If the row cannot be decoded, the number is lower than the stored
    /// one, and then it is not written.
    pub attempts: u32,
    /// What to record. A release is accepted and changes nothing, because nothing was written when the entry was
    /// handed out.
    pub verdict: Verdict,
}

/// A batch of verdicts. They are independent of each other: one fenced entry does not affect the others.
#[derive(Clone, Debug)]
pub struct LaneSettleRequest {
    /// The route.
    pub route: RouteName,
    /// The session that holds the lanes. If it had been declared dead, every entry is reported as fenced.
    pub session: SessionId,
    /// The name of the relay that settles, for the audit trail.
    pub owner: String,
    /// What to record.
    pub settlements: Vec<LaneSettlement>,
    /// What happens to delivered entries.
    pub keep: Keep,
    /// The time of the operation. `None`: the database's clock.
    pub now: Option<Timestamp>,
}

/// A request to give up lanes.
#[derive(Clone, Debug)]
pub struct HandOverRequest {
    /// The route.
    pub route: RouteName,
    /// The session.
    pub session: SessionId,
    /// The lanes. `None`: all of them, and the session ends.
    pub lanes: Option<Vec<u8>>,
}
