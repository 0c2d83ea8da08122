//! The entries of one key, in order, or one entry without a key.

use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;

use tokio::time::Instant;

use crate::seqs::SeqHasher;

/// What must be delivered in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// All entries of a key, by the number that it has as long as there are some.
    Key(u64),
    /// An entry without a key.
    Alone(i64),
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Key(number) => state.write_u64(!number),
            Self::Alone(seq) => state.write_i64(*seq),
        }
    }
}

/// Where a chain is noted as being able to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noted {
    /// Its head, with this seq, can be handed out.
    Ready(i64),
    /// Its head, with this seq, can be handed out in small company: this many of its leases have expired.
    Suspect(u32, i64),
    /// Its head waits until then.
    Waiting(Instant, i64),
    /// Its head waits for what was handed out before it, and for nothing else.
    Following,
}

/// Entries of one key that are known and not settled.
#[derive(Debug)]
pub(super) struct Chain {
    key: Option<Arc<str>>,
    pub(super) lane: u8,
    /// Not handed out, by seq.
    pub(super) queued: VecDeque<i64>,
    /// How many are handed out and not settled.
    pub(super) handed: usize,
    /// How many of these the destination has not confirmed.
    pub(super) open: usize,
    /// Entries that are not read and hold back what is behind them: dead, or in flight by rows.
    pub(super) dead: BTreeSet<i64>,
    pub(super) noted: Option<Noted>,
}

impl Chain {
    fn new(key: Option<Arc<str>>, lane: u8) -> Self {
        Self { key, lane, queued: VecDeque::new(), handed: 0, open: 0, dead: BTreeSet::new(), noted: None }
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

    /// One that was handed out has its verdict, or is given up; it may have been confirmed before.
    pub(super) fn end(&mut self, confirmed: bool) {
        self.handed -= 1;
        self.open -= usize::from(!confirmed);
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

/// All chains. A key is looked up once for each entry; from then on its chain has a number.
#[derive(Debug, Default)]
pub(super) struct Chains {
    chains: HashMap<Name, Chain, BuildHasherDefault<SeqHasher>>,
    /// Users choose keys: these are hashed against attacks.
    keys: HashMap<Arc<str>, u64>,
    next: u64,
}

impl Chains {
    /// The name of what an entry belongs to, if there is something of it.
    pub(super) fn name_of(&self, seq: i64, key: Option<&str>) -> Option<Name> {
        match key {
            Some(key) => self.keys.get(key).map(|number| Name::Key(*number)),
            None => Some(Name::Alone(seq)),
        }
    }

    /// The chain that an entry belongs to.
    pub(super) fn of(&mut self, seq: i64, key: Option<&str>, lane: u8) -> (Name, &mut Chain) {
        let name = self.name_of(seq, key).unwrap_or_else(|| {
            self.next += 1;
            Name::Key(self.next)
        });
        let chain = match self.chains.entry(name) {
            Slot::Occupied(slot) => slot.into_mut(),
            Slot::Vacant(slot) => {
                let key: Option<Arc<str>> = key.map(Arc::from);
                if let (Some(key), Name::Key(number)) = (&key, name) {
                    self.keys.insert(Arc::clone(key), number);
                }
                slot.insert(Chain::new(key, lane))
            }
        };
        (name, chain)
    }

    pub(super) fn get(&self, name: Name) -> Option<&Chain> {
        self.chains.get(&name)
    }

    pub(super) fn get_mut(&mut self, name: Name) -> Option<&mut Chain> {
        self.chains.get_mut(&name)
    }

    pub(super) fn remove(&mut self, name: Name) {
        if let Some(key) = self.chains.remove(&name).and_then(|chain| chain.key) {
            self.keys.remove(&key);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Name, &Chain)> {
        self.chains.iter().map(|(name, chain)| (*name, chain))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (Name, &mut Chain)> {
        self.chains.iter_mut().map(|(name, chain)| (*name, chain))
    }

    /// The names of everything in a lane.
    pub(super) fn of_lane(&self, lane: u8) -> Vec<Name> {
        self.iter().filter(|(_, chain)| chain.lane == lane).map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_late_is_put_in_its_place_once() {
        let mut chain = Chain::new(None, 0);
        for seq in [5, 9, 7, 5, 1, 9] {
            chain.insert(seq);
        }
        assert_eq!(chain.queued, [1, 5, 7, 9]);
        chain.remove(5);
        chain.remove(6);
        assert_eq!(chain.queued, [1, 7, 9]);
    }

    #[test]
    fn a_key_has_its_number_until_nothing_of_it_is_left() {
        let mut chains = Chains::default();
        let (first, _) = chains.of(1, Some("a"), 0);
        assert_eq!(chains.of(2, Some("a"), 0).0, first);
        assert_ne!(chains.of(3, Some("b"), 0).0, first);
        assert_eq!(chains.of(4, None, 0).0, Name::Alone(4));
        chains.remove(first);
        assert_eq!(chains.name_of(5, Some("a")), None);
        assert!(chains.keys.len() == 1 && chains.chains.len() == 2);
    }

    #[test]
    fn a_dead_entry_blocks_only_what_is_behind_it() {
        let mut chain = Chain::new(None, 0);
        chain.dead.insert(5);
        assert!(chain.is_blocked(6) && !chain.is_blocked(4));
    }
}
