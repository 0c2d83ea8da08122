//! A broker in memory: queues that redeliver, count, park, and fail as they are told.

mod queue;
mod source;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use pillarbox_core::port::{Report, Sink, SinkCapabilities};
use pillarbox_core::{Attributes, Entry, Envelope, Headers, Outcome};
use tokio::sync::Notify;

pub use source::MemorySource;

use queue::Queue;

/// Where the events of this broker come from, as their envelopes say.
const SOURCE: &str = "memory";

/// A message as a transport hands it to a broker, made from an envelope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// CloudEvents attributes by their bare names.
    pub attributes: Attributes,
    /// All other headers.
    pub headers: Headers,
    /// The body, byte for byte.
    pub body: Vec<u8>,
}

impl Published {
    /// The message of an entry.
    #[must_use]
    pub fn of(entry: &Entry) -> Self {
        let envelope = Envelope::of(entry, SOURCE);
        let attributes = envelope.attributes().into_iter();
        let headers = envelope.headers();
        Self {
            attributes: attributes.map(|(name, value)| (name.to_owned(), value.into_owned())).collect(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            body: envelope.data().to_vec(),
        }
    }
}

/// A broker in memory. As a [`Sink`] it puts each entry into the queue with the name of its route. A queue
/// exists as soon as it is named. Clones are the same broker.
///
/// A message that is not acknowledged is redelivered in its old place. That happens after a nack, a dropped
/// receipt, a dropped or cut stream, or a lost answer.
///
/// ```
/// use pillarbox_testkit::{MemoryBroker, Published};
///
/// let broker = MemoryBroker::new();
/// broker.publish("orders", Published::default());
/// assert_eq!(broker.ready("orders"), 1);
/// let source = broker.source("orders");
/// ```
#[derive(Clone, Default)]
pub struct MemoryBroker {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Something can be received, or a stream is over.
    changed: Notify,
}

#[derive(Default)]
struct State {
    queues: BTreeMap<String, Queue>,
    down: bool,
    counts_hidden: bool,
    answers_to_lose: u32,
    last_stream: u64,
}

impl State {
    fn queue(&mut self, name: &str) -> &mut Queue {
        self.queues.entry(name.to_owned()).or_default()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryBroker {
    /// An empty broker.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reports no delivery counts, like some real brokers.
    #[must_use]
    pub fn without_delivery_counts(self) -> Self {
        self.shared.lock().counts_hidden = true;
        self
    }

    /// Puts a message into a queue without checking it.
    pub fn publish(&self, queue: &str, message: Published) {
        self.shared.lock().queue(queue).publish(message);
        self.shared.changed.notify_waiters();
    }

    /// A source that consumes a queue. Several sources of one queue share its messages.
    #[must_use]
    pub fn source(&self, queue: &str) -> MemorySource {
        MemorySource::new(Arc::clone(&self.shared), queue)
    }

    /// How many messages wait in a queue.
    #[must_use]
    pub fn ready(&self, queue: &str) -> usize {
        self.shared.lock().queue(queue).ready()
    }

    /// How many messages of a queue were delivered and not answered yet.
    #[must_use]
    pub fn unanswered(&self, queue: &str) -> usize {
        self.shared.lock().queue(queue).unanswered()
    }

    /// The messages that were rejected without requeue, in the order of rejection.
    #[must_use]
    pub fn parked(&self, queue: &str) -> Vec<Published> {
        self.shared.lock().queue(queue).parked.clone()
    }

    /// Ends every stream of a queue with an error. Unanswered messages are redelivered.
    pub fn cut(&self, queue: &str) {
        self.shared.lock().queue(queue).cut();
        self.shared.changed.notify_waiters();
    }

    /// Loses the next answers to this many messages: their consumers see an error, and the messages are
    /// redelivered.
    pub fn lose_answers(&self, messages: u32) {
        self.shared.lock().answers_to_lose = messages;
    }

    /// If `true`, the broker cannot be reached from now on. If `false`, it can be reached again. Open streams
    /// stay open: see [`cut`](Self::cut).
    pub fn set_down(&self, down: bool) {
        self.shared.lock().down = down;
    }
}

#[async_trait]
impl Sink for MemoryBroker {
    fn capabilities(&self) -> SinkCapabilities {
        SinkCapabilities::default()
    }

    async fn deliver(&self, batch: &[Entry], report: &dyn Report) {
        for (index, entry) in batch.iter().enumerate() {
            if self.shared.lock().down {
                report.outcome(index, Outcome::down("down", "the broker is down"));
            } else {
                self.publish(entry.route.as_str(), Published::of(entry));
                report.outcome(index, Outcome::Confirmed);
            }
        }
    }
}
