//! How many entries to claim next: grows while the backlog fills it, and keeps payload bytes in bounds.

use pillarbox_core::Entry;

/// The first claim of a long run, before anything is known of payload sizes.
const FIRST_CLAIM: u32 = 64;

/// The size of the next claim.
#[derive(Debug)]
pub(crate) struct Window {
    batch: u32,
    bytes_max: usize,
    size: u32,
    payload_bytes_mean: usize,
}

impl Window {
    /// Starts small: a first batch of the largest payloads must not be the largest batch as well.
    pub(crate) fn growing(batch: u32, bytes_max: usize) -> Self {
        Self { batch, bytes_max, size: FIRST_CLAIM.min(batch), payload_bytes_mean: 0 }
    }

    /// Starts at the full batch, for a run of one batch.
    pub(crate) fn full(batch: u32, bytes_max: usize) -> Self {
        Self { size: batch, ..Self::growing(batch, bytes_max) }
    }

    /// How many to claim while this much is in flight; zero: no room.
    pub(crate) fn next(&self, in_flight: usize, in_flight_max: u32, in_flight_bytes: usize) -> u32 {
        let size = self.size.min(free_places(in_flight, in_flight_max));
        if self.payload_bytes_mean == 0 {
            return size;
        }
        let room = self.bytes_max.saturating_sub(in_flight_bytes) / self.payload_bytes_mean;
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        // With nothing in flight one entry is always taken, however large: otherwise it would never move.
        if in_flight == 0 { size.min(room).max(1) } else { size.min(room) }
    }

    /// Whether the free places are enough for a claim of full size.
    pub(crate) fn is_open(&self, in_flight: usize, in_flight_max: u32) -> bool {
        free_places(in_flight, in_flight_max) >= self.size
    }

    /// What a claim brought.
    pub(crate) fn claimed(&mut self, asked: u32, entries: &[Entry]) {
        if entries.is_empty() {
            return;
        }
        let bytes: usize = entries.iter().map(|entry| entry.payload.len()).sum();
        self.payload_bytes_mean = (bytes / entries.len()).max(1);
        if entries.len() >= usize::try_from(asked).unwrap_or(usize::MAX) {
            self.size = self.size.saturating_mul(2).min(self.batch);
        }
    }
}

fn free_places(in_flight: usize, in_flight_max: u32) -> u32 {
    in_flight_max.saturating_sub(u32::try_from(in_flight).unwrap_or(u32::MAX))
}
