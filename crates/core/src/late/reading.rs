//! One read of lanes: what to ask the database, and the reader's position after it.

use std::time::Duration;

use super::horizon::{Horizon, Set, Stand, set};
use crate::entry::Entry;
use crate::port::{LANES, LaneCursor, LaneRead, LaneRow, LaneSeen, LaneWish, Passed};
use crate::time::Timestamp;

/// How often to ask the database for the writing transactions, and after how many entries at the latest. Everything
/// that is read between two questions is looked at again with each read.
const WRITERS_INTERVAL: Duration = Duration::from_millis(100);
const WRITERS_ENTRIES: usize = 500;

/// A reader's position, and which entries may still appear before it.
#[derive(Clone, Debug)]
pub struct LateCursor {
    lanes: [Option<Run>; LANES as usize],
    horizon: Horizon,
    /// When the reader last asked for the writing transactions, and how many entries it read since.
    writers_asked: Option<Duration>,
    read_since: usize,
}

/// One run through a lane.
#[derive(Clone, Copy, Debug)]
struct Run {
    number: u64,
    stand: Stand,
    revision: Option<i64>,
}

impl Default for LateCursor {
    fn default() -> Self {
        let lanes = [None; LANES as usize];
        Self { lanes, horizon: Horizon::default(), writers_asked: None, read_since: 0 }
    }
}

/// What to ask about a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The lane's number.
    pub lane: u8,
    /// The sequence number above which the database tells which entries exist, up to the cursor.
    pub floor: i64,
    /// The sequence number above which entries are read.
    pub cursor: i64,
    /// The most entries to read.
    pub limit: u32,
}

/// What to ask the database. All answers come from one snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// The lanes to read. A lane that the session does not hold yields nothing.
    pub positions: Vec<Position>,
    /// Whether to tell the writing transactions.
    pub writers: bool,
    /// The highest sequence number that had been taken by the last read. Zero: there was no read.
    pub drawn: i64,
    /// The revisions of these lanes at the last read, as far as they are known. A store that goes through its lanes
    /// one by one may see from `drawn` and `revisions` that there is next to nothing to look for. The answer is the
    /// same.
    pub revisions: Vec<(u8, i64)>,
}

/// The answer of the database.
#[derive(Clone, Debug)]
pub struct Told {
    /// Whether the session had been declared dead. If so, the other fields mean nothing.
    pub lost: bool,
    /// Entries above the cursors, ordered by sequence number within each lane.
    pub entries: Vec<Entry>,
    /// Rows above the cursors that cannot be decoded as entries.
    pub undecodable: Vec<LaneRow>,
    /// The sequence numbers of all unsettled entries above a floor and up to its cursor.
    pub present: Vec<i64>,
    /// The revision of each lane that was asked for and is held: how often operators have changed it.
    pub revisions: Vec<(u8, i64)>,
    /// Transactions that may have staged entries and have not ended, seen after `entries` was read. A transaction
    /// keeps its number until it ends or is prepared. A prepared transaction has a number from
    /// [`RENAMED`](super::RENAMED) on.
    pub writers: Vec<u64>,
    /// The highest sequence number that had been taken by then, or a lower number.
    pub drawn: i64,
    /// The store's time.
    pub now: Timestamp,
}

impl Told {
    /// An answer without entries.
    #[must_use]
    pub const fn nothing(now: Timestamp) -> Self {
        Self {
            lost: false,
            entries: Vec::new(),
            undecodable: Vec::new(),
            present: Vec::new(),
            revisions: Vec::new(),
            writers: Vec::new(),
            drawn: 0,
            now,
        }
    }

    /// Turns the answer to [`LateCursor::passed`] into the entries that a cursor has passed.
    pub fn into_passed(self) -> Passed {
        Passed { lost: self.lost, seqs: self.present, revisions: self.revisions }
    }
}

impl LateCursor {
    /// What to ask for all entries that a cursor has passed.
    #[must_use]
    pub fn passed(cursor: &LaneCursor, lanes: &[LaneWish]) -> Ask {
        let kept = cursor.get::<Self>();
        let stand = |wish: &LaneWish| kept.and_then(|kept| kept.run(wish)).map(|run| run.stand);
        let position = |wish: &LaneWish| Position {
            lane: wish.lane,
            floor: 0,
            cursor: stand(wish).unwrap_or_default().cursor,
            limit: 0,
        };
        Ask { positions: lanes.iter().map(position).collect(), ..Ask::default() }
    }

    fn run(&self, wish: &LaneWish) -> Option<&Run> {
        self.lanes.get(usize::from(wish.lane))?.as_ref().filter(|run| run.number == wish.run)
    }

    /// Whether to ask for the writing transactions. It does so if enough time has passed, if many entries were
    /// read, or if a stretch rests only while they are known.
    fn asks_who_is_writing(&mut self, at: Duration) -> bool {
        let is_due = |asked: Duration| at.saturating_sub(asked) >= WRITERS_INTERVAL;
        let asks = self.horizon.rests()
            || self.read_since >= WRITERS_ENTRIES
            || self.writers_asked.is_none_or(is_due);
        if asks {
            self.writers_asked = Some(at);
            self.read_since = 0;
        }
        asks
    }

    fn position(&self, lane: u8, limit: u32) -> Option<Position> {
        let stand = self.lanes.get(usize::from(lane))?.as_ref()?.stand;
        let floor = self.horizon.look_from(lane, stand.floor);
        Some(Position { lane, floor, cursor: stand.cursor, limit })
    }

    fn ask(&self, positions: Vec<Position>, writers: bool) -> Ask {
        let revision = |position: &Position| {
            Some((position.lane, self.lanes.get(usize::from(position.lane))?.as_ref()?.revision?))
        };
        let revisions = positions.iter().filter_map(revision).collect();
        Ask { positions, writers, drawn: self.horizon.drawn(), revisions }
    }
}

/// A read in progress.
///
/// The result takes effect when the reader passes the new cursor. If a read fails, at whatever point, it has
/// changed nothing.
#[derive(Debug)]
pub struct Reading {
    cursor: LateCursor,
    ask: Ask,
}

impl Reading {
    /// Begins a read at a cursor. `at` is the time by a monotonic clock.
    #[must_use]
    pub fn begin(cursor: &LaneCursor, lanes: &[LaneWish], at: Duration) -> Self {
        let mut cursor = cursor.get::<LateCursor>().cloned().unwrap_or_default();
        let mut held = [None; LANES as usize];
        for wish in lanes {
            let begun = Run { number: wish.run, stand: Stand::default(), revision: None };
            if let Some(lane) = held.get_mut(usize::from(wish.lane)) {
                *lane = Some(cursor.run(wish).copied().unwrap_or(begun));
            }
        }
        cursor.lanes = held;
        cursor.horizon.begin();
        let wanted = lanes.iter().filter(|wish| wish.limit > 0);
        let positions = wanted.filter_map(|wish| cursor.position(wish.lane, wish.limit)).collect();
        let writers = cursor.asks_who_is_writing(at);
        let ask = cursor.ask(positions, writers);
        Self { cursor, ask }
    }

    /// What to ask the database.
    #[must_use]
    pub fn ask(&self) -> &Ask {
        &self.ask
    }

    /// Takes the answer. If it returns something to ask once more, a transaction has ended that could commit
    /// something where this read has not looked. The answer to that goes to [`end`](Self::end).
    pub fn missed(&mut self, told: &Told) -> Option<Ask> {
        if told.lost || !self.ask.writers {
            return None;
        }
        let missed = self.cursor.horizon.writing(&told.writers, self.read_lanes());
        let positions = self.ask.positions.iter().map(|position| position.lane);
        let missed = positions.filter(|lane| missed & set(*lane) != 0);
        let positions: Vec<_> = missed.filter_map(|lane| self.cursor.position(lane, 0)).collect();
        (!positions.is_empty()).then(|| self.cursor.ask(positions, false))
    }

    /// Ends the read. `looked` is the answer to the question that [`missed`](Self::missed) returned.
    pub fn end(mut self, mut told: Told, looked: Option<Told>) -> LaneRead {
        if told.lost || looked.as_ref().is_some_and(|looked| looked.lost) {
            return LaneRead::lost(told.now);
        }
        if let Some(looked) = looked {
            let missed = looked.revisions.iter().fold(0, |missed, (lane, _)| missed | set(*lane));
            told.present.extend(looked.present);
            self.cursor.horizon.looked(missed);
        }
        self.take(&told);
        self.note(&told);
        let read_to = |lane: u8| self.cursor.position(lane, 0).map_or(0, |position| position.cursor);
        let lanes = told.revisions.iter();
        let lanes = lanes.map(|(lane, revision)| LaneSeen {
            lane: *lane,
            revision: *revision,
            read_to: read_to(*lane),
        });
        LaneRead {
            lost: false,
            lanes: lanes.collect(),
            entries: told.entries,
            undecodable: told.undecodable,
            behind: told.present,
            cursor: LaneCursor::new(self.cursor),
            now: told.now,
        }
    }

    fn read_lanes(&self) -> Set {
        self.ask.positions.iter().fold(0, |lanes, position| lanes | set(position.lane))
    }

    /// Moves the cursors to the entries that were read.
    fn take(&mut self, told: &Told) {
        let (mut got, mut top) = ([0_u32; LANES as usize], [i64::MIN; LANES as usize]);
        let entries = told.entries.iter().map(|entry| (entry.lane.unwrap_or(0), entry.seq));
        let rows = told.undecodable.iter().map(|row| (row.lane, row.row.held.seq));
        for (lane, seq) in entries.chain(rows) {
            let lane = usize::from(lane % LANES);
            got[lane] += 1;
            top[lane] = top[lane].max(seq);
        }
        self.cursor.read_since += told.entries.len();
        for position in &self.ask.positions {
            let index = usize::from(position.lane % LANES);
            let all = got[index] < position.limit;
            let decided = if all { self.cursor.horizon.decided() } else { i64::MIN };
            if let Some(run) = &mut self.cursor.lanes[index] {
                run.stand.cursor = run.stand.cursor.max(top[index]).max(decided);
            }
        }
        for (lane, revision) in &told.revisions {
            if let Some(run) = &mut self.cursor.lanes[usize::from(lane % LANES)] {
                run.revision = Some(*revision);
            }
        }
    }

    /// Records the transactions that can still commit something before the cursors.
    fn note(&mut self, told: &Told) {
        let cursor = &mut self.cursor;
        for position in &self.ask.positions {
            let run = cursor.lanes[usize::from(position.lane % LANES)].as_mut();
            // What is between the floor and where this read began was seen by an earlier one.
            if let Some(Run { stand, .. }) = run.filter(|run| run.stand.floor == position.cursor) {
                stand.floor = cursor.horizon.undecided_from(stand.floor, stand.cursor);
            }
        }
        let writers = self.ask.writers.then_some(told.writers.as_slice());
        cursor.horizon.heard(told.drawn, writers);
        let held = (0..LANES).filter(|lane| cursor.lanes[usize::from(*lane)].is_some());
        let held = held.fold(0, |held, lane| held | set(lane));
        let read = self.ask.positions.iter().fold(0, |lanes, position| lanes | set(position.lane));
        cursor.horizon.end(read, held);
        if let Some(writers) = writers {
            let lanes = (0..LANES).zip(&mut cursor.lanes);
            let lanes = lanes.filter_map(|(lane, run)| Some((lane, &mut run.as_mut()?.stand)));
            cursor.horizon.note(lanes, writers);
        }
    }
}
