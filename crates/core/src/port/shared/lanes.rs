//! Lanes: what a session holds, what it has read, and what may have been in flight when it died.

use std::collections::{BTreeMap, HashMap};

use crate::entry::{Entry, Fence, Held};
use crate::error::Result;
use crate::event::EventId;
use crate::name::RouteName;
use crate::outcome::{Failure, FailureKind};
use crate::port::{Death, Head, HeadKind, LANES, LaneRow, LaneSettlement, Undecodable, Verdict};
use crate::time::Timestamp;

use super::columns::Columns;
use super::entry_row::Decoded;
use super::micros;

/// A session as it is at one moment.
#[derive(Clone, Debug)]
pub struct Holding {
    /// The highest sequence number that it has read. `None`: it was declared dead.
    pub handed: Option<i64>,
    /// The fence and the revision of each lane that it holds.
    pub lanes: BTreeMap<u8, (Fence, i64)>,
    /// The database's time.
    pub now: Timestamp,
}

impl Holding {
    /// Reads rows of `now, handed, lane, fence, revision`: one a lane, or one without a lane.
    ///
    /// # Errors
    /// When a row cannot be read.
    pub fn read(rows: impl IntoIterator<Item = impl Columns>) -> Result<Self> {
        let mut holding = Self { handed: None, lanes: BTreeMap::new(), now: Timestamp::MIN };
        for mut row in rows {
            holding.now = row.time()?.unwrap_or(Timestamp::MIN);
            holding.handed = row.optional_number()?;
            let lane = row.optional_number()?.and_then(|lane| u8::try_from(lane).ok());
            if let Some(lane) = lane {
                holding.lanes.insert(lane, (Fence(row.number()?), row.number()?));
            }
        }
        Ok(holding)
    }
}

/// Rows of held lanes.
#[derive(Clone, Debug, Default)]
pub struct LaneRows {
    /// The entries.
    pub entries: Vec<Entry>,
    /// The rows that cannot be decoded.
    pub undecodable: Vec<LaneRow>,
    /// The highest sequence number of both.
    pub newest: i64,
}

impl LaneRows {
    /// Adds a row, unless the session does not hold its lane.
    pub fn put(&mut self, mut decoded: Decoded, holding: &Holding) {
        let held = decoded.lane.and_then(|lane| Some((lane, holding.lanes.get(&lane)?.0)));
        let Some((lane, fence)) = held else { return };
        self.newest = self.newest.max(decoded.entry.seq);
        match decoded.failure() {
            None => {
                decoded.entry.lane = Some(lane);
                self.entries.push(decoded.entry);
            }
            Some(failure) => {
                let held = Held { seq: decoded.entry.seq, fence };
                let row = Undecodable { held, event_id: decoded.event_id(), failure };
                self.undecodable.push(LaneRow { lane, row });
            }
        }
    }
}

/// How many lanes a session may have. The oldest sessions share the lanes evenly, and the remainder goes to the oldest.
/// Younger sessions wait.
pub fn share_of<S: PartialEq>(sessions: &[S], me: &S, shares: u8) -> usize {
    if shares == 0 {
        return 0;
    }
    let sharing = sessions.len().min(usize::from(shares)).max(1);
    let place = sessions.iter().position(|session| session == me).unwrap_or(usize::MAX);
    let lanes = usize::from(LANES);
    if place >= sharing { 0 } else { lanes / sharing + usize::from(place < lanes % sharing) }
}

/// An entry that a session has read and not settled.
#[derive(Clone, Debug)]
pub struct ReadEntry {
    /// The row's sequence number.
    pub seq: i64,
    /// The key.
    pub key: Option<String>,
    /// The lane.
    pub lane: u8,
    /// Whether this attempt was its last one.
    pub spent: bool,
    /// Whether it is due.
    pub due: bool,
    /// What is told of its death.
    pub death: Death,
}

impl ReadEntry {
    /// Reads a row of `seq, event_id, type, key, lane, attempts with this one, spent, due`.
    ///
    /// # Errors
    /// When the row cannot be read.
    pub fn read(row: &mut impl Columns, route: &RouteName) -> Result<Self> {
        let seq = row.number()?;
        let event_id = row.event_id()?.unwrap_or(EventId(uuid::Uuid::nil()));
        let (event_type, key) = (row.text()?, row.optional_text()?);
        let lane = u8::try_from(row.number()?).unwrap_or(u8::MAX);
        let attempts = u32::try_from(row.number()?).unwrap_or(u32::MAX);
        let (spent, due) = (row.flag()?, row.flag()?);
        let death =
            Death { event_id, route: route.clone(), event_type, attempts, failure: session_expired() };
        Ok(Self { seq, key, lane, spent, due, death })
    }
}

/// The failure of an entry whose session was declared dead.
#[must_use]
pub fn session_expired() -> Failure {
    Failure::new(
        FailureKind::LeaseExpired,
        "lease_expired",
        "its lease ended before a relay recorded an outcome",
    )
}

/// What may have been in flight: due, and not behind an entry of its key that waits for its time or is dead and not
/// skipped, because the followers of that one were never handed out.
#[must_use]
pub fn in_flight(read: Vec<ReadEntry>, heads_known: Vec<Head>) -> Vec<ReadEntry> {
    let waiting = read.iter().filter(|entry| !entry.due);
    let waiting = waiting.filter_map(|entry| Some((entry.key.clone()?, entry.seq)));
    let mut heads: HashMap<String, i64> = HashMap::new();
    let dead = heads_known.into_iter().filter(|head| head.kind == HeadKind::Dead);
    for (key, seq) in waiting.chain(dead.map(|head| (head.key, head.seq))) {
        heads.entry(key).and_modify(|first| *first = seq.min(*first)).or_insert(seq);
    }
    let is_behind = |entry: &ReadEntry| {
        let head = entry.key.as_ref().and_then(|key| heads.get(key));
        head.is_some_and(|head| *head < entry.seq)
    };
    read.into_iter().filter(|entry| entry.due && !is_behind(entry)).collect()
}

/// Reads a row of `seq, key, lane, is dead`.
///
/// # Errors
/// When the row cannot be read.
pub fn head(row: &mut impl Columns) -> Result<Head> {
    let (seq, key) = (row.number()?, row.text()?);
    let lane = u8::try_from(row.number()?).unwrap_or(u8::MAX);
    let kind = if row.flag()? { HeadKind::Dead } else { HeadKind::Leased };
    Ok(Head { seq, key, lane, kind })
}

/// `[seq, is a death, failure, attempts, wait in microseconds]` of an attempt that failed.
pub type FailedRow<'a> = (i64, bool, &'a Failure, u32, Option<i64>);

impl LaneSettlement {
    /// What is recorded of a retry or a death. There is no park by lanes: see the lane reader of the engine.
    #[must_use]
    pub fn failed(&self) -> Option<FailedRow<'_>> {
        let (failure, wait) = match &self.verdict {
            Verdict::Retry { after, failure, .. } => (failure, Some(micros(*after))),
            Verdict::Dead { failure, .. } => (failure, None),
            Verdict::Delivered | Verdict::Release { .. } | Verdict::Park { .. } => return None,
        };
        Some((self.held.seq, wait.is_none(), failure, self.attempts, wait))
    }

    /// The row and the reason of an entry that is given back for a reason.
    #[must_use]
    pub fn released(&self) -> Option<(i64, &Failure)> {
        match &self.verdict {
            Verdict::Release { failure, .. } => Some((self.held.seq, failure.as_ref()?)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_sessions_share_the_lanes_evenly() {
        for (sessions, shares, wanted) in [
            (vec![1], 64, vec![64]),
            (vec![1, 2, 3], 64, vec![22, 21, 21]),
            (vec![1, 2, 3], 2, vec![32, 32, 0]),
            (vec![1, 2], 0, vec![0, 0]),
        ] {
            let found: Vec<usize> =
                sessions.iter().map(|session| share_of(&sessions, session, shares)).collect();
            assert_eq!(found, wanted, "{sessions:?} {shares}");
        }
    }
}
