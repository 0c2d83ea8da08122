//! How a consumer works, and what it did.

use std::time::Duration;

use pillarbox_core::limits::ACCEPT_BATCH_MAX;
use pillarbox_core::{Backoff, Error, Result};

/// Most messages handled at once that may be configured.
const CONCURRENCY_MAX: usize = 10_000;

/// How a consumer treats its messages. Every field has a default.
///
/// ```
/// use pillarbox_engine::ConsumerOptions;
///
/// let options = ConsumerOptions::default().concurrency(4).retries(2);
/// options.check()?;
/// # Ok::<_, pillarbox_core::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConsumerOptions {
    /// How many transactions are open at the same time. Each handles one message, or one batch. Messages of one
    /// key are always handled one after the other. Default: 16.
    pub concurrency: usize,
    /// The most messages that one transaction handles. More than one is a batch: see
    /// [`batch`](Self::batch()). Default: 1.
    pub batch_max: usize,
    /// How long the first message of a batch waits for others. Default: 10 ms.
    pub batch_within: Duration,
    /// How often a failed delivery is retried before the message is given back to the broker. Each retry has
    /// a fresh transaction. Default: 0.
    pub retries: u32,
    /// The wait between these retries. Default: [`Backoff::BROKER`].
    pub backoff: Backoff,
    /// How long a failed or stale message is held before it is given back. A broker redelivers it at once, so
    /// without this wait a message that fails every time would spin. Default: 1 s.
    pub redeliver_after: Duration,
    /// A message that was delivered more often than this is parked without running the handler. It has an
    /// effect only if the source reports a delivery count. Default: none.
    pub max_deliveries: Option<u32>,
    /// The wait before a lost connection is opened again. Default: 5 s.
    pub restart_backoff: Duration,
    /// If no message arrived for this long, the run ends. Default: none, the consumer runs until it is
    /// stopped.
    pub idle: Option<Duration>,
    /// Whether events are marked in the inbox. If `false`, a duplicate runs the handler again. Use that for
    /// effects that are idempotent by themselves, and as a control in tests. Default: true.
    pub dedup: bool,
}

pillarbox_core::setters! {
impl ConsumerOptions {
    /// Sets [`concurrency`](Self#structfield.concurrency).
    concurrency: usize;
    /// Sets [`batch_max`](Self#structfield.batch_max).
    batch_max: usize;
    /// Sets [`batch_within`](Self#structfield.batch_within).
    batch_within: Duration;
    /// Sets [`retries`](Self#structfield.retries).
    retries: u32;
    /// Sets [`backoff`](Self#structfield.backoff).
    backoff: Backoff;
    /// Sets [`redeliver_after`](Self#structfield.redeliver_after).
    redeliver_after: Duration;
    /// Sets [`max_deliveries`](Self#structfield.max_deliveries).
    max_deliveries: Option<u32>;
    /// Sets [`restart_backoff`](Self#structfield.restart_backoff).
    restart_backoff: Duration;
    /// Sets [`idle`](Self#structfield.idle).
    idle: Option<Duration>;
    /// Sets [`dedup`](Self#structfield.dedup).
    dedup: bool;
}
}

impl Default for ConsumerOptions {
    fn default() -> Self {
        Self {
            concurrency: 16,
            batch_max: 1,
            batch_within: Duration::from_millis(10),
            retries: 0,
            backoff: Backoff::BROKER,
            redeliver_after: Duration::from_secs(1),
            max_deliveries: None,
            restart_backoff: Duration::from_secs(5),
            idle: None,
            dedup: true,
        }
    }
}

impl ConsumerOptions {
    /// Handles up to `max` messages in one transaction. The first message of a batch waits at most `within` for
    /// others.
    ///
    /// If a batch fails, it is rolled back and divided until the message that fails is by itself. So a handler may be
    /// called again for an event whose first transaction was rolled back. A message that the broker has delivered
    /// before is always handled by itself, where the broker reports a delivery count. Everything else is as without
    /// batches: order per key, retries, parking, duplicates.
    ///
    /// The source must be allowed to deliver that many messages ahead of their answers, and twice that many to fill
    /// one batch while another is handled. Its options have a setting for it.
    #[must_use]
    pub fn batch(mut self, max: usize, within: Duration) -> Self {
        (self.batch_max, self.batch_within) = (max, within);
        self
    }

    /// Refuses values that cannot work, before anything runs.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid), naming the field.
    pub fn check(&self) -> Result<()> {
        if self.concurrency == 0 || self.concurrency > CONCURRENCY_MAX {
            return Err(Error::invalid(format!("concurrency must be 1 to {CONCURRENCY_MAX}")));
        }
        if self.batch_max == 0 || self.batch_max > ACCEPT_BATCH_MAX {
            return Err(Error::invalid(format!("batch_max must be 1 to {ACCEPT_BATCH_MAX}")));
        }
        if self.max_deliveries == Some(0) {
            return Err(Error::invalid("max_deliveries must be at least 1"));
        }
        Ok(())
    }
}

/// What a consumer did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConsumerTally {
    /// Events whose effect was committed.
    pub processed: u64,
    /// Events that this consumer had applied before.
    pub duplicates: u64,
    /// Messages published by a relay that had already lost their lane. They were given back to the broker
    /// without running the handler.
    pub stale: u64,
    /// Messages that were parked: they could not be decoded, the handler rejected them, or they were
    /// delivered too often.
    pub parked: u64,
    /// Deliveries that failed and were given back to the broker.
    pub failed: u64,
}
