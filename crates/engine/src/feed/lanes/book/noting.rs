//! Noting which keys can go on: now, at some time, or not before something else happens.

use tokio::time::Instant;

use super::super::OnDead;
use super::super::chain::{Name, Noted};
use super::super::lane::Lane;
use super::Book;

impl Book {
    /// Nothing that has a key goes on in this lane before it is known what stands before it.
    pub(in super::super) fn doubt(&mut self, lane: u8) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.revision = None;
        }
        self.note_lane(lane);
    }

    /// The lane was looked at from its beginning.
    pub(in super::super) fn looked_at(&mut self, lane: u8, revision: i64) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.revision = Some(revision);
        }
        self.note_lane(lane);
    }

    pub(super) fn note_lane(&mut self, lane: u8) {
        for name in self.chains.of_lane(lane) {
            self.note(name);
        }
    }

    /// A row that cannot be read has its verdict. Only the store knows its key, and so what it may hold back.
    pub(super) fn unreadable_settled(&mut self, lane: u8) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.unreadable = lane.unreadable.saturating_sub(1);
        }
        if self.on_dead == OnDead::Block {
            self.doubt(lane);
        } else {
            self.note_lane(lane);
        }
    }

    pub(super) fn note(&mut self, name: Name) {
        self.note_at(name, Instant::now());
    }

    /// Notes whether a chain can go on: now, at some time, or not before something else happens.
    pub(super) fn note_at(&mut self, name: Name, now: Instant) {
        let Some(chain) = self.chains.get_mut(name) else { return };
        let head = chain.queued.front().copied();
        let held = matches!(name, Name::Key(_)) && self.lanes.get(chain.lane).is_some_and(Lane::holds_keys);
        let noted = match head {
            Some(seq) if !held && !chain.is_blocked(seq) => match (chain.open, self.due.get(&seq)) {
                (0, Some(due)) if *due > now => Some(Noted::Waiting(*due, seq)),
                (0, _) => {
                    self.due.remove(&seq);
                    let crashes = self.crashes.get(&seq);
                    Some(crashes.map_or(Noted::Ready(seq), |crashes| Noted::Suspect(*crashes, seq)))
                }
                (_, None) if !self.crashes.contains_key(&seq) => Some(Noted::Following),
                _ => None,
            },
            _ => None,
        };
        if chain.noted != noted {
            match chain.noted {
                Some(Noted::Ready(seq)) => {
                    self.ready.remove(&seq);
                }
                Some(Noted::Suspect(crashes, seq)) => {
                    self.suspects.remove(&(crashes, seq));
                }
                Some(Noted::Waiting(until, seq)) => {
                    self.waiting.remove(&(until, seq));
                }
                Some(Noted::Following) => self.following -= 1,
                None => {}
            }
            chain.noted = noted;
            match noted {
                Some(Noted::Ready(seq)) => {
                    self.ready.insert(seq, name);
                }
                Some(Noted::Suspect(crashes, seq)) => {
                    self.suspects.insert((crashes, seq), name);
                }
                Some(Noted::Waiting(until, seq)) => {
                    self.waiting.insert((until, seq), name);
                }
                Some(Noted::Following) => self.following += 1,
                None => {}
            }
        }
        if noted.is_none() && chain.is_over() {
            self.chains.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use pillarbox_core::port::Verdict;
    use pillarbox_core::{Entry, Event, Fence, Held};
    use pillarbox_testkit::{MemoryOutbox, MemoryStore};

    use super::*;

    /// A book of one lane with this many entries of one key, handed out one at a time.
    async fn book_of(entries: usize, at: Instant) -> (Book, Vec<Entry>) {
        let store = MemoryStore::new();
        let mut tx = store.begin();
        for _ in 0..entries {
            let event = Event::new("order.placed", "{}").key("k");
            let _ = MemoryOutbox::new(&store, "orders").stage(&mut tx, event).await.unwrap();
        }
        tx.commit();
        let mut entries = store.entries();
        entries.iter_mut().for_each(|entry| entry.lane = Some(0));
        let mut book = Book::new(1, OnDead::Block);
        book.lanes.insert(0, Lane { revision: Some(0), ..Lane::new(Fence(1), 1) });
        for entry in &entries {
            book.add(entry.clone(), entry.created_at, at);
        }
        (book, entries)
    }

    #[tokio::test]
    async fn a_key_follows_until_what_is_before_it_is_confirmed() {
        let at = Instant::now();
        let (mut book, entries) = book_of(3, at).await;
        let lease_end = entries[0].created_at;
        let mut taken = Vec::new();
        let mut counts = |book: &mut Book, take: usize| {
            taken.extend(book.hand_out(take, "relay", lease_end, at));
            (book.ready(at, 9), book.following(9), taken.len())
        };
        assert_eq!(counts(&mut book, 0), (1, 0, 0));
        assert_eq!(counts(&mut book, 9), (0, 1, 1), "the second waits for the first");
        book.confirmed(Held { seq: entries[0].seq, fence: Fence(1) }, at);
        assert_eq!(counts(&mut book, 0), (1, 0, 1));
        assert_eq!(counts(&mut book, 9), (0, 1, 2));
        book.doubt(0);
        assert_eq!(counts(&mut book, 9), (0, 0, 2), "nothing of a lane in doubt goes on");
        book.looked_at(0, 1);
        assert_eq!(counts(&mut book, 9), (0, 1, 2));
        book.settled(entries[0].seq, &Verdict::Delivered, at);
        book.settled(entries[1].seq, &Verdict::Delivered, at);
        assert_eq!(counts(&mut book, 9), (0, 0, 3), "nothing is behind the last one");
    }
}
