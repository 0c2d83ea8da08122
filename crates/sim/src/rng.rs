//! The simulator's only source of chance: the same seed gives the same numbers for ever.

use std::ops::RangeInclusive;
use std::time::Duration;

/// A small generator (xoshiro256\*\*, seeded by SplitMix64). Not for secrets.
#[derive(Clone, Debug)]
pub(crate) struct Rng([u64; 4]);

impl Rng {
    /// The numbers of this seed.
    pub(crate) fn new(seed: u64) -> Self {
        let mut state = seed;
        Self([(); 4].map(|()| split_mix(&mut state)))
    }

    /// A generator of its own for one actor. What one actor draws does not move what another one draws, so that
    /// a world with one actor or one fault less is still nearly the same world.
    pub(crate) fn fork(&self, label: &str) -> Self {
        // FNV-1a: the label only has to tell the actors apart.
        let hash = label.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        Self::new(self.0[0] ^ hash.rotate_left(17))
    }

    /// The next number.
    pub(crate) fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.0;
        let answer = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        answer
    }

    /// A number of this range.
    pub(crate) fn between(&mut self, range: RangeInclusive<u64>) -> u64 {
        let width = range.end().saturating_sub(*range.start()).saturating_add(1);
        // The high half of the product is below the width: no division, and no bias that a simulation could see.
        let product = u128::from(self.next_u64()) * u128::from(width);
        range.start() + u64::try_from(product >> 64).unwrap_or(0)
    }

    /// A number of this range.
    pub(crate) fn between_u32(&mut self, range: RangeInclusive<u32>) -> u32 {
        let number = self.between(u64::from(*range.start())..=u64::from(*range.end()));
        u32::try_from(number).unwrap_or(*range.end())
    }

    /// A place in a list of this length; `None` for an empty list.
    pub(crate) fn index(&mut self, len: usize) -> Option<usize> {
        let last = u64::try_from(len).ok()?.checked_sub(1)?;
        usize::try_from(self.between(0..=last)).ok()
    }

    /// One of these.
    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        self.index(of.len()).and_then(|index| of.get(index).copied())
    }

    /// True this many times in a thousand.
    pub(crate) fn permille(&mut self, times: u32) -> bool {
        self.between_u32(0..=999) < times
    }

    /// Whole milliseconds of this range: the grain of the runtime's timers.
    pub(crate) fn millis(&mut self, range: RangeInclusive<u64>) -> Duration {
        Duration::from_millis(self.between(range))
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_one_others() {
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            (0..100).map(|_| rng.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert_ne!(Rng::new(7).fork("a").next_u64(), Rng::new(7).fork("b").next_u64());
    }

    #[test]
    fn a_range_is_filled_from_end_to_end_and_never_left() {
        let mut rng = Rng::new(1);
        let mut seen = [0_u32; 5];
        for _ in 0..5_000 {
            seen[usize::try_from(rng.between(10..=14) - 10).unwrap()] += 1;
        }
        assert!(seen.iter().all(|times| (800..1200).contains(times)), "{seen:?}");
        assert_eq!(rng.between(3..=3), 3);
        assert_eq!(rng.index(0), None);
    }
}
