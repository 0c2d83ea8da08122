//! The entries of one key, in order, or one entry without a key.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use tokio::time::Instant;

/// What must be delivered in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Name {
    /// All entries of a key.
    Key(Arc<str>),
    /// An entry without a key.
    Alone(i64),
}

/// Where a chain is noted as being able to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noted {
    /// Its head, with this seq, can be handed out.
    Ready(i64),
    /// Its head waits until then.
    Waiting(Instant, i64),
}

/// Entries of one key that are known and not settled.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) lane: u8,
    /// Not handed out, by seq.
    pub(super) queued: VecDeque<i64>,
    /// How many are handed out.
    pub(super) handed: usize,
    /// Dead entries that hold back what is behind them.
    pub(super) dead: BTreeSet<i64>,
    pub(super) noted: Option<Noted>,
}

impl Chain {
    pub(super) fn new(lane: u8) -> Self {
        Self { lane, queued: VecDeque::new(), handed: 0, dead: BTreeSet::new(), noted: None }
    }

    /// Puts a seq in its place.
    pub(super) fn insert(&mut self, seq: i64) {
        if self.queued.back().is_none_or(|last| *last < seq) {
            self.queued.push_back(seq);
        } else if let Err(place) = self.queued.binary_search(&seq) {
            self.queued.insert(place, seq);
        }
    }

    pub(super) fn remove(&mut self, seq: i64) {
        if let Ok(place) = self.queued.binary_search(&seq) {
            self.queued.remove(place);
        }
    }

    /// Whether a dead entry stands before this one.
    pub(super) fn is_blocked(&self, seq: i64) -> bool {
        self.dead.first().is_some_and(|dead| *dead < seq)
    }

    /// Whether nothing is left to remember.
    pub(super) fn is_over(&self) -> bool {
        self.queued.is_empty() && self.handed == 0 && self.dead.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_late_is_put_in_its_place_once() {
        let mut chain = Chain::new(0);
        for seq in [5, 9, 7, 5, 1, 9] {
            chain.insert(seq);
        }
        assert_eq!(chain.queued, [1, 5, 7, 9]);
        chain.remove(5);
        chain.remove(6);
        assert_eq!(chain.queued, [1, 7, 9]);
    }

    #[test]
    fn a_dead_entry_blocks_only_what_is_behind_it() {
        let mut chain = Chain::new(0);
        chain.dead.insert(5);
        assert!(chain.is_blocked(6) && !chain.is_blocked(4));
    }
}
