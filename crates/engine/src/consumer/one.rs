//! One message: decode, accept, handle, commit, answer.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use pillarbox_core::port::{AcceptRequest, Accepted, Message, Origin, Receipt, Transactions};
use pillarbox_core::{Failure, Outcome, Received, Result};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tracing::Instrument;

use crate::observe::Consumed;
use crate::trace;

use super::Consumer;
use super::batch::Part;
use super::handler::Handler;

/// How long the broker may take to take an answer. Without one the message comes again.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Deliveries of a message that may be refused as stale. After that no other relay seems to publish it, and
/// it is applied: no event is dropped because of what was believed about its publisher.
const REFUSALS_MAX: u32 = 3;

/// The way to answer the broker.
pub(super) type Answer = Box<dyn Receipt>;

/// A message on its way between queues. It is boxed because it is large.
pub(super) type Arrived = Box<Ready>;

/// A message that can be handled.
pub(super) struct Ready {
    pub(super) event: Received,
    /// The relay that published it and its place in the stream, as long as it may be refused for that: see
    /// [`REFUSALS_MAX`].
    pub(super) origin: Option<Origin>,
    /// Whether the broker has delivered it before. Then it is handled alone: if a batch brought the process down, the
    /// event that did it is found, and those beside it are not blamed.
    pub(super) came_before: bool,
    pub(super) arrived_at: Instant,
    pub(super) receipt: Answer,
}

/// Something to do beside the loop.
pub(super) enum Job {
    /// Handle a message and answer it, unless it failed.
    Handle(Arrived),
    /// Handle several messages in one transaction.
    HandleBatch(Vec<Arrived>),
    /// Answer a message that never reaches the handler.
    Park(Answer),
    /// Give messages back to the broker, one after the other.
    GiveBack(Vec<Answer>),
    /// Hold a message for a while, then give it back.
    Hold(Answer),
}

/// What became of a job.
pub(super) enum Worked {
    Done(Consumed),
    /// Not answered yet: what waits behind it must be given back behind it.
    Failed(Answer),
    /// Not answered yet. What waits behind it does not wait for this one: its lane's owner brings it again.
    Stale(Answer),
    GaveBack,
    Held,
    /// A message that never reached the handler was parked.
    Parked,
    /// What became of each message of a batch.
    Batch(Vec<Part>),
}

/// Why a try did not end in a commit.
enum Miss {
    /// The database or the commit failed, which is logged already: it may work in another try.
    Again,
    /// The handler said so, or panicked.
    Handler(Outcome),
}

impl<S: Transactions> Consumer<S> {
    /// Decodes a message; one that is not for the handler is given back as an answer to make.
    pub(super) fn open(&self, message: Message) -> Result<Arrived, Answer> {
        let Message { attributes, headers, body, delivery_count, position, receipt } = message;
        let event = match Received::decode(attributes, headers, body) {
            Ok(event) => event,
            Err(error) => {
                tracing::warn!(
                    consumer = %self.name, %error,
                    "the message is not a readable event, so it was parked"
                );
                return Err(receipt);
            }
        };
        if let (Some(most), Some(count)) = (self.options.max_deliveries, delivery_count)
            && count > most
        {
            tracing::warn!(
                consumer = %self.name, event_id = %event.event_id, count,
                "the message was delivered more often than `max_deliveries` allows, so it was parked"
            );
            return Err(receipt);
        }
        // The last delivery that is allowed is for the handler.
        let refusals = self.options.max_deliveries.map_or(REFUSALS_MAX, |most| REFUSALS_MAX.min(most - 1));
        let origin = Origin::of(&event, position).filter(|_| delivery_count.unwrap_or(1) <= refusals);
        let came_before = delivery_count.is_some_and(|count| count > 1);
        Ok(Box::new(Ready { event, origin, came_before, arrived_at: Instant::now(), receipt }))
    }

    /// Does a job and says for which key.
    pub(super) async fn work<H: Handler<S::Tx>>(
        &self,
        handler: &H,
        job: Job,
        mut stopping: watch::Receiver<bool>,
    ) -> (Option<String>, Worked) {
        match job {
            Job::HandleBatch(batch) => (None, Worked::Batch(self.work_batch(handler, batch, stopping).await)),
            Job::Handle(ready) => {
                let Ready { event, origin, receipt, .. } = *ready;
                let started = Instant::now();
                let span = self.traces.process(self.place(), &self.name, &event);
                let handled = self.handle(handler, &event, origin.as_ref(), &mut stopping);
                let done = handled.instrument(span.clone()).await;
                trace::consumed(&span, done);
                self.observer.tell(|observer| observer.consumed(done, started.elapsed()));
                match done {
                    Consumed::Failed => {
                        // Held for a while: a broker that redelivers at once would make a failing message spin.
                        stops_within(&mut stopping, self.options.redeliver_after).await;
                        return (event.key, Worked::Failed(receipt));
                    }
                    Consumed::Stale => return (event.key, Worked::Stale(receipt)),
                    _ => {
                        let events = std::iter::once(&event);
                        let span = self.traces.answer(&span, self.place(), answer_name(done), events);
                        self.answer(done, receipt).instrument(span).await;
                    }
                }
                (event.key, Worked::Done(done))
            }
            Job::Park(receipt) => {
                self.observer.tell(|observer| observer.consumed(Consumed::Parked, Duration::ZERO));
                self.answer(Consumed::Parked, receipt).await;
                (None, Worked::Parked)
            }
            Job::GiveBack(receipts) => {
                for receipt in receipts {
                    self.answer(Consumed::Failed, receipt).await;
                }
                (None, Worked::GaveBack)
            }
            Job::Hold(receipt) => {
                stops_within(&mut stopping, self.options.redeliver_after).await;
                self.answer(Consumed::Stale, receipt).await;
                (None, Worked::Held)
            }
        }
    }

    /// Tries as often as the options say; a shutdown ends the wait between two tries.
    async fn handle<H: Handler<S::Tx>>(
        &self,
        handler: &H,
        event: &Received,
        origin: Option<&Origin>,
        stopping: &mut watch::Receiver<bool>,
    ) -> Consumed {
        let mut tries = 0;
        loop {
            tries += 1;
            let miss = match self.attempt(handler, event, origin).await {
                Ok(done) => return done,
                Err(miss) => miss,
            };
            let after = match miss {
                Miss::Handler(outcome) => match self.tell_failure(event, tries, outcome) {
                    Outcome::Rejected(_) => return Consumed::Parked,
                    Outcome::Failed { retry_after, .. } => retry_after,
                    _ => None,
                },
                Miss::Again => None,
            };
            if tries > self.options.retries {
                return Consumed::Failed;
            }
            if stops_within(stopping, self.wait_before(tries, after)).await {
                return Consumed::Failed;
            }
        }
    }

    /// How long to wait after this many tries, unless the handler said it.
    pub(super) fn wait_before(&self, tries: u32, after: Option<Duration>) -> Duration {
        let backoff = self.options.backoff;
        let by_tries = || backoff.delay(tries, pillarbox_host::random_u64());
        after.unwrap_or_else(|| by_tries().unwrap_or(backoff.max()))
    }

    /// Logs what a handler said: at WARN when that decides what becomes of the message, at DEBUG while there are tries
    /// left. The broker keeps no reason beside what it sets aside, so this is where it is found.
    fn tell_failure(&self, event: &Received, tries: u32, mut outcome: Outcome) -> Outcome {
        let cause = outcome.failure_mut().and_then(Failure::take_cause);
        let (consumer, event_id, cause) = (&self.name, event.event_id, cause.as_deref());
        let failure = outcome.failure().map(ToString::to_string);
        let (failure, event_type) = (failure.as_deref(), &event.event_type);
        if let Outcome::Rejected(_) = outcome {
            tracing::warn!(
                %consumer, %event_id, event_type, failure, cause,
                "the handler rejected the message, so it was parked"
            );
        } else if tries <= self.options.retries {
            tracing::debug!(
                %consumer, %event_id, event_type, tries, failure, cause,
                "the handler failed; the consumer calls it again"
            );
        } else {
            tracing::warn!(
                %consumer, %event_id, event_type, tries, failure, cause,
                "the handler failed and no try is left; the message goes back to the broker, which delivers \
                 it again"
            );
        }
        outcome
    }

    /// One try in one fresh transaction: the mark and the handler's write are committed together.
    async fn attempt<H: Handler<S::Tx>>(
        &self,
        handler: &H,
        event: &Received,
        origin: Option<&Origin>,
    ) -> Result<Consumed, Miss> {
        let failed = |doing: &'static str| {
            move |error: pillarbox_core::Error| {
                tracing::warn!(
                    consumer = %self.name, event_id = %event.event_id, %error,
                    "the call to the inbox failed: {doing}"
                );
                Miss::Again
            }
        };
        let mut tx = self.inbox.begin().await.map_err(failed("begin"))?;
        if self.options.dedup {
            let request = AcceptRequest::new(&self.name, event.event_id).origin(origin.cloned());
            match self.inbox.accept(&mut tx, request).await {
                Ok(Accepted::Fresh) => {}
                Ok(Accepted::Duplicate) => {
                    // There may be a new owner to remember. It is a duplicate whether that works or not.
                    if let Err(error) = self.inbox.commit(tx).await {
                        let _ = failed("committing a duplicate")(error);
                    }
                    return Ok(Consumed::Duplicate);
                }
                Ok(Accepted::Stale) => {
                    self.roll_back(tx).await;
                    self.tell_stale(event, origin);
                    return Ok(Consumed::Stale);
                }
                Err(error) => {
                    self.roll_back(tx).await;
                    return Err(failed("accept")(error));
                }
            }
        }
        // Before the handler runs: what it stages is stamped above what it reacts to. Only for fresh events.
        self.merge(event);
        // The closure itself may panic before it returns a future: both are contained.
        let handled = AssertUnwindSafe(async { handler.handle(&mut tx, vec![event.clone()]).await })
            .catch_unwind()
            .await;
        let miss = match handled {
            Ok(Ok(())) => {
                self.inbox.commit(tx).await.map_err(failed("commit"))?;
                return Ok(Consumed::Processed);
            }
            Ok(Err(error)) => Miss::Handler(error.into()),
            Err(_panic) => {
                tracing::error!(consumer = %self.name, event_id = %event.event_id, "the handler panicked");
                Miss::Again
            }
        };
        self.roll_back(tx).await;
        Err(miss)
    }

    pub(super) fn tell_stale(&self, event: &Received, origin: Option<&Origin>) {
        tracing::warn!(
            consumer = %self.name, event_id = %event.event_id, ?origin,
            "the message was published by a relay that no longer owned its lane; it goes back to \
             the broker, so that the new owner's messages come first"
        );
    }

    pub(super) async fn roll_back(&self, tx: S::Tx) {
        if let Err(error) = self.inbox.rollback(tx).await {
            tracing::warn!(consumer = %self.name, %error, "rollback failed");
        }
    }

    /// What we stage from now on is stamped above this event. Only fresh ones count: a replay of old ones must not move
    /// the clock.
    pub(super) fn merge(&self, event: &Received) {
        let Some(hlc) = event.hlc else { return };
        let merged = match &self.clock {
            Some(clock) => clock.merge(hlc),
            None => pillarbox_host::process_clock().merge(hlc),
        };
        if let Err(error) = merged {
            tracing::warn!(
                consumer = %self.name, event_id = %event.event_id, %error,
                "the event's clock stamp was not merged into this process's clock; events staged from now on \
                 may sort before it"
            );
        }
    }

    /// Tells the broker. An answer that is lost is not fatal: the message comes again, and the inbox knows it.
    pub(super) async fn answer(&self, done: Consumed, receipt: Answer) {
        let answering = match done {
            Consumed::Processed | Consumed::Duplicate => receipt.ack(),
            Consumed::Failed | Consumed::Stale => receipt.nack(),
            Consumed::Parked => receipt.park(),
        };
        match timeout(ANSWER_MAX, answering).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(
                    consumer = %self.name, %error, ?done,
                    "the broker did not accept the answer; it delivers the message again, and the inbox \
                     skips it if it was processed"
                );
            }
            Err(_) => {
                tracing::warn!(
                    consumer = %self.name, ?done,
                    "the broker did not accept the answer in time; it delivers the message again, and the \
                     inbox skips it if it was processed"
                )
            }
        }
    }
}

/// What the broker is told, as traces name it.
pub(super) const fn answer_name(done: Consumed) -> &'static str {
    match done {
        Consumed::Processed | Consumed::Duplicate => "ack",
        Consumed::Failed | Consumed::Stale => "nack",
        Consumed::Parked => "park",
    }
}

/// Waits this long, or until the run is to end; says whether it is.
pub(super) fn stops_within(
    stopping: &mut watch::Receiver<bool>,
    wait: Duration,
) -> impl Future<Output = bool> {
    timeout(wait, async { stopping.wait_for(|stopping| *stopping).await.is_ok() })
        .map(|waited| waited.is_ok())
}
