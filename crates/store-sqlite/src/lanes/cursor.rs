//! Where a reader stands. There is one writer at a time: nobody draws a seq before the one that drew a lower one has
//! ended, so nothing comes late.

use std::collections::BTreeMap;

use pillarbox_core::port::{LaneCursor, LaneWish};

/// The run through each lane, and the highest seq that it has read.
#[derive(Clone, Debug, Default)]
pub(super) struct Cursor(BTreeMap<u8, (u64, i64)>);

impl Cursor {
    /// Where these runs stand; a run that is not known stands at the beginning.
    pub(super) fn of(cursor: &LaneCursor, lanes: &[LaneWish]) -> Self {
        let known = cursor.get::<Self>();
        let stands = |wish: &LaneWish| {
            let known = known.and_then(|known| known.0.get(&wish.lane)).filter(|(run, _)| *run == wish.run);
            (wish.lane, (wish.run, known.map_or(0, |(_, seq)| *seq)))
        };
        Self(lanes.iter().map(stands).collect())
    }

    pub(super) fn at(&self, lane: u8) -> i64 {
        self.0.get(&lane).map_or(0, |(_, seq)| *seq)
    }

    pub(super) fn pass(&mut self, lane: u8, seq: i64) {
        if let Some((_, at)) = self.0.get_mut(&lane) {
            *at = seq.max(*at);
        }
    }
}
