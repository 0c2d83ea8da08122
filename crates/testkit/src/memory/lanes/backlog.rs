//! What waits in each lane, for people.

use std::collections::BTreeMap;

use pillarbox_core::RouteName;
use pillarbox_core::limits::LANE_WAITING_MAX;
use pillarbox_core::port::{LANES, LaneBacklog};

use super::{is_unsettled, lane_of_entry};
use crate::memory::state::State;

impl State {
    /// Every lane of a route that a session has joined once.
    pub(in crate::memory) fn lane_backlogs(&self, route: &RouteName) -> Vec<LaneBacklog> {
        let Some(table) = self.lanes.get(route).filter(|table| table.joined > 0) else { return vec![] };
        let mut waiting: BTreeMap<u8, u64> = BTreeMap::new();
        let entries = self.rows.values().map(|row| &row.entry);
        for entry in entries.filter(|entry| entry.route == *route && is_unsettled(entry)) {
            *waiting.entry(lane_of_entry(entry)).or_default() += 1;
        }
        let lane = |lane: u8| LaneBacklog {
            lane,
            waiting: waiting.get(&lane).copied().unwrap_or(0).min(LANE_WAITING_MAX.into()),
            owner: table.holder(lane).map(|session| session.owner.clone()),
        };
        (0..LANES).map(lane).collect()
    }
}
