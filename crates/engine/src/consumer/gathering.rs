//! The messages that the next batches are made of.

use std::collections::{BTreeSet, VecDeque};

use tokio::time::Instant;

use super::one::Ready;
use super::options::ConsumerOptions;

/// Messages that may begin, in the order in which they arrived.
#[derive(Default)]
pub(super) struct Gathering {
    messages: VecDeque<Box<Ready>>,
}

/// What was taken from the gathered messages.
#[derive(Default)]
pub(super) struct Taken {
    /// The messages of one batch.
    pub(super) batch: Vec<Box<Ready>>,
    /// Messages that are each handled alone.
    pub(super) alone: Vec<Box<Ready>>,
    /// Messages whose key is at work.
    pub(super) behind: Vec<Box<Ready>>,
}

impl Gathering {
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn push(&mut self, message: Box<Ready>) {
        self.messages.push_back(message);
    }

    /// Puts messages that waited behind their key before all others.
    pub(super) fn put_first(&mut self, messages: VecDeque<Box<Ready>>) {
        messages.into_iter().rev().for_each(|message| self.messages.push_front(message));
    }

    /// When the next batch begins, full or not.
    pub(super) fn due_at(&self, options: &ConsumerOptions) -> Option<Instant> {
        let first = self.messages.front()?;
        let full = self.messages.len() >= options.batch_max;
        Some(if full { first.arrived_at } else { first.arrived_at + options.batch_within })
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = Box<Ready>> {
        self.messages.drain(..)
    }

    /// Takes the next batch. A key is in it with its first messages, or not at all.
    pub(super) fn take(&mut self, most: usize, is_at_work: impl Fn(&str) -> bool) -> Taken {
        let mut taken = Taken::default();
        let mut rest = VecDeque::new();
        // The keys in the batch, and those of which nothing more may be taken this time.
        let (mut begun, mut barred) = (BTreeSet::new(), BTreeSet::new());
        for message in self.messages.drain(..) {
            let key = message.event.key.clone();
            if key.as_deref().is_some_and(&is_at_work) {
                taken.behind.push(message);
            } else if taken.batch.len() == most || key.as_ref().is_some_and(|key| barred.contains(key)) {
                barred.extend(key);
                rest.push_back(message);
            } else if !message.came_before {
                begun.extend(key);
                taken.batch.push(message);
            } else if key.as_ref().is_some_and(|key| begun.contains(key)) {
                barred.extend(key);
                rest.push_back(message);
            } else {
                barred.extend(key);
                taken.alone.push(message);
            }
        }
        self.messages = rest;
        taken
    }
}
