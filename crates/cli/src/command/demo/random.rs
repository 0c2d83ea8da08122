//! A small random generator with a seed: splitmix64.

/// Numbers that look random, the same for the same seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// A stream of its own for each part of the demo.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self(seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// True in so many of a hundred cases.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_is_one_stream() {
        let (mut a, mut b, mut other) = (Random::new(7, 1), Random::new(7, 1), Random::new(7, 2));
        let first: Vec<_> = (0..100).map(|_| a.next()).collect();
        assert_eq!(first, (0..100).map(|_| b.next()).collect::<Vec<_>>());
        assert_ne!(first, (0..100).map(|_| other.next()).collect::<Vec<_>>());
        let hits = (0..10_000).filter(|_| a.percent(20)).count();
        assert!((1_800..2_200).contains(&hits), "{hits}");
    }
}
