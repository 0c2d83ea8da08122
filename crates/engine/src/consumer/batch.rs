//! Several messages in one transaction: accept, handle, commit, answer. A batch that fails is divided.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use futures_util::future::join_all;
use pillarbox_core::port::{AcceptBatch, Accepted, Origin, Transactions};
use pillarbox_core::{Error, ErrorKind, Received, Result};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::Instrument;

use crate::observe::Consumed;
use crate::trace;

use super::Consumer;
use super::handler::Handler;
use super::one::{Answer, Arrived, Ready, stops_within};

/// What became of one message of a batch.
pub(super) struct Part {
    pub(super) key: Option<String>,
    pub(super) end: End,
}

/// How a message left its batch.
pub(super) enum End {
    /// It was answered.
    Done(Consumed),
    /// Not answered yet: its lane's owner brings it again.
    Stale(Answer),
    /// The batch failed around it. It is to be handled alone, and what follows of its key behind it.
    Alone(Arrived),
    /// No transaction could begin. It is to be given back.
    Failed(Answer),
}

/// What a transaction needs of a message: not the means to answer it.
type Arrival<'a> = (&'a Received, Option<&'a Origin>);

/// Why a batch was not committed.
enum Miss {
    /// No transaction could begin, whatever is in the batch.
    Begin,
    /// One of its events may be the reason.
    Divide,
}

impl<S: Transactions> Consumer<S> {
    /// Applies a batch of at least two messages. The ends are in the order of the messages, key by key.
    ///
    /// A batch that fails is divided into halves, and the halves are applied one after the other. A message that is
    /// left by itself is not tried here: it goes the way of a single one, with its retries.
    ///
    /// **Invariant:** once a message of a key is left by itself, nothing of that key behind it is applied here.
    pub(super) async fn work_batch<H: Handler<S::Tx>>(
        &self,
        handler: &H,
        batch: Vec<Arrived>,
        mut stopping: watch::Receiver<bool>,
    ) -> Vec<Part> {
        let mut ends = Vec::with_capacity(batch.len());
        let mut held_keys: BTreeSet<String> = BTreeSet::new();
        // What is still to do, the next part last.
        let mut parts = vec![batch];
        let mut tries = 0;
        while let Some(part) = parts.pop() {
            let is_held =
                |ready: &Arrived| ready.event.key.as_ref().is_some_and(|key| held_keys.contains(key));
            let (held, mut part): (Vec<_>, Vec<_>) = part.into_iter().partition(is_held);
            ends.extend(held.into_iter().map(alone));
            if part.len() < 2 {
                held_keys.extend(part.iter().filter_map(|ready| ready.event.key.clone()));
                ends.extend(part.into_iter().map(alone));
                continue;
            }
            let arrivals: Vec<Arrival<'_>> =
                part.iter().map(|ready| (&ready.event, ready.origin.as_ref())).collect();
            let started = Instant::now();
            let events = arrivals.iter().map(|(event, _)| *event);
            let span = self.traces.process_batch(self.place(), &self.name, events);
            match self.attempt_batch(handler, &arrivals).instrument(span.clone()).await {
                Ok(outcomes) => {
                    // Each has its share of the time.
                    let share = started.elapsed() / u32::try_from(outcomes.len()).unwrap_or(u32::MAX);
                    self.observer
                        .tell(|observer| outcomes.iter().for_each(|done| observer.consumed(*done, share)));
                    trace::consumed(&span, Consumed::Processed);
                    let events = part.iter().map(|ready| &ready.event);
                    let span = self.traces.answer(&span, self.place(), "ack", events);
                    ends.extend(self.answer_batch(part, outcomes).instrument(span).await);
                }
                Err(Miss::Divide) => {
                    trace::consumed(&span, Consumed::Failed);
                    let right = part.split_off(part.len() / 2);
                    parts.extend([right, part]);
                }
                Err(Miss::Begin) => {
                    trace::consumed(&span, Consumed::Failed);
                    tries += 1;
                    parts.push(part);
                    let wait = self.wait_before(tries, None);
                    if tries > self.options.retries || stops_within(&mut stopping, wait).await {
                        // Held for a while: a broker that redelivers at once would make the batch spin.
                        stops_within(&mut stopping, self.options.redeliver_after).await;
                        // What follows of a key that is left by itself stays behind it.
                        ends.extend(parts.into_iter().rev().flatten().map(|ready| {
                            let key = ready.event.key.as_ref();
                            if key.is_some_and(|key| held_keys.contains(key)) {
                                alone(ready)
                            } else {
                                failed(ready)
                            }
                        }));
                        return ends;
                    }
                }
            }
        }
        ends
    }

    /// One try in one fresh transaction: all marks and the handler's writes are committed together.
    async fn attempt_batch<H: Handler<S::Tx>>(
        &self,
        handler: &H,
        part: &[Arrival<'_>],
    ) -> Result<Vec<Consumed>, Miss> {
        let failed = |doing: &'static str, miss: Miss| {
            move |error: Error| {
                tracing::warn!(
                    consumer = %self.name, events = part.len(), %error,
                    "the call to the inbox for a batch failed: {doing}"
                );
                miss
            }
        };
        let mut tx = self.inbox.begin().await.map_err(failed("begin", Miss::Begin))?;
        let accepted = match self.accept_batch(&mut tx, part).await {
            Ok(accepted) => accepted,
            Err(error) => {
                self.roll_back(tx).await;
                return Err(failed("accept", Miss::Divide)(error));
            }
        };
        let outcome_of = part.iter().zip(&accepted);
        let fresh = outcome_of.filter(|(_, accepted)| **accepted == Accepted::Fresh);
        let fresh: Vec<&Received> = fresh.map(|((event, _), _)| *event).collect();
        let outcomes = accepted.iter().map(|accepted| match accepted {
            Accepted::Fresh => Consumed::Processed,
            Accepted::Duplicate => Consumed::Duplicate,
            Accepted::Stale => Consumed::Stale,
        });
        let outcomes: Vec<Consumed> = outcomes.collect();
        if fresh.is_empty() {
            // There may be new owners to remember. They are duplicates whether that works or not.
            if let Err(error) = self.inbox.commit(tx).await {
                let _ = failed("committing duplicates", Miss::Divide)(error);
            }
            return Ok(outcomes);
        }
        // Before the handler runs: what it stages is stamped above what it reacts to.
        fresh.iter().for_each(|event| self.merge(event));
        let events: Vec<Received> = fresh.into_iter().cloned().collect();
        let handled = AssertUnwindSafe(async { handler.handle(&mut tx, events).await }).catch_unwind().await;
        match handled {
            Ok(Ok(())) => {
                self.inbox.commit(tx).await.map_err(failed("commit", Miss::Divide))?;
                return Ok(outcomes);
            }
            Ok(Err(_)) => tracing::debug!(
                consumer = %self.name, events = part.len(),
                "the handler failed in a batch; the batch is rolled back and divided to find the event"
            ),
            Err(_panic) => tracing::warn!(
                consumer = %self.name, events = part.len(),
                "the handler panicked in a batch; the batch is rolled back and divided to find the event"
            ),
        }
        self.roll_back(tx).await;
        Err(Miss::Divide)
    }

    async fn accept_batch(&self, tx: &mut S::Tx, part: &[Arrival<'_>]) -> Result<Vec<Accepted>> {
        if !self.options.dedup {
            return Ok(vec![Accepted::Fresh; part.len()]);
        }
        let batch = part.iter().fold(AcceptBatch::new(&self.name), |batch, (event, origin)| {
            batch.event(event.event_id, origin.cloned())
        });
        let accepted = self.inbox.accept_all(tx, batch).await?;
        if accepted.len() != part.len() {
            let told = "the inbox did not answer for every event of the batch";
            return Err(Error::new(ErrorKind::Corrupt, told));
        }
        Ok(accepted)
    }

    /// Answers the broker for every message that is done, all at once.
    async fn answer_batch(&self, part: Vec<Arrived>, outcomes: Vec<Consumed>) -> Vec<Part> {
        let answers = part.into_iter().zip(outcomes).map(async |(ready, done)| {
            let Ready { event, origin, receipt, .. } = *ready;
            if done == Consumed::Stale {
                self.tell_stale(&event, origin.as_ref());
                return Part { key: event.key, end: End::Stale(receipt) };
            }
            self.answer(done, receipt).await;
            Part { key: event.key, end: End::Done(done) }
        });
        join_all(answers).await
    }
}

fn alone(ready: Arrived) -> Part {
    Part { key: ready.event.key.clone(), end: End::Alone(ready) }
}

fn failed(ready: Arrived) -> Part {
    let Ready { event, receipt, .. } = *ready;
    Part { key: event.key, end: End::Failed(receipt) }
}
