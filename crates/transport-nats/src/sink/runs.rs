//! How a batch is divided: entries that go by themselves, and entries of one key that stop each other.

use std::collections::HashMap;

use pillarbox_core::Entry;

/// The indexes of a batch, divided. Each list is in the order of the batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Divided {
    /// Entries without an order, and those that are the only ones of their key.
    pub(super) single: Vec<usize>,
    /// The entries of each other key. One that fails stops those behind it.
    pub(super) runs: Vec<Vec<usize>>,
}

/// Divides a batch. Only entries of a lane have an order.
pub(super) fn divide(batch: &[Entry]) -> Divided {
    let mut divided = Divided::default();
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    for (index, entry) in batch.iter().enumerate() {
        match entry.key.as_deref().filter(|_| entry.lane.is_some()) {
            None => divided.single.push(index),
            Some(key) => {
                let number = *numbers.entry(key).or_insert(divided.runs.len());
                if number == divided.runs.len() {
                    divided.runs.push(Vec::new());
                }
                divided.runs[number].push(index);
            }
        }
    }
    let alone = divided.runs.extract_if(.., |run| run.len() == 1);
    divided.single.extend(alone.flatten());
    divided.single.sort_unstable();
    divided
}

#[cfg(test)]
mod tests {
    use pillarbox_core::{Event, RouteName};
    use pillarbox_testkit::sample_entry;

    use super::*;

    fn entry(key: Option<&str>, lane: Option<u8>) -> Entry {
        let event = key.into_iter().fold(Event::new("t", "{}"), Event::key);
        let mut entry = sample_entry(RouteName::new("r").unwrap(), event);
        entry.lane = lane;
        entry
    }

    #[test]
    fn only_keys_of_a_lane_with_several_entries_go_together() {
        let (of, loose) = (|key| entry(Some(key), Some(1)), entry(Some("b"), None));
        let batch = [of("a"), of("b"), entry(None, Some(1)), of("c"), of("a"), loose, of("c"), of("a")];
        let wanted = Divided { single: vec![1, 2, 5], runs: vec![vec![0, 4, 7], vec![3, 6]] };
        assert_eq!(divide(&batch), wanted);
    }
}
