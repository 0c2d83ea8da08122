//! What was read and is not in its place yet.

use std::collections::VecDeque;

use pillarbox_core::{Entry, Timestamp};
use tokio::time::Instant;

use super::Book;

/// The entries of one read, in order within each lane.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    entries: VecDeque<Entry>,
    /// The store's time at the read, and when it was asked for.
    read: Option<(Timestamp, Instant)>,
}

impl Incoming {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Forgets everything of a lane.
    pub(super) fn forget(&mut self, lane: u8) {
        self.entries.retain(|entry| entry.lane != Some(lane));
    }
}

impl Book {
    /// Takes over the entries of a read, for later.
    pub(in super::super) fn take_in(&mut self, entries: Vec<Entry>, now: Timestamp, at: Instant) {
        self.place_all();
        self.incoming = Incoming { entries: entries.into(), read: Some((now, at)) };
    }

    /// Puts everything that was read in its place.
    pub(in super::super) fn place_all(&mut self) {
        self.place(usize::MAX);
    }

    /// Puts so many of the entries that were read in their places.
    pub(super) fn place(&mut self, most: usize) {
        let Some((now, at)) = self.incoming.read else { return };
        for _ in 0..most {
            let Some(entry) = self.incoming.entries.pop_front() else { break };
            // It may have been settled after its read, and before the one that is under way.
            if !self.settled_before.contains(&entry.seq) {
                self.add(entry, now, at);
            }
        }
    }
}
