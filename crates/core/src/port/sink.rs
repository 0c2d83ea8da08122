//! A destination: a broker, or a registry of handlers.

use async_trait::async_trait;
use std::sync::Arc;

use crate::entry::Entry;
use crate::outcome::Outcome;

/// Delivers entries and reports the outcome of each.
///
/// A sink delivers a batch in order and reports each outcome as soon as it is known, so that one slow entry delays
/// no other. The future ends by itself or is dropped at its deadline. An entry without a report by then has an
/// unknown outcome and is delivered again under the same event id.
///
/// ```
/// use async_trait::async_trait;
/// use pillarbox_core::port::{Report, Sink, SinkCapabilities};
/// use pillarbox_core::{Entry, Outcome};
///
/// /// Prints what is delivered.
/// struct Printer;
///
/// #[async_trait]
/// impl Sink for Printer {
///     fn capabilities(&self) -> SinkCapabilities {
///         SinkCapabilities::default()
///     }
///
///     async fn deliver(&self, batch: &[Entry], report: &dyn Report) {
///         for (index, entry) in batch.iter().enumerate() {
///             println!("{} {}", entry.event_type, entry.event_id);
///             report.outcome(index, Outcome::Confirmed);
///         }
///     }
/// }
/// ```
#[async_trait]
pub trait Sink: Send + Sync {
    /// The capabilities of this destination. They are data, so that tests and the relay can choose by them.
    fn capabilities(&self) -> SinkCapabilities;

    /// Delivers a batch and reports each entry once, by its index.
    async fn deliver(&self, batch: &[Entry], report: &dyn Report);
}

/// Forwards every call to the shared value.
#[async_trait]
impl<T: Sink + ?Sized> Sink for Arc<T> {
    fn capabilities(&self) -> SinkCapabilities {
        (**self).capabilities()
    }

    async fn deliver(&self, batch: &[Entry], report: &dyn Report) {
        (**self).deliver(batch, report).await
    }
}

/// Receives the outcomes of a batch.
pub trait Report: Send + Sync {
    /// Reports the outcome of the entry at this index of the batch. A second report for the same index is ignored.
    fn outcome(&self, index: usize, outcome: Outcome);
}

/// The capabilities of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SinkCapabilities {
    /// The largest payload that it accepts, in bytes. `None`: no known limit.
    pub payload_bytes_max: Option<usize>,
    /// Whether an entry that fails stops the entries of the same key after it in the batch: none of them is delivered, and
    /// they are reported as [`Untried`](crate::Outcome::Untried). A relay that keeps the order of keys then hands over
    /// many entries of a key at once, and otherwise one at a time. Default: false.
    pub ordered_prefix: bool,
    /// Whether the destination drops a repeated event id by itself. Default: false.
    pub deduplicates: bool,
    /// Whether [`Outcome::Confirmed`] means that the destination has the message on disk. Default: true.
    pub durable: bool,
    /// The name of the destination's system in traces: `rabbitmq`, `nats`, `redis`, or another word that
    /// OpenTelemetry's conventions for messaging know. Default: `pillarbox`.
    pub system: &'static str,
    /// Whether the sink processes entries in this process, as handlers do, instead of sending them elsewhere. Traces
    /// then have a *process* span for each entry and no *send* span. Default: false.
    pub in_process: bool,
}

impl Default for SinkCapabilities {
    fn default() -> Self {
        Self {
            payload_bytes_max: None,
            ordered_prefix: false,
            deduplicates: false,
            durable: true,
            system: "pillarbox",
            in_process: false,
        }
    }
}
