//! How a consumer works, and what it did.

use std::time::Duration;

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
    /// How many messages are handled at the same time. Messages of one key are always handled one after the
    /// other. Default: 16.
    pub concurrency: usize,
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
    /// Refuses values that cannot work, before anything runs.
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid), naming the field.
    pub fn check(&self) -> Result<()> {
        if self.concurrency == 0 || self.concurrency > CONCURRENCY_MAX {
            return Err(Error::invalid(format!("concurrency must be 1 to {CONCURRENCY_MAX}")));
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
