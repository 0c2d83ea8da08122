//! What happened in a world, in order: the only thing that the checks believe.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pillarbox_core::port::Verdict;
use pillarbox_core::{Direction, Entry, EventId, FailureKind, Outcome, SagaId, Status};
use serde::Serialize;

use super::fault::Fault;

/// One thing that happened.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Record {
    /// Milliseconds since the world began, by the clock that never jumps.
    pub(crate) at: u64,
    /// Milliseconds since the world began, by the database's clock.
    pub(crate) db: i64,
    /// Who did it, or to whom it happened.
    #[serde(serialize_with = "as_text")]
    pub(crate) who: Arc<str>,
    /// What it was.
    #[serde(flatten)]
    pub(crate) what: Happened,
}

fn as_text<S: serde::Serializer>(who: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(who)
}

/// The kinds of things that happen. Effects on the store are recorded when they take effect, whether or not
/// anybody learns of it.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub(crate) enum Happened {
    /// A transaction committed these events; the duplicates staged nothing.
    Committed { fresh: Vec<EventId>, duplicates: Vec<EventId> },
    /// An entry of a route by lanes is there, after the record of its commit.
    Entered {
        seq: i64,
        id: EventId,
        key: Option<String>,
        lane: u8,
        /// How much had happened when it was staged.
        staged: usize,
        /// What its transaction is told from others by.
        transaction: usize,
        max_attempts: u32,
        /// When it becomes due, by the database's clock.
        due_micros: Option<i64>,
    },
    /// A relay sent a heartbeat and got these lanes, with their fences.
    Attended {
        session: String,
        now_micros: i64,
        until_micros: i64,
        lost: bool,
        buried: u32,
        lanes: Vec<(u8, i64)>,
    },
    /// The burial of a session has cost this entry an attempt.
    TakenOver { seq: i64, attempts: u32, to: Status },
    /// A verdict on an entry of a lane was recorded, or not.
    LaneSettled {
        seq: i64,
        session: String,
        fence: i64,
        attempts: u32,
        due_micros: Option<i64>,
        verdict: Settling,
        accepted: bool,
    },
    /// Somebody who reaps by rows has buried the sessions that were over by then; so many are left.
    SessionsReaped { now_micros: i64, left: u32 },
    /// A relay has said that nothing else is in flight; `None`: that anything that it has read may be.
    Isolated {
        session: String,
        only: Option<Vec<i64>>,
        /// How many times the relay had said so before it sent this.
        sent: u64,
    },
    /// A relay gave lanes up; `None`: all, and its session.
    HandedOver { session: String, lanes: Option<Vec<u8>> },
    /// A saga was committed.
    SagaStaged { id: SagaId },
    /// A handler began a step or a compensation.
    StepBegan { saga: SagaId, step: u32, direction: Direction },
    /// It had its effect.
    StepDone { saga: SagaId, step: u32, direction: Direction },
    /// The handler said what came of it.
    StepAnswered { saga: SagaId, step: u32, direction: Direction },
    /// A transaction with these events was rolled back.
    RolledBack { ids: Vec<EventId> },
    /// An entry was claimed.
    Granted {
        seq: i64,
        id: EventId,
        fence: i64,
        /// The end of the lease, in milliseconds by the database's clock.
        until: i64,
        attempts: u32,
        max_attempts: u32,
    },
    /// The relay got the answer to its claim.
    Told { seq: i64, fence: i64 },
    /// A lease was prolonged, or not, because the fence was stale.
    Extended { seq: i64, fence: i64, until: i64, accepted: bool },
    /// The relay sent a verdict; whether it takes effect is open.
    SettleSent { seq: i64, fence: i64 },
    /// A verdict was recorded, or not, because the fence was stale.
    Settled { seq: i64, fence: i64, due_micros: Option<i64>, verdict: Settling, accepted: bool },
    /// A reap took the entry out of flight.
    Reaped { seq: i64, to: Option<Status> },
    /// An operator put a dead entry back.
    Requeued { seq: i64 },
    /// An operator gave a dead entry up.
    Discarded { seq: i64 },
    /// Retention deleted it.
    Purged { seq: i64 },
    /// A sink was handed the entry.
    Handed { seq: i64, id: EventId, fence: i64, attempts: u32 },
    /// The destination has it.
    Delivered { seq: i64, id: EventId, lane: Option<u8>, fence: i64, intact: bool },
    /// A sink reported an outcome to the relay.
    Reported { seq: i64, fence: i64, outcome: Answer },
    /// The death hook was told.
    DeathTold { id: EventId },
    /// A fault struck.
    Struck { fault: Fault },
    /// The database's clock was moved.
    ClockJumped { millis: i64 },
    /// A relay began to run, by rows or by lanes.
    Started { by_lanes: bool },
    /// A relay was killed: its future was dropped.
    Crashed,
    /// A relay stood still.
    Frozen { millis: u64 },
    /// A relay was asked to stop.
    Stopping,
    /// A relay returned.
    Stopped { error: Option<String>, delivered: u64 },
    /// Faults are over.
    Healed,
    /// Nothing is left to deliver, or the time for that is up.
    Quiet { undrained: u64 },
    /// All rows of the store, as they were at one moment.
    Sampled { rows: Vec<Row> },
    /// Something that must not happen was seen on the spot.
    Broken { invariant: &'static str, detail: String },
}

/// A row of the store, as far as the checks compare it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Row {
    /// Which row.
    pub(crate) seq: i64,
    /// Which event.
    pub(crate) id: EventId,
    /// Where it is in its life.
    pub(crate) status: Status,
    /// Claims that were not given back.
    pub(crate) attempts: u32,
    /// The last claim's number.
    pub(crate) fence: i64,
}

impl From<&Entry> for Row {
    fn from(entry: &Entry) -> Self {
        Self {
            seq: entry.seq,
            id: entry.event_id,
            status: entry.status,
            attempts: entry.attempts,
            fence: entry.fence.0,
        }
    }
}

/// A verdict, as far as the checks look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Settling {
    /// Delivered.
    Delivered,
    /// Due again later.
    Retry,
    /// Given up, and why.
    Dead(FailureKind),
    /// Given back.
    Release,
}

impl From<&Verdict> for Settling {
    fn from(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Delivered => Self::Delivered,
            Verdict::Retry { .. } => Self::Retry,
            Verdict::Dead { failure, .. } => Self::Dead(failure.kind),
            Verdict::Release { .. } | Verdict::Park { .. } => Self::Release,
        }
    }
}

/// An outcome, as far as the checks look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// Confirmed.
    Confirmed,
    /// Refused for good.
    Rejected,
    /// Failed, may work later.
    Failed,
    /// The destination is down.
    Down,
    /// The confirmation was lost.
    Unknown,
    /// An entry of the same key before it was not delivered.
    Untried,
}

impl From<&Outcome> for Answer {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Confirmed | Outcome::ConfirmedWith(_) => Self::Confirmed,
            Outcome::Rejected(_) => Self::Rejected,
            Outcome::Failed { .. } | Outcome::Parked { .. } => Self::Failed,
            Outcome::Down(_) | Outcome::Busy { .. } => Self::Down,
            Outcome::Untried => Self::Untried,
            Outcome::Unknown(_) => Self::Unknown,
            _ => unreachable!("the simulator's sinks report no other outcome"),
        }
    }
}

/// The record of a world. Clones write to the same one.
#[derive(Clone, Debug, Default)]
pub struct History(Arc<Mutex<Vec<Record>>>);

impl History {
    /// Adds what just happened.
    pub(crate) fn push(&self, record: Record) {
        self.lock().push(record);
    }

    /// How much has happened so far.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Everything so far.
    pub(crate) fn records(&self) -> Vec<Record> {
        self.lock().clone()
    }

    /// One JSON object a line. The same seed gives the same bytes.
    #[must_use]
    pub fn to_jsonl(&self) -> String {
        let mut text = String::new();
        for record in self.lock().iter() {
            // A record is made of strings and numbers: it can always be written.
            text.push_str(&serde_json::to_string(record).unwrap_or_default());
            text.push('\n');
        }
        text
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Record>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
