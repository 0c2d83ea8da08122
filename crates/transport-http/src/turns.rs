//! Order per key: what was handed over earlier is sent earlier, also when batches overlap.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The last delivery in the queue of each key.
#[derive(Default)]
pub(crate) struct Turns {
    queues: Mutex<Queues>,
}

#[derive(Default)]
struct Queues {
    next: u64,
    /// By key: the number of the last turn, and its end.
    last: BTreeMap<String, (u64, oneshot::Receiver<()>)>,
}

/// A place in the queue of a key. The next one's turn comes when this is dropped.
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    key: String,
    number: u64,
    before: Option<oneshot::Receiver<()>>,
    _end: oneshot::Sender<()>,
}

impl Turns {
    /// Queues up behind all deliveries that wait for this key.
    pub(crate) fn queue_up(&self, key: &str) -> Turn<'_> {
        let (end, ended) = oneshot::channel();
        let mut queues = self.lock();
        let number = queues.next;
        queues.next += 1;
        let before = queues.last.insert(key.to_owned(), (number, ended)).map(|(_, before)| before);
        Turn { turns: self, key: key.to_owned(), number, before, _end: end }
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn<'_> {
    /// Waits until everybody before has ended.
    pub(crate) async fn come(&mut self) {
        if let Some(before) = self.before.take() {
            // Nobody ever sends: the other end is dropped.
            let _ = before.await;
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut queues = self.turns.lock();
        if queues.last.get(&self.key).is_some_and(|(number, _)| *number == self.number) {
            queues.last.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_turn_comes_when_all_before_it_have_ended() {
        let turns = Turns::default();
        let mut first = turns.queue_up("k");
        let mut second = turns.queue_up("k");
        let mut other = turns.queue_up("other");
        assert!(first.come().now_or_never().is_some());
        assert!(other.come().now_or_never().is_some());
        let mut third = turns.queue_up("k");
        {
            let mut waiting = Box::pin(second.come());
            assert!(waiting.as_mut().now_or_never().is_none());
            drop(first);
            assert!(waiting.now_or_never().is_some());
        }
        assert!(Box::pin(third.come()).as_mut().now_or_never().is_none());
    }

    #[test]
    fn nothing_is_kept_of_a_key_whose_turns_are_over() {
        let turns = Turns::default();
        let (first, second) = (turns.queue_up("k"), turns.queue_up("k"));
        drop(first);
        assert_eq!(turns.lock().last.len(), 1);
        drop(second);
        assert!(turns.lock().last.is_empty());
    }
}
