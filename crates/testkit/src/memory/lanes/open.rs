//! Reading lanes as in a database that does not tell which transactions may still commit.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use pillarbox_core::late::OpenAsk;
use pillarbox_core::port::SessionId;
use pillarbox_core::port::shared::{Holding, LaneRows, OpenLanes};
use pillarbox_core::{Result, RouteName, Timestamp};
use tokio::task::yield_now;

use super::read::sort_out;
use super::{is_unsettled, lane_of_entry};
use crate::memory::mutant::Mutant;
use crate::memory::state::State;
use crate::memory::store::MemoryStore;

/// The looks of a read. Others go on between two of them, as they do on a server.
pub(super) struct Looks<'a>(&'a MemoryStore);

impl MemoryStore {
    /// The looks, if this store reads in this way.
    pub(super) fn looks(&self) -> Option<Looks<'_>> {
        self.shared.lock().open_cursor.then_some(Looks(self))
    }
}

#[async_trait]
impl OpenLanes for Looks<'_> {
    async fn holding(&self, route: &RouteName, session: SessionId) -> Result<Holding> {
        let now = self.0.shared.now(None);
        Ok(self.0.shared.lock().holding(route, session, now))
    }

    async fn open(
        &self,
        route: &RouteName,
        flat: Vec<OpenAsk>,
        deep: Vec<OpenAsk>,
    ) -> Result<BTreeMap<u8, Vec<i64>>> {
        yield_now().await;
        Ok(self.0.shared.lock().open(route, flat.iter().chain(&deep)))
    }

    async fn take(
        &self,
        route: &RouteName,
        session: SessionId,
        holding: &Holding,
        handed: i64,
        seqs: &[i64],
    ) -> Result<Option<LaneRows>> {
        yield_now().await;
        let rows = self.0.shared.lock().taken(route, holding, seqs);
        if rows.newest <= handed {
            return Ok(Some(rows));
        }
        yield_now().await;
        let is_noted = self.0.shared.lock().note(route, session, rows.newest);
        Ok(is_noted.then_some(rows))
    }
}

impl State {
    fn holding(&self, route: &RouteName, id: SessionId, now: Timestamp) -> Holding {
        let mut holding = Holding { handed: None, lanes: BTreeMap::new(), now };
        let Some(table) = self.lanes.get(route) else { return holding };
        holding.handed = table.sessions.get(&id).map(|session| session.handed);
        let held = table.of(id).into_iter().filter_map(|number| Some((number, table.lane(number)?)));
        holding.lanes = held.map(|(number, lane)| (number, (lane.fence, lane.revision))).collect();
        holding
    }

    /// What is open in each lane, in order.
    fn open<'a>(&self, route: &RouteName, asks: impl Iterator<Item = &'a OpenAsk>) -> BTreeMap<u8, Vec<i64>> {
        let by_lane = self.unsettled_by_lane(route, 0);
        let newest = self.lanes_read.last().copied().unwrap_or(0);
        let late_too = !self.is(Mutant::PresentLeavesOutLateCommits);
        let is_told = |seq: &i64| late_too || *seq > newest || self.lanes_read.contains(seq);
        let told = |ask: &OpenAsk| {
            let rows = by_lane.get(&ask.lane).map(Vec::as_slice).unwrap_or_default();
            let open = rows.iter().map(|row| row.entry.seq).filter(is_told);
            (ask.lane, open.take(usize::try_from(ask.limit).unwrap_or(usize::MAX)).collect())
        };
        asks.map(told).collect()
    }

    /// Rows of held lanes.
    fn taken(&mut self, route: &RouteName, holding: &Holding, seqs: &[i64]) -> LaneRows {
        let mut taken = LaneRows::default();
        for seq in seqs.iter().collect::<BTreeSet<_>>() {
            let Some(row) = self.rows.get(seq) else { continue };
            let number = lane_of_entry(&row.entry);
            let Some((fence, _)) = holding.lanes.get(&number) else { continue };
            if row.entry.route == *route && is_unsettled(&row.entry) {
                taken.newest = *seq;
                sort_out(row, *fence, number, &mut taken.entries, &mut taken.undecodable);
            }
        }
        if self.is(Mutant::PresentLeavesOutLateCommits) {
            self.lanes_read.extend(taken.entries.iter().map(|entry| entry.seq));
        }
        taken
    }
}
