//! What the store holds, under one lock: rows, reservations of open transactions, audit trail, inbox.

use std::collections::{BTreeMap, BTreeSet};

use pillarbox_core::port::{Origin, Pause, RelaySeen, RunId};
use pillarbox_core::{
    Action, AuditKind, AuditRecord, Entry, Error, ErrorKind, EventId, OnDead, Result, RouteName, SagaColumns,
    SagaId, Timestamp,
};

use super::lanes::LaneTable;
use super::mutant::Mutant;

/// One row of the outbox.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) entry: Entry,
    /// The headers cannot be read any more.
    pub(crate) spoiled: bool,
    /// When its lease was taken, or last prolonged.
    pub(crate) leased_at: Option<Timestamp>,
}

impl Row {
    pub(crate) const fn new(entry: Entry) -> Self {
        Self { entry, spoiled: false, leased_at: None }
    }

    /// Moves the entry by the core's table. What is not in the table is a defect of this store.
    pub(crate) fn step(&mut self, action: Action) {
        let next = self.entry.status.after(action);
        debug_assert!(next.is_some(), "{action:?} is not allowed in {}", self.entry.status);
        self.entry.status = next.unwrap_or(self.entry.status);
    }
}

/// What a unique index keeps apart, also between transactions that are still open.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Staged(RouteName, EventId),
    Accepted(String, EventId),
    Saga(SagaId),
    /// A saga's name and its subject's kind and value: its generations are counted one after the other.
    Subject(String, String, String),
}

/// Number of a transaction.
pub(crate) type TxId = u64;

#[derive(Debug, Default)]
pub(crate) struct State {
    /// Committed rows by `seq`.
    pub(crate) rows: BTreeMap<i64, Row>,
    /// Committed keys.
    pub(crate) taken: BTreeSet<Key>,
    /// Keys of open transactions, and whose they are.
    pub(crate) reserved: BTreeMap<Key, TxId>,
    /// Which transaction waits for which.
    pub(crate) waiting: BTreeMap<TxId, TxId>,
    /// Committed sagas.
    pub(crate) sagas: BTreeMap<SagaId, SagaColumns>,
    pub(crate) audit: Vec<AuditRecord>,
    pub(crate) audit_fails: bool,
    /// When each event of the inbox was accepted.
    pub(crate) accepted_at: BTreeMap<Key, Timestamp>,
    /// The newest owner of each lane that a consumer has seen, and when, by consumer and lane.
    pub(crate) fences: BTreeMap<(String, String), (Origin, Timestamp)>,
    /// Relays that are running.
    pub(crate) relays: BTreeMap<RunId, RelaySeen>,
    /// What dead entries do to their key on each route, as the last relay said; none by rows.
    pub(crate) on_dead: BTreeMap<RouteName, OnDead>,
    /// Routes that an operator has paused.
    pub(crate) paused: BTreeMap<RouteName, Pause>,
    /// Rows that another transaction holds a lock on.
    pub(crate) locked: BTreeSet<i64>,
    /// Which session reads which lane of each route.
    pub(crate) lanes: BTreeMap<RouteName, LaneTable>,
    /// For [`Mutant::PresentLeavesOutLateCommits`]: everything that was read from a lane.
    pub(crate) lanes_read: BTreeSet<i64>,
    /// See [`MemoryStore::with_open_cursor`](super::MemoryStore::with_open_cursor).
    pub(crate) open_cursor: bool,
    pub(crate) mutant: Option<Mutant>,
    /// For [`Mutant::ReadsByLastSeq`].
    pub(crate) highest_claimed: i64,
    pub(crate) last_seq: i64,
    last_tx: TxId,
    ids_made: u64,
    pub(crate) seed: u64,
}

impl State {
    pub(crate) fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// The next place in the order of staging. Taken at staging, as a sequence is: a lower one may commit later.
    pub(crate) fn next_seq(&mut self) -> i64 {
        self.last_seq += 1;
        self.last_seq
    }

    pub(crate) fn next_tx(&mut self) -> TxId {
        self.last_tx += 1;
        self.last_tx
    }

    /// A UUID of version 7 made of the time, a counter and the seed: the same run makes the same ids.
    pub(crate) fn fresh_id(&mut self, now: Timestamp) -> EventId {
        self.ids_made += 1;
        let millis = u64::try_from(now.as_millis()).unwrap_or(0) & 0xffff_ffff_ffff;
        let high = (millis << 16) | 0x7000 | ((self.ids_made >> 32) & 0xfff);
        let low = 0x8000_0000_0000_0000 | ((self.ids_made & 0x3fff_ffff) << 32) | (self.seed & 0xffff_ffff);
        EventId(uuid::Uuid::from_u64_pair(high, low))
    }

    /// Writes what explains a change, before the change.
    pub(crate) fn record(
        &mut self,
        at: Timestamp,
        kind: AuditKind,
        actor: &str,
        entry: Option<(RouteName, EventId)>,
        detail: String,
    ) {
        self.push_audit(at, kind, actor, entry.unzip(), detail);
    }

    /// The same, and the record as it was written.
    pub(crate) fn push_audit(
        &mut self,
        at: Timestamp,
        kind: AuditKind,
        actor: &str,
        (route, event_id): (Option<RouteName>, Option<EventId>),
        detail: String,
    ) -> &mut AuditRecord {
        let seq = i64::try_from(self.audit.len()).unwrap_or(i64::MAX).saturating_add(1);
        let mut record = AuditRecord::new(seq, at, kind, actor);
        (record.route, record.event_id, record.detail) = (route, event_id, detail);
        let place = self.audit.len();
        self.audit.push(record);
        &mut self.audit[place]
    }

    /// Refuses the whole step when it needs an audit record and none can be written.
    pub(crate) fn check_audit(&self, needed: bool) -> Result<()> {
        if needed && self.audit_fails {
            return Err(Error::new(ErrorKind::Internal, "the audit record cannot be written"));
        }
        Ok(())
    }

    /// Takes a row away, and with it its claim on the event id.
    pub(crate) fn remove(&mut self, seq: i64) {
        if let Some(row) = self.rows.remove(&seq) {
            self.taken.remove(&Key::Staged(row.entry.route, row.entry.event_id));
        }
    }

    /// Whether waiting for `other` would close a circle of transactions that wait for each other.
    pub(crate) fn would_deadlock(&self, tx: TxId, other: TxId) -> bool {
        let mut at = other;
        while let Some(next) = self.waiting.get(&at) {
            if *next == tx {
                return true;
            }
            at = *next;
        }
        false
    }
}
