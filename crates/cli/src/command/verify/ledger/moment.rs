//! Which of two entries of a key must come first, as far as that is known.

use std::collections::HashMap;

/// When an entry was staged and when its transaction committed, on any clock that only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    staged: i64,
    committed: i64,
    rank: i64,
}

impl Moment {
    /// One after the other: each was committed before the next was staged.
    pub(crate) const fn in_turn(number: i64) -> Self {
        Self { staged: number, committed: number, rank: number }
    }

    /// Known to be of one transaction, and nothing is known between two transactions.
    pub(crate) const fn in_transaction(transaction: i64, number: i64) -> Self {
        Self { staged: i64::MIN, committed: transaction, rank: number }
    }

    /// Staged and committed at these moments, the one before the other. Entries that were committed at the same moment
    /// are of one transaction.
    pub(crate) const fn between(staged: i64, committed: i64, number: i64) -> Self {
        Self { staged, committed, rank: number }
    }

    /// Its number among all that was staged.
    pub(crate) const fn rank(self) -> i64 {
        self.rank
    }

    /// Whether its first delivery must come before that of another entry of its key.
    #[cfg(test)]
    pub(crate) fn comes_before(self, other: Self) -> bool {
        self.committed < other.staged || (self.committed == other.committed && self.rank < other.rank)
    }

    /// Whether it is one of those in turn: only the moments count.
    const fn is_alone(self) -> bool {
        self.staged == self.committed
    }
}

/// What has arrived of one key.
#[derive(Default)]
pub(crate) struct KeyHistory {
    /// The latest moment at which something of it was staged.
    staged: Option<i64>,
    /// The last of each transaction.
    last: HashMap<i64, i64>,
}

impl KeyHistory {
    /// Something arrives for the first time. Says whether something is there that should have come after it.
    pub(crate) fn arrive(&mut self, moment: Moment) -> bool {
        let overtaken = self.staged.is_some_and(|staged| moment.committed < staged);
        self.staged = self.staged.max(Some(moment.staged));
        if moment.is_alone() {
            return overtaken;
        }
        let last = self.last.entry(moment.committed).or_insert(moment.rank);
        let behind = *last > moment.rank;
        *last = moment.rank.max(*last);
        overtaken || behind
    }
}
