//! One queue: what waits, what was delivered, what was set aside.

use std::collections::BTreeMap;

use super::Published;

/// A message and how often it was delivered.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) message: Published,
    pub(super) deliveries: u32,
}

/// A delivery that waits for its answer. The place is the message's own for all its life.
struct Delivered {
    stored: Stored,
    place: u64,
    stream: u64,
}

/// The answer of a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Ack,
    Nack,
    Park,
}

#[derive(Default)]
pub(super) struct Queue {
    /// By place, so that what comes again comes where it was.
    ready: BTreeMap<u64, Stored>,
    /// By the number of the delivery.
    delivered: BTreeMap<u64, Delivered>,
    pub(super) parked: Vec<Published>,
    /// Grows with every cut: an earlier stream is over.
    pub(super) cuts: u64,
    last_place: u64,
    last_delivery: u64,
}

impl Queue {
    pub(super) fn publish(&mut self, message: Published) {
        self.last_place += 1;
        self.ready.insert(self.last_place, Stored { message, deliveries: 0 });
    }

    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn unanswered(&self) -> usize {
        self.delivered.len()
    }

    /// Takes the first message for a stream, with the number of the delivery and the message's place.
    pub(super) fn deliver(&mut self, stream: u64) -> Option<(u64, u64, Stored)> {
        let (place, mut stored) = self.ready.pop_first()?;
        stored.deliveries += 1;
        self.last_delivery += 1;
        self.delivered.insert(self.last_delivery, Delivered { stored: stored.clone(), place, stream });
        Some((self.last_delivery, place, stored))
    }

    /// Takes an answer; `false` when that delivery is over.
    pub(super) fn answer(&mut self, delivery: u64, answer: Answer) -> bool {
        let Some(Delivered { stored, place, .. }) = self.delivered.remove(&delivery) else { return false };
        match answer {
            Answer::Ack => {}
            Answer::Nack => drop(self.ready.insert(place, stored)),
            Answer::Park => self.parked.push(stored.message),
        }
        true
    }

    /// Takes everything back that a stream has not answered.
    pub(super) fn give_back(&mut self, stream: u64) {
        let back = self.delivered.extract_if(.., |_, delivered| delivered.stream == stream);
        self.ready.extend(back.map(|(_, delivered)| (delivered.place, delivered.stored)));
    }

    pub(super) fn cut(&mut self) {
        self.cuts += 1;
        let back = std::mem::take(&mut self.delivered).into_values();
        self.ready.extend(back.map(|delivered| (delivered.place, delivered.stored)));
    }
}
