//! How far back a reader must look for what was committed late.

use std::collections::BTreeSet;

/// Moves floors up to earlier cursors, once nobody can commit anything below them any more.
///
/// A transaction that drew a seq at or below a cursor was writing when the cursor was reached. So the cursors are
/// noted together with all transactions that were writing just after; once each of these has ended, one more
/// read has seen whatever they committed.
#[derive(Debug, Default)]
pub(super) enum Horizon {
    /// Nothing is noted.
    #[default]
    Nothing,
    /// These transactions must end before the floors can move to these cursors.
    Noted { cursors: Vec<(u8, i64)>, writers: BTreeSet<u64> },
    /// They have ended; the next read sees what they left.
    Ended { cursors: Vec<(u8, i64)> },
}

impl Horizon {
    /// A read was made, its writers were looked at if it asked for them, and `cursors` is where the reader stands
    /// after it. Returns the floors that can move.
    pub(super) fn read(
        &mut self,
        writers: Option<&[u64]>,
        cursors: impl FnOnce() -> Vec<(u8, i64)>,
    ) -> Vec<(u8, i64)> {
        let mut floors = Vec::new();
        if let Self::Ended { cursors } = self {
            floors = std::mem::take(cursors);
            *self = Self::Nothing;
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
        assert_eq!(horizon.read(Some(&[1, 2]), || vec![(0, 10)]), []);
        assert_eq!(horizon.read(Some(&[2, 3]), || vec![(0, 20)]), []);
        assert_eq!(horizon.read(None, || vec![(0, 30)]), [], "nobody looked");
        assert_eq!(horizon.read(Some(&[3]), || vec![(0, 40)]), [], "ended, but maybe after this read began");
        assert_eq!(horizon.read(None, || vec![(0, 50)]), [(0, 10)]);
    }

    #[test]
    fn without_writers_a_floor_follows_one_read_behind() {
        let mut horizon = Horizon::default();
        assert_eq!(horizon.read(Some(&[]), || vec![(0, 10)]), []);
        assert_eq!(horizon.read(Some(&[]), || vec![(0, 20)]), [(0, 10)]);
        assert_eq!(horizon.read(Some(&[]), || vec![(0, 30)]), [(0, 20)]);
    }
}
