//! Bad luck that can be repeated.

use std::sync::atomic::{AtomicU64, Ordering};

/// A stream of random numbers from a seed.
pub(crate) struct Chance(AtomicU64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// Whether something happens that happens once in so many times.
    pub(crate) fn one_in(&self, times: u64) -> bool {
        // A Weyl sequence, stirred: see "splitmix".
        let mut z = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).is_multiple_of(times)
    }
}
