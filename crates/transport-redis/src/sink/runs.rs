//! How a batch is divided into requests: entries that go by themselves, and entries of one key that go together.

use std::collections::HashMap;

use pillarbox_core::Entry;

/// Most entries of one key in one transaction of the server, and most bytes of their payloads.
const TOGETHER_MAX: usize = 200;
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// The indexes of a batch, divided.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Divided {
    /// Entries without an order, and those that are the only ones of their key.
    pub(super) single: Vec<usize>,
    /// The entries of each other key, in order.
    pub(super) runs: Vec<Run>,
}

/// Entries of one key of which one that fails stops those behind it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    /// What is not sent yet, the last one first.
    left: Vec<usize>,
}

impl Run {
    fn new(mut indexes: Vec<usize>) -> Self {
        indexes.reverse();
        Self { left: indexes }
    }

    /// The next entries that the server adds together or not at all: those of one stream. In one transaction, an entry of
    /// another stream would be added although one before it was refused.
    pub(super) fn next(&mut self, batch: &[Entry], stream: impl Fn(&Entry) -> String) -> Vec<usize> {
        let mut together: Vec<usize> = Vec::new();
        let (mut bytes, mut first) = (0, None);
        while let Some(index) = self.left.last().copied() {
            let entry = &batch[index];
            bytes += entry.payload.len();
            let name = stream(entry);
            let fits = together.is_empty() || (together.len() < TOGETHER_MAX && bytes <= BYTES_MAX);
            if !fits || first.as_ref().is_some_and(|first| *first != name) {
                break;
            }
            first.get_or_insert(name);
            together.push(index);
            self.left.pop();
        }
        together
    }

    /// What is not sent yet, in order.
    pub(super) fn rest(self) -> impl Iterator<Item = usize> {
        self.left.into_iter().rev()
    }
}

/// Divides a batch. Only entries of a lane have an order.
pub(super) fn divide(batch: &[Entry]) -> Divided {
    let key = |entry: &Entry| entry.key.clone().filter(|_| entry.lane.is_some());
    let mut of_key: HashMap<String, Vec<usize>> = HashMap::new();
    let mut single = Vec::with_capacity(batch.len());
    for (index, entry) in batch.iter().enumerate() {
        match key(entry) {
            Some(key) => of_key.entry(key).or_default().push(index),
            None => single.push(index),
        }
    }
    let mut runs = Vec::new();
    for indexes in of_key.into_values() {
        match indexes[..] {
            [index] => single.push(index),
            _ => runs.push(indexes),
        }
    }
    // In the order of the batch.
    single.sort_unstable();
    runs.sort_unstable();
    Divided { single, runs: runs.into_iter().map(Run::new).collect() }
}

#[cfg(test)]
mod tests {
    use pillarbox_core::{Event, RouteName};
    use pillarbox_testkit::sample_entry;

    use super::*;

    fn entry(key: Option<&str>, event_type: &str, lane: Option<u8>) -> Entry {
        let mut event = Event::new(event_type, "{}");
        event.key = key.map(ToOwned::to_owned);
        let mut entry = sample_entry(RouteName::new("r").unwrap(), event);
        entry.lane = lane;
        entry
    }

    #[test]
    fn only_keys_of_a_lane_with_several_entries_go_together() {
        let of = |key| entry(key, "t", Some(1));
        let batch = [of(Some("a")), of(Some("b")), of(None), of(Some("a")), entry(Some("b"), "t", None)];
        let divided = divide(&batch);
        assert_eq!(divided.single, [1, 2, 4]);
        assert_eq!(divided.runs.into_iter().flat_map(Run::rest).collect::<Vec<_>>(), [0, 3]);
    }

    #[test]
    fn a_run_is_sent_stream_by_stream_and_in_bounds() {
        let of = |event_type: &str| entry(Some("k"), event_type, Some(1));
        let batch = [of("a"), of("a"), of("b"), of("a")];
        let mut run = divide(&batch).runs.remove(0);
        let stream = |entry: &Entry| entry.event_type.clone();
        assert_eq!(run.next(&batch, stream), [0, 1]);
        assert_eq!(run.next(&batch, stream), [2]);
        assert_eq!(run.next(&batch, stream), [3]);
        assert!(run.next(&batch, stream).is_empty());
        let batch: Vec<Entry> = (0..TOGETHER_MAX + 1).map(|_| of("a")).collect();
        let mut run = divide(&batch).runs.remove(0);
        assert_eq!(run.next(&batch, stream).len(), TOGETHER_MAX);
        assert_eq!(run.rest().collect::<Vec<_>>(), [TOGETHER_MAX]);
    }
}
