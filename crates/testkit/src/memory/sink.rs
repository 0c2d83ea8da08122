//! A destination in memory that does as it is told: confirm, refuse, fail, be down, lose the answer, hang, panic.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use pillarbox_core::port::{Report, Sink, SinkCapabilities};
use pillarbox_core::{Entry, EventId, Outcome};

/// What a [`MemorySink`] does with an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// Takes the entry and confirms it.
    Confirm,
    /// Does not take the entry, and answers with this outcome.
    Answer(Outcome),
    /// Takes the entry, but the confirmation is lost.
    Lose,
    /// Never answers for this entry. The other entries of the batch are answered.
    Hang,
    /// Panics.
    Panic,
}

/// The entries to which a rule applies.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Which {
    /// All of them.
    Any,
    /// This event.
    Event(EventId),
    /// Events of this type.
    Type(String),
}

impl Which {
    fn is(&self, entry: &Entry) -> bool {
        match self {
            Self::Any => true,
            Self::Event(id) => entry.event_id == *id,
            Self::Type(event_type) => entry.event_type == *event_type,
        }
    }
}

/// One entry that was handed to the sink, with any outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// The entry as the relay handed it over.
    pub entry: Entry,
    /// How often this sink had been handed this event by then, starting at 1.
    pub nth: u32,
    /// What the sink did with the entry, by its rules.
    pub reply: Reply,
}

/// A sink that records the entries that it is handed, in order, and answers by rules. Clones share the
/// record.
///
/// ```
/// use pillarbox_core::Outcome;
/// use pillarbox_testkit::{MemorySink, Reply, Which};
///
/// // The first try of every order fails, later ones are confirmed.
/// let sink = MemorySink::new();
/// sink.on_nth(Which::Type("order.placed".into()), 1, Reply::Answer(Outcome::failed("busy", "")));
/// ```
#[derive(Clone, Default)]
pub struct MemorySink {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    latency: Duration,
    capabilities: SinkCapabilities,
    times: BTreeMap<EventId, u32>,
    attempts: Vec<Attempt>,
    received: Vec<Entry>,
}

struct Rule {
    which: Which,
    nth: Option<u32>,
    reply: Reply,
}

impl MemorySink {
    /// A sink that confirms everything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the reply for these entries from now on. A later rule overrides an earlier one.
    pub fn on(&self, which: Which, reply: Reply) {
        self.lock().rules.push(Rule { which, nth: None, reply });
    }

    /// Sets the reply for only the nth time that this sink is handed the event, starting at 1.
    pub fn on_nth(&self, which: Which, nth: u32, reply: Reply) {
        self.lock().rules.push(Rule { which, nth: Some(nth), reply });
    }

    /// Removes all rules: the sink confirms everything again.
    pub fn heal(&self) {
        self.lock().rules.clear();
    }

    /// Sets how long the sink waits before it answers, in tokio's time.
    pub fn set_latency(&self, latency: Duration) {
        self.lock().latency = latency;
    }

    /// Changes the capabilities that the sink declares. A payload over the limit is then rejected.
    pub fn set_capabilities(&self, capabilities: SinkCapabilities) {
        self.lock().capabilities = capabilities;
    }

    /// The entries that the sink took, in order, with every repetition.
    #[must_use]
    pub fn received(&self) -> Vec<Entry> {
        self.lock().received.clone()
    }

    /// The event ids of the entries that the sink took, in order, with every repetition.
    #[must_use]
    pub fn received_ids(&self) -> Vec<EventId> {
        self.lock().received.iter().map(|entry| entry.event_id).collect()
    }

    /// The entries that the sink was handed, in order, with any outcome.
    #[must_use]
    pub fn attempts(&self) -> Vec<Attempt> {
        self.lock().attempts.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(
        &self,
        index: usize,
        entry: &Entry,
        reply: Reply,
        latency: Duration,
        report: &dyn Report,
    ) {
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        if matches!(reply, Reply::Confirm | Reply::Lose) {
            self.lock().received.push(entry.clone());
        }
        match reply {
            Reply::Confirm => report.outcome(index, Outcome::Confirmed),
            Reply::Answer(outcome) => report.outcome(index, outcome),
            Reply::Lose => {}
            Reply::Hang => std::future::pending().await,
            // A sink that panics is what this reply is for.
            #[allow(clippy::panic)]
            Reply::Panic => panic!("the test told the sink to panic"),
        }
    }
}

impl State {
    fn hand_over(&mut self, entry: &Entry) -> Reply {
        let times = self.times.entry(entry.event_id).or_default();
        *times += 1;
        let nth = *times;
        let over = self.capabilities.payload_bytes_max.is_some_and(|max| entry.payload.len() > max);
        let rule =
            self.rules.iter().rev().find(|rule| rule.which.is(entry) && rule.nth.is_none_or(|n| n == nth));
        let reply = match rule {
            Some(rule) => rule.reply.clone(),
            None if over => {
                Reply::Answer(Outcome::rejected("too_large", "the payload is over the sink's limit"))
            }
            None => Reply::Confirm,
        };
        self.attempts.push(Attempt { entry: entry.clone(), nth, reply: reply.clone() });
        reply
    }
}

#[async_trait]
impl Sink for MemorySink {
    fn capabilities(&self) -> SinkCapabilities {
        self.lock().capabilities
    }

    async fn deliver(&self, batch: &[Entry], report: &dyn Report) {
        let (replies, latency) = {
            let mut state = self.lock();
            (batch.iter().map(|entry| state.hand_over(entry)).collect::<Vec<_>>(), state.latency)
        };
        let answers = batch.iter().zip(replies).enumerate();
        join_all(answers.map(|(index, (entry, reply))| self.answer(index, entry, reply, latency, report)))
            .await;
    }
}
