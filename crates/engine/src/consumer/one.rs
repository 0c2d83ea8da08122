//! One message: decode, accept, handle, commit, answer.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use pillarbox_core::port::{AcceptRequest, Accepted, Message, Receipt, Transactions};
use pillarbox_core::{Outcome, Received, Result};

use crate::sink::HandlerError;

use super::Consumer;

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    Processed,
    Duplicate,
    Parked,
    Failed,
}

/// A message that can be handled.
pub(super) struct Ready {
    pub(super) event: Received,
    pub(super) receipt: Box<dyn Receipt>,
}

/// Why a try did not end in a commit.
enum Miss {
    /// May work in another try.
    Again,
    /// Never will.
    Never,
}

impl<S: Transactions> Consumer<S> {
    /// Decodes a message; one that cannot be handled is answered here and never reaches the handler.
    pub(super) async fn open(&self, message: Message) -> Result<Ready, Done> {
        let Message { attributes, headers, body, delivery_count, receipt } = message;
        let event = match Received::decode(attributes, headers, body) {
            Ok(event) => event,
            Err(error) => {
                tracing::warn!(consumer = %self.name, %error, "parked: undecodable");
                return Err(self.answer(Done::Parked, receipt).await);
            }
        };
        if let (Some(most), Some(count)) = (self.options.max_deliveries, delivery_count)
            && count > most
        {
            tracing::warn!(consumer = %self.name, event_id = %event.event_id, count, "parked: delivered too often");
            return Err(self.answer(Done::Parked, receipt).await);
        }
        Ok(Ready { event, receipt })
    }

    pub(super) async fn handle<F>(&self, handler: &F, ready: Ready) -> Done
    where
        F: AsyncFn(&mut S::Tx, Received) -> Result<(), HandlerError>,
    {
        let Ready { event, receipt } = ready;
        let mut tries = 0;
        let done = loop {
            tries += 1;
            match self.attempt(handler, &event).await {
                Ok(done) => break done,
                Err(Miss::Never) => break Done::Parked,
                Err(Miss::Again) if tries > self.options.retries => break Done::Failed,
                Err(Miss::Again) => {
                    let random = pillarbox_host::random_u64();
                    let wait =
                        self.options.backoff.delay(tries, random).unwrap_or(self.options.backoff.max());
                    tokio::time::sleep(wait).await;
                }
            }
        };
        self.answer(done, receipt).await
    }

    /// One try in one fresh transaction: the mark and the handler's write are committed together.
    async fn attempt<F>(&self, handler: &F, event: &Received) -> Result<Done, Miss>
    where
        F: AsyncFn(&mut S::Tx, Received) -> Result<(), HandlerError>,
    {
        let failed = |doing: &'static str| {
            move |error: pillarbox_core::Error| {
                tracing::warn!(consumer = %self.name, event_id = %event.event_id, %error, "{doing} failed");
                Miss::Again
            }
        };
        let mut tx = self.inbox.begin().await.map_err(failed("begin"))?;
        if self.options.dedup {
            let request = AcceptRequest { consumer: self.name.clone(), event_id: event.event_id, now: None };
            match self.inbox.accept(&mut tx, request).await {
                Ok(Accepted::Fresh) => {}
                Ok(Accepted::Duplicate) => {
                    self.roll_back(tx).await;
                    return Ok(Done::Duplicate);
                }
                Err(error) => {
                    self.roll_back(tx).await;
                    return Err(failed("accept")(error));
                }
            }
        }
        let handled = AssertUnwindSafe(handler(&mut tx, event.clone())).catch_unwind().await;
        let miss = match handled {
            Ok(Ok(())) => {
                self.inbox.commit(tx).await.map_err(failed("commit"))?;
                self.merge(event);
                return Ok(Done::Processed);
            }
            Ok(Err(error)) => {
                let outcome = Outcome::from(error);
                tracing::warn!(consumer = %self.name, event_id = %event.event_id, ?outcome, "the handler failed");
                if matches!(outcome, Outcome::Rejected(_)) { Miss::Never } else { Miss::Again }
            }
            Err(_panic) => {
                tracing::error!(consumer = %self.name, event_id = %event.event_id, "the handler panicked");
                Miss::Again
            }
        };
        self.roll_back(tx).await;
        Err(miss)
    }

    async fn roll_back(&self, tx: S::Tx) {
        if let Err(error) = self.inbox.rollback(tx).await {
            tracing::warn!(consumer = %self.name, %error, "rollback failed");
        }
    }

    /// What we stage from now on is stamped above what we have just applied. Only fresh events count: a replay of
    /// old ones must not move the clock.
    fn merge(&self, event: &Received) {
        let Some(hlc) = event.hlc else { return };
        let merged = match &self.clock {
            Some(clock) => clock.merge(hlc),
            None => pillarbox_host::process_clock().merge(hlc),
        };
        if let Err(error) = merged {
            tracing::warn!(consumer = %self.name, event_id = %event.event_id, %error, "clock stamp not merged");
        }
    }

    /// Tells the broker. An answer that is lost is not fatal: the message comes again, and the inbox knows it.
    pub(super) async fn answer(&self, done: Done, receipt: Box<dyn Receipt>) -> Done {
        let answered = match done {
            Done::Processed | Done::Duplicate => receipt.ack().await,
            Done::Failed => receipt.nack().await,
            Done::Parked => receipt.park().await,
        };
        if let Err(error) = answered {
            tracing::warn!(consumer = %self.name, %error, ?done, "the broker did not take the answer");
        }
        done
    }
}
