//! A destination: a broker, or a registry of handlers.

use async_trait::async_trait;
use std::sync::Arc;

use crate::entry::Entry;
use crate::outcome::Outcome;

/// Delivers entries and says what came of each.
///
/// A batch is handed over in order, and each outcome is reported as soon as it is known, so that one slow
/// entry delays nobody. When the future ends, or is dropped at its deadline, an entry without a report has
/// an unknown outcome and is delivered again under the same event id.
#[async_trait]
pub trait Sink: Send + Sync {
    /// What this destination can promise. Data, so that tests and the relay choose by it.
    fn capabilities(&self) -> SinkCapabilities;

    /// Delivers a batch, reporting each entry once by its index.
    async fn deliver(&self, batch: &[Entry], report: &dyn Report);
}

/// Whoever shares one passes it on as it is.
#[async_trait]
impl<T: Sink + ?Sized> Sink for Arc<T> {
    fn capabilities(&self) -> SinkCapabilities {
        (**self).capabilities()
    }

    async fn deliver(&self, batch: &[Entry], report: &dyn Report) {
        (**self).deliver(batch, report).await
    }
}

/// Takes the outcomes of a batch.
pub trait Report: Send + Sync {
    /// The outcome of the entry at this index of the batch. A second report of one index is ignored.
    fn outcome(&self, index: usize, outcome: Outcome);
}

/// What a destination can promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SinkCapabilities {
    /// Largest payload in bytes that it takes; `None`: no known limit.
    pub payload_bytes_max: Option<usize>,
    /// Whether a failure inside a batch is known to stop what follows it. Default: false.
    pub ordered_prefix: bool,
    /// Whether it drops a repeated event id by itself. Default: false.
    pub deduplicates: bool,
    /// Whether [`Outcome::Confirmed`] means that the destination has it on disk. Default: true.
    pub durable: bool,
}

impl Default for SinkCapabilities {
    fn default() -> Self {
        Self { payload_bytes_max: None, ordered_prefix: false, deduplicates: false, durable: true }
    }
}
