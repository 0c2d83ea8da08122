//! What of a batch may be written when: entries by themselves, and entries of one key that stop each other.

use std::collections::{BTreeMap, HashMap, VecDeque};

use pillarbox_core::{Entry, Outcome};

/// Something to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// An entry, in a batch with others.
    One(usize),
    /// An entry in a batch of its own.
    Alone(usize),
    /// The next entries of this run.
    Run(usize),
}

/// The entries of one key of a lane, in order. Those that are written together are in one batch of the server, which it
/// takes as a whole or not at all. The next ones are written when these are confirmed.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// What is not written yet.
    left: VecDeque<usize>,
    /// What is written, and what became of it.
    written: BTreeMap<usize, Option<Told>>,
    /// Whether its entries go one by one: together they were too large.
    pub(super) one_by_one: bool,
}

/// What became of a written entry.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Told {
    Settled(Outcome),
    /// Too large together with others. Whether it is too large alone is not known.
    TooLargeTogether,
}

impl Run {
    /// The next entry to write.
    pub(super) fn next(&self) -> Option<usize> {
        self.left.front().copied()
    }

    /// The next entry was written.
    pub(super) fn write(&mut self) {
        if let Some(index) = self.left.pop_front() {
            self.written.insert(index, None);
        }
    }

    /// The next entry cannot be written. Returns what is held back behind it.
    pub(super) fn stop(&mut self) -> Vec<usize> {
        self.left.drain(..).skip(1).collect()
    }

    /// How many entries are written and wait for their answers.
    pub(super) fn waits_for(&self) -> usize {
        self.written.len()
    }

    /// Takes the answer to one entry. Once all that was written has its answer, returns the outcomes to report.
    pub(super) fn answer(&mut self, index: usize, told: Told) -> Option<Vec<(usize, Outcome)>> {
        self.written.insert(index, Some(told));
        if self.written.values().any(Option::is_none) {
            return None;
        }
        let mut outcomes = Vec::with_capacity(self.written.len());
        let (mut again, mut has_failed) = (VecDeque::new(), false);
        for (index, told) in std::mem::take(&mut self.written) {
            match told {
                Some(Told::Settled(Outcome::Confirmed)) => outcomes.push((index, Outcome::Confirmed)),
                // What may have been written is told as it is, also behind one that failed.
                Some(Told::Settled(outcome @ Outcome::Unknown(_))) => {
                    has_failed = true;
                    outcomes.push((index, outcome));
                }
                Some(Told::Settled(outcome)) => {
                    let first = !std::mem::replace(&mut has_failed, true);
                    outcomes.push((index, if first { outcome } else { Outcome::Untried }));
                }
                Some(Told::TooLargeTogether) if !has_failed => again.push_back(index),
                Some(Told::TooLargeTogether) | None => outcomes.push((index, Outcome::Untried)),
            }
        }
        if has_failed {
            let held_back = again.into_iter().chain(self.left.drain(..));
            outcomes.extend(held_back.map(|index| (index, Outcome::Untried)));
        } else if !again.is_empty() {
            self.one_by_one = true;
            again.append(&mut self.left);
            self.left = again;
        }
        Some(outcomes)
    }
}

/// Divides a batch into work and runs. Only entries of a lane have an order; one that is the only one of its key goes by
/// itself. The second list says to which run each entry belongs.
pub(super) fn divide(batch: &[Entry]) -> (VecDeque<Work>, Vec<Option<usize>>, Vec<Run>) {
    let key = |entry: &Entry| entry.key.clone().filter(|_| entry.lane.is_some());
    let mut counts: HashMap<String, usize> = HashMap::new();
    for key in batch.iter().filter_map(key) {
        *counts.entry(key).or_default() += 1;
    }
    let (mut work, mut run_of, mut runs) = (VecDeque::new(), Vec::with_capacity(batch.len()), Vec::new());
    let mut numbers: HashMap<String, usize> = HashMap::new();
    for (index, entry) in batch.iter().enumerate() {
        let together = key(entry).filter(|key| counts.get(key).is_some_and(|count| *count > 1));
        let Some(key) = together else {
            work.push_back(Work::One(index));
            run_of.push(None);
            continue;
        };
        let number = *numbers.entry(key).or_insert_with(|| {
            work.push_back(Work::Run(runs.len()));
            runs.push(Run::default());
            runs.len() - 1
        });
        runs[number].left.push_back(index);
        run_of.push(Some(number));
    }
    (work, run_of, runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pillarbox_conformance::delivery::entry;
    use pillarbox_core::Event;

    fn of(key: Option<&str>, lane: Option<u8>) -> Entry {
        let mut entry = entry(key.into_iter().fold(Event::new("t", "{}"), Event::key));
        entry.lane = lane;
        entry
    }

    /// A run of entries of which these many are written.
    fn run(entries: usize, written: usize) -> Run {
        let mut run = Run { left: (0..entries).collect(), ..Run::default() };
        (0..written).for_each(|_| run.write());
        run
    }

    fn failed() -> Told {
        Told::Settled(Outcome::failed("no", "no"))
    }

    #[test]
    fn only_keys_of_a_lane_with_several_entries_go_together() {
        let lane = |key| of(key, Some(1));
        let batch = [lane(Some("a")), lane(Some("b")), lane(None), lane(Some("a")), of(Some("b"), None)];
        let (work, run_of, runs) = divide(&batch);
        assert_eq!(work, [Work::Run(0), Work::One(1), Work::One(2), Work::One(4)]);
        assert_eq!(run_of, [Some(0), None, None, Some(0), None]);
        assert_eq!(runs[0].left, [0, 3]);
    }

    #[test]
    fn confirmed_entries_let_the_next_ones_go() {
        let mut run = run(3, 2);
        assert_eq!(run.answer(1, Told::Settled(Outcome::Confirmed)), None);
        let outcomes = run.answer(0, Told::Settled(Outcome::Confirmed)).unwrap();
        assert_eq!(outcomes, [(0, Outcome::Confirmed), (1, Outcome::Confirmed)]);
        assert_eq!(run.next(), Some(2));
    }

    #[test]
    fn the_first_failure_is_told_and_all_behind_it_is_untried() {
        let mut run = run(4, 3);
        assert_eq!(run.answer(0, Told::Settled(Outcome::Confirmed)), None);
        assert_eq!(run.answer(2, failed()), None);
        let outcomes = run.answer(1, failed()).unwrap();
        assert_eq!(outcomes[1], (1, Outcome::failed("no", "no")));
        assert_eq!(outcomes[2..], [(2, Outcome::Untried), (3, Outcome::Untried)]);
        assert_eq!(run.next(), None);
    }

    #[test]
    fn what_may_have_been_written_is_never_untried() {
        let unknown = Outcome::unknown("no_answer", "no");
        let mut run = run(3, 2);
        run.answer(0, Told::Settled(unknown.clone()));
        let outcomes = run.answer(1, Told::Settled(unknown.clone())).unwrap();
        assert_eq!(outcomes, [(0, unknown.clone()), (1, unknown), (2, Outcome::Untried)]);
    }

    #[test]
    fn what_is_too_large_together_goes_one_by_one_in_order() {
        let mut run = run(4, 3);
        run.answer(0, Told::Settled(Outcome::Confirmed));
        run.answer(1, Told::TooLargeTogether);
        assert_eq!(run.answer(2, Told::TooLargeTogether).unwrap(), [(0, Outcome::Confirmed)]);
        assert!(run.one_by_one);
        assert_eq!(run.left, [1, 2, 3]);
        run.write();
        assert_eq!(run.stop(), [3], "2 is the one that cannot be written");
    }
}
