//! Reading lanes: the next entries, the entries that are still there, and the transactions that are writing.

use std::collections::{BTreeMap, BTreeSet};

use pillarbox_core::late::{Ask, Position, Told};
use pillarbox_core::port::{FetchRequest, Fetched, LaneRow, SessionId, Undecodable};
use pillarbox_core::{Entry, Failure, FailureKind, Fence, Held, RouteName, Timestamp};

use super::{is_unsettled, lane_of_entry};
use crate::memory::mutant::Mutant;
use crate::memory::state::{Key, Row, State, TxId};

impl State {
    pub(super) fn tell(&mut self, route: &RouteName, session: SessionId, ask: &Ask, now: Timestamp) -> Told {
        let mut read = Told::nothing(now);
        let known = self.lanes.get(route).filter(|table| table.sessions.contains_key(&session));
        let Some(table) = known else {
            read.lost = true;
            return read;
        };
        let mut handed = 0;
        let from = ask.positions.iter().map(|position| position.floor).min().unwrap_or(0);
        let by_lane = self.unsettled_by_lane(route, from);
        for position in &ask.positions {
            let held = table.lane(position.lane).filter(|lane| lane.session == Some(session));
            let Some(lane) = held else { continue };
            read.revisions.push((position.lane, lane.revision));
            let rows = by_lane.get(&position.lane).map(Vec::as_slice).unwrap_or_default();
            read.present.extend(self.present(rows, *position));
            for row in above(rows, *position) {
                handed = handed.max(row.entry.seq);
                sort_out(row, lane.fence, position.lane, &mut read.entries, &mut read.undecodable);
            }
        }
        if ask.writers {
            read.writers = self.writers();
        }
        read.drawn = if self.is(Mutant::DrawnIsTooHigh) { i64::MAX } else { self.last_seq };
        if self.is(Mutant::PresentLeavesOutLateCommits) {
            self.lanes_read.extend(read.entries.iter().map(|entry| entry.seq));
        }
        self.note(route, session, handed);
        read
    }

    /// Notes how far a session has read. Says whether it is still known.
    pub(super) fn note(&mut self, route: &RouteName, session: SessionId, seq: i64) -> bool {
        let session = self.lanes.get_mut(route).and_then(|table| table.sessions.get_mut(&session));
        let Some(session) = session else { return false };
        session.handed = session.handed.max(seq);
        true
    }

    pub(super) fn fetch(&mut self, request: &FetchRequest, now: Timestamp) -> Fetched {
        let mut fetched = Fetched::nothing(now);
        let known =
            self.lanes.get(&request.route).filter(|table| table.sessions.contains_key(&request.session));
        let Some(table) = known else {
            fetched.lost = true;
            return fetched;
        };
        let mut handed = 0;
        for seq in request.seqs.iter().collect::<BTreeSet<_>>() {
            let Some(row) = self.rows.get(seq) else { continue };
            let number = lane_of_entry(&row.entry);
            let held = table.lane(number).filter(|lane| lane.session == Some(request.session));
            if let Some(lane) = held.filter(|_| row.entry.route == request.route && is_unsettled(&row.entry))
            {
                handed = handed.max(*seq);
                sort_out(row, lane.fence, number, &mut fetched.entries, &mut fetched.undecodable);
            }
        }
        self.note(&request.route, request.session, handed);
        fetched
    }

    /// Unsettled rows above a seq, in order of seq, by lane.
    pub(super) fn unsettled_by_lane(&self, route: &RouteName, above: i64) -> BTreeMap<u8, Vec<&Row>> {
        let mut by_lane: BTreeMap<u8, Vec<&Row>> = BTreeMap::new();
        for row in self.rows.range(above.saturating_add(1)..).map(|(_, row)| row) {
            if row.entry.route == *route && is_unsettled(&row.entry) {
                by_lane.entry(lane_of_entry(&row.entry)).or_default().push(row);
            }
        }
        by_lane
    }

    fn present<'a>(&'a self, rows: &'a [&'a Row], position: Position) -> impl Iterator<Item = i64> + 'a {
        let late_too = !self.is(Mutant::PresentLeavesOutLateCommits);
        rows.iter()
            .map(|row| row.entry.seq)
            .filter(move |seq| (position.floor + 1..=position.cursor).contains(seq))
            .filter(move |seq| late_too || self.lanes_read.contains(seq))
    }

    /// Open transactions that have staged.
    fn writers(&self) -> Vec<TxId> {
        let staged = self.reserved.iter().filter(|(key, _)| matches!(key, Key::Staged(..)));
        staged.map(|(_, tx)| *tx).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

fn above<'a>(rows: &'a [&'a Row], position: Position) -> impl Iterator<Item = &'a Row> + 'a {
    let limit = usize::try_from(position.limit).unwrap_or(usize::MAX);
    rows.iter().copied().filter(move |row| row.entry.seq > position.cursor).take(limit)
}

/// A row as an entry of its lane, or as one that cannot be read.
pub(super) fn sort_out(
    row: &Row,
    fence: Fence,
    lane: u8,
    entries: &mut Vec<Entry>,
    undecodable: &mut Vec<LaneRow>,
) {
    if row.spoiled {
        let failure = Failure::new(FailureKind::Undecodable, "headers", "the headers cannot be read");
        let held = Held { seq: row.entry.seq, fence };
        let row = Undecodable { held, event_id: Some(row.entry.event_id), failure };
        undecodable.push(LaneRow { lane, row });
    } else {
        let mut entry = row.entry.clone();
        entry.lane = Some(lane);
        entries.push(entry);
    }
}
