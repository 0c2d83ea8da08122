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
    /// Takes over the entries of a read, for later. What is or was under way while it was read is not among them: it may be
    /// settled by the time that they are put in their places.
    pub(in super::super) fn take_in(&mut self, mut entries: Vec<Entry>, now: Timestamp, at: Instant) {
        self.place_all();
        entries.retain(|entry| {
            !self.handed.contains_key(&entry.seq) && !self.settled_meanwhile.contains(&entry.seq)
        });
        self.incoming = Incoming { entries: entries.into(), read: Some((now, at)) };
    }

    /// Puts everything that was read in its place.
    pub(in super::super) fn place_all(&mut self) {
        self.place(usize::MAX);
    }

    /// Puts this many of the entries that were read in their places.
    pub(super) fn place(&mut self, most: usize) {
        let Some((now, at)) = self.incoming.read else { return };
        for _ in 0..most {
            let Some(entry) = self.incoming.entries.pop_front() else { break };
            self.add(entry, now, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pillarbox_core::port::Verdict;
    use pillarbox_core::{Event, Fence};
    use pillarbox_testkit::{MemoryOutbox, MemoryStore};

    use super::super::super::OnDead;
    use super::super::super::lane::Lane;
    use super::*;

    #[tokio::test]
    async fn what_is_settled_after_it_was_read_again_does_not_come_back() {
        let store = MemoryStore::new();
        let mut tx = store.begin();
        let event = Event::new("order.placed", "{}").key("k");
        let _ = MemoryOutbox::new(&store, "orders").stage(&mut tx, event).await.unwrap();
        tx.commit();
        let mut entry = store.entries().remove(0);
        entry.lane = Some(0);
        let (now, at) = (entry.created_at, Instant::now());
        let mut book = Book::new(crate::feed::lanes::ALL_OF_A_KEY, OnDead::Block);
        book.lanes.insert(0, Lane { revision: Some(0), ..Lane::new(Fence(1), 1) });
        book.begin_read();
        book.take_in(vec![entry.clone()], now, at);
        assert_eq!(book.ready(at, 1), 1);
        assert_eq!(book.hand_out(1, "relay", now.saturating_add(Duration::from_secs(1)), at).len(), 1);
        // The lane was given up and is read from its beginning.
        book.begin_read();
        book.take_in(vec![entry.clone()], now, at);
        book.settled(entry.seq, &Verdict::Delivered, at);
        book.begin_read();
        assert_eq!(book.ready(at, 1), 0);
    }
}
