//! The destination's client alone: a sink that is fed from memory, with as much under way as a relay has.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use pillarbox_cli::fault::Fault;
use pillarbox_cli::measure::rate;
use pillarbox_core::port::{Report, Sink, SinkCapabilities};
use pillarbox_core::{Entry, Failure, Outcome};
use pillarbox_engine::RelayOptions;

/// A destination that confirms everything at once. A relay hands over to it what it would hand over to the real one:
/// by lanes, that depends on whether many entries of a key may go together.
pub(crate) struct Taking {
    capabilities: SinkCapabilities,
    /// What was handed over, if it is kept.
    kept: Option<Mutex<Vec<Vec<Entry>>>>,
}

impl Taking {
    /// In place of this sink.
    pub(crate) fn like(sink: &dyn Sink) -> Arc<Self> {
        Arc::new(Self { capabilities: sink.capabilities(), kept: None })
    }

    /// The same, and it keeps what it gets.
    pub(crate) fn keeping(sink: &dyn Sink) -> Arc<Self> {
        Arc::new(Self { capabilities: sink.capabilities(), kept: Some(Mutex::default()) })
    }

    /// What it has got.
    pub(crate) fn batches(&self) -> Vec<Vec<Entry>> {
        let kept = self.kept.as_ref().map(|kept| kept.lock().unwrap_or_else(PoisonError::into_inner));
        kept.map(|mut kept| mem::take(&mut *kept)).unwrap_or_default()
    }
}

#[async_trait]
impl Sink for Taking {
    fn capabilities(&self) -> SinkCapabilities {
        self.capabilities
    }

    async fn deliver(&self, batch: &[Entry], report: &dyn Report) {
        if let Some(kept) = &self.kept {
            kept.lock().unwrap_or_else(PoisonError::into_inner).push(batch.to_vec());
        }
        (0..batch.len()).for_each(|index| report.outcome(index, Outcome::Confirmed));
    }
}

/// Delivers all and says how fast.
pub(crate) async fn feed(
    sink: &dyn Sink,
    batches: &[Vec<Entry>],
    options: &RelayOptions,
) -> Result<f64, Fault> {
    let under_way = usize::try_from((options.in_flight_max / options.batch).max(1)).unwrap_or(1);
    let confirmed = Confirmed::default();
    let started = Instant::now();
    let deliveries = stream::iter(batches).map(|batch| sink.deliver(batch, &confirmed));
    deliveries.buffer_unordered(under_way).collect::<()>().await;
    let count = confirmed.count.load(Ordering::Relaxed);
    let rate = rate(count, started);
    let all = batches.iter().map(|batch| u64::try_from(batch.len()).unwrap_or(u64::MAX)).sum::<u64>();
    match (confirmed.first_failure.into_inner(), all - count.min(all)) {
        (None, 0) => Ok(rate),
        (Some(failure), missed) => Err(Fault::failed(format!("{missed} of {all} not confirmed: {failure}"))),
        (None, missed) => Err(Fault::failed(format!("{missed} of {all} not answered"))),
    }
}

/// Counts what was confirmed, and remembers the first that was not.
#[derive(Default)]
struct Confirmed {
    count: AtomicU64,
    first_failure: OnceLock<Failure>,
}

impl Report for Confirmed {
    fn outcome(&self, _index: usize, outcome: Outcome) {
        if matches!(outcome, Outcome::Confirmed | Outcome::ConfirmedWith(_)) {
            self.count.fetch_add(1, Ordering::Relaxed);
        } else if let Some(failure) = outcome.failure() {
            // The first one says enough.
            let _ = self.first_failure.set(failure.clone());
        }
    }
}
