//! Messages that were given back, and the newer ones of their keys.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;

/// The messages that a consumer gave back to a source whose broker knows no negative answer. The source hands them out
/// again itself, each when it is due, and keeps the order of each key: the messages of a key come in the order of their
/// numbers, and what arrives of it meanwhile waits behind what was given back. Messages of other keys, and without a key,
/// do not wait.
///
/// `K` is a key, `M` a message, and `T` a time. There is no limit here: all that is in it is unanswered, so the source's
/// limit on unanswered messages is its limit too.
///
/// ```
/// use pillarbox_host::Returned;
///
/// let mut returned = Returned::new();
/// returned.push(Some("a"), 1, 10, "a1");
/// assert_eq!(returned.arrive(Some("a"), 2, "a2"), None, "it waits");
/// assert_eq!(returned.arrive(Some("b"), 3, "b3"), Some("b3"));
/// assert_eq!((returned.pop(9), returned.due()), (None, Some(10)));
/// assert_eq!((returned.pop(10), returned.pop(10)), (Some("a1"), Some("a2")));
/// ```
#[derive(Debug)]
pub struct Returned<K, M, T> {
    /// Keys of which something was given back.
    keys: HashMap<K, Line<M, T>>,
    /// Messages without a key, in the order in which they were given back.
    loose: VecDeque<(T, i64, M)>,
}

/// The messages of one key.
#[derive(Debug)]
struct Line<M, T> {
    /// Before that, none of them is handed out.
    due: T,
    /// By their numbers. What is given back again was handed out before those that are still here, so it goes in front.
    messages: BTreeMap<i64, M>,
}

impl<K, M, T> Default for Returned<K, M, T> {
    fn default() -> Self {
        Self { keys: HashMap::new(), loose: VecDeque::new() }
    }
}

impl<K: Clone + Eq + Hash, M, T: Copy + Ord> Returned<K, M, T> {
    /// Nothing was given back yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether no message is here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.loose.is_empty()
    }

    /// Takes back the message of this number. Numbers grow in the order in which messages of a key arrived. No message may be due
    /// before the last one that was given back.
    pub fn push(&mut self, key: Option<K>, number: i64, due: T, message: M) {
        let Some(key) = key else { return self.loose.push_back((due, number, message)) };
        let line = self.keys.entry(key).or_insert_with(|| Line { due, messages: BTreeMap::new() });
        line.due = due;
        line.messages.insert(number, message);
    }

    /// Takes a message that has just arrived, and returns it if nothing of its key waits.
    pub fn arrive(&mut self, key: Option<K>, number: i64, message: M) -> Option<M> {
        let Some(line) = key.and_then(|key| self.keys.get_mut(&key)) else { return Some(message) };
        line.messages.insert(number, message);
        None
    }

    /// The next message that may be handed out at this time.
    pub fn pop(&mut self, now: T) -> Option<M> {
        let loose = self.loose.front().map(|(due, number, _)| (*due, *number));
        let line = self
            .keys
            .iter()
            .filter_map(|(key, line)| Some(((line.due, line.number()?), key)))
            .min_by_key(|(at, _)| *at);
        match (loose, line) {
            (Some(at), other) if at.0 <= now && other.is_none_or(|(other, _)| at <= other) => {
                self.loose.pop_front().map(|(_, _, message)| message)
            }
            (_, Some((at, key))) if at.0 <= now => {
                let key = key.clone();
                let line = self.keys.get_mut(&key)?;
                let (_, message) = line.messages.pop_first()?;
                if line.messages.is_empty() {
                    self.keys.remove(&key);
                }
                Some(message)
            }
            _ => None,
        }
    }

    /// When the next message may be handed out.
    #[must_use]
    pub fn due(&self) -> Option<T> {
        let loose = self.loose.front().map(|(due, _, _)| *due);
        self.keys.values().map(|line| line.due).chain(loose).min()
    }
}

impl<M, T> Line<M, T> {
    /// The number of the first message.
    fn number(&self) -> Option<i64> {
        self.messages.first_key_value().map(|(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that may be handed out at this time.
    fn all(returned: &mut Returned<char, &'static str, u32>, now: u32) -> Vec<&'static str> {
        std::iter::from_fn(|| returned.pop(now)).collect()
    }

    #[test]
    fn what_was_given_back_comes_when_it_is_due_and_in_order() {
        let mut returned = Returned::new();
        returned.push(None, 1, 5, "1");
        returned.push(Some('a'), 2, 7, "a2");
        returned.push(None, 3, 7, "3");
        assert_eq!((all(&mut returned, 4), returned.due()), (vec![], Some(5)));
        assert_eq!(all(&mut returned, 6), ["1"]);
        assert_eq!(all(&mut returned, 7), ["a2", "3"]);
        assert!(returned.is_empty() && returned.due().is_none());
    }

    #[test]
    fn only_newer_messages_of_the_same_key_wait_behind_it() {
        let mut returned = Returned::new();
        returned.push(Some('a'), 1, 5, "a1");
        returned.push(Some('a'), 2, 5, "a2");
        for (number, message) in [(3, "a3"), (4, "a4")] {
            assert_eq!(returned.arrive(Some('a'), number, message), None);
        }
        assert_eq!(returned.arrive(Some('b'), 5, "b5"), Some("b5"));
        assert_eq!(returned.arrive(None, 6, "6"), Some("6"));
        assert!(all(&mut returned, 4).is_empty() && !returned.is_empty());
        assert_eq!(all(&mut returned, 5), ["a1", "a2", "a3", "a4"]);
        assert_eq!(returned.arrive(Some('a'), 7, "a7"), Some("a7"), "the key is free again");
    }

    #[test]
    fn what_waits_behind_a_key_waits_on_if_the_key_comes_back_again() {
        let mut returned = Returned::new();
        returned.push(Some('a'), 1, 5, "a1");
        for (number, message) in [(2, "a2"), (3, "a3")] {
            assert_eq!(returned.arrive(Some('a'), number, message), None);
        }
        assert_eq!((returned.pop(5), returned.pop(5)), (Some("a1"), Some("a2")));
        assert_eq!(returned.arrive(Some('a'), 4, "a4"), None, "behind the one that is about to go");
        returned.push(Some('a'), 1, 8, "a1");
        returned.push(Some('a'), 2, 8, "a2");
        assert!(all(&mut returned, 7).is_empty());
        assert_eq!(all(&mut returned, 8), ["a1", "a2", "a3", "a4"]);
        assert!(returned.is_empty());
    }

    #[test]
    fn what_comes_back_again_goes_before_what_came_back_with_it_the_first_time() {
        let mut returned = Returned::new();
        returned.push(Some('a'), 1, 5, "a1");
        returned.push(Some('a'), 2, 5, "a2");
        assert_eq!(returned.pop(5), Some("a1"));
        // Its handler fails once more before there was room for the second one.
        returned.push(Some('a'), 1, 8, "a1");
        assert!(all(&mut returned, 7).is_empty());
        assert_eq!(all(&mut returned, 8), ["a1", "a2"]);
    }
}
