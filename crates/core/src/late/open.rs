//! One read of lanes in a store that does not know which transactions may still commit: it looks at everything that is
//! open, from the beginning of each lane, with every read.

use crate::port::{LANES, LaneCursor, LaneWish};

/// How many entries beyond those that are known a read can find behind the cursor of one lane. If there are more, the
/// rest is found by the next read, and nothing new of that lane is read before.
const LATE_AT_ONCE: u32 = 16;

/// A reader's position: how far it has read in each lane, and which entries up to there it knows to be open.
#[derive(Clone, Debug)]
pub struct OpenCursor {
    lanes: [Option<Run>; LANES as usize],
}

/// One run through a lane.
#[derive(Clone, Debug, Default)]
struct Run {
    number: u64,
    /// The highest sequence number that was read.
    mark: i64,
    /// The entries up to the mark that the last look found open, in order.
    known: Vec<i64>,
    /// How many of the known ones the last look still found open.
    still: u32,
    /// The last look ended before the lane did.
    is_deep: bool,
}

impl Default for OpenCursor {
    fn default() -> Self {
        Self { lanes: [const { None }; LANES as usize] }
    }
}

/// What to ask about a lane: its open entries from the beginning, in order, by their sequence numbers alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenAsk {
    /// The lane's number.
    pub lane: u8,
    /// The most sequence numbers to tell.
    pub limit: u32,
}

/// What a look at the open entries of lanes has shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Entries above the marks. They are to be fetched.
    pub fresh: Vec<i64>,
    /// Entries below the marks that no earlier look has shown: they were committed late.
    pub late: Vec<i64>,
}

impl OpenCursor {
    /// Where these runs stand. A run that is not known stands at the beginning of its lane. Lanes that are not named are
    /// forgotten.
    #[must_use]
    pub fn of(cursor: &LaneCursor, lanes: &[LaneWish]) -> Self {
        let kept = cursor.get::<Self>();
        let mut runs = Self::default();
        for wish in lanes {
            let known = kept.and_then(|kept| kept.run(wish.lane)).filter(|run| run.number == wish.run);
            let begun = || Run { number: wish.run, ..Run::default() };
            if let Some(run) = runs.lanes.get_mut(usize::from(wish.lane)) {
                *run = Some(known.cloned().unwrap_or_else(begun));
            }
        }
        runs
    }

    fn run(&self, lane: u8) -> Option<&Run> {
        self.lanes.get(usize::from(lane))?.as_ref()
    }

    /// How far a lane was read.
    #[must_use]
    pub fn at(&self, lane: u8) -> i64 {
        self.run(lane).map_or(0, |run| run.mark)
    }

    /// Whether more was open in a lane than the last look at it told.
    #[must_use]
    pub fn is_deep(&self, lane: u8) -> bool {
        self.run(lane).is_some_and(|run| run.is_deep)
    }

    /// What to ask about a lane first. Most of what is known is settled by then, so this is enough if no more of it is open than
    /// at the last look: a store may look up the row of each number that it tells.
    #[must_use]
    pub fn ask(&self, wish: &LaneWish) -> OpenAsk {
        Self::beyond(self.run(wish.lane).map_or(0, |run| run.still), wish)
    }

    /// What to ask if the first answer is [short](Self::is_short): this is enough if all that is known is still open.
    #[must_use]
    pub fn ask_more(&self, wish: &LaneWish) -> OpenAsk {
        let known = self.run(wish.lane).map_or(0, |run| run.known.len());
        Self::beyond(u32::try_from(known).unwrap_or(u32::MAX), wish)
    }

    fn beyond(known: u32, wish: &LaneWish) -> OpenAsk {
        let limit = known.saturating_add(wish.limit).saturating_add(LATE_AT_ONCE);
        OpenAsk { lane: wish.lane, limit }
    }

    /// Whether the lane may have more of what is wished for than this answer to this question shows.
    #[must_use]
    pub fn is_short(&self, wish: &LaneWish, asked: &OpenAsk, open: &[i64]) -> bool {
        let fresh = open.len() - open.partition_point(|seq| *seq <= self.at(wish.lane));
        fits(asked.limit, open.len()) && !fits(wish.limit, fresh) && asked.limit < self.ask_more(wish).limit
    }

    /// Takes the answer about one lane: `open` in order, and at least as many as were `asked` for or all there are. Says which
    /// are new, at most as many as were wished for, and which came late, and moves the cursor.
    pub fn take(&mut self, wish: &LaneWish, asked: &OpenAsk, open: &[i64], shown: &mut Shown) {
        let Some(run) = self.lanes.get_mut(usize::from(wish.lane)).and_then(Option::as_mut) else { return };
        let (behind, above) = open.split_at(open.partition_point(|seq| *seq <= run.mark));
        shown.late.extend(behind.iter().filter(|seq| run.known.binary_search(seq).is_err()));
        // What is known and was not looked at stays known. The look ended before it if the answer is full.
        let is_full = fits(asked.limit, open.len());
        let seen_to = if is_full { open.last().copied().unwrap_or(0) } else { i64::MAX };
        run.is_deep = is_full;
        let unseen = run.known.split_off(run.known.partition_point(|seq| *seq <= seen_to));
        run.still = u32::try_from(behind.len()).unwrap_or(u32::MAX);
        run.known.clear();
        run.known.extend_from_slice(behind);
        run.known.extend(unseen);
        let wanted = usize::try_from(wish.limit).unwrap_or(usize::MAX);
        let fresh = &above[..above.len().min(wanted)];
        run.known.extend_from_slice(fresh);
        run.mark = fresh.last().copied().unwrap_or(run.mark);
        shown.fresh.extend_from_slice(fresh);
    }
}

/// Whether this many are no fewer than were asked for.
fn fits(limit: u32, told: usize) -> bool {
    told >= usize::try_from(limit).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    const LANE: u8 = 3;

    fn wish(limit: u32) -> LaneWish {
        LaneWish { lane: LANE, run: 1, limit }
    }

    /// One read of a lane in which these entries are open.
    fn read(cursor: &mut LaneCursor, open: &BTreeSet<i64>, limit: u32) -> Shown {
        let wish = wish(limit);
        let mut runs = OpenCursor::of(cursor, &[wish]);
        let tell = |ask: &OpenAsk| -> Vec<i64> {
            open.iter().copied().take(usize::try_from(ask.limit).unwrap()).collect()
        };
        let mut ask = runs.ask(&wish);
        let mut told = tell(&ask);
        if runs.is_short(&wish, &ask, &told) {
            ask = runs.ask_more(&wish);
            told = tell(&ask);
        }
        assert!(!runs.is_short(&wish, &ask, &told));
        let mut shown = Shown::default();
        runs.take(&wish, &ask, &told, &mut shown);
        *cursor = LaneCursor::new(runs);
        shown
    }

    #[test]
    fn an_entry_below_the_mark_is_late_once() {
        let mut cursor = LaneCursor::default();
        let shown = read(&mut cursor, &[2, 5, 9].into(), 2);
        assert_eq!((shown.fresh, shown.late), (vec![2, 5], vec![]));
        let shown = read(&mut cursor, &[2, 3, 5, 9].into(), 2);
        assert_eq!((shown.fresh, shown.late), (vec![9], vec![3]));
        assert_eq!(read(&mut cursor, &[3, 5, 9].into(), 2), Shown::default());
        assert_eq!(cursor.get::<OpenCursor>().unwrap().at(LANE), 9);
    }

    #[test]
    fn a_lane_is_deep_while_a_look_does_not_reach_its_end() {
        let mut cursor = LaneCursor::default();
        let deep = |cursor: &LaneCursor| cursor.get::<OpenCursor>().unwrap().is_deep(LANE);
        let open: BTreeSet<i64> = (1..=40).collect();
        let _ = read(&mut cursor, &open, 10);
        assert!(deep(&cursor), "26 of 40");
        let _ = read(&mut cursor, &open, 20);
        assert!(deep(&cursor), "36 of 40");
        let _ = read(&mut cursor, &open, 20);
        assert!(!deep(&cursor), "40 of up to 46");
    }

    #[test]
    fn what_is_settled_is_not_asked_for_and_what_is_not_is_asked_for_once_more() {
        let mut cursor = LaneCursor::default();
        let runs = |cursor: &LaneCursor| cursor.get::<OpenCursor>().unwrap().clone();
        assert_eq!(read(&mut cursor, &(1..=200).collect(), 100).fresh, (1..=100).collect::<Vec<_>>());
        assert_eq!(runs(&cursor).ask(&wish(100)).limit, 116, "a hundred known ones may be settled");
        assert_eq!(read(&mut cursor, &(1..=300).collect(), 100).fresh, (101..=200).collect::<Vec<_>>());
        assert_eq!(runs(&cursor).ask(&wish(100)).limit, 216, "a hundred known ones were not");
        assert_eq!(read(&mut cursor, &(201..=300).collect(), 100).fresh, (201..=300).collect::<Vec<_>>());
        assert_eq!(runs(&cursor).ask(&wish(100)).limit, 116);
    }

    #[test]
    fn a_run_that_is_not_known_begins_at_the_beginning() {
        let mut cursor = LaneCursor::default();
        let _ = read(&mut cursor, &[2, 5].into(), 2);
        let again = LaneWish { run: 2, ..wish(1) };
        assert_eq!(OpenCursor::of(&cursor, &[again]).at(LANE), 0);
        assert_eq!(OpenCursor::of(&cursor, &[]).at(LANE), 0);
    }

    #[test]
    fn more_late_entries_than_one_look_tells_come_before_anything_new() {
        let mut cursor = LaneCursor::default();
        let _ = read(&mut cursor, &[1000].into(), 1);
        let open: BTreeSet<i64> = (1..=50).chain([1000, 1001]).collect();
        let (mut late, mut fresh) = (Vec::new(), Vec::new());
        while fresh.is_empty() {
            let shown = read(&mut cursor, &open, 1);
            late.extend(shown.late);
            fresh.extend(shown.fresh);
        }
        assert_eq!((late, fresh), ((1..=50).collect(), vec![1001]));
    }

    /// What may happen to the one lane.
    #[derive(Clone, Debug)]
    enum Happens {
        /// A transaction draws a sequence number.
        Draw,
        /// One of the open transactions commits.
        Commit(prop::sample::Index),
        /// One of the open entries is settled.
        Settle(prop::sample::Index),
        Read(u32),
    }

    fn happens() -> impl Strategy<Value = Happens> {
        prop_oneof![
            3 => Just(Happens::Draw),
            3 => any::<prop::sample::Index>().prop_map(Happens::Commit),
            2 => any::<prop::sample::Index>().prop_map(Happens::Settle),
            2 => (1..6_u32).prop_map(Happens::Read),
        ]
    }

    proptest! {
        /// Every entry is shown once, and no entry before one that was committed when it was drawn.
        #[test]
        fn nothing_is_missed_doubled_or_out_of_order(
            history in proptest::collection::vec(happens(), 1..200),
        ) {
            let (mut drawn, mut open) = (Vec::new(), BTreeSet::new());
            // The committed entries that each one must come after.
            let (mut before, mut committed) = (BTreeMap::new(), BTreeSet::new());
            let (mut shown, mut settled) = (BTreeSet::new(), BTreeSet::new());
            let mut cursor = LaneCursor::default();
            let mut next = 0_i64;
            for happens in history.into_iter().chain((0..200).map(|_| Happens::Read(5))) {
                match happens {
                    Happens::Draw => {
                        next += 1;
                        before.insert(next, committed.clone());
                        drawn.push(next);
                    }
                    Happens::Commit(which) if !drawn.is_empty() => {
                        let seq = drawn.swap_remove(which.index(drawn.len()));
                        committed.insert(seq);
                        open.insert(seq);
                    }
                    // Only what was shown can be settled.
                    Happens::Settle(which) => {
                        let can: Vec<i64> = open.intersection(&shown).copied().collect();
                        if !can.is_empty() {
                            let seq = can[which.index(can.len())];
                            open.remove(&seq);
                            settled.insert(seq);
                        }
                    }
                    Happens::Read(limit) => {
                        let read = read(&mut cursor, &open, limit);
                        for seq in read.late.iter().chain(&read.fresh) {
                            prop_assert!(shown.insert(*seq), "{} is shown twice", seq);
                        }
                        for seq in &read.fresh {
                            let missed: Vec<_> = before[seq].difference(&shown).collect();
                            prop_assert!(missed.is_empty(), "{} comes before {:?}", seq, missed);
                        }
                    }
                    Happens::Commit(_) => {}
                }
            }
            prop_assert_eq!(shown, committed);
        }
    }
}
