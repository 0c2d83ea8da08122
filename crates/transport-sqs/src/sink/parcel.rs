//! What goes into one request: at most ten messages of one queue within the limit of bytes, and on a FIFO queue one of a
//! key at most.

use std::collections::{HashSet, VecDeque};

use pillarbox_core::{Entry, Outcome};

use crate::binding;
use crate::error;
use crate::options::{Options, check_queue, escape};

/// Most messages of one request: the limit of SQS.
const MESSAGES_MAX: usize = 10;
/// How many waiting entries are looked at for one request. Those behind wait for the next one.
const LOOKED_AT_MAX: usize = 1_000;

/// A request that is to be sent.
pub(super) struct Parcel {
    pub(super) queue: String,
    /// The entries by their index, and the bodies of their messages.
    pub(super) messages: Vec<(usize, String)>,
}

impl Parcel {
    pub(super) fn indexes(&self) -> impl Iterator<Item = usize> + '_ {
        self.messages.iter().map(|(index, _)| *index)
    }
}

/// The entries of a batch that are not sent yet.
pub(super) struct Waiting<'a> {
    batch: &'a [Entry],
    options: &'a Options,
    indexes: VecDeque<usize>,
    /// Keys of a FIFO queue that have a message under way.
    busy: HashSet<&'a str>,
    /// Keys of a FIFO queue that had a message under way.
    begun: HashSet<&'a str>,
    messages_max: usize,
}

/// What the next request is.
pub(super) enum Next {
    Parcel(Parcel),
    /// An entry that cannot be sent, and why.
    Refused(usize, Outcome),
    /// Nothing can be sent now.
    Nothing,
}

impl<'a> Waiting<'a> {
    pub(super) fn new(batch: &'a [Entry], options: &'a Options) -> Self {
        let indexes = (0..batch.len()).collect();
        let (busy, begun) = (HashSet::new(), HashSet::new());
        Self { batch, options, indexes, busy, begun, messages_max: MESSAGES_MAX }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.indexes.is_empty()
    }

    /// The next request, as the order of the batch and of keys allows.
    pub(super) fn next(&mut self) -> Next {
        let mut parcel: Option<Parcel> = None;
        // Keys that have an entry in this request, or one that must wait: those behind it wait too.
        let mut passed: HashSet<&'a str> = HashSet::new();
        let (mut bytes, mut at, mut looked_at) = (0, 0, 0);
        while at < self.indexes.len() && looked_at < LOOKED_AT_MAX {
            looked_at += 1;
            let index = self.indexes[at];
            let key = self.key(index);
            if key.is_some_and(|key| self.busy.contains(key) || passed.contains(key)) {
                at += 1;
                continue;
            }
            let (queue, body) = match self.message(&self.batch[index]) {
                Ok(message) => message,
                Err(outcome) if parcel.is_none() => {
                    self.indexes.remove(at);
                    return Next::Refused(index, outcome);
                }
                // Told when it is the first one.
                Err(_) => break,
            };
            let messages = parcel.as_ref().map_or(0, |parcel| parcel.messages.len());
            let fits = bytes + body.len() <= self.options.message_bytes_max && messages < self.messages_max;
            if parcel.as_ref().is_some_and(|parcel| parcel.queue != queue || !fits) {
                break;
            }
            bytes += body.len();
            passed.extend(key);
            self.indexes.remove(at);
            parcel.get_or_insert_with(|| Parcel { queue, messages: Vec::new() }).messages.push((index, body));
            if messages + 1 == self.messages_max {
                break;
            }
        }
        self.busy.extend(&passed);
        self.begun.extend(passed);
        parcel.map_or(Next::Nothing, Next::Parcel)
    }

    /// The server takes only one message at a time of these: they go first, and each alone.
    pub(super) fn divide(&mut self, parcel: &Parcel) {
        self.messages_max = 1;
        for (index, _) in parcel.messages.iter().rev() {
            self.free(*index);
            self.indexes.push_front(*index);
        }
    }

    /// An entry has its outcome, and the next one of its key may go.
    pub(super) fn free(&mut self, index: usize) {
        if let Some(key) = self.key(index) {
            self.busy.remove(key);
        }
    }

    /// An entry of a key was not delivered: those behind it must not overtake it.
    pub(super) fn hold_back(&mut self, index: usize) -> Vec<usize> {
        let Some(key) = self.key(index) else { return Vec::new() };
        let batch = self.batch;
        let is_behind = |other: &usize| batch[*other].key.as_deref() == Some(key);
        let (behind, rest): (Vec<_>, Vec<_>) = self.indexes.iter().copied().partition(is_behind);
        self.indexes = rest.into();
        behind
    }

    /// Those behind an entry of their key that was sent. They are for another delivery.
    pub(super) fn behind(&mut self) -> Vec<usize> {
        let is_behind = |index: &usize| self.key(*index).is_some_and(|key| self.begun.contains(key));
        let (behind, rest): (Vec<_>, Vec<_>) = self.indexes.iter().copied().partition(is_behind);
        self.indexes = rest.into();
        behind
    }

    /// All that is left.
    pub(super) fn take(&mut self) -> VecDeque<usize> {
        std::mem::take(&mut self.indexes)
    }

    /// The key that the queue keeps in order, if it is one that does.
    fn key(&self, index: usize) -> Option<&'a str> {
        self.batch[index].key.as_deref().filter(|_| self.options.is_fifo())
    }

    fn message(&self, entry: &Entry) -> Result<(String, String), Outcome> {
        let queue = match self.options.queue.constant() {
            Some(queue) => queue.to_owned(),
            None => {
                let queue = self.options.queue.render_with(entry, escape);
                check_queue(&queue).map_err(|error| error::unroutable(&error))?;
                queue
            }
        };
        let limit = self.options.message_bytes_max;
        let body = binding::body(entry, &self.options.source);
        if body.len() > limit {
            return Err(error::too_large(body.len(), limit));
        }
        Ok((queue, body))
    }
}

#[cfg(test)]
mod tests {
    use pillarbox_conformance::delivery::entry;
    use pillarbox_core::Event;

    use super::*;

    fn of(keys: &[&str], payload: usize) -> Vec<Entry> {
        let event = |key: &&str| {
            let event = Event::new("order.placed", format!("\"{}\"", "x".repeat(payload)));
            entry(if key.is_empty() { event } else { event.key(*key) })
        };
        keys.iter().map(event).collect()
    }

    fn taken(waiting: &mut Waiting<'_>) -> Vec<usize> {
        match waiting.next() {
            Next::Parcel(parcel) => parcel.indexes().collect(),
            Next::Refused(index, _) => panic!("{index} is refused"),
            Next::Nothing => Vec::new(),
        }
    }

    #[test]
    fn a_request_of_a_fifo_queue_has_one_message_of_a_key() {
        let options = Options::of_sink("sqs://eu-west-1/orders.fifo").unwrap();
        let batch = of(&["a", "a", "b", "", "", "b", "a"], 1);
        let mut waiting = Waiting::new(&batch, &options);
        assert_eq!(taken(&mut waiting), [0, 2, 3, 4]);
        assert!(taken(&mut waiting).is_empty(), "both keys are under way");
        waiting.free(2);
        assert_eq!(taken(&mut waiting), [5]);
        assert_eq!(waiting.hold_back(0), [1, 6]);
        assert!(waiting.take().is_empty());
    }

    #[test]
    fn what_is_behind_a_message_that_was_sent_can_be_left_for_later() {
        let options = Options::of_sink("sqs://eu-west-1/orders.fifo").unwrap();
        let mut keys = vec!["a", "a", "", "a"];
        keys.extend(["b"; 3]);
        let batch = of(&keys, 1);
        let mut waiting = Waiting::new(&batch, &options);
        waiting.messages_max = 1;
        assert_eq!(taken(&mut waiting), [0]);
        waiting.free(0);
        assert_eq!(waiting.behind(), [1, 3]);
        assert_eq!((taken(&mut waiting), taken(&mut waiting)), (vec![2], vec![4]));
        assert_eq!(waiting.behind(), [5, 6]);
        assert!(waiting.is_empty());
    }

    #[test]
    fn a_request_of_a_standard_queue_is_as_full_as_it_may_be() {
        let options = Options::of_sink("sqs://eu-west-1/orders").unwrap();
        let batch = of(&["a"; 23], 1);
        let mut waiting = Waiting::new(&batch, &options);
        assert_eq!(taken(&mut waiting), (0..10).collect::<Vec<_>>());
        assert_eq!(taken(&mut waiting).len(), 10);
        assert_eq!(taken(&mut waiting), [20, 21, 22]);
        let batch = of(&["a"; 5], 100_000);
        let mut waiting = Waiting::new(&batch, &options);
        assert_eq!(
            (taken(&mut waiting), taken(&mut waiting), taken(&mut waiting)),
            (vec![0, 1], vec![2, 3], vec![4])
        );
    }

    #[test]
    fn a_request_has_messages_of_one_queue_and_what_is_too_large_is_refused() {
        let options = Options::of_sink("sqs://eu-west-1/orders-{key}").unwrap();
        let mut batch = of(&["a", "a", "b.c", "b_c"], 1);
        batch.extend(of(&["z"], 300_000));
        batch.extend(of(&[&"l".repeat(90)], 1));
        let mut waiting = Waiting::new(&batch, &options);
        assert_eq!(taken(&mut waiting), [0, 1]);
        assert_eq!(taken(&mut waiting), [2, 3], "a dot becomes an underscore");
        assert!(matches!(waiting.next(), Next::Refused(4, Outcome::Rejected(_))));
        assert!(matches!(waiting.next(), Next::Refused(5, Outcome::Rejected(_))));
        assert!(matches!(waiting.next(), Next::Nothing));
    }

    #[test]
    fn a_request_that_was_too_large_is_sent_one_by_one() {
        let options = Options::of_sink("sqs://eu-west-1/orders.fifo").unwrap();
        let batch = of(&["a", "b", "c", "a"], 1);
        let mut waiting = Waiting::new(&batch, &options);
        let Next::Parcel(parcel) = waiting.next() else { panic!("nothing") };
        waiting.divide(&parcel);
        assert_eq!(
            (taken(&mut waiting), taken(&mut waiting), taken(&mut waiting)),
            (vec![0], vec![1], vec![2])
        );
        assert!(taken(&mut waiting).is_empty());
    }
}
