//! How far back a reader must look for what was committed late.

use std::collections::BTreeSet;

/// Moves floors up to earlier cursors, once nobody can commit anything below them any more.
///
/// A transaction that drew a seq at or below a cursor was writing when the cursor was reached. So the cursors are
/// noted together with all transactions that were writing just after; once each of these has ended, one more
/// read of a lane has seen whatever they committed to it.
#[derive(Debug, Default)]
pub(super) enum Horizon {
    /// Nothing is noted.
    #[default]
    Nothing,
    /// These transactions must end before the floors can move to these cursors.
    Noted { cursors: Vec<(u8, i64)>, writers: BTreeSet<u64> },
    /// They have ended; the next read of each lane sees what they left in it.
    Ended { cursors: Vec<(u8, i64)> },
}

impl Horizon {
    /// A read of these lanes was made, its writers were looked at if it asked for them, and `cursors` is where the
    /// reader stands after it in all lanes that it holds. Returns the floors that can move.
    pub(super) fn read(
        &mut self,
        lanes: &[u8],
        writers: Option<&[u64]>,
        cursors: impl Fn() -> Vec<(u8, i64)>,
    ) -> Vec<(u8, i64)> {
        let mut floors = Vec::new();
        if let Self::Ended { cursors: noted } = self {
            let held = cursors();
            noted.retain(|(lane, _)| held.iter().any(|(held, _)| held == lane));
            floors = noted.extract_if(.., |(lane, _)| lanes.contains(lane)).collect();
            if noted.is_empty() {
                *self = Self::Nothing;
            }
        }
        let Some(writers) = writers else { return floors };
        match self {
            Self::Nothing if writers.is_empty() => *self = Self::Ended { cursors: cursors() },
            Self::Nothing => {
                *self = Self::Noted { cursors: cursors(), writers: writers.iter().copied().collect() };
            }
            Self::Noted { cursors, writers: noted } => {
                noted.retain(|writer| writers.contains(writer));
                if noted.is_empty() {
                    *self = Self::Ended { cursors: std::mem::take(cursors) };
                }
            }
            Self::Ended { .. } => {}
        }
        floors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_waits_for_every_writer_of_its_time_and_for_one_more_read() {
        let mut horizon = Horizon::default();
        assert_eq!(horizon.read(&[0], Some(&[1, 2]), || vec![(0, 10)]), []);
        assert_eq!(horizon.read(&[0], Some(&[2, 3]), || vec![(0, 20)]), []);
        assert_eq!(horizon.read(&[0], None, || vec![(0, 30)]), [], "nobody looked");
        assert_eq!(
            horizon.read(&[0], Some(&[3]), || vec![(0, 40)]),
            [],
            "ended, but maybe after this read began"
        );
        assert_eq!(horizon.read(&[0], None, || vec![(0, 50)]), [(0, 10)]);
    }

    #[test]
    fn without_writers_a_floor_follows_one_read_behind() {
        let mut horizon = Horizon::default();
        assert_eq!(horizon.read(&[0], Some(&[]), || vec![(0, 10)]), []);
        assert_eq!(horizon.read(&[0], Some(&[]), || vec![(0, 20)]), [(0, 10)]);
        assert_eq!(horizon.read(&[0], Some(&[]), || vec![(0, 30)]), [(0, 20)]);
    }

    #[test]
    fn the_floor_of_a_lane_waits_for_a_read_of_that_lane() {
        let mut horizon = Horizon::default();
        let cursors = || vec![(0, 10), (1, 20)];
        assert_eq!(horizon.read(&[0, 1], Some(&[]), cursors), []);
        assert_eq!(horizon.read(&[1], None, cursors), [(1, 20)], "nobody has looked at the other one");
        assert_eq!(horizon.read(&[0], None, cursors), [(0, 10)]);
    }

    #[test]
    fn a_lane_that_is_not_held_any_more_holds_up_no_other() {
        let mut horizon = Horizon::default();
        assert_eq!(horizon.read(&[0, 1], Some(&[]), || vec![(0, 10), (1, 20)]), []);
        assert_eq!(horizon.read(&[1], Some(&[]), || vec![(1, 30)]), [(1, 20)]);
        assert_eq!(horizon.read(&[1], Some(&[]), || vec![(1, 40)]), [(1, 30)]);
    }
}
