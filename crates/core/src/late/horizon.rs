//! How far back a reader must look for entries that were committed late.

use std::collections::BTreeSet;

use super::RENAMED;
use crate::port::LANES;

/// The most stretches that are kept apart. If there are more long transactions, several share a stretch.
const STRETCHES_MAX: usize = 16;

/// A reader's position in one lane.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stand {
    /// Where the stretches end. The horizon tracks what to look for at or below this sequence number.
    pub(super) floor: i64,
    /// The highest sequence number that was read, or a higher one up to which there is known to be nothing more.
    pub(super) cursor: i64,
}

/// A set of lanes.
pub(super) type Set = u64;

/// The set of one lane.
pub(super) fn set(lane: u8) -> Set {
    1 << (lane % LANES)
}

/// The part of every lane that was read between two looks at the writing transactions.
///
/// A transaction that took a sequence number at or below a cursor was writing when the reader reached that cursor.
/// So only transactions that were writing just after can still commit something into the stretch. A transaction
/// that was seen neither before nor after has committed by then, and one more look finds its entries.
#[derive(Clone, Debug)]
struct Stretch {
    /// The sequence number above which the stretch begins in each lane. The highest number: the stretch has nothing
    /// of the lane.
    from: [i64; LANES as usize],
    /// The transactions that can still commit something into the stretch.
    writers: BTreeSet<u64>,
    /// Lanes that must be looked at once more, because a transaction may have committed something into the stretch.
    owed: Set,
    /// Lanes that came to need another look since the current read began.
    owed_since: Set,
}

/// The stretches that are still open, oldest first. The reader looks at everything above them with every read.
///
/// **Invariant:** before an entry of a read is handed out, its lane was looked at since the last transaction ended
/// that could commit something before the entry. So a stretch need not be looked at while all of its writers go on.
/// A transaction that stays open for an hour costs one look at its end.
#[derive(Clone, Debug, Default)]
pub(super) struct Horizon {
    stretches: Vec<Stretch>,
    /// The highest sequence number that had been taken by the previous read.
    drawn: i64,
    /// Every transaction that took a sequence number up to this one had ended before the next read began. That read
    /// sees every entry up to this number that there will ever be.
    decided: i64,
}

impl Horizon {
    /// The sequence number above which a transaction may still commit something, for a read of a lane that began
    /// where the stretches end. It uses only the answers of earlier reads: `heard` takes the answer of this read
    /// afterwards.
    pub(super) fn undecided_from(&self, floor: i64, cursor: i64) -> i64 {
        floor.max(cursor.min(self.decided))
    }

    /// The highest sequence number that had been taken by the last read.
    pub(super) fn drawn(&self) -> i64 {
        self.drawn
    }

    /// The sequence number up to which nothing more can appear, for a read that began after the last answer and
    /// covered all of a lane. So the reader need not look at an empty lane from its last entry on. If every
    /// sequence number counts as taken, this is the lowest number.
    pub(super) fn decided(&self) -> i64 {
        if self.decided == i64::MAX { i64::MIN } else { self.decided }
    }

    /// Takes the answer of a read: the highest sequence number taken by then and, if the read asked for them, the
    /// writing transactions.
    ///
    /// An INSERT counts as writing before it takes a sequence number. So if no transaction was writing, every
    /// transaction that had taken a number by the previous read has ended.
    pub(super) fn heard(&mut self, drawn: i64, writers: Option<&[u64]>) {
        if writers.is_some_and(<[u64]>::is_empty) {
            self.decided = self.decided.max(self.drawn);
        }
        self.drawn = drawn;
    }

    /// Begins a read. The read makes the looks that were owed before it, but not those that come to be owed from
    /// now on.
    pub(super) fn begin(&mut self) {
        for stretch in &mut self.stretches {
            stretch.owed |= std::mem::take(&mut stretch.owed_since);
        }
    }

    /// The sequence number above which a lane must be looked at. `floor` is where the stretches end.
    pub(super) fn look_from(&self, lane: u8, floor: i64) -> i64 {
        let owed = |stretch: &&Stretch| (stretch.owed | stretch.owed_since) & set(lane) != 0;
        let from = self.stretches.iter().filter(owed).map(|stretch| stretch.from[usize::from(lane % LANES)]);
        from.fold(floor, i64::min)
    }

    /// Whether there is a stretch that need not be looked at while the writing transactions are known.
    pub(super) fn rests(&self) -> bool {
        self.stretches.iter().any(|stretch| !stretch.writers.is_empty())
    }

    /// Takes the transactions that were writing, as seen after the snapshot of the current read of the lanes
    /// `read`. Returns the lanes that must be looked at before an entry of this read is handed out. In those lanes
    /// a transaction has ended that could commit something where this read has not looked.
    pub(super) fn writing(&mut self, writers: &[u64], read: Set) -> Set {
        let mut missed = 0;
        let renamed = || writers.iter().copied().filter(|writer| *writer >= RENAMED);
        for stretch in &mut self.stretches {
            let before = stretch.writers.len();
            stretch.writers.retain(|writer| writers.contains(writer));
            if stretch.writers.len() < before {
                missed |= read & !stretch.owed;
                stretch.owed_since = Set::MAX;
            }
            // A renamed transaction may be any of those that seem to have ended.
            stretch.writers.extend(renamed());
        }
        missed
    }

    /// Records that these lanes were looked at once more during the read.
    pub(super) fn looked(&mut self, lanes: Set) {
        for stretch in &mut self.stretches {
            stretch.owed &= !lanes;
            stretch.owed_since &= !lanes;
        }
    }

    /// Ends the read of these lanes, after its entries were put in their places. Only lanes in `held` count.
    pub(super) fn end(&mut self, read: Set, held: Set) {
        for stretch in &mut self.stretches {
            stretch.owed = (stretch.owed & !read | std::mem::take(&mut stretch.owed_since)) & held;
        }
        self.stretches.retain(|stretch| stretch.owed != 0 || !stretch.writers.is_empty());
    }

    /// Makes a stretch of everything that was read since the last one. In each lane it reaches from the floor to
    /// the cursor, and the floor moves up to the cursor.
    pub(super) fn note<'a>(&mut self, lanes: impl Iterator<Item = (u8, &'a mut Stand)>, writers: &[u64]) {
        let (mut from, mut owed) = ([i64::MAX; LANES as usize], 0);
        for (number, lane) in lanes.filter(|(_, lane)| lane.cursor > lane.floor) {
            from[usize::from(number % LANES)] = lane.floor;
            owed |= set(number);
            lane.floor = lane.cursor;
        }
        if owed != 0 {
            let writers = writers.iter().copied().collect();
            self.stretches.push(Stretch { from, writers, owed, owed_since: 0 });
        }
        self.join();
    }

    /// Joins neighbouring stretches that wait for the same transactions. Otherwise an open transaction would leave
    /// one stretch for each look.
    fn join(&mut self) {
        let mut joined: Vec<Stretch> = Vec::with_capacity(self.stretches.len());
        let many = self.stretches.len() > STRETCHES_MAX;
        for (place, stretch) in std::mem::take(&mut self.stretches).into_iter().enumerate() {
            match joined.last_mut() {
                Some(last) if last.waits_as(&stretch) || (many && place == 1) => last.extend(stretch),
                _ => joined.push(stretch),
            }
        }
        self.stretches = joined;
    }
}

impl Stretch {
    /// Whether both stretches only wait, and for the same transactions.
    fn waits_as(&self, other: &Self) -> bool {
        let owed = self.owed | self.owed_since | other.owed | other.owed_since;
        owed == 0 && self.writers == other.writers
    }

    fn extend(&mut self, next: Self) {
        for (mine, next) in self.from.iter_mut().zip(next.from) {
            *mine = next.min(*mine);
        }
        self.writers.extend(next.writers);
        self.owed |= next.owed;
        self.owed_since |= next.owed_since;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One lane that is read on and on.
    struct Reader {
        horizon: Horizon,
        lane: Stand,
    }

    impl Reader {
        fn new() -> Self {
            Self { horizon: Horizon::default(), lane: Stand::default() }
        }

        /// Reads up to a cursor, and asks which transactions are writing. Returns the place where it began to
        /// look, and the entries that it had missed.
        fn read(&mut self, cursor: i64, writers: &[u64]) -> (i64, Set) {
            self.horizon.begin();
            let from = self.horizon.look_from(0, self.lane.floor);
            let missed = self.horizon.writing(writers, set(0));
            self.lane.cursor = cursor;
            self.horizon.looked(missed);
            self.horizon.end(set(0), set(0));
            self.horizon.note([(0, &mut self.lane)].into_iter(), writers);
            (from, missed)
        }
    }

    #[test]
    fn without_writers_one_read_is_looked_at_again() {
        let mut reader = Reader::new();
        assert_eq!(reader.read(10, &[]), (0, 0));
        assert_eq!(reader.read(20, &[]), (0, 0));
        assert_eq!(reader.read(30, &[]), (10, 0));
        assert_eq!(reader.read(40, &[]), (20, 0));
        assert!(!reader.horizon.rests());
    }

    #[test]
    fn what_was_drawn_before_nobody_wrote_is_not_looked_at_again() {
        let mut horizon = Horizon::default();
        horizon.heard(10, Some(&[]));
        assert_eq!(
            horizon.undecided_from(0, 8),
            0,
            "somebody may have drawn one since, and committed before"
        );
        horizon.heard(20, Some(&[]));
        assert_eq!((horizon.undecided_from(0, 8), horizon.undecided_from(0, 15)), (8, 10));
        horizon.heard(30, Some(&[1]));
        horizon.heard(40, None);
        assert_eq!(horizon.undecided_from(0, 25), 10, "somebody was writing, or nobody looked");
        horizon.heard(50, Some(&[]));
        assert_eq!(horizon.undecided_from(0, 45), 40);
    }

    #[test]
    fn short_writers_are_looked_for_once_more_after_they_have_ended() {
        let mut reader = Reader::new();
        assert_eq!(reader.read(10, &[1]), (0, 0));
        // It ended in between, or just after this read began.
        assert_eq!(reader.read(20, &[2]), (0, 0));
        assert_eq!(reader.read(30, &[3]), (0, 0));
        assert_eq!(reader.read(40, &[4]), (10, 0));
    }

    #[test]
    fn what_an_open_transaction_may_commit_is_looked_for_at_its_end() {
        let mut reader = Reader::new();
        assert_eq!(reader.read(10, &[7]), (0, 0));
        assert_eq!(reader.read(20, &[7]), (0, 0));
        for cursor in [30, 40, 50, 60, 70] {
            assert_eq!(reader.read(cursor, &[7]), (cursor - 20, 0), "it is still open: nothing can be there");
            assert!(reader.horizon.rests());
        }
        assert!(reader.horizon.stretches.len() <= 3, "{:?}", reader.horizon);
        assert_eq!(
            reader.read(80, &[]),
            (60, set(0)),
            "it has ended: what was read now has to wait for a look"
        );
        let (from, missed) = reader.read(90, &[]);
        assert_eq!((from, missed), (70, 0), "the look was made");
        assert!(!reader.horizon.rests());
    }

    #[test]
    fn a_transaction_that_goes_on_under_another_number_is_waited_for_again() {
        let mut reader = Reader::new();
        let _ = reader.read(10, &[7]);
        let _ = reader.read(20, &[7]);
        assert_eq!(reader.read(30, &[7]).0, 10);
        assert_eq!(reader.read(40, &[RENAMED | 5]).1, set(0), "it ended, or was prepared");
        let _ = reader.read(50, &[RENAMED | 5]);
        assert!(reader.horizon.rests());
        assert_eq!(reader.read(60, &[]).1, set(0));
        assert_eq!(reader.horizon.look_from(0, i64::MAX), 50, "all the rest was looked at");
    }

    #[test]
    fn a_lane_that_was_not_read_stays_owed() {
        let mut horizon = Horizon::default();
        let (mut zero, mut one) = (Stand::default(), Stand::default());
        (zero.cursor, one.cursor) = (10, 20);
        horizon.note([(0, &mut zero), (1, &mut one)].into_iter(), &[]);
        assert_eq!((zero.floor, one.floor), (10, 20));
        horizon.begin();
        horizon.end(set(1), set(0) | set(1));
        assert_eq!((horizon.look_from(0, zero.floor), horizon.look_from(1, one.floor)), (0, 20));
        horizon.begin();
        horizon.end(set(1), set(1));
        assert!(horizon.stretches.is_empty(), "a lane that is not held any more holds up no other");
    }

    #[test]
    fn a_read_that_came_to_nothing_pays_nothing() {
        let mut reader = Reader::new();
        let _ = reader.read(10, &[7]);
        let _ = reader.read(20, &[7]);
        let _ = reader.read(30, &[7]);
        reader.horizon.begin();
        assert_eq!(reader.horizon.writing(&[], set(0)), set(0));
        // The look failed, and so did the read: it is not ended.
        reader.horizon.begin();
        assert_eq!(reader.horizon.look_from(0, reader.lane.floor), 0);
    }

    #[test]
    fn many_open_transactions_are_looked_after_together() {
        let mut reader = Reader::new();
        for writer in 0..100_u64 {
            let open: Vec<u64> = (0..=writer).collect();
            let cursor = i64::try_from(writer).unwrap() * 10 + 10;
            let _ = reader.read(cursor, &open);
        }
        assert!(reader.horizon.stretches.len() <= STRETCHES_MAX + 1, "{}", reader.horizon.stretches.len());
        let open: Vec<u64> = (1..100).collect();
        let (_, missed) = reader.read(1_010, &open);
        assert_eq!(missed, set(0), "the oldest has ended");
    }
}
