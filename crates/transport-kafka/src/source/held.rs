//! What a source remembers of messages: which are unanswered, how far each partition may be committed, how often each was
//! handed out, and which were given back.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use krafka::ConsumerRecord;
use pillarbox_core::Received;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::Instant;

use crate::binding;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How often each unanswered message was handed out, by partition and offset. It lives as long as the source.
#[derive(Default)]
pub(super) struct Counts(Mutex<HashMap<(i32, i64), u32>>);

impl Counts {
    /// Counts a message that is handed out.
    pub(super) fn next(&self, record: &ConsumerRecord) -> u32 {
        let mut counts = lock(&self.0);
        let count = counts.entry((record.partition, record.offset)).or_default();
        *count = count.saturating_add(1);
        *count
    }

    /// The message was answered.
    pub(super) fn forget(&self, partition: i32, offset: i64) {
        lock(&self.0).remove(&(partition, offset));
    }

    /// A partition begins here: the group has answered all before.
    fn forget_before(&self, partition: i32, offset: i64) {
        lock(&self.0).retain(|(number, counted), _| *number != partition || *counted >= offset);
    }
}

/// A partition for as long as it is assigned without a break. Given to another consumer and back, it is another one.
pub(super) struct Partition {
    pub(super) number: i32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whether another consumer may have it now: then its answers count no more.
    is_lost: bool,
    /// Offsets that were received and not answered.
    unanswered: BTreeSet<i64>,
    /// The offset behind the last one that was received.
    next: Option<i64>,
    committed: Option<i64>,
}

impl Partition {
    pub(super) fn is_lost(&self) -> bool {
        lock(&self.state).is_lost
    }

    fn lose(&self) {
        lock(&self.state).is_lost = true;
    }

    /// A message arrived. `true`: it is the first one.
    fn receive(&self, offset: i64) -> bool {
        let mut state = lock(&self.state);
        state.unanswered.insert(offset);
        state.next.replace(offset + 1).is_none()
    }

    /// A message was answered. `false`: the partition belongs to another consumer now.
    pub(super) fn answer(&self, offset: i64) -> bool {
        let mut state = lock(&self.state);
        if !state.is_lost {
            state.unanswered.remove(&offset);
        }
        !state.is_lost
    }

    /// How far it may be committed, if that is further than before: everything before this offset was answered.
    pub(super) fn to_commit(&self) -> Option<i64> {
        let state = lock(&self.state);
        let answered = state.unanswered.first().copied().or(state.next);
        answered.filter(|offset| !state.is_lost && state.committed.is_none_or(|before| *offset > before))
    }

    pub(super) fn committed(&self, offset: i64) {
        let committed = &mut lock(&self.state).committed;
        *committed = Some(committed.map_or(offset, |before| before.max(offset)));
    }
}

/// The partitions that are assigned.
#[derive(Default)]
pub(super) struct Partitions(Mutex<HashMap<i32, Arc<Partition>>>);

impl Partitions {
    /// The partition of a message that arrived.
    pub(super) fn receive(&self, record: &ConsumerRecord, counts: &Counts) -> Arc<Partition> {
        let number = record.partition;
        let mut partitions = lock(&self.0);
        let partition = partitions
            .entry(number)
            .or_insert_with(|| Arc::new(Partition { number, state: Mutex::default() }));
        if partition.receive(record.offset) {
            counts.forget_before(number, record.offset);
        }
        Arc::clone(partition)
    }

    /// These partitions belong to somebody else from now on.
    pub(super) fn lose(&self, numbers: impl IntoIterator<Item = i32>) {
        let mut partitions = lock(&self.0);
        for number in numbers {
            if let Some(partition) = partitions.remove(&number) {
                partition.lose();
            }
        }
    }

    pub(super) fn lose_all(&self) {
        lock(&self.0).drain().for_each(|(_, partition)| partition.lose());
    }

    /// The partitions that can be committed further, and how far.
    pub(super) fn to_commit(&self) -> Vec<(Arc<Partition>, i64)> {
        let partitions = lock(&self.0);
        let all = partitions.values();
        all.filter_map(|partition| Some((Arc::clone(partition), partition.to_commit()?))).collect()
    }
}

/// A message on its way to the consumer and back.
pub(super) struct Unanswered {
    pub(super) record: ConsumerRecord,
    pub(super) partition: Arc<Partition>,
    /// Its place among the unanswered ones.
    pub(super) _place: OwnedSemaphorePermit,
}

impl Unanswered {
    /// What may not be overtaken: its key in this assignment of its partition. It begins anew with the next one.
    ///
    /// The address of an assignment is its own for as long as one of its messages is here.
    fn key(&self) -> Option<(usize, String)> {
        let (attributes, _) = binding::read(&self.record.headers);
        let key = Received::key_of(&attributes)?;
        Some((Arc::as_ptr(&self.partition).addr(), key.to_owned()))
    }
}

/// The messages of one subscription that were given back, and the newer ones of their keys.
#[derive(Default)]
pub(super) struct Returned {
    messages: Mutex<pillarbox_host::Returned<(usize, String), Unanswered, Instant>>,
    added: Notify,
}

impl Returned {
    /// Gives a message back. It is due after the delay.
    pub(super) fn push(&self, message: Unanswered, delay: Duration) {
        lock(&self.messages).push(message.key(), message.record.offset, Instant::now() + delay, message);
        self.added.notify_one();
    }

    /// Takes a message that has just arrived, and returns it if nothing of its key was given back.
    pub(super) fn arrive(&self, message: Unanswered) -> Option<Unanswered> {
        let mut messages = lock(&self.messages);
        // Reading the key is only worth it after a failure.
        if messages.is_empty() {
            Some(message)
        } else {
            messages.arrive(message.key(), message.record.offset, message)
        }
    }

    /// The next message that may be handed out.
    pub(super) fn pop(&self) -> Option<Unanswered> {
        lock(&self.messages).pop(Instant::now())
    }

    /// Resolves when the first message is due, or another one was given back.
    pub(super) async fn changed(&self) {
        let due = lock(&self.messages).due();
        match due {
            Some(due) => tokio::time::sleep_until(due).await,
            None => self.added.notified().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(partition: i32, offset: i64) -> ConsumerRecord {
        ConsumerRecord::new("t", partition, offset, None, None)
    }

    #[test]
    fn only_what_was_answered_without_a_gap_is_committed() {
        let (partitions, counts) = (Partitions::default(), Counts::default());
        let partition = partitions.receive(&record(3, 10), &counts);
        for offset in [11, 12, 20] {
            partitions.receive(&record(3, offset), &counts);
        }
        assert!(partition.answer(11) && partition.answer(12));
        assert_eq!(partition.to_commit(), Some(10), "nothing before 10 is ours to judge");
        assert!(partition.answer(10));
        assert_eq!(partition.to_commit(), Some(20));
        partition.committed(20);
        assert_eq!(partition.to_commit(), None);
        assert!(partition.answer(20));
        assert_eq!(partitions.to_commit().iter().map(|(_, offset)| *offset).collect::<Vec<_>>(), [21]);
    }

    #[test]
    fn answers_for_a_partition_that_was_lost_count_no_more() {
        let (partitions, counts) = (Partitions::default(), Counts::default());
        let before = partitions.receive(&record(0, 5), &counts);
        partitions.lose([0]);
        let after = partitions.receive(&record(0, 5), &counts);
        assert!(before.is_lost() && !before.answer(5));
        assert_eq!(before.to_commit(), None);
        assert!(after.answer(5));
        assert_eq!(after.to_commit(), Some(6));
        partitions.lose_all();
        assert!(partitions.to_commit().is_empty() && after.to_commit().is_none());
    }

    #[test]
    fn a_message_is_counted_until_it_or_a_later_one_was_answered() {
        let (partitions, counts) = (Partitions::default(), Counts::default());
        assert_eq!([counts.next(&record(0, 5)), counts.next(&record(0, 5))], [1, 2]);
        assert_eq!(counts.next(&record(1, 5)), 1);
        counts.forget(0, 5);
        assert_eq!(counts.next(&record(0, 5)), 1);
        partitions.receive(&record(0, 6), &counts);
        assert_eq!((counts.next(&record(0, 5)), counts.next(&record(1, 5))), (1, 2));
    }
}
