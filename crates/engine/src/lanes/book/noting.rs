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
            Some(seq) if chain.open == 0 && !held && !chain.is_blocked(seq) => match self.due.get(&seq) {
                Some(due) if *due > now => Some(Noted::Waiting(*due, seq)),
                _ => {
                    self.due.remove(&seq);
                    Some(Noted::Ready(seq))
                }
            },
            _ => None,
        };
        if chain.noted != noted {
            match chain.noted {
                Some(Noted::Ready(seq)) => {
                    self.ready.remove(&seq);
                }
                Some(Noted::Waiting(until, seq)) => {
                    self.waiting.remove(&(until, seq));
                }
                None => {}
            }
            chain.noted = noted;
            match noted {
                Some(Noted::Ready(seq)) => {
                    self.ready.insert(seq, name);
                }
                Some(Noted::Waiting(until, seq)) => {
                    self.waiting.insert((until, seq), name);
                }
                None => {}
            }
        }
        if noted.is_none() && chain.is_over() {
            self.chains.remove(name);
        }
    }
}
