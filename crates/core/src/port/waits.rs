//! How long entries waited until they were delivered.

use std::time::Duration;

use crate::error::Result;
use crate::name::RouteName;
use crate::time::Timestamp;

use super::shared::Columns;

/// The upper bounds of [`Waits::counts`], the shortest first.
pub const WAIT_BOUNDS: [Duration; 10] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_secs(60),
    Duration::from_secs(5 * 60),
    Duration::from_secs(3600),
];

/// A request for how long the entries of a route waited.
#[derive(Clone, Debug)]
pub struct WaitsRequest {
    /// The route.
    pub route: RouteName,
    /// How far back to look. Only entries that were delivered within this time are counted.
    pub within: Duration,
    /// The time of the operation. `None`: the database's clock.
    pub now: Option<Timestamp>,
}

/// How long delivered entries of a route waited, as counts of entries.
///
/// The wait of an entry begins when it is staged and ends when its delivery is recorded. The delay that an
/// application asked for and the time between retries are part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// How many entries waited at most as long as each of [`WAIT_BOUNDS`], and longer than the bound before
    /// it. The last count is of the entries that waited longer than every bound.
    pub counts: [u64; WAIT_BOUNDS.len() + 1],
}

impl Waits {
    /// How many entries were looked at.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Counts an entry that waited for this long.
    pub fn add(&mut self, wait: Duration) {
        self.counts[WAIT_BOUNDS.partition_point(|bound| *bound < wait)] += 1;
    }

    /// The place in [`counts`](Self::counts) of an entry, by its number in the order of waiting. Number 0
    /// waited the shortest. `None`: there are not that many entries.
    #[must_use]
    pub fn place_of(&self, number: u64) -> Option<usize> {
        let mut passed = 0;
        self.counts.iter().position(|count| {
            passed += count;
            number < passed
        })
    }

    /// Adds a row of `wait in microseconds`.
    ///
    /// # Errors
    /// When the row cannot be read.
    pub fn count(&mut self, row: &mut impl Columns) -> Result<()> {
        self.add(Duration::from_micros(row.count()?));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_counted_up_to_its_bound_and_beyond_the_last() {
        for (millis, place) in
            [(0, 0), (10, 0), (11, 1), (50, 1), (5_000, 5), (5_001, 6), (3_600_000, 9), (3_600_001, 10)]
        {
            let mut waits = Waits::default();
            waits.add(Duration::from_millis(millis));
            assert_eq!((waits.counts[place], waits.entries()), (1, 1), "{millis} ms: {waits:?}");
        }
    }

    #[test]
    fn entries_are_found_in_the_order_of_waiting() {
        let mut waits = Waits::default();
        assert_eq!(waits.place_of(0), None);
        for millis in [7_200_000, 5, 40, 30] {
            waits.add(Duration::from_millis(millis));
        }
        let places: Vec<_> = (0..5).map(|number| waits.place_of(number)).collect();
        assert_eq!(places, [Some(0), Some(1), Some(1), Some(10), None]);
    }
}
