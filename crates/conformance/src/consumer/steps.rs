//! The steps that cases are made of, so that a case reads as what it shows.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pillarbox_core::port::Source;
use pillarbox_core::{Event, EventId, HybridClock, Received, RouteName};
use pillarbox_engine::sink::HandlerError;
use pillarbox_engine::{Consumer, ConsumerOptions, ConsumerTally};

use super::harness::{InboxHarness, SourceHarness, Tx};
use crate::Ruin;
use pillarbox_testkit::{ManualClock, Published, eventually, sample_entry};

/// Only a case that hangs takes it. Brokers may take seconds to deliver again.
pub(super) const SOON: Duration = Duration::from_secs(60);

/// From here on, events are marks: published last, so that a test that has seen one knows that the others
/// came before. Records of calls and effects leave them out; tallies do not.
pub(super) const MARK: u64 = 1_000_000;

/// The input of a case: a broker and an inbox under test.
pub struct ConsumerInput<I> {
    pub(super) broker: Box<dyn SourceHarness>,
    pub(super) inbox: Arc<I>,
    marks: AtomicU64,
}

impl<I: InboxHarness> ConsumerInput<I> {
    /// A fresh source and a fresh inbox.
    pub async fn start<B: SourceHarness>() -> Self {
        let marks = AtomicU64::new(MARK);
        Self { broker: Box::new(B::start().await), inbox: Arc::new(I::start().await), marks }
    }

    /// Publishes a mark that no consumer has seen yet.
    pub(super) async fn publish_mark(&self) -> u64 {
        let mark = self.marks.fetch_add(1, Ordering::SeqCst);
        self.publish([mark]).await;
        mark
    }

    pub(super) async fn publish(&self, numbers: impl IntoIterator<Item = u64>) {
        for n in numbers {
            self.broker.publish(message(n)).await;
        }
    }

    /// A consumer as most cases need it: one message at a time, no waits.
    pub(super) fn setup(&self) -> Setup<I> {
        let mut options = ConsumerOptions::default();
        options.concurrency = 1;
        options.redeliver_after = Duration::ZERO;
        options.restart_backoff = Duration::from_millis(20);
        Setup {
            source: self.broker.source(),
            inbox: Arc::clone(&self.inbox),
            name: "billing",
            options,
            clock: None,
        }
    }

    /// What a handler works with.
    pub(super) fn work(&self) -> Work<I> {
        Work { inbox: Arc::clone(&self.inbox), calls: Arc::default() }
    }

    /// The numbers of what was applied and committed, sorted, with repetitions, without marks.
    pub(super) async fn applied(&self) -> Vec<u64> {
        let applied = self.inbox.applied().await;
        let mut numbers: Vec<u64> =
            applied.iter().map(|entry| number(&entry.payload)).filter(|n| *n < MARK).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Consumes everything that is there with a handler that applies, and a mark behind it; says what it did.
    pub(super) async fn consume_the_rest(&self, setup: Setup<I>) -> (Work<I>, ConsumerTally) {
        let mark = self.publish_mark().await;
        let work = self.work();
        let handler = work.clone();
        let tally =
            setup.run(work.until_called(mark), async move |tx, event| handler.apply(tx, &event).await).await;
        (work, tally)
    }
}

/// A consumer before it runs.
pub(super) struct Setup<I> {
    pub(super) source: Arc<dyn Source>,
    pub(super) inbox: Arc<I>,
    pub(super) name: &'static str,
    pub(super) options: ConsumerOptions,
    pub(super) clock: Option<Arc<HybridClock>>,
}

impl<I: InboxHarness> Setup<I> {
    pub(super) fn build(self) -> Consumer<Arc<I::Inbox>> {
        let mut builder =
            Consumer::builder(self.source, self.inbox.inbox()).name(self.name).options(self.options);
        if let Some(clock) = self.clock {
            builder = builder.clock(clock);
        }
        builder.build().unwrap()
    }

    pub(super) async fn run<F>(self, shutdown: impl Future<Output = ()>, handler: F) -> ConsumerTally
    where
        F: AsyncFn(&mut Tx<I>, Received) -> Result<(), HandlerError>,
    {
        self.build().run(shutdown, handler).await.unwrap()
    }
}

impl<I: InboxHarness> Setup<I> {
    pub(super) async fn run_batches<F>(self, shutdown: impl Future<Output = ()>, handler: F) -> ConsumerTally
    where
        F: AsyncFn(&mut Tx<I>, Vec<Received>) -> Result<(), HandlerError>,
    {
        self.build().run_batches(shutdown, handler).await.unwrap()
    }
}

/// What a handler works with: its database, and a record of its calls. Clones share both.
pub(super) struct Work<I> {
    inbox: Arc<I>,
    calls: Arc<Mutex<Vec<u64>>>,
}

impl<I> Clone for Work<I> {
    fn clone(&self) -> Self {
        Self { inbox: Arc::clone(&self.inbox), calls: Arc::clone(&self.calls) }
    }
}

impl<I: InboxHarness> Work<I> {
    /// Records a call, and says the how manieth of this event it is.
    pub(super) fn record(&self, event: &Received) -> usize {
        let n = number(&event.payload);
        self.lock().push(n);
        self.calls_of(n)
    }

    /// Records a call with these events.
    pub(super) fn record_all(&self, events: &[Received]) {
        for event in events {
            self.record(event);
        }
    }

    /// Records a call and applies its effect.
    pub(super) async fn apply(&self, tx: &mut Tx<I>, event: &Received) -> Result<(), HandlerError> {
        self.record(event);
        self.write(tx, event).await
    }

    /// Applies the effect of an event.
    pub(super) async fn write(&self, tx: &mut Tx<I>, event: &Received) -> Result<(), HandlerError> {
        self.inbox.apply(tx, event.causes(Event::new("applied", event.payload.clone()))).await
    }

    pub(super) async fn violate(&self, tx: &mut Tx<I>) -> Result<(), HandlerError> {
        self.inbox.violate(tx).await
    }

    pub(super) async fn ruin(&self, tx: &mut Tx<I>, how: Ruin) -> bool {
        self.inbox.ruin(tx, how).await
    }

    /// The numbers of the events that the handler was called with, in that order, without marks.
    pub(super) fn calls(&self) -> Vec<u64> {
        self.lock().iter().copied().filter(|n| *n < MARK).collect()
    }

    pub(super) fn calls_of(&self, n: u64) -> usize {
        self.lock().iter().filter(|call| **call == n).count()
    }

    /// Waits until the handler was called with this event.
    pub(super) fn until_called(&self, n: u64) -> impl Future<Output = ()> + use<I> {
        self.until(move |work| work.calls_of(n) > 0)
    }

    pub(super) fn until<F>(&self, condition: F) -> impl Future<Output = ()> + use<I, F>
    where
        F: Fn(&Self) -> bool,
    {
        let work = self.clone();
        eventually(SOON, move || std::future::ready(condition(&work)))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u64>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The id of event `n`.
pub(super) fn id(n: u64) -> EventId {
    EventId(uuid::Uuid::from_u64_pair(0x0190_0000_0000_7000, 0x8000_0000_0000_0000 | n))
}

/// Event `n` as a message, without a key.
pub(super) fn message(n: u64) -> Published {
    made(event(n))
}

/// Event `n` as a message of this key.
pub(super) fn keyed(n: u64, key: &str) -> Published {
    made(event(n).key(key))
}

pub(super) fn event(n: u64) -> Event {
    Event::new("order.placed", n.to_string()).id(id(n))
}

pub(super) fn made(event: Event) -> Published {
    Published::of(&sample_entry(RouteName::new("suite").unwrap(), event))
}

fn number(payload: &[u8]) -> u64 {
    std::str::from_utf8(payload).unwrap().parse().unwrap()
}

/// A stamp clock that stands this long after the origin of the test kit's clocks.
pub(super) fn clock_at(after: Duration) -> Arc<HybridClock> {
    let clock = ManualClock::default();
    clock.advance(after);
    Arc::new(HybridClock::new(Arc::new(clock), Duration::from_secs(60)))
}

/// How often each number occurs.
pub(super) fn counted(numbers: &[u64]) -> BTreeMap<u64, usize> {
    let mut counted = BTreeMap::new();
    for n in numbers {
        *counted.entry(*n).or_default() += 1;
    }
    counted
}
