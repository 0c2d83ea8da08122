//! Maps and sets by seq. A relay looks a seq up a dozen times, and nobody chooses seqs, so that a hash against attacks
//! would be most of what it costs.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use pillarbox_core::Held;

pub(crate) type SeqMap<V> = HashMap<i64, V, BuildHasherDefault<SeqHasher>>;
pub(crate) type HeldMap<V> = HashMap<Held, V, BuildHasherDefault<SeqHasher>>;
pub(crate) type SeqSet = HashSet<i64, BuildHasherDefault<SeqHasher>>;

/// Spreads neighbouring numbers over all bits: a multiplication by the golden ratio, its high half folded in below.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SeqHasher(u64);

impl Hasher for SeqHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0 ^ u64::from(*byte));
        }
    }

    fn write_i64(&mut self, number: i64) {
        self.write_u64(number.cast_unsigned());
    }

    fn write_u64(&mut self, number: u64) {
        let product = (number ^ self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn neighbours_are_spread_over_the_high_and_the_low_bits() {
        let hash = |seq: i64| BuildHasherDefault::<SeqHasher>::default().hash_one(seq);
        // What a table of 4,096 places looks at, below, and what it compares first, above.
        for bits in [|hash: u64| hash & 0xfff, |hash: u64| hash >> 57] {
            let places: HashSet<u64> = (0..4_096).map(|seq| bits(hash(seq))).collect();
            assert!(places.len() >= 100, "{}", places.len());
        }
        let places: HashSet<u64> = (0..4_096).map(|seq| hash(seq * 64) & 0xfff).collect();
        assert!(places.len() >= 2_000, "{}", places.len());
    }
}
