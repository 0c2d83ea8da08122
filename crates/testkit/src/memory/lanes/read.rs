//! Reading lanes: what comes next, what is still there, and who is writing.

use std::collections::BTreeSet;

use pillarbox_core::port::{
    FetchRequest, Fetched, LanePosition, LaneRead, LaneRow, ReadRequest, Undecodable,
};
use pillarbox_core::{Entry, Failure, FailureKind, Fence, Held, RouteName, Timestamp};

use super::{is_unsettled, lane_of_entry};
use crate::memory::mutant::Mutant;
use crate::memory::state::{Key, Row, State, TxId};

impl State {
    pub(super) fn read_lanes(&mut self, request: &ReadRequest, now: Timestamp) -> LaneRead {
        let mut read = LaneRead::nothing(now);
        let known =
            self.lanes.get(&request.route).filter(|table| table.sessions.contains_key(&request.session));
        let Some(table) = known else {
            read.lost = true;
            return read;
        };
        let mut handed = 0;
        for position in &request.positions {
            let Some(lane) = table.lane(position.lane).filter(|lane| lane.session == Some(request.session))
            else {
                continue;
            };
            read.revisions.push((position.lane, lane.revision));
            read.present.extend(self.present(&request.route, *position));
            for row in self.above(&request.route, *position) {
                handed = handed.max(row.entry.seq);
                sort_out(row, lane.fence, position.lane, &mut read.entries, &mut read.undecodable);
            }
        }
        if request.writers {
            read.writers = self.writers();
        }
        if self.is(Mutant::PresentLeavesOutLateCommits) {
            self.lanes_read.extend(read.entries.iter().map(|entry| entry.seq));
        }
        let session =
            self.lanes.get_mut(&request.route).and_then(|table| table.sessions.get_mut(&request.session));
        if let Some(session) = session {
            session.handed = session.handed.max(handed);
        }
        read
    }

    pub(super) fn fetch(&self, request: &FetchRequest, now: Timestamp) -> Fetched {
        let mut fetched = Fetched::nothing(now);
        let known =
            self.lanes.get(&request.route).filter(|table| table.sessions.contains_key(&request.session));
        let Some(table) = known else {
            fetched.lost = true;
            return fetched;
        };
        for seq in request.seqs.iter().collect::<BTreeSet<_>>() {
            let Some(row) = self.rows.get(seq) else { continue };
            let number = lane_of_entry(&row.entry);
            let held = table.lane(number).filter(|lane| lane.session == Some(request.session));
            if let Some(lane) = held.filter(|_| row.entry.route == request.route && is_unsettled(&row.entry))
            {
                sort_out(row, lane.fence, number, &mut fetched.entries, &mut fetched.undecodable);
            }
        }
        fetched
    }

    /// Unsettled rows of a lane, in order of seq.
    fn unsettled<'a>(
        &'a self,
        route: &'a RouteName,
        lane: u8,
        above: i64,
    ) -> impl Iterator<Item = &'a Row> + 'a {
        self.rows.range(above.saturating_add(1)..).map(|(_, row)| row).filter(move |row| {
            row.entry.route == *route && is_unsettled(&row.entry) && lane_of_entry(&row.entry) == lane
        })
    }

    fn above<'a>(
        &'a self,
        route: &'a RouteName,
        position: LanePosition,
    ) -> impl Iterator<Item = &'a Row> + 'a {
        let limit = usize::try_from(position.limit).unwrap_or(usize::MAX);
        self.unsettled(route, position.lane, position.cursor).take(limit)
    }

    fn present<'a>(&'a self, route: &'a RouteName, position: LanePosition) -> impl Iterator<Item = i64> + 'a {
        let late_too = !self.is(Mutant::PresentLeavesOutLateCommits);
        let rows = self.unsettled(route, position.lane, position.floor);
        rows.map(|row| row.entry.seq)
            .take_while(move |seq| *seq <= position.cursor)
            .filter(move |seq| late_too || self.lanes_read.contains(seq))
    }

    /// Open transactions that have staged.
    fn writers(&self) -> Vec<TxId> {
        let staged = self.reserved.iter().filter(|(key, _)| matches!(key, Key::Staged(..)));
        staged.map(|(_, tx)| *tx).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// A row as an entry of its lane, or as one that cannot be read.
fn sort_out(row: &Row, fence: Fence, lane: u8, entries: &mut Vec<Entry>, undecodable: &mut Vec<LaneRow>) {
    if row.spoiled {
        let failure = Failure::new(FailureKind::Undecodable, "headers", "the headers cannot be read");
        let held = Held { seq: row.entry.seq, fence };
        let row = Undecodable { held, event_id: Some(row.entry.event_id), failure };
        undecodable.push(LaneRow { lane, row });
    } else {
        entries.push(Entry { lane: Some(lane), ..row.entry.clone() });
    }
}
