//! The loop of a consumer: one future that receives, handles many at once, and keeps each key in order.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::pin;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use pillarbox_core::port::{Message, Subscription, Transactions};
use pillarbox_core::{ErrorKind, Received, Result};
use tokio::time::{Instant, sleep_until};

use crate::sink::HandlerError;

use super::Consumer;
use super::one::{Done, Ready};
use super::options::ConsumerTally;

/// Messages that wait behind their keys, as a multiple of those handled at once.
const AHEAD: usize = 2;

/// The state of one run.
///
/// **Invariant:** at most one message of a key is being handled; the others of that key wait in `waiting`.
pub(super) struct Flow<'a, S: Transactions, F> {
    consumer: &'a Consumer<S>,
    handler: &'a F,
    tally: ConsumerTally,
    subscription: Option<Box<dyn Subscription>>,
    /// When to subscribe again.
    restart_at: Instant,
    /// Keys at work, each with what waits behind it.
    waiting: BTreeMap<String, VecDeque<Ready>>,
    queued: usize,
    last_arrival: Instant,
    stopping: bool,
}

/// What happened next.
enum Next {
    Arrived(Result<Option<Message>>),
    Finished(Option<String>, Done),
    Restart,
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
            subscription: None,
            restart_at: now,
            waiting: BTreeMap::new(),
            queued: 0,
            last_arrival: now,
            stopping: false,
        }
    }

    pub(super) async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<ConsumerTally> {
        let mut shutdown = pin!(shutdown);
        let mut running = FuturesUnordered::new();
        let (consumer, handler) = (self.consumer, self.handler);
        let concurrency = consumer.options.concurrency;
        loop {
            if self.stopping && running.is_empty() {
                return Ok(self.tally);
            }
            // A hot key must not keep the others from being received: what waits has a bound of its own.
            let room = !self.stopping && running.len() < concurrency && self.queued < concurrency * AHEAD;
            let idle_at = consumer
                .options
                .idle
                .filter(|_| running.is_empty() && !self.stopping && self.subscription.is_some())
                .map(|idle| self.last_arrival + idle);
            let next = tokio::select! {
                biased;
                Some((key, done)) = running.next(), if !running.is_empty() => Next::Finished(key, done),
                () = &mut shutdown, if !self.stopping => Next::Stop,
                arrived = receive(&mut self.subscription), if room && self.subscription.is_some() => Next::Arrived(arrived),
                () = sleep_until(self.restart_at), if self.subscription.is_none() && !self.stopping => Next::Restart,
                () = sleep_until(idle_at.unwrap_or(self.last_arrival)), if idle_at.is_some() => Next::Idle,
            };
            let ready = match next {
                Next::Finished(key, done) => self.finished(key, done).await,
                Next::Arrived(arrived) => self.arrived(arrived).await?,
                Next::Restart => {
                    self.subscribe().await?;
                    None
                }
                Next::Idle | Next::Stop => {
                    self.stop().await;
                    None
                }
            };
            if let Some(ready) = ready {
                let key = ready.event.key.clone();
                running.push(async move { (key, consumer.handle(handler, ready).await) });
            }
        }
    }

    /// Opens the stream; what waiting cannot mend ends the run.
    async fn subscribe(&mut self) -> Result<()> {
        match self.consumer.source.subscribe().await {
            Ok(subscription) => {
                self.subscription = Some(subscription);
                self.last_arrival = Instant::now();
                Ok(())
            }
            Err(error) => {
                self.lost(&error.to_string());
                let mendable = matches!(
                    error.kind(),
                    ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Contention | ErrorKind::Internal
                );
                if mendable { Ok(()) } else { Err(error.context("subscribe")) }
            }
        }
    }

    fn lost(&mut self, why: &str) {
        tracing::warn!(consumer = %self.consumer.name, why, "the stream is lost and will be restarted");
        self.subscription = None;
        self.restart_at = Instant::now() + self.consumer.options.restart_backoff;
    }

    /// A message arrived: give it back as ready to run, or let it wait behind its key.
    async fn arrived(&mut self, arrived: Result<Option<Message>>) -> Result<Option<Ready>> {
        let message = match arrived {
            Ok(Some(message)) => message,
            Ok(None) => {
                self.lost("closed by the broker");
                return Ok(None);
            }
            Err(error) => {
                self.lost(&error.to_string());
                return Ok(None);
            }
        };
        self.last_arrival = Instant::now();
        let ready = match self.consumer.open(message).await {
            Ok(ready) => ready,
            Err(done) => {
                self.count(done);
                return Ok(None);
            }
        };
        let Some(key) = ready.event.key.clone() else { return Ok(Some(ready)) };
        match self.waiting.get_mut(&key) {
            Some(behind) => {
                behind.push_back(ready);
                self.queued += 1;
                Ok(None)
            }
            None => {
                self.waiting.insert(key, VecDeque::new());
                Ok(Some(ready))
            }
        }
    }

    /// A message is done: the next one of its key may run.
    async fn finished(&mut self, key: Option<String>, done: Done) -> Option<Ready> {
        self.count(done);
        let key = key?;
        if done == Done::Failed || self.stopping {
            // The failed one comes again: what waited behind it must come behind it too.
            self.give_back(&key).await;
            return None;
        }
        let next = self.waiting.get_mut(&key)?.pop_front();
        match next {
            Some(_) => self.queued -= 1,
            None => drop(self.waiting.remove(&key)),
        }
        next
    }

    async fn give_back(&mut self, key: &str) {
        for ready in self.waiting.remove(key).into_iter().flatten() {
            self.queued -= 1;
            self.consumer.answer(Done::Failed, ready.receipt).await;
        }
    }

    async fn stop(&mut self) {
        self.stopping = true;
        let keys: Vec<String> = self.waiting.keys().cloned().collect();
        for key in keys {
            self.give_back(&key).await;
        }
    }

    fn count(&mut self, done: Done) {
        match done {
            Done::Processed => self.tally.processed += 1,
            Done::Duplicate => self.tally.duplicates += 1,
            Done::Parked => self.tally.parked += 1,
            Done::Failed => self.tally.failed += 1,
        }
    }
}

async fn receive(subscription: &mut Option<Box<dyn Subscription>>) -> Result<Option<Message>> {
    match subscription {
        Some(subscription) => subscription.next().await,
        None => std::future::pending().await,
    }
}
