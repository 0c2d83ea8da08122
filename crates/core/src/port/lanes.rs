//! The relay's side of the outbox, by lanes: nothing is written per entry before it is settled.

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

/// How many lanes every route has. A key belongs to one of them for ever.
pub const LANES: u8 = 64;

/// The outbox as a relay sees it, by lanes.
///
/// A session leases lanes and is their only reader while it holds them. Every operation is one atomic step of the
/// database. An operation of a session that was taken for dead changes nothing and says so.
///
/// A route may have been read by rows before: what those relays have in flight stands before what is behind it.
#[async_trait]
pub trait Lanes: Send + Sync {
    /// Joins or renews a session, takes its share of free lanes, and buries sessions whose lease has ended: what
    /// these may have had in flight has spent one attempt.
    async fn attend(&self, request: AttendRequest) -> Result<Attendance>;

    /// Reads the next entries of held lanes and notes how far was read. Only unsettled entries are read, also those
    /// that are not due yet. The reader passes the answer's cursor with its next request, once it has taken the answer
    /// over; with the old one, it is read the same again.
    async fn read(&self, request: ReadRequest) -> Result<LaneRead>;

    /// The unsettled entries of held lanes that a cursor has passed.
    async fn passed(&self, request: PassedRequest) -> Result<Passed>;

    /// Reads unsettled entries of held lanes by their seq, in that order, and notes how far that was. What is settled or
    /// gone is left out.
    async fn fetch(&self, request: FetchRequest) -> Result<Fetched>;

    /// Entries with a key in these lanes that are not read and that an ordered route may have to wait for: the dead, and
    /// what a relay by rows has in flight.
    async fn heads(&self, request: HeadsRequest) -> Result<Vec<Head>>;

    /// Notes which entries a session has in flight at most, so that nothing else is taken for a suspect if it dies.
    /// `false`: the session was taken for dead.
    async fn isolate(&self, request: IsolateRequest) -> Result<bool>;

    /// Records what came of entries, the whole batch at once. The attempt is spent here. Safe to send again: what is
    /// settled or gone, or is to be retried and this is not its next attempt, is reported as fenced and not changed.
    async fn settle(&self, request: LaneSettleRequest) -> Result<Settled>;

    /// Returns what relays by rows had in flight and left, and buries what has no attempts left.
    async fn reap_rows(&self, request: ReapRequest) -> Result<Reaped>;

    /// How many sagas of a route have not ended, up to [`OPEN_SAGAS_MAX`](crate::limits::OPEN_SAGAS_MAX). Their steps are
    /// in no lane: a relay by lanes says that it leaves them alone. Default: none, as in a store that keeps no sagas.
    async fn open_sagas(&self, _route: &RouteName) -> Result<u64> {
        Ok(0)
    }

    /// Gives lanes up, with nothing of them in flight: no attempt is spent. Without lanes: all, and the session ends.
    async fn hand_over(&self, request: HandOverRequest) -> Result<()>;

    /// What retention of a relay on this store purges. Default: nothing, and the table grows until somebody purges it.
    fn purging(&self) -> Option<Purging> {
        None
    }
}

/// Whoever shares one passes it on as it is.
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

/// One run of a relay on one route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub Uuid);

impl SessionId {
    /// A name out of 128 random bits.
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

/// A sign of life.
#[derive(Clone, Debug)]
pub struct AttendRequest {
    /// Of which route.
    pub route: RouteName,
    /// Who, for the database.
    pub session: SessionId,
    /// Whether it is the session's first sign: its row is made then, and must be there otherwise.
    pub joins: bool,
    /// Who, for people.
    pub owner: String,
    /// How long it is taken for alive from now on.
    pub lease: Duration,
    /// How many sessions can share the route at once, 1 to [`LANES`]. Where sessions differ the lowest counts for all:
    /// if each went by its own, one would leave lanes to another that does not take them.
    pub shares: u8,
    /// Attempts allowed where the entry does not say, for what a dead session had in flight.
    pub max_attempts: u32,
    /// Whether the route skips dead entries: then what is behind one of its key may have been in flight as well.
    pub skips_dead: bool,
    /// The time to act at; `None`: the database's clock.
    pub now: Option<Timestamp>,
}

impl AttendRequest {
    /// Refuses what no store can mean.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a lease, share or number of attempts out of range.
    pub fn check(&self) -> Result<()> {
        check_name("owner", &self.owner)?;
        check_lease(self.lease)?;
        check_attempts(self.max_attempts)?;
        if self.shares == 0 || self.shares > LANES {
            return Err(Error::invalid(format!("shares must be 1 to {LANES}")));
        }
        Ok(())
    }
}

/// What a sign of life brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Attendance {
    /// Whether the session was taken for dead: it holds nothing any more, and a new one must join.
    pub lost: bool,
    /// All lanes that the session holds, by number.
    pub lanes: Vec<LaneHeld>,
    /// Of these, the ones beyond its share: to be handed over once nothing of them is in flight.
    pub surplus: Vec<u8>,
    /// Sessions that were buried.
    pub buried: u32,
    /// Entries of buried sessions that have spent their last attempt; audited in the same step.
    pub deaths: Vec<Death>,
}

/// A lane that a session holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneHeld {
    /// Which lane, below [`LANES`].
    pub lane: u8,
    /// The growing number of its owners.
    pub fence: Fence,
}

/// Where a reader stands in its lanes, in the words of the store that it reads from. A new one stands at the beginning.
///
/// How a store knows what came late is its own affair, and so is what it keeps in here. A reader only passes it back.
#[derive(Clone, Default)]
pub struct LaneCursor(Option<Arc<dyn Any + Send + Sync>>);

impl LaneCursor {
    /// What a store wants to know with the next read.
    pub fn new<T: Any + Send + Sync>(kept: T) -> Self {
        Self(Some(Arc::new(kept)))
    }

    /// What a store kept; `None` at the beginning, and for the cursor of another store.
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

/// A lane that a reader has, and how much it wants of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneWish {
    /// Which lane.
    pub lane: u8,
    /// The reader's number of this run through the lane. A run that the cursor does not know begins at the beginning.
    pub run: u64,
    /// At most so many new entries. Zero: the lane is not read this time.
    pub limit: u32,
}

/// A wish for the next entries.
#[derive(Clone, Debug)]
pub struct ReadRequest {
    /// Of which route.
    pub route: RouteName,
    /// Whose lanes.
    pub session: SessionId,
    /// All lanes that the reader has. Those that the session does not hold give nothing.
    pub lanes: Vec<LaneWish>,
    /// From where.
    pub cursor: LaneCursor,
}

impl ReadRequest {
    /// Refuses what no store can mean.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a lane or limit out of range.
    pub fn check(&self) -> Result<()> {
        check_lanes(&self.lanes)?;
        check_batch(self.lanes.iter().fold(0, |sum, wish| wish.limit.saturating_add(sum)))
    }
}

/// What was read.
#[derive(Clone, Debug)]
#[must_use]
pub struct LaneRead {
    /// Whether the session was taken for dead: nothing was read then.
    pub lost: bool,
    /// The next entries, with [`Entry::lane`] set, in order of seq within each lane. Their state is as stored: nothing
    /// was claimed.
    pub entries: Vec<Entry>,
    /// The next rows that cannot be read as entries; the caller settles them as dead.
    pub undecodable: Vec<LaneRow>,
    /// The seqs of unsettled entries that the cursor had passed before this read. Whatever became visible there since
    /// the reader looked last is among them, unless the lane's revision tells. The reader fetches those that it does not
    /// know before it hands out anything of this read.
    pub behind: Vec<i64>,
    /// What is known of the lanes that were read.
    pub lanes: Vec<LaneSeen>,
    /// Where to read on.
    pub cursor: LaneCursor,
    /// The store's time.
    pub now: Timestamp,
}

/// What a read says about a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LaneSeen {
    /// Which lane.
    pub lane: u8,
    /// How often operators have changed it.
    pub revision: i64,
    /// Up to which seq it was read.
    pub read_to: i64,
}

impl LaneRead {
    /// Nothing read.
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

    /// Nothing read, because the session was taken for dead.
    pub fn lost(now: Timestamp) -> Self {
        Self { lost: true, ..Self::nothing(now) }
    }
}

/// A question about what a cursor has passed.
#[derive(Clone, Debug)]
pub struct PassedRequest {
    /// Of which route.
    pub route: RouteName,
    /// Whose lanes.
    pub session: SessionId,
    /// Which lanes; their limits say nothing.
    pub lanes: Vec<LaneWish>,
    /// Which cursor.
    pub cursor: LaneCursor,
}

impl PassedRequest {
    /// Refuses what no store can mean.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a lane out of range.
    pub fn check(&self) -> Result<()> {
        check_lanes(&self.lanes)
    }
}

/// What a cursor has passed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Passed {
    /// Whether the session was taken for dead.
    pub lost: bool,
    /// The seqs of all unsettled entries up to the cursor.
    pub seqs: Vec<i64>,
    /// Each lane with how often operators had changed it, at the moment of which `seqs` is.
    pub revisions: Vec<(u8, i64)>,
}

fn check_lanes(lanes: &[LaneWish]) -> Result<()> {
    match lanes.iter().find(|wish| wish.lane >= LANES) {
        Some(wish) => Err(Error::invalid(format!("lane {}; there are {LANES}", wish.lane))),
        None => Ok(()),
    }
}

/// A row of a lane that cannot be read as an entry.
#[derive(Clone, Debug)]
pub struct LaneRow {
    /// Which lane.
    pub lane: u8,
    /// The row; its fence is the lane's.
    pub row: Undecodable,
}

/// A wish for entries by seq.
#[derive(Clone, Debug)]
pub struct FetchRequest {
    /// Of which route.
    pub route: RouteName,
    /// Whose lanes.
    pub session: SessionId,
    /// Which entries.
    pub seqs: Vec<i64>,
}

/// What was fetched.
#[derive(Clone, Debug)]
#[must_use]
pub struct Fetched {
    /// Whether the session was taken for dead: nothing was fetched then.
    pub lost: bool,
    /// Unsettled entries, with [`Entry::lane`] set, in order of seq.
    pub entries: Vec<Entry>,
    /// Rows that cannot be read as entries.
    pub undecodable: Vec<LaneRow>,
    /// The store's time.
    pub now: Timestamp,
}

impl Fetched {
    /// Nothing fetched.
    pub const fn nothing(now: Timestamp) -> Self {
        Self { lost: false, entries: Vec::new(), undecodable: Vec::new(), now }
    }
}

/// A wish to know what stands before other entries of its key.
#[derive(Clone, Debug)]
pub struct HeadsRequest {
    /// Of which route.
    pub route: RouteName,
    /// In which lanes.
    pub lanes: Vec<u8>,
}

/// An entry with a key that is not read by lanes and may hold back what is behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its place.
    pub seq: i64,
    /// What it may hold back.
    pub key: String,
    /// Its lane.
    pub lane: u8,
    /// Why.
    pub kind: HeadKind,
}

/// Why an entry holds back what is behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadKind {
    /// It is dead, and nobody has requeued or discarded it.
    Dead,
    /// A relay by rows has it in flight, or had it until it died.
    Leased,
}

/// A wish to say what is in flight.
#[derive(Clone, Debug)]
pub struct IsolateRequest {
    /// Of which route.
    pub route: RouteName,
    /// Whose.
    pub session: SessionId,
    /// Only these; `None`: whatever was read.
    pub only: Option<Vec<i64>>,
}

/// The verdict on one entry of a lane.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneSettlement {
    /// The row, and the fence of its lane.
    pub held: Held,
    /// The lane that handed it out, which is the one whose fence is checked.
    pub lane: u8,
    /// As the entry says.
    pub hint: RowHint,
    /// The attempts that the entry has with this one; less than it has if the row cannot be read, and then not written.
    pub attempts: u32,
    /// What to record. A release changes nothing and is accepted: nothing was written when it was handed out.
    pub verdict: Verdict,
}

/// A batch of verdicts. They are independent: one fenced entry does not disturb the others.
#[derive(Clone, Debug)]
pub struct LaneSettleRequest {
    /// Of which route.
    pub route: RouteName,
    /// Whose lanes. All is fenced if the session was taken for dead.
    pub session: SessionId,
    /// Who settles, for the audit trail.
    pub owner: String,
    /// What to record.
    pub settlements: Vec<LaneSettlement>,
    /// What happens to delivered entries.
    pub keep: Keep,
    /// The time to act at; `None`: the database's clock.
    pub now: Option<Timestamp>,
}

/// A wish to give lanes up.
#[derive(Clone, Debug)]
pub struct HandOverRequest {
    /// Of which route.
    pub route: RouteName,
    /// Whose.
    pub session: SessionId,
    /// Which; `None`: all, and the session ends.
    pub lanes: Option<Vec<u8>>,
}
