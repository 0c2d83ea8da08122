//! The messages that the next batches are made of.

use std::collections::{BTreeSet, VecDeque};

use tokio::time::Instant;

use super::one::Arrived;
use super::options::ConsumerOptions;

/// Messages that may begin, in the order in which they arrived.
///
/// **Invariant:** nothing of a key that is at work is among them.
#[derive(Default)]
pub(super) struct Gathering {
    messages: VecDeque<Arrived>,
}

/// What was taken from the gathered messages.
#[derive(Default)]
pub(super) struct Taken {
    /// The messages of one batch.
    pub(super) batch: Vec<Arrived>,
    /// Messages that are each handled alone.
    pub(super) alone: Vec<Arrived>,
    /// Messages that wait for the others of their key.
    pub(super) behind: Vec<Arrived>,
}

impl Gathering {
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn push(&mut self, message: Arrived) {
        self.messages.push_back(message);
    }

    /// Puts messages that waited behind their key before all others.
    pub(super) fn put_first(&mut self, messages: VecDeque<Arrived>) {
        messages.into_iter().rev().for_each(|message| self.messages.push_front(message));
    }

    /// When the next batch begins, full or not.
    pub(super) fn due_at(&self, options: &ConsumerOptions) -> Option<Instant> {
        Some(self.messages.front()?.arrived_at + options.batch_within)
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = Arrived> {
        self.messages.drain(..)
    }

    /// Takes the next batch, and what is handled alone. What follows of their keys is behind them.
    pub(super) fn take(&mut self, most: usize) -> Taken {
        let mut taken = Taken::default();
        // The keys of the batch, of the messages that are handled alone, and of those that stay.
        let (mut batch, mut alone, mut rest) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut stays = VecDeque::new();
        for message in self.messages.drain(..) {
            let key = message.event.key.clone();
            let is_of = |keys: &BTreeSet<String>| key.as_ref().is_some_and(|key| keys.contains(key));
            if is_of(&alone) {
                taken.behind.push(message);
            } else if !message.came_before && taken.batch.len() < most {
                batch.extend(key);
                taken.batch.push(message);
            } else if is_of(&batch) {
                // Nothing of this key joins the batch any more: this message would be overtaken.
                alone.extend(key);
                taken.behind.push(message);
            } else if message.came_before && !is_of(&rest) {
                alone.extend(key);
                taken.alone.push(message);
            } else {
                rest.extend(key);
                stays.push_back(message);
            }
        }
        self.messages = stays;
        taken
    }
}
