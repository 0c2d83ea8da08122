//! The loop of a consumer: one future that receives, handles many at once, and keeps each key in order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::pin::pin;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use pillarbox_core::port::{Message, Transactions};
use pillarbox_core::{Error, ErrorKind, Result};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::observe::Consumed;

use super::Consumer;
use super::batch::{End, Part};
use super::gathering::Gathering;
use super::handler::Handler;
use super::one::{Answer, Arrived, Job, Worked};
use super::options::ConsumerTally;
use super::stream::{Stream, StreamEvent};

/// Messages that wait behind their keys, as a multiple of those handled at once.
const AHEAD: usize = 2;

/// The state of one run.
///
/// **Invariant:** at most one transaction handles messages of a key; the others of that key wait in `waiting`.
pub(super) struct Flow<'a, S: Transactions, H> {
    consumer: &'a Consumer<S>,
    handler: &'a H,
    tally: ConsumerTally,
    stream: Stream<'a>,
    /// Keys at work, each with what waits behind it.
    waiting: BTreeMap<String, VecDeque<Arrived>>,
    queued: usize,
    /// With batches: messages that may begin, and are not part of a batch yet.
    gathering: Gathering,
    /// With batches: messages that are handled alone as soon as there is room. Their keys are at work already.
    alone: VecDeque<Arrived>,
    /// How many transactions are at work.
    at_work: usize,
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
    Due,
    Stream(StreamEvent),
    Finished(Option<String>, Worked),
    Idle,
    Stop,
}

impl<'a, S, H> Flow<'a, S, H>
where
    S: Transactions,
    H: Handler<S::Tx>,
{
    pub(super) fn new(consumer: &'a Consumer<S>, handler: &'a H) -> Self {
        let now = Instant::now();
        Self {
            consumer,
            handler,
            tally: ConsumerTally::default(),
            stream: Stream::Lost { until: now },
            waiting: BTreeMap::new(),
            queued: 0,
            gathering: Gathering::default(),
            alone: VecDeque::new(),
            at_work: 0,
            held: 0,
            last_activity: now,
            stopping: watch::Sender::new(false),
            fatal: None,
        }
    }

    pub(super) async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<ConsumerTally> {
        let mut shutdown = pin!(shutdown);
        let (mut running, mut returning) = (FuturesUnordered::new(), FuturesUnordered::new());
        let consumer = self.consumer;
        loop {
            let stopping = *self.stopping.borrow();
            if stopping && running.is_empty() && returning.is_empty() {
                self.stream.close().await;
                return self.fatal.map_or(Ok(self.tally), Err);
            }
            let at_once = running.len() + returning.len();
            let may_step = !stopping && (self.has_room(at_once) || !self.stream.is_open());
            let nothing = at_once == 0 && self.gathering.len() == 0;
            let idle = consumer.options.idle.filter(|_| nothing && self.stream.is_open());
            let due_at = self.gathering.due_at(&consumer.options).filter(|_| !stopping && self.may_begin());
            let idle_at = self.last_activity + idle.unwrap_or_default();
            let next = tokio::select! {
                biased;
                // Before the stream: a source learns what is given back before it hands out what is newer.
                Some((key, worked)) = returning.next(), if !returning.is_empty() => Next::Finished(key, worked),
                Some((key, worked)) = running.next(), if !running.is_empty() => Next::Finished(key, worked),
                () = &mut shutdown, if !stopping => Next::Stop,
                step = self.stream.step(), if may_step => Next::Stream(step),
                // Behind the stream: a batch that need not wait still takes what is there.
                () = sleep_until(due_at.unwrap_or(idle_at)), if due_at.is_some() => Next::Due,
                () = sleep_until(idle_at), if idle.is_some() && !stopping => Next::Idle,
            };
            let mut jobs = match next {
                Next::Finished(key, worked) => self.finished(key, worked),
                Next::Stream(step) => self.stepped(step),
                Next::Idle | Next::Stop => self.stop(),
                Next::Due => self.begin_batch().into_iter().collect(),
            };
            if !*self.stopping.borrow() {
                jobs.extend(self.begin());
            }
            for job in jobs {
                let is_return = matches!(job, Job::GiveBack(_));
                let work = consumer.work(self.handler, job, self.stopping.subscribe());
                if is_return { returning.push(work) } else { running.push(work) }
            }
        }
    }

    /// Whether another message may be received. A hot key must not keep the others from being received: what waits has
    /// a bound of its own.
    fn has_room(&self, running: usize) -> bool {
        let options = &self.consumer.options;
        let ahead = options.concurrency.saturating_mul(options.batch_max).saturating_mul(AHEAD);
        let begins = match options.batch_max {
            1 => running < options.concurrency + self.held,
            // Beside the batches there are messages that are parked or held.
            most => self.gathering.len() < most && self.alone.len() < most && running < ahead,
        };
        begins && self.queued < ahead
    }

    fn may_begin(&self) -> bool {
        self.at_work < self.consumer.options.concurrency
    }

    /// Begins what may begin: first what is handled alone, then full batches.
    fn begin(&mut self) -> Vec<Job> {
        let mut jobs = Vec::new();
        while self.may_begin() {
            if let Some(ready) = self.alone.pop_front() {
                self.at_work += 1;
                jobs.push(Job::Handle(ready));
            } else if self.gathering.len() >= self.consumer.options.batch_max {
                jobs.extend(self.begin_batch());
            } else {
                break;
            }
        }
        jobs
    }

    /// Begins a batch of what was gathered, full or not. It may have only messages that are handled alone.
    fn begin_batch(&mut self) -> Option<Job> {
        let taken = self.gathering.take(self.consumer.options.batch_max);
        for ready in taken.batch.iter().chain(&taken.alone) {
            if let Some(key) = &ready.event.key {
                self.waiting.entry(key.clone()).or_default();
            }
        }
        for ready in taken.behind {
            self.wait_behind(ready);
        }
        self.alone.extend(taken.alone);
        let mut batch = taken.batch;
        let job = match batch.len() {
            0 | 1 => Job::Handle(batch.pop()?),
            _ => Job::HandleBatch(batch),
        };
        self.at_work += 1;
        Some(job)
    }

    /// A message waits for its key.
    fn wait_behind(&mut self, ready: Arrived) {
        let behind = self.waiting.entry(ready.event.key.clone().unwrap_or_default()).or_default();
        behind.push_back(ready);
        self.queued += 1;
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
        if ready.event.key.as_ref().is_some_and(|key| self.waiting.contains_key(key)) {
            self.wait_behind(ready);
            return None;
        }
        if self.consumer.options.batch_max > 1 {
            self.gathering.push(ready);
            return None;
        }
        if let Some(key) = &ready.event.key {
            self.waiting.insert(key.clone(), VecDeque::new());
        }
        self.at_work += 1;
        Some(Job::Handle(ready))
    }

    /// A job is done: the next messages of its key may run.
    fn finished(&mut self, key: Option<String>, worked: Worked) -> Vec<Job> {
        self.last_activity = Instant::now();
        if !matches!(worked, Worked::GaveBack | Worked::Held | Worked::Parked) {
            self.at_work -= 1;
        }
        match worked {
            Worked::Parked => {
                self.count(Consumed::Parked);
                Vec::new()
            }
            Worked::Done(done) => {
                self.count(done);
                self.next_of(key).into_iter().collect()
            }
            Worked::Stale(receipt) => [self.hold(receipt)].into_iter().chain(self.next_of(key)).collect(),
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
            Worked::Batch(parts) => self.finished_batch(parts),
        }
    }

    /// A stale message is held before it is given back.
    fn hold(&mut self, receipt: Answer) -> Job {
        self.count(Consumed::Stale);
        self.held += 1;
        Job::Hold(receipt)
    }

    /// A batch is done. What it left over is handled alone, in the order of its keys, or given back.
    fn finished_batch(&mut self, parts: Vec<Part>) -> Vec<Job> {
        let (mut jobs, mut back) = (Vec::new(), Vec::new());
        let mut left: BTreeMap<String, VecDeque<Arrived>> = BTreeMap::new();
        let mut failed = BTreeSet::new();
        let keys: BTreeSet<String> = parts.iter().filter_map(|part| part.key.clone()).collect();
        let stopping = *self.stopping.borrow();
        for Part { key, end } in parts {
            match end {
                End::Done(done) => self.count(done),
                End::Stale(receipt) => jobs.push(self.hold(receipt)),
                End::Failed(receipt) => {
                    self.count(Consumed::Failed);
                    failed.extend(key);
                    back.push(receipt);
                }
                End::Alone(ready) if stopping => back.push(ready.receipt),
                End::Alone(ready) => match key {
                    Some(key) => left.entry(key).or_default().push_back(ready),
                    None => self.alone.push_back(ready),
                },
            }
        }
        for key in keys {
            match left.remove(&key) {
                // The key stays at work. What the batch left of it comes before what waits.
                Some(mut first) => {
                    self.alone.extend(first.pop_front());
                    self.queued += first.len();
                    let behind = self.waiting.entry(key).or_default();
                    first.append(behind);
                    *behind = first;
                }
                None if failed.contains(&key) => back.extend(self.take_behind(&key)),
                None => jobs.extend(self.next_of(Some(key))),
            }
        }
        if !back.is_empty() {
            jobs.push(Job::GiveBack(back));
        }
        jobs
    }

    /// The message that waits for this key. Without one, nothing of that key is at work any more. With batches, all
    /// of them may be part of the next one.
    fn next_of(&mut self, key: Option<String>) -> Option<Job> {
        let key = key?;
        if self.consumer.options.batch_max > 1 {
            let behind = self.waiting.remove(&key)?;
            self.queued -= behind.len();
            self.gathering.put_first(behind);
            return None;
        }
        let behind = self.waiting.get_mut(&key)?;
        let Some(next) = behind.pop_front() else {
            self.waiting.remove(&key);
            return None;
        };
        self.queued -= 1;
        self.at_work += 1;
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
        let mut back: Vec<Answer> = self.alone.drain(..).map(|ready| ready.receipt).collect();
        let keys: Vec<String> = self.waiting.keys().cloned().collect();
        back.extend(keys.iter().flat_map(|key| self.take_behind(key)));
        back.extend(self.gathering.drain().map(|ready| ready.receipt));
        vec![Job::GiveBack(back)]
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
