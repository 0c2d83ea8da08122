//! The loop of a consumer: one future that receives, handles many at once, and keeps each key in order.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::pin;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use pillarbox_core::port::{Message, Transactions};
use pillarbox_core::{Error, ErrorKind, Received, Result};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::observe::Consumed;
use crate::sink::HandlerError;

use super::Consumer;
use super::one::{Answer, Job, Ready, Worked};
use super::options::ConsumerTally;
use super::stream::{Stream, StreamEvent};

/// Messages that wait behind their keys, as a multiple of those handled at once.
const AHEAD: usize = 2;

/// The state of one run.
///
/// **Invariant:** at most one message of a key is being handled; the others of that key wait in `waiting`.
pub(super) struct Flow<'a, S: Transactions, F> {
    consumer: &'a Consumer<S>,
    handler: &'a F,
    tally: ConsumerTally,
    stream: Stream<'a>,
    /// Keys at work, each with what waits behind it.
    waiting: BTreeMap<String, VecDeque<Box<Ready>>>,
    queued: usize,
    /// Stale messages that are held before they are given back.
    held: usize,
    /// When a message last arrived or was done.
    last_activity: Instant,
    /// Tells those at work that they are to come to an end.
    stopping: watch::Sender<bool>,
    /// Why the run ends, if waiting cannot mend it.
    fatal: Option<Error>,
}

/// What happened next.
enum Next {
    Stream(StreamEvent),
    Finished(Option<String>, Worked),
    Idle,
    Stop,
}

impl<'a, S, F> Flow<'a, S, F>
where
    S: Transactions,
    F: AsyncFn(&mut S::Tx, Received) -> Result<(), HandlerError>,
{
    pub(super) fn new(consumer: &'a Consumer<S>, handler: &'a F) -> Self {
        let now = Instant::now();
        Self {
            consumer,
            handler,
            tally: ConsumerTally::default(),
            stream: Stream::Lost { until: now },
            waiting: BTreeMap::new(),
            queued: 0,
            held: 0,
            last_activity: now,
            stopping: watch::Sender::new(false),
            fatal: None,
        }
    }

    pub(super) async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<ConsumerTally> {
        let mut shutdown = pin!(shutdown);
        let mut running = FuturesUnordered::new();
        let (consumer, handler) = (self.consumer, self.handler);
        let concurrency = consumer.options.concurrency;
        loop {
            let stopping = *self.stopping.borrow();
            if stopping && running.is_empty() {
                self.stream.close().await;
                return self.fatal.map_or(Ok(self.tally), Err);
            }
            // A hot key must not keep the others from being received: what waits has a bound of its own.
            let room = running.len() < concurrency + self.held && self.queued < concurrency * AHEAD;
            let may_step = !stopping && (room || !self.stream.is_open());
            let idle = consumer.options.idle.filter(|_| running.is_empty() && self.stream.is_open());
            let idle_at = self.last_activity + idle.unwrap_or_default();
            let next = tokio::select! {
                biased;
                Some((key, worked)) = running.next(), if !running.is_empty() => Next::Finished(key, worked),
                () = &mut shutdown, if !stopping => Next::Stop,
                step = self.stream.step(), if may_step => Next::Stream(step),
                () = sleep_until(idle_at), if idle.is_some() && !stopping => Next::Idle,
            };
            let jobs = match next {
                Next::Finished(key, worked) => self.finished(key, worked),
                Next::Stream(step) => self.stepped(step),
                Next::Idle | Next::Stop => self.stop(),
            };
            running.extend(jobs.into_iter().map(|job| {
                let stopping = self.stopping.subscribe();
                async move { consumer.work(handler, job, stopping).await }
            }));
        }
    }

    /// The stream went on: its news are kept, and a message becomes a job.
    fn stepped(&mut self, step: StreamEvent) -> Vec<Job> {
        match step {
            StreamEvent::Due => self.stream = Stream::Opening(self.consumer.source.subscribe()),
            StreamEvent::Opened(Ok(subscription)) => {
                self.last_activity = Instant::now();
                self.stream = Stream::Open(subscription);
            }
            StreamEvent::Opened(Err(error)) => {
                let mendable = matches!(
                    error.kind(),
                    ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Contention | ErrorKind::Internal
                );
                if !mendable {
                    self.fatal = Some(error.context("subscribe"));
                    return self.stop();
                }
                self.lost(&error.to_string());
            }
            StreamEvent::Received(Ok(Some(message))) => {
                self.last_activity = Instant::now();
                return self.arrived(message).into_iter().collect();
            }
            StreamEvent::Received(Ok(None)) => self.lost("the broker closed it"),
            StreamEvent::Received(Err(error)) => self.lost(&error.to_string()),
        }
        Vec::new()
    }

    fn lost(&mut self, why: &str) {
        tracing::warn!(
            consumer = %self.consumer.name, why,
            "the stream from the broker was lost; the consumer subscribes again"
        );
        self.stream = Stream::Lost { until: Instant::now() + self.consumer.options.restart_backoff };
    }

    /// A message arrived: it can be worked on now, or waits behind its key.
    fn arrived(&mut self, message: Message) -> Option<Job> {
        let ready = match self.consumer.open(message) {
            Ok(ready) => ready,
            Err(receipt) => return Some(Job::Park(receipt)),
        };
        let Some(key) = ready.event.key.clone() else { return Some(Job::Handle(ready)) };
        if let Some(behind) = self.waiting.get_mut(&key) {
            behind.push_back(ready);
            self.queued += 1;
            return None;
        }
        self.waiting.insert(key, VecDeque::new());
        Some(Job::Handle(ready))
    }

    /// A job is done: the next message of its key may run.
    fn finished(&mut self, key: Option<String>, worked: Worked) -> Vec<Job> {
        self.last_activity = Instant::now();
        match worked {
            Worked::Done(done) => {
                self.count(done);
                self.next_of(key).into_iter().collect()
            }
            Worked::Stale(receipt) => {
                self.count(Consumed::Stale);
                self.held += 1;
                [Job::Hold(receipt)].into_iter().chain(self.next_of(key)).collect()
            }
            Worked::Failed(receipt) => {
                self.count(Consumed::Failed);
                // It comes again, and what waited behind it must come behind it too: both are given back in
                // this order by one job.
                let behind = key.map(|key| self.take_behind(&key)).unwrap_or_default();
                vec![Job::GiveBack([receipt].into_iter().chain(behind).collect())]
            }
            Worked::GaveBack => Vec::new(),
            Worked::Held => {
                self.held -= 1;
                Vec::new()
            }
        }
    }

    /// The message that waits for this key. Without one, nothing of that key is at work any more.
    fn next_of(&mut self, key: Option<String>) -> Option<Job> {
        let key = key?;
        let behind = self.waiting.get_mut(&key)?;
        let Some(next) = behind.pop_front() else {
            self.waiting.remove(&key);
            return None;
        };
        self.queued -= 1;
        Some(Job::Handle(next))
    }

    /// Takes what waits behind a key; nothing of that key is at work any more.
    fn take_behind(&mut self, key: &str) -> Vec<Answer> {
        let behind = self.waiting.remove(key).unwrap_or_default();
        self.queued -= behind.len();
        behind.into_iter().map(|ready| ready.receipt).collect()
    }

    /// Receives nothing more; what waits is given back, what is at work is finished.
    fn stop(&mut self) -> Vec<Job> {
        self.stopping.send_replace(true);
        let keys: Vec<String> = self.waiting.keys().cloned().collect();
        let behind = keys.iter().flat_map(|key| self.take_behind(key)).collect();
        vec![Job::GiveBack(behind)]
    }

    fn count(&mut self, done: Consumed) {
        match done {
            Consumed::Processed => self.tally.processed += 1,
            Consumed::Duplicate => self.tally.duplicates += 1,
            Consumed::Stale => self.tally.stale += 1,
            Consumed::Parked => self.tally.parked += 1,
            Consumed::Failed => self.tally.failed += 1,
        }
    }
}
